"""Constants, types and parameter lists: tokens to trees."""

from __future__ import annotations

from math import isnan

from incmrql.errors import QueryError
from incmrql.syntax.ast import (
    AppliedType,
    BagType,
    DecimalType,
    DistributedType,
    ListType,
    Literal,
    LiteralKind,
    NamedType,
    Parameter,
    RecordType,
    TupleType,
    TypeTree,
)
from incmrql.syntax.parser.cursor import Cursor
from incmrql.syntax.parser.tokens import CONSTANTS, LONGEST, NUMBERS, too_large

# --- Constants ---


_INT_MAX = 2**31 - 1


def at_literal(cursor: Cursor) -> bool:
    """Whether a constant is ahead; a number may have a sign."""
    token = cursor.token
    if token.kind == "op" and token.text == "-":
        return cursor.peek().kind in ("int", "long", "double")
    return token.kind in ("int", "long", "double", "string") or _is_word(cursor)


def parse_literal(cursor: Cursor) -> Literal:
    """A constant."""
    start = cursor.token.start
    negative = cursor.take("-")
    token = cursor.token
    if _is_word(cursor):
        cursor.advance()
        value = CONSTANTS[token.text]
        return Literal(value, "null" if value is None else "bool", span=cursor.since(start))
    if token.kind == "string":
        cursor.advance()
        return Literal(str(token.value), "string", span=cursor.since(start))
    if token.kind == "double":
        cursor.advance()
        # There is one zero: -0.0 is 0.0.
        double = (-float(token.text) if negative else float(token.text)) + 0.0
        return Literal(double, "double", span=cursor.since(start))
    if token.kind not in ("int", "long"):
        raise cursor.unexpected("a constant")
    number = int(token.value or 0)
    if number > LONGEST and not negative:
        raise QueryError(too_large(cursor.here()))
    cursor.advance()
    number = -number if negative else number
    fits = -_INT_MAX - 1 <= number <= _INT_MAX
    kind: LiteralKind = "int" if token.kind == "int" and fits else "long"
    return Literal(number, kind, span=cursor.since(start))


def at_special(cursor: Cursor) -> bool:
    """Whether `NaN` or `Infinity` is ahead, maybe with a sign; in expressions these are names."""
    token = cursor.peek() if cursor.at("-") else cursor.token
    return token.kind == "id" and token.text in NUMBERS


def parse_special(cursor: Cursor) -> Literal:
    """`NaN`, `Infinity` or `-Infinity`, a constant of a pattern."""
    start = cursor.token.start
    negative = cursor.take("-")
    value = NUMBERS[cursor.advance().text]
    # There is one NaN: -NaN is NaN.
    signed = -value if negative and not isnan(value) else value
    return Literal(signed, "double", span=cursor.since(start))


def _is_word(cursor: Cursor) -> bool:
    return cursor.token.kind == "id" and cursor.token.text in CONSTANTS


# --- Types and parameters ---


def parse_type(cursor: Cursor) -> TypeTree:
    """A type."""
    with cursor.deeper():
        return _type(cursor)


def _type(cursor: Cursor) -> TypeTree:
    start = cursor.token.start
    if cursor.take("!"):
        return DistributedType(parse_type(cursor), span=cursor.since(start))
    if cursor.at("("):
        return _tuple(cursor)
    if cursor.at("<"):
        return _record(cursor)
    if cursor.take("["):
        with cursor.nested():
            element = parse_type(cursor)
            cursor.expect("]")
        return ListType(element, span=cursor.since(start))
    if cursor.take("{"):
        with cursor.nested():
            element = parse_type(cursor)
            cursor.expect("}")
        return BagType(element, span=cursor.since(start))
    if cursor.at_kind("id") and cursor.token.text == "null":
        cursor.advance()
        return NamedType("null", span=cursor.since(start))
    name = cursor.name("a type")
    if cursor.at("("):
        return _type_application(cursor, name.text, start)
    return NamedType(name.text, span=cursor.since(start))


def parse_parameters(cursor: Cursor) -> tuple[Parameter, ...]:
    """`( x: int, y: string )`."""
    cursor.expect("(")
    parameters: list[Parameter] = []
    with cursor.nested():
        while not cursor.at(")"):
            start = cursor.token.start
            name = cursor.name("a parameter")
            cursor.expect(":", "after the parameter's name")
            type_ = parse_type(cursor)
            parameters.append(Parameter(name.text, type_, span=cursor.since(start)))
            if not cursor.take(","):
                break
        cursor.expect(")")
    return tuple(parameters)


def _tuple(cursor: Cursor) -> TypeTree:
    start = cursor.advance().start
    items: list[TypeTree] = []
    with cursor.nested():
        while not cursor.at(")"):
            items.append(parse_type(cursor))
            if not cursor.take(","):
                break
        cursor.expect(")")
    if len(items) == 1:
        return items[0]
    return TupleType(tuple(items), span=cursor.since(start))


def _record(cursor: Cursor) -> TypeTree:
    start = cursor.advance().start
    fields: list[tuple[str, TypeTree]] = []
    with cursor.nested():
        while not cursor.at(">"):
            name = cursor.label("a field name")
            cursor.expect(":", "after the field's name")
            fields.append((name.text, parse_type(cursor)))
            if not cursor.take(","):
                break
        cursor.expect(">")
    return RecordType(tuple(fields), span=cursor.since(start))


def _type_application(cursor: Cursor, name: str, start: int) -> TypeTree:
    cursor.advance()
    with cursor.nested():
        if name == "decimal":
            precision = cursor.expect_kind("int", "the precision, a number")
            cursor.expect(",")
            scale = cursor.expect_kind("int", "the scale, a number")
            cursor.expect(")")
            return DecimalType(int(precision.text), int(scale.text), span=cursor.since(start))
        arguments = [parse_type(cursor)]
        while cursor.take(","):
            arguments.append(parse_type(cursor))
        cursor.expect(")")
    return AppliedType(name, tuple(arguments), span=cursor.since(start))
