"""Converts type trees, the parser's output, to types."""

from __future__ import annotations

from collections.abc import Sequence

from incmrql.errors import Span, nearest
from incmrql.syntax import ast
from incmrql.types.model import (
    ANY,
    BASIC_NAMES,
    DECIMAL,
    NOTHING,
    Basic,
    Data,
    Decimal,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
)
from incmrql.types.scope import Inference

_COLLECTIONS = ("bag", "list", "set", "Bag", "List", "Set")
_OTHER_NAMES = {"integer": "int", "bigint": "long", "float64": "double", "str": "string",
           "varchar": "string", "text": "string", "boolean": "bool", "datetime": "timestamp",
           "real": "double", "smallint": "short", "tinyint": "byte"}  # fmt: skip


def resolve_type(inference: Inference, tree: ast.TypeTree, hint: str = "") -> Type:
    """The type of a type tree; `hint` is shown for a name that resembles no type."""
    match tree:
        case ast.NamedType(name):
            return _type_of_name(inference, name, tree.span, hint)
        case ast.TupleType(items):
            return Tuple(tuple(resolve_type(inference, item) for item in items))
        case ast.RecordType(fields):
            return _record_type(inference, fields)
        case ast.ListType(element):
            return list_of(resolve_type(inference, element))
        case ast.BagType(element):
            return bag(resolve_type(inference, element))
        case ast.DistributedType(inner):
            return resolve_type(inference, inner)
        case ast.DecimalType(precision, scale):
            if not (0 <= scale <= precision and 1 <= precision <= 38):
                message = f"decimal({precision}, {scale}) does not exist"
                hint = "The precision goes from 1 to 38 and the scale from 0 to the precision."
                inference.problem("T103", tree.span, message, "no such type", hint)
                return DECIMAL
            return Decimal(precision, scale)
        case ast.AppliedType(name, arguments):
            types = [resolve_type(inference, argument) for argument in arguments]
            if name in _COLLECTIONS and len(types) == 1:
                return list_of(types[0]) if name.lower() == "list" else bag(types[0])
            hint = "Collections are {T} or bag(T), [T] or list(T), set(T)."
            message = f'there is no generic type "{name}"'
            inference.problem("T103", tree.span, message, "unknown type", hint)
            return NOTHING


def _type_of_name(inference: Inference, name: str, span: Span, other_hint: str) -> Type:
    if name in inference.aliases:
        if name in inference.resolving:
            message = f'the type "{name}" contains itself'
            hint = f"Declare a data type instead: data {name} = Constructor: …;"
            inference.problem("T105", span, message, "circular", hint)
            return NOTHING
        inference.resolving.add(name)
        type_ = resolve_type(inference, inference.aliases[name])
        inference.resolving.discard(name)
        return type_
    if name in inference.data_names:
        return Data(name)
    if name in BASIC_NAMES:
        return Basic(name)
    if name == "decimal":
        return DECIMAL
    if name == "any":
        return ANY
    if name == "null":
        return NOTHING
    candidates = [*BASIC_NAMES, "decimal", "any", *inference.aliases, *inference.data_names]
    habit = _OTHER_NAMES.get(name.lower())
    hint = f'Did you mean "{habit}"?' if habit else nearest(name, candidates) or other_hint
    inference.problem("T103", span, f'there is no type "{name}"', "unknown type", hint)
    return NOTHING


def _record_type(inference: Inference, fields: tuple[tuple[str, ast.TypeTree], ...]) -> Type:
    types: dict[str, Type] = {}
    for name, tree in fields:
        if name in types:
            message = f'the field "{name}" occurs twice in this record'
            inference.problem("T402", tree.span, message, "again", "Choose another name.")
        types[name] = resolve_type(inference, tree)
    return Record(tuple(types.items()))


def report_duplicates(
    inference: Inference,
    names: Sequence[str],
    what: str,
    span: Span,
    spans: Sequence[Span] = (),
) -> None:
    """Report every name that occurs in a list of names more than once."""
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        second = names.index(name, names.index(name) + 1)
        message = f'two {what} are called "{name}"'
        second_span = spans[second] if spans else span
        inference.problem("T402", second_span, message, "here", "Choose another name.")


def parameter_names(parameters: Sequence[ast.Parameter]) -> tuple[Span, ...]:
    """The spans of the names of parameters."""
    return tuple(Span(p.span.source, p.span.start, p.span.start + len(p.name)) for p in parameters)
