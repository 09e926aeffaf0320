"""Types and parameter lists: tokens to trees."""

from __future__ import annotations

from incmrql.syntax.ast import (
    AppliedType,
    BagType,
    DecimalType,
    DistributedType,
    ListType,
    NamedType,
    Parameter,
    RecordType,
    TupleType,
    TypeTree,
)
from incmrql.syntax.cursor import Cursor


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
        return _applied(cursor, name.text, start)
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


def _applied(cursor: Cursor, name: str, start: int) -> TypeTree:
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
