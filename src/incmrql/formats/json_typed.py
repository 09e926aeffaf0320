"""JSON documents to values of a declared type: `source(json, path, type(T))`.

Objects become records (a missing member is null, others are ignored), arrays become tuples of
that length, bags and lists; null is null.  A document of another shape is refused with the path
to the place: `$.a[2].b: expected int, found 1.5`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from incmrql.diagnostics import InternalError
from incmrql.formats.json_values import (
    Number,
    Raw,
    dump_raw,
    parse_raw,
    raw_of,
    shortened,
    tree_of,
)
from incmrql.formats.scalars import Unparsable, parse_scalar, quoted
from incmrql.formats.xml_values import parse_xml
from incmrql.types.model import (
    BOOL,
    FLOATS,
    INTEGERS,
    JSON,
    PREDEFINED,
    XML,
    Any,
    Basic,
    Collection,
    Constructor,
    Data,
    Decimal,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
)
from incmrql.values import Bag, Value
from incmrql.values import Data as DataValue
from incmrql.values import Record as RecordValue

Catalog = Mapping[str, tuple[Constructor, ...]]

_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


def to_typed(document: str | DataValue, type_: Type, catalog: Catalog = PREDEFINED) -> Value:
    """The value of a type that a JSON text or tree holds; raises `Unparsable`."""
    raw = parse_raw(document) if isinstance(document, str) else raw_of(document)
    return typed(raw, type_, catalog)


def typed(raw: Raw, type_: Type, catalog: Catalog = PREDEFINED, path: str = "$") -> Value:
    """The value of a type that a document holds."""
    if raw is None and type_ != JSON:
        return None
    match type_:
        case Basic() | Decimal():
            return _scalar(raw, type_, path)
        case Any():
            return tree_of(raw)
        case Record(fields) if isinstance(raw, dict):
            values = [typed(raw.get(n), t, catalog, f"{path}.{n}") for n, t in fields]
            return RecordValue.of(type_.names, values)
        case Tuple(items) if isinstance(raw, list) and len(raw) == len(items):
            return tuple(
                typed(item, items[i], catalog, f"{path}[{i}]") for i, item in enumerate(raw)
            )
        case Collection(kind, element) if isinstance(raw, list):
            values = [typed(x, element, catalog, f"{path}[{i}]") for i, x in enumerate(raw)]
            return Bag(values) if kind == "bag" else values
        case Data():
            return _data(raw, type_, catalog, path)
        case Function():
            raise InternalError("no document holds a function")
        case Record() | Tuple() | Collection() | Nothing():
            raise _mismatch(raw, type_, path)


def _scalar(raw: Raw, type_: Type, path: str) -> Value:
    if not _holds(raw, type_):
        raise _mismatch(raw, type_, path)
    if isinstance(raw, bool):
        return raw
    try:
        value = parse_scalar(raw, type_)
    except Unparsable as problem:
        raise Unparsable(f"{path}: {problem.reason}") from None
    if isinstance(raw, Number) and isinstance(value, float) and math.isinf(value):
        raise Unparsable(f"{path}: {shortened(raw)} does not fit a {type_}")
    return value


def _holds(raw: Raw, type_: Type) -> bool:
    """Whether a JSON value of this kind can stand for a basic type."""
    if type_ in INTEGERS:
        return isinstance(raw, Number) and raw.lstrip("-").isdigit()
    if type_ in FLOATS:
        return isinstance(raw, Number) or raw in _NOT_FINITE
    if isinstance(type_, Decimal):
        return isinstance(raw, str)
    if type_ == BOOL:
        return isinstance(raw, bool)
    return isinstance(raw, str) and not isinstance(raw, Number)


def _data(raw: Raw, type_: Data, catalog: Catalog, path: str) -> Value:
    if type_ == JSON:
        return tree_of(raw)
    if type_ == XML and isinstance(raw, str) and not isinstance(raw, Number):
        try:
            return parse_xml(raw)
        except Unparsable as problem:
            raise Unparsable(f"{path}: {problem.reason}") from None
    if isinstance(raw, dict) and len(raw) == 1:
        ((name, content),) = raw.items()
        for made in catalog.get(type_.name, ()):
            if made.name == name:
                value = typed(content, made.content, catalog, f"{path}.{name}")
                return DataValue(name, made.position, value)
    raise _mismatch(raw, type_, path)


def _mismatch(raw: Raw, type_: Type, path: str) -> Unparsable:
    match raw:
        case list() if isinstance(type_, Tuple):
            found = f"an array of {len(raw)}"
        case list():
            found = "an array"
        case dict():
            found = "an object"
        case str() if not isinstance(raw, Number):
            found = quoted(raw)
        case _:
            found = dump_raw(raw)
    return Unparsable(f"{path}: expected {type_}, found {found}")
