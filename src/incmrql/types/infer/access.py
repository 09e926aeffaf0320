"""Type inference of access to parts: fields, components, steps into trees, indices and slices.

Fields, components and steps map over collections: `xs.A` is the collection of the A's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from incmrql.errors import Span, nearest
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.infer.conversions import cast_hint, fit, widen
from incmrql.types.lattice import comparable
from incmrql.types.model import (
    ANY,
    JSON,
    LONG,
    NOTHING,
    STRING,
    XML,
    Collection,
    Nothing,
    Record,
    Tuple,
    Type,
    bag,
    is_integer,
    list_of,
)
from incmrql.types.scope import Inference, Scope, placeholder

Access = Callable[[typed.Expr], typed.Expr]

_FIELD_HINT = "Fields of a record are accessed by name: r.A."


def infer_project(inference: Inference, expr: ast.Project, scope: Scope) -> typed.Expr:
    """`e.name`."""
    subject = inference.infer(expr.subject, scope)
    return project(inference, subject, expr.name, expr.name_span, expr.span)


def project(
    inference: Inference, subject: typed.Expr, name: str, place: Span, span: Span
) -> typed.Expr:
    """`.name`, by the type of the subject: a field, children, a member or a lookup."""
    match subject.type:
        case Record() as record:
            field_type = record.field(name)
            if field_type is None:
                fields = ", ".join(record.names)
                hint = f"{nearest(name, record.names)}  Fields are: {fields}.".strip()
                message = f'the record has no field "{name}"'
                return inference.problem("T201", place, message, "no such field", hint)
            return typed.Field(subject, name, type=field_type, span=span)
        case type_ if type_ == XML:
            return typed.Navigate("children", subject, name, type=list_of(XML), span=span)
        case type_ if type_ == JSON:
            return typed.Navigate("member", subject, name, type=JSON, span=span)
        case type_ if type_ == ANY:
            return typed.Navigate("dynamic", subject, name, type=ANY, span=span)
        case Nothing():
            return subject
        case Collection(_, Tuple((key, value))) if key == STRING:
            key_constant = typed.Const(name, type=STRING, span=place)
            return typed.LookUp(subject, key_constant, type=value, span=span)
        case Collection():
            field_of = partial(project, inference, name=name, place=place, span=span)
            return map_over(inference, subject, field_of, span)
        case actual:
            hint = ""
            if isinstance(actual, Tuple):
                hint = "Components of a tuple are accessed by number, from 0: t#0."
            message = f'a value of type {actual} has no field "{name}"'
            return inference.problem("T202", place, message, f"of {actual}", hint)


def map_over(inference: Inference, subject: typed.Expr, access: Access, span: Span) -> typed.Expr:
    """`access` of every element of a collection; the children of all elements form one list."""
    assert isinstance(subject.type, Collection)
    variable = inference.variable("each", subject.type.element)
    body = access(typed.Var(variable, type=variable.type, span=subject.span))
    flatten = _gives_nodes(body)
    inner = body.type.element if flatten and isinstance(body.type, Collection) else body.type
    type_ = Collection(subject.type.kind, inner)
    return typed.MapOver(variable, subject, body, flatten, type=type_, span=span)


def _gives_nodes(node: typed.Expr) -> bool:
    """True for a step into trees whose result is a collection."""
    match node:
        case typed.Navigate("children" | "attributes"):
            return True
        case typed.MapOver(body=body, flatten=flatten):
            return flatten or _gives_nodes(body)
        case _:
            return False


def infer_tree_step(
    inference: Inference,
    expr: ast.ProjectAll | ast.Attribute | ast.AllAttributes,
    scope: Scope,
) -> typed.Expr:
    """`e.*`, `e.@name`, `e.@*`."""
    subject = inference.infer(expr.subject, scope)

    def step(tree: typed.Expr) -> typed.Expr:
        if isinstance(tree.type, Collection):
            return map_over(inference, tree, step, expr.span)
        if tree.type == NOTHING:
            return tree
        if tree.type != XML:
            message = f"only XML has children and attributes, but this is {tree.type}"
            hint = _FIELD_HINT if isinstance(tree.type, Record) else ""
            return inference.problem("T202", expr.span, message, f"is {tree.type}", hint)
        match expr:
            case ast.ProjectAll():
                return typed.Navigate("children", tree, "*", type=list_of(XML), span=expr.span)
            case ast.Attribute(_, name):
                return typed.Navigate("attribute", tree, name, type=STRING, span=expr.span)
            case ast.AllAttributes():
                pairs: Type = bag(Tuple((STRING, STRING)))
                return typed.Navigate("attributes", tree, "*", type=pairs, span=expr.span)

    return step(subject)


def infer_component(inference: Inference, expr: ast.Component, scope: Scope) -> typed.Expr:
    """`e#i`."""

    def step(value: typed.Expr) -> typed.Expr:
        match value.type:
            case Tuple(items) if expr.index < len(items):
                return typed.Item(value, expr.index, type=items[expr.index], span=expr.span)
            case Tuple(items):
                message = f"a tuple of {len(items)} values has no component {expr.index}"
                hint = f"Components are #0 to #{len(items) - 1}."
                return inference.problem("T203", expr.span, message, "no such component", hint)
            case Nothing():
                return value
            case Collection():
                return map_over(inference, value, step, expr.span)
            case actual:
                message = f"{actual} is not a tuple"
                hint = _FIELD_HINT if isinstance(actual, Record) else ""
                return inference.problem("T203", expr.span, message, f"is {actual}", hint)

    return step(inference.infer(expr.subject, scope))


def infer_index(inference: Inference, expr: ast.Index, scope: Scope) -> typed.Expr:
    """`e[i]`: an element of a list, or a lookup in a collection of pairs."""
    subject, index = inference.infer(expr.subject, scope), inference.infer(expr.index, scope)
    counts = is_integer(index.type) or index.type == NOTHING
    match subject.type:
        case Collection("list", element) if counts:
            return typed.At(subject, widen(index, LONG), type=element, span=expr.span)
        case Collection(_, Tuple((key, value))):
            common = comparable(key, index.type)
            if common is None:
                message = f"the keys of this collection are {key}, but the index is {index.type}"
                hint = cast_hint(index, key)
                return inference.problem("T302", index.span, message, f"is {index.type}", hint)
            pairs = Collection("bag", Tuple((common, value)))
            return typed.LookUp(
                widen(subject, pairs), widen(index, common), type=value, span=expr.span
            )
        case type_ if type_ in (JSON, ANY) and (counts or index.type == STRING):
            index_type = LONG if counts else STRING
            return typed.At(subject, widen(index, index_type), type=type_, span=expr.span)
        case Nothing():
            return subject
        case Collection(_, Nothing()):
            return placeholder(expr.span)
        case Collection("list", _):
            return fit(inference, index, LONG, "the index of a list")
        case actual:
            hint = ""
            if isinstance(actual, Collection):
                hint = "A bag has no positions: use order by, sort(…), or a bag of pairs."
            message = f"a value of type {actual} cannot be indexed"
            return inference.problem("T204", expr.span, message, f"is {actual}", hint)


def infer_slice(inference: Inference, expr: ast.Slice, scope: Scope) -> typed.Expr:
    """`e[i:j]`."""
    subject = inference.infer(expr.subject, scope)
    first, last = (
        fit(inference, inference.infer(bound, scope), LONG, "the bound of a slice")
        for bound in (expr.first, expr.last)
    )
    if subject.type == NOTHING:
        return subject
    if not (isinstance(subject.type, Collection) and subject.type.kind == "list"):
        message = f"only a list can be sliced, but this is {subject.type}"
        hint = "A bag has no positions: use order by or sort(…)."
        return inference.problem("T204", expr.span, message, f"is {subject.type}", hint)
    return typed.SliceOf(subject, first, last, type=subject.type, span=expr.span)
