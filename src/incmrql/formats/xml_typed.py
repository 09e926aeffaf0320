"""XML elements to values of a declared type: `source(xml, path, {"tag"}, type(T))`.

A field of a record is the child element of that name, or else the attribute; where the field
is a bag or a list, all children of that name.  A tuple takes the child elements in order.  A
basic type takes the text, of which an empty one is null unless a string is wanted.
"""

from __future__ import annotations

from incmrql.diagnostics import InternalError
from incmrql.formats.json_values import parse_json
from incmrql.formats.scalars import Unparsable, parse_scalar
from incmrql.formats.xml_values import attribute, cdata, children, tag_of, text_of
from incmrql.types.model import (
    JSON,
    STRING,
    XML,
    Any,
    Basic,
    Collection,
    Decimal,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
)
from incmrql.types.model import Data as DataType
from incmrql.values import Bag, Data, Value
from incmrql.values import Record as RecordValue


def typed_xml(found: Data | str, type_: Type, path: str = "") -> Value:
    """The value of a type that an element or an attribute's text holds; raises `Unparsable`."""
    here = path or (f"/{tag_of(found) or 'text()'}" if isinstance(found, Data) else "@")
    match type_:
        case Any():
            return _tree(found)
        case DataType() if type_ == XML:
            return _tree(found)
        case Basic() | Decimal():
            return _scalar(found, type_, here)
        case DataType() if type_ == JSON:
            return _json(found, here)
        case Record(fields) if isinstance(found, Data):
            values = [_field(found, name, field, f"{here}/{name}") for name, field in fields]
            return RecordValue.of(type_.names, values)
        case Tuple(items) if isinstance(found, Data):
            inner = children(found)
            if len(inner) != len(items):
                raise Unparsable(f"{here}: expected {len(items)} elements, found {len(inner)}")
            pairs = zip(inner, items, strict=True)
            return tuple(typed_xml(c, t, f"{here}/{tag_of(c)}") for c, t in pairs)
        case Collection() if isinstance(found, Data):
            return _collection(list(children(found)), type_, f"{here}/*")
        case Function():
            raise InternalError("no document holds a function")
        case Record() | Tuple() | Collection() | Nothing() | DataType():
            raise Unparsable(f"{here}: expected {type_}, found text")


def _field(found: Data, name: str, type_: Type, path: str) -> Value:
    inner: list[Data | str] = [*children(found, name)]
    if not inner and (text := attribute(found, name)) is not None:
        inner = [text]
    if isinstance(type_, Collection):
        return _collection(inner, type_, path)
    if len(inner) > 1:
        raise Unparsable(f"{path}: expected one element, found {len(inner)}")
    return typed_xml(inner[0], type_, path) if inner else None


def _collection(inner: list[Data | str], type_: Collection, path: str) -> Value:
    values = [typed_xml(item, type_.element, f"{path}[{i}]") for i, item in enumerate(inner, 1)]
    return Bag(values) if type_.kind == "bag" else values


def _scalar(found: Data | str, type_: Type, path: str) -> Value:
    text = _text(found)
    if type_ != STRING and not text.strip():
        return None
    try:
        return parse_scalar(text, type_)
    except Unparsable as problem:
        raise Unparsable(f"{path}: {problem.reason}") from None


def _json(found: Data | str, path: str) -> Value:
    try:
        return parse_json(_text(found))
    except Unparsable as problem:
        raise Unparsable(f"{path}: {problem.reason}") from None


def _tree(found: Data | str) -> Data:
    return found if isinstance(found, Data) else cdata(found)


def _text(found: Data | str) -> str:
    return text_of(found) if isinstance(found, Data) else found
