"""Type inference of patterns: the variables they bind, and whether they can match at all."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator

from incmrql.errors import Span, nearest
from incmrql.syntax import ast
from incmrql.syntax.printer.parts import format_literal
from incmrql.types import typed
from incmrql.types.infer.templates import JSON_LEAVES
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


class PatternInference:
    """Types patterns of one scope and collects the variables that they bind."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self.variables: list[typed.Variable] = []
        """The variables in the order of the text, each name once."""
        self.repetitions: list[tuple[typed.Variable, typed.Variable, Span]] = []
        """For each repeated name: its first variable, a later one, and the span of that one."""

    def infer(self, pattern: ast.Pattern, subject: Type) -> typed.Pattern:
        """The typed pattern for values of the type `subject`."""
        match pattern:
            case ast.AnyPattern():
                return typed.Anything()
            case ast.NamePattern(name):
                return typed.Bind(self._bind(name, subject, pattern.span))
            case ast.LiteralPattern(literal):
                return self._literal(literal, subject, pattern.span)
            case ast.TypedPattern(inner, tree):
                target = resolve_type(self.inference, tree)
                if not castable(subject, target) and not self.inference.has_error(target):
                    message = f"a value of type {subject} cannot be read as {target}"
                    self.inference.problem("T306", tree.span, message, "no such conversion")
                return typed.ReadAs(self.infer(inner, target), subject, target)
            case ast.TemplatePattern(body):
                return self._template(body, subject)
            case ast.DataPattern(name, arguments):
                return self._data(name, arguments, subject, pattern.span)
            case ast.TuplePattern() | ast.ListPattern() | ast.RecordPattern():
                return self._structure(pattern, subject)

    def infer_all(
        self, patterns: tuple[ast.Pattern, ...], subject: Type
    ) -> tuple[typed.Pattern, ...]:
        """The typed patterns for values of one type."""
        return tuple(self.infer(pattern, subject) for pattern in patterns)

    def report_duplicates(self) -> None:
        """Report the names that are bound more than once."""
        for first, _, span in self.repetitions:
            message = f'"{first.name}" is bound twice in this pattern'
            self.inference.problem("T402", span, message, "bound before", "Choose another name.")

    def _bind(self, name: str, subject: Type, span: Span) -> typed.Variable:
        variable = self.inference.variable(name, subject)
        first = next((v for v in self.variables if v.name == name), None)
        if first is None:
            self.variables.append(variable)
        else:
            self.repetitions.append((first, variable, span))
        return variable

    def _no_match(
        self, span: Span, subject: Type, what: str, parts: tuple[ast.Pattern, ...] = ()
    ) -> typed.Pattern:
        """Report a pattern that can never match; its names are still bound."""
        message = f"this pattern matches {what}, but the value is {subject}"
        self.inference.problem("T401", span, message, "can never match")
        self.infer_all(parts, NOTHING)
        return typed.Anything()

    def _literal(self, literal: ast.Literal, subject: Type, span: Span) -> typed.Pattern:
        type_ = LITERAL_TYPES[literal.kind]
        if literal.value is None or subject in (ANY, NOTHING, type_):
            return typed.Equals(literal.value, subject)
        if comparable(subject, type_) is None:
            return self._no_match(span, subject, f"a constant of type {type_}")
        value = _number(literal.value, subject)
        if value is None:
            return self._no_match(span, subject, format_literal(literal))
        return typed.Equals(value, subject)

    def _structure(
        self, pattern: ast.TuplePattern | ast.ListPattern | ast.RecordPattern, subject: Type
    ) -> typed.Pattern:
        match pattern, subject:
            case ast.TuplePattern(items), (Nothing() | Any()):
                return typed.TupleOf(self.infer_all(items, subject))
            case ast.ListPattern(items), (Nothing() | Any()):
                return typed.ListOf(self.infer_all(items, subject))
            case ast.RecordPattern(fields), (Nothing() | Any()):
                return typed.Fields(tuple((n, self.infer(p, subject)) for n, p in fields))
            case ast.TuplePattern(items), Tuple(types) if len(items) == len(types):
                return typed.TupleOf(tuple(map(self.infer, items, types)))
            case ast.ListPattern(items), Collection("list", element):
                return typed.ListOf(self.infer_all(items, element))
            case ast.RecordPattern(fields), Record():
                return typed.Fields(
                    tuple((n, self.infer(p, self._field(n, subject, p.span))) for n, p in fields)
                )
            case ast.TuplePattern(items), _:
                return self._no_match(
                    pattern.span, subject, f"a tuple of {len(items)} values", items
                )
            case ast.ListPattern(items), _:
                return self._no_match(pattern.span, subject, "a list", items)
            case ast.RecordPattern(fields), _:
                parts = tuple(inner for _, inner in fields)
                return self._no_match(pattern.span, subject, "a record", parts)
            case _:
                raise AssertionError(pattern)

    def _field(self, name: str, subject: Record, span: Span) -> Type:
        type_ = subject.field(name)
        if type_ is not None:
            return type_
        hint = f"{nearest(name, subject.names)} Fields are: {', '.join(subject.names)}."
        message = f'the record has no field "{name}"'
        self.inference.problem("T201", span, message, "no such field", hint.strip())
        return NOTHING

    def _data(
        self, name: str, arguments: tuple[ast.Pattern, ...], subject: Type, span: Span
    ) -> typed.Pattern:
        known = self.inference.constructors()
        if name not in known:
            if name not in self.inference.broken:
                hint = nearest(name, known) or "Constructors are declared by data T = A: …;"
                message = f'there is no constructor "{name}"'
                self.inference.problem("T104", span, message, "unknown constructor", hint)
            self.infer_all(arguments, NOTHING)
            return typed.Anything()
        constructor = known[name]
        if subject not in (Data(constructor.owner), NOTHING, ANY):
            what = f"values of the data type {constructor.owner}"
            return self._no_match(span, subject, what, arguments)
        return typed.DataOf(constructor, self._content(constructor, arguments, span))

    def _content(
        self, constructor: Constructor, arguments: tuple[ast.Pattern, ...], span: Span
    ) -> typed.Pattern:
        content = constructor.content
        if len(arguments) == 1 and content != Tuple(()):
            return self.infer(arguments[0], content)
        if isinstance(content, Tuple) and len(content.items) == len(arguments):
            return typed.TupleOf(tuple(map(self.infer, arguments, content.items)))
        count = len(content.items) if isinstance(content, Tuple) else 1
        plural = "" if count == 1 else "s"
        message = f'"{constructor.name}" holds {count} value{plural}, not {len(arguments)}'
        hint = f'"{constructor.name}" is declared with {content}.'
        self.inference.problem("T307", span, message, "here", hint)
        self.infer_all(arguments, NOTHING)
        return typed.Anything()

    # --- Templates ---

    def _template(
        self, body: ast.XmlElement[ast.Pattern] | ast.JsonPart[ast.Pattern], subject: Type
    ) -> typed.Pattern:
        type_ = XML if isinstance(body, ast.XmlElement) else JSON
        if subject not in (type_, NOTHING, ANY):
            what = f"trees of type {type_}"
            return self._no_match(body.span, subject, what, tuple(_holes(body)))
        return self._xml(body) if isinstance(body, ast.XmlElement) else self._json(body)

    def _xml(self, node: ast.XmlElement[ast.Pattern]) -> typed.Pattern:
        known = self.inference.constructors()
        attributes = tuple((name, self._attribute(parts)) for name, parts in node.attributes)
        children: list[typed.Pattern] = []
        for child in node.children:
            match child:
                case ast.XmlElement():
                    children.append(self._xml(child))
                case ast.XmlText(text):
                    children.append(typed.DataOf(known["CData"], typed.Equals(text, STRING)))
                case ast.Hole(content):
                    children.append(self.infer(content, XML))
        tag = typed.Equals(node.tag, STRING)
        parts = (tag, typed.Members(attributes), typed.ListOf(tuple(children)))
        return typed.DataOf(known["Node"], typed.TupleOf(parts))

    def _attribute(self, parts: tuple[ast.XmlText | ast.Hole[ast.Pattern], ...]) -> typed.Pattern:
        match parts:
            case (ast.Hole(content),):
                return self.infer(content, STRING)
            case ():
                return typed.Equals("", STRING)
            case (ast.XmlText(text),):
                return typed.Equals(text, STRING)
            case _:
                message = "an attribute in a pattern is either text or one hole, not a mixture"
                hint = "Bind the whole attribute, and take its text apart in the branch."
                self.inference.problem("T401", parts[0].span, message, "mixed", hint)
                self.infer_all(tuple(_holes(parts)), NOTHING)
                return typed.Anything()

    def _json(self, part: ast.JsonPart[ast.Pattern]) -> typed.Pattern:
        known = self.inference.constructors()
        match part:
            case ast.Hole(content):
                return self.infer(content, JSON)
            case ast.JsonObject(members):
                inner = tuple((name, self._json(member)) for name, member in members)
                return typed.DataOf(known["JObject"], typed.Members(inner))
            case ast.JsonArray(items):
                return typed.DataOf(known["JArray"], typed.ListOf(tuple(map(self._json, items))))
            case ast.JsonLeaf(literal):
                if literal.value is None:
                    return typed.DataOf(known["Jnull"], typed.Anything())
                constructor = known[JSON_LEAVES[literal.kind]]
                return typed.DataOf(constructor, typed.Equals(literal.value, constructor.content))


def _number(number: object, subject: Type) -> Value:
    """The same number as a value of the type `subject`, or None if that type does not have it."""
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
