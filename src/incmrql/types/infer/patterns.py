"""Patterns: what they bind, and whether they can match at all."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from incmrql.errors import Span, nearest
from incmrql.syntax import ast
from incmrql.syntax.printer.parts import format_literal
from incmrql.types import typed
from incmrql.types.lattice import castable, comparable
from incmrql.types.model import (
    ANY,
    BOOL,
    DOUBLE,
    FLOAT,
    INT,
    JSON,
    LONG,
    NOTHING,
    STRING,
    XML,
    Any,
    Basic,
    Collection,
    Constructor,
    Data,
    Decimal,
    Nothing,
    Record,
    Tuple,
    Type,
)
from incmrql.types.resolve import resolve_type
from incmrql.types.scope import Inference
from incmrql.values import Value
from incmrql.values.numbers import INTEGER_RANGES, to_float32

LITERAL_TYPES: dict[str, Type] = {
    "null": NOTHING, "bool": BOOL, "int": INT, "long": LONG, "double": DOUBLE, "string": STRING,
}  # fmt: skip
_EXACT = decimal.Context(prec=400)
_JSON_LEAVES = {"string": "Jstring", "long": "Jlong", "double": "Jdouble", "bool": "Jbool"}


@dataclass(slots=True)
class Bound:
    """The variables that patterns have bound so far, in order, and which of them twice."""

    variables: list[typed.Variable] = field(default_factory=list)
    again: list[tuple[typed.Variable, typed.Variable, Span]] = field(default_factory=list)

    def first(self, name: str) -> typed.Variable | None:
        """The variable already bound under a name."""
        return next((v for v in self.variables if v.name == name), None)


def infer_pattern(
    inference: Inference, pattern: ast.Pattern, subject: Type, bound: Bound
) -> typed.Pattern:
    """The typed pattern; its variables are added to `bound`."""
    match pattern:
        case ast.AnyPattern():
            return typed.Anything()
        case ast.NamePattern(name):
            variable = inference.variable(name, subject)
            earlier = bound.first(name)
            if earlier is None:
                bound.variables.append(variable)
            else:
                bound.again.append((earlier, variable, pattern.span))
            return typed.Bind(variable)
        case ast.LiteralPattern(literal):
            return _literal(inference, literal, subject, pattern.span)
        case ast.TypedPattern(inner, tree):
            return _typed(inference, inner, tree, subject, bound)
        case ast.TemplatePattern(body):
            return _template(inference, body, subject, bound)
        case ast.DataPattern(name, arguments):
            return _data(inference, name, arguments, (subject, pattern.span), bound)
        case _:
            return _structure(inference, pattern, subject, bound)


def _literal(
    inference: Inference, literal: ast.Literal, subject: Type, span: Span
) -> typed.Pattern:
    type_ = LITERAL_TYPES[literal.kind]
    if literal.value is None or subject in (ANY, NOTHING, type_):
        return typed.Equals(literal.value, subject)
    if comparable(subject, type_) is None:
        return _misfit(inference, span, subject, f"a constant of type {type_}")
    value = _number(literal.value, subject)
    if value is None:
        return _misfit(
            inference, span, subject, f"{format_literal(literal)}, which is no {subject}"
        )
    return typed.Equals(value, subject)


def _number(number: object, subject: Type) -> Value:
    """The same number as a value of the type `subject`, or None if it has no such value."""
    assert isinstance(number, int | float)
    if isinstance(number, float) and not math.isfinite(number):
        return number if subject in (FLOAT, DOUBLE) else None
    exact = decimal.Decimal(repr(number))
    if isinstance(subject, Decimal):
        scaled = exact.quantize(decimal.Decimal(1).scaleb(-subject.scale), context=_EXACT)
        fits = scaled == exact and len(scaled.as_tuple().digits) <= subject.precision
        return scaled if fits else None
    if subject == FLOAT:
        rounded = to_float32(float(number))
        return rounded if rounded == number else None
    if subject == DOUBLE:
        return float(number)
    assert isinstance(subject, Basic)
    width = INTEGER_RANGES[subject.name]
    return int(exact) if exact == exact.to_integral_value() and int(exact) in width else None


def _typed(
    inference: Inference, inner: ast.Pattern, tree: ast.TypeTree, subject: Type, bound: Bound
) -> typed.Pattern:
    target = resolve_type(inference, tree)
    if not castable(subject, target) and not inference.spoiled(target):
        message = f"a value of type {subject} cannot be read as {target}"
        inference.problem("T306", tree.span, message, "no such conversion")
    return typed.ReadAs(infer_pattern(inference, inner, target, bound), subject, target)


def _structure(
    inference: Inference, pattern: ast.Pattern, subject: Type, bound: Bound
) -> typed.Pattern:
    match pattern, subject:
        case ast.TuplePattern(items), (Nothing() | Any()):
            return typed.TupleOf(_all(inference, items, subject, bound))
        case ast.ListPattern(items), (Nothing() | Any()):
            return typed.ListOf(_all(inference, items, subject, bound))
        case ast.RecordPattern(fields), (Nothing() | Any()):
            inner = _all(inference, tuple(p for _, p in fields), subject, bound)
            return typed.Fields(tuple(zip((n for n, _ in fields), inner, strict=True)))
        case ast.TuplePattern(items), Tuple(types) if len(items) == len(types):
            return typed.TupleOf(
                tuple(
                    infer_pattern(inference, item, type_, bound)
                    for item, type_ in zip(items, types, strict=True)
                )
            )
        case ast.ListPattern(items), Collection("list", element):
            return typed.ListOf(_all(inference, items, element, bound))
        case ast.RecordPattern(fields), Record():
            return _fields(inference, fields, subject, bound)
        case _:
            what = {ast.TuplePattern: "a tuple", ast.ListPattern: "a list"}.get(type(pattern))
            if isinstance(pattern, ast.TuplePattern):
                what = f"a tuple of {len(pattern.items)}"
            misfit = _misfit(inference, pattern.span, subject, what or "a record")
            _bind_all(inference, pattern, bound)
            return misfit


def _all(
    inference: Inference, items: tuple[ast.Pattern, ...], subject: Type, bound: Bound
) -> tuple[typed.Pattern, ...]:
    return tuple(infer_pattern(inference, item, subject, bound) for item in items)


def _bind_all(inference: Inference, pattern: ast.Pattern, bound: Bound) -> None:
    """Bind the names of a pattern that does not fit, so that they cause no further problems."""
    parts: tuple[ast.Pattern, ...] = ()
    match pattern:
        case ast.TuplePattern(items) | ast.ListPattern(items) | ast.DataPattern(_, items):
            parts = items
        case ast.RecordPattern(fields):
            parts = tuple(inner for _, inner in fields)
        case _:
            pass
    _all(inference, parts, NOTHING, bound)


def _misfit(inference: Inference, span: Span, subject: Type, what: str) -> typed.Pattern:
    message = f"this pattern matches {what}, and the value is {subject}"
    inference.problem("T401", span, message, "can never match")
    return typed.Anything()


def _fields(
    inference: Inference, fields: tuple[tuple[str, ast.Pattern], ...], subject: Record, bound: Bound
) -> typed.Pattern:
    found: list[tuple[str, typed.Pattern]] = []
    for name, inner in fields:
        type_ = subject.field(name)
        if type_ is None:
            hint = f"{nearest(name, subject.names)} Fields are: {', '.join(subject.names)}."
            message = f'the record has no field "{name}"'
            inference.problem("T201", inner.span, message, "no such field", hint.strip())
        found.append((name, infer_pattern(inference, inner, type_ or NOTHING, bound)))
    return typed.Fields(tuple(found))


def _data(
    inference: Inference,
    name: str,
    arguments: tuple[ast.Pattern, ...],
    subject: tuple[Type, Span],
    bound: Bound,
) -> typed.Pattern:
    known = inference.constructors()
    type_, span = subject
    if name not in known and name in inference.broken:
        _all(inference, arguments, NOTHING, bound)
        return typed.Anything()
    if name not in known:
        hint = nearest(name, known) or "Constructors are declared by data T = A: …;"
        message = f'there is no constructor "{name}"'
        inference.problem("T104", span, message, "unknown constructor", hint)
        _all(inference, arguments, NOTHING, bound)
        return typed.Anything()
    constructor = known[name]
    if type_ not in (Data(constructor.owner), NOTHING, ANY):
        what = f"values of the data type {constructor.owner}"
        _all(inference, arguments, NOTHING, bound)
        return _misfit(inference, span, type_, what)
    return typed.Made(constructor, _content(inference, constructor, arguments, span, bound))


def _content(
    inference: Inference,
    constructor: Constructor,
    arguments: tuple[ast.Pattern, ...],
    span: Span,
    bound: Bound,
) -> typed.Pattern:
    content = constructor.content
    if len(arguments) == 1 and not (isinstance(content, Tuple) and len(content.items) == 0):
        return infer_pattern(inference, arguments[0], content, bound)
    if not isinstance(content, Tuple) or len(content.items) != len(arguments):
        wanted = len(content.items) if isinstance(content, Tuple) else 1
        plural = "" if wanted == 1 else "s"
        message = (
            f'"{constructor.name}" holds {wanted} value{plural}, and here are {len(arguments)}'
        )
        hint = f'"{constructor.name}" is declared with {content}.'
        inference.problem("T307", span, message, "here", hint)
        _all(inference, arguments, NOTHING, bound)
        return typed.Anything()
    return typed.TupleOf(
        tuple(
            infer_pattern(inference, argument, type_, bound)
            for argument, type_ in zip(arguments, content.items, strict=True)
        )
    )


# --- templates ---------------------------------------------------------------------------


def _template(
    inference: Inference,
    body: ast.XmlElement[ast.Pattern] | ast.JsonPart[ast.Pattern],
    subject: Type,
    bound: Bound,
) -> typed.Pattern:
    wanted = XML if isinstance(body, ast.XmlElement) else JSON
    if subject not in (wanted, NOTHING, ANY):
        _all(inference, tuple(_holes(body)), NOTHING, bound)
        return _misfit(inference, body.span, subject, f"trees of type {wanted}")
    if isinstance(body, ast.XmlElement):
        return _xml(inference, body, bound)
    return _json(inference, body, bound)


def _xml(inference: Inference, node: ast.XmlElement[ast.Pattern], bound: Bound) -> typed.Pattern:
    known = inference.constructors()
    attributes = tuple(
        (name, _attribute(inference, parts, bound)) for name, parts in node.attributes
    )
    children: list[typed.Pattern] = []
    for child in node.children:
        match child:
            case ast.XmlElement():
                children.append(_xml(inference, child, bound))
            case ast.XmlText(text):
                children.append(typed.Made(known["CData"], typed.Equals(text, STRING)))
            case ast.Hole(content):
                children.append(infer_pattern(inference, content, XML, bound))
    tag = typed.Equals(node.tag, STRING)
    parts = (tag, typed.Members(attributes), typed.ListOf(tuple(children)))
    return typed.Made(known["Node"], typed.TupleOf(parts))


def _attribute(
    inference: Inference, parts: tuple[ast.XmlText | ast.Hole[ast.Pattern], ...], bound: Bound
) -> typed.Pattern:
    match parts:
        case (ast.Hole(content),):
            return infer_pattern(inference, content, STRING, bound)
        case ():
            return typed.Equals("", STRING)
        case (ast.XmlText(text),):
            return typed.Equals(text, STRING)
        case _:
            message = "an attribute of a pattern is a text or one hole, not a mixture"
            hint = "Bind the whole attribute, and take its text apart in the branch."
            inference.problem("T401", parts[0].span, message, "mixed", hint)
            _all(inference, tuple(_holes(parts)), NOTHING, bound)
            return typed.Anything()


def _holes(part: object) -> Iterator[ast.Pattern]:
    """The patterns in the holes of a template."""
    match part:
        case ast.Hole(content):
            yield content
        case ast.XmlElement(_, attributes, children):
            yield from _holes((*(parts for _, parts in attributes), children))
        case ast.JsonObject(members):
            yield from _holes(tuple(member for _, member in members))
        case ast.JsonArray(items):
            yield from _holes(items)
        case tuple():
            for inner in part:
                yield from _holes(inner)
        case _:
            return


def _json(inference: Inference, part: ast.JsonPart[ast.Pattern], bound: Bound) -> typed.Pattern:
    known = inference.constructors()
    match part:
        case ast.Hole(content):
            return infer_pattern(inference, content, JSON, bound)
        case ast.JsonObject(members):
            inner = tuple((name, _json(inference, member, bound)) for name, member in members)
            return typed.Made(known["JObject"], typed.Members(inner))
        case ast.JsonArray(items):
            listed = tuple(_json(inference, item, bound) for item in items)
            return typed.Made(known["JArray"], typed.ListOf(listed))
        case ast.JsonLeaf(literal):
            if literal.value is None:
                return typed.Made(known["Jnull"], typed.Anything())
            constructor = known[_JSON_LEAVES[literal.kind]]
            return typed.Made(constructor, typed.Equals(literal.value, constructor.content))
