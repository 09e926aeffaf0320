"""Type inference of templates: a tree with holes becomes constructors applied to the holes."""

from __future__ import annotations

from typing import assert_never

from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.infer.conversions import widen
from incmrql.types.lattice import castable, widens
from incmrql.types.model import (
    JSON,
    NOTHING,
    PREDEFINED,
    STRING,
    UNIT,
    XML,
    Collection,
    Tuple,
    Type,
    bag,
    list_of,
)
from incmrql.types.scope import Inference, Scope

_NODE, _CDATA = PREDEFINED["XML"]
_JSON = {c.name: c for c in PREDEFINED["JSON"]}
JSON_LEAVES = {"string": "Jstring", "long": "Jlong", "double": "Jdouble", "bool": "Jbool"}
"""The constructors of JSON's constants, by the kinds of literals."""
_CHILDREN = list_of(XML)


def infer_template(inference: Inference, expr: ast.Template, scope: Scope) -> typed.Expr:
    """`[xml| … |]`, `[json| … |]`."""
    if isinstance(expr.body, ast.XmlElement):
        return _element(inference, expr.body, scope)
    return _json(inference, expr.body, scope)


# --- XML ---


def _element(inference: Inference, node: ast.XmlElement[ast.Expr], scope: Scope) -> typed.Expr:
    span = node.span
    pair: Type = Tuple((STRING, STRING))
    attributes = tuple(
        typed.MakeTuple(
            (typed.Const(name, type=STRING, span=span), _attribute(inference, parts, scope)),
            type=pair,
            span=span,
        )
        for name, parts in node.attributes
    )
    parts = tuple(_child(inference, child, scope) for child in node.children)
    content = typed.MakeTuple(
        (
            typed.Const(node.tag, type=STRING, span=span),
            typed.MakeCollection(attributes, type=bag(pair), span=span),
            typed.Concat(parts, type=_CHILDREN, span=span),
        ),
        type=_NODE.content,
        span=span,
    )
    return typed.MakeData(_NODE, content, type=XML, span=span)


def _attribute(
    inference: Inference, parts: tuple[ast.XmlText | ast.Hole[ast.Expr], ...], scope: Scope
) -> typed.Expr:
    """Text and holes joined to one string."""
    pieces: list[typed.Expr] = []
    for part in parts:
        match part:
            case ast.XmlText(text):
                pieces.append(typed.Const(text, type=STRING, span=part.span))
            case ast.Hole(content):
                pieces.append(_text(inference, inference.infer(content, scope)))
    if not pieces:
        return typed.Const("", type=STRING)
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = typed.Arithmetic("+", whole, piece, type=STRING, span=piece.span)
    return whole


def _child(
    inference: Inference,
    child: ast.XmlElement[ast.Expr] | ast.XmlText | ast.Hole[ast.Expr],
    scope: Scope,
) -> typed.Expr:
    """A list of trees: one element, one text, or the content of a hole."""
    one: typed.Expr
    match child:
        case ast.XmlElement():
            one = _element(inference, child, scope)
        case ast.XmlText(text):
            one = _cdata(typed.Const(text, type=STRING, span=child.span))
        case ast.Hole(content):
            node = inference.infer(content, scope)
            if isinstance(node.type, Collection) and widens(node.type.element, XML):
                as_list = typed.Cast(node, type=_CHILDREN, span=node.span)
                return node if node.type == _CHILDREN else as_list
            one = node if node.type == XML else _cdata(_text(inference, node))
        case _:
            assert_never(child)
    return typed.MakeCollection((one,), type=_CHILDREN, span=child.span)


def _cdata(text: typed.Expr) -> typed.Expr:
    return typed.MakeData(_CDATA, text, type=XML, span=text.span)


def _text(inference: Inference, node: typed.Expr) -> typed.Expr:
    """The content of a hole as text."""
    if node.type in (STRING, NOTHING):
        return widen(node, STRING)
    if isinstance(node.type, Collection | Tuple) or not castable(node.type, STRING):
        message = f"a hole of an XML template holds text or XML, not {node.type}"
        hint = "Write string(e) to show the value as text, or a query that returns XML."
        return inference.problem("T308", node.span, message, f"is {node.type}", hint)
    return typed.Cast(node, type=STRING, span=node.span)


# --- JSON ---


def _json(inference: Inference, part: ast.JsonPart[ast.Expr], scope: Scope) -> typed.Expr:
    match part:
        case ast.JsonObject(members):
            pair: Type = Tuple((STRING, JSON))
            pairs = tuple(
                typed.MakeTuple(
                    (
                        typed.Const(name, type=STRING, span=member.span),
                        _json(inference, member, scope),
                    ),
                    type=pair,
                    span=member.span,
                )
                for name, member in members
            )
            content: typed.Expr = typed.MakeCollection(pairs, type=bag(pair), span=part.span)
            return typed.MakeData(_JSON["JObject"], content, type=JSON, span=part.span)
        case ast.JsonArray(items):
            parts = tuple(_json(inference, item, scope) for item in items)
            content = typed.MakeCollection(parts, type=list_of(JSON), span=part.span)
            return typed.MakeData(_JSON["JArray"], content, type=JSON, span=part.span)
        case ast.JsonLeaf(literal):
            if literal.value is None:
                unit = typed.MakeTuple((), type=UNIT, span=part.span)
                return typed.MakeData(_JSON["Jnull"], unit, type=JSON, span=part.span)
            constructor = _JSON[JSON_LEAVES[literal.kind]]
            content = typed.Const(literal.value, type=constructor.content, span=part.span)
            return typed.MakeData(constructor, content, type=JSON, span=part.span)
        case ast.Hole(inner):
            node = inference.infer(inner, scope)
            return typed.Cast(node, type=JSON, span=node.span)  # null becomes JSON's null
