"""Types of Arrow and Parquet columns to types of the language, and back.

Going in, every type has one Arrow type that holds its values: a record is a struct of its
names, a tuple a struct of `_1, _2, ...`, a collection a list, a data type or any the canonical
bytes.  Coming back, what Arrow cannot tell (bag or list, data type) is in the file's metadata;
a file without it is read as it stands, with lists for lists and bags of pairs for maps.
"""

from __future__ import annotations

import re
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
import pyarrow.types as kinds

from incmrql.errors import InternalError, QueryError, SourceText
from incmrql.types.model import (
    BASIC_NAMES,
    BINARY,
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NOTHING,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Any,
    Basic,
    Collection,
    Data,
    Decimal,
    Nothing,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
    storage_type,
)

_TO_ARROW: Final[dict[Type, Arrow]] = {
    BOOL: pa.bool_(),
    BYTE: pa.int8(),
    SHORT: pa.int16(),
    INT: pa.int32(),
    LONG: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    NOTHING: pa.null(),
}
_TO_ARROW_OF_SPARK: Final[dict[Type, Arrow]] = {
    BINARY: pa.binary(),
    TIMESTAMP_NTZ: pa.timestamp("us"),
}
"""Types that plans of Spark have, and no file of MRQL."""
_FROM_ARROW: Final[dict[Arrow, Type]] = {
    **{arrow: type_ for type_, arrow in _TO_ARROW.items()},
    pa.uint8(): SHORT,
    pa.uint16(): INT,
    pa.uint32(): LONG,
    pa.uint64(): Decimal(20, 0),
    pa.float16(): FLOAT,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.date64(): DATE,
}


class NoSuchType(Exception):
    """No type of the language holds the values of an Arrow type."""

    def __init__(self, path: str, arrow: Arrow) -> None:
        super().__init__(path, arrow)
        self.path, self.arrow = path, arrow


def arrow_type(type_: Type) -> Arrow:
    """The Arrow type that holds the values of a type."""
    match type_:
        case Nothing():
            return _TO_ARROW[type_]
        case Basic():
            plain = storage_type(type_)
            return _TO_ARROW.get(plain) or _TO_ARROW_OF_SPARK[plain]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Record(()) | Tuple(()):
            return pa.bool_()  # Parquet has no empty structs; such a value is there or null
        case Record(fields):
            return pa.struct([pa.field(name, arrow_type(field)) for name, field in fields])
        case Tuple(items):
            return pa.struct([pa.field(f"_{i}", arrow_type(t)) for i, t in enumerate(items, 1)])
        case Collection(_, element):
            return pa.list_(arrow_type(element))
        case Data() | Any():
            return pa.binary()
        case _:
            raise InternalError(f"values of type {type_} cannot be stored")


def model_type(arrow: Arrow, path: str) -> Type:
    """The type of the language that holds the values of an Arrow type; may be `NoSuchType`."""
    if arrow in _FROM_ARROW:
        return _FROM_ARROW[arrow]
    if kinds.is_timestamp(arrow):
        return TIMESTAMP
    if kinds.is_dictionary(arrow):
        return model_type(arrow.value_type, path)
    if kinds.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return Decimal(arrow.precision, arrow.scale)
    if kinds.is_struct(arrow) and arrow.num_fields:
        return struct_type([arrow.field(i) for i in range(arrow.num_fields)], path)
    if _is_list(arrow):
        return list_of(model_type(arrow.value_type, f"{path}[]"))
    if kinds.is_map(arrow):
        key = model_type(arrow.key_type, f"{path}.key")
        return bag(Tuple((key, model_type(arrow.item_type, f"{path}.value"))))
    raise NoSuchType(path, arrow)


def struct_type(fields: list[Arrow], path: str = "") -> Type:
    """A tuple where the fields are called `_1, _2, ...`, else a record."""
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise NoSuchType(path, f"several fields of one name, of {', '.join(names)}")
    inner = [(f.name, model_type(f.type, f"{path}.{f.name}" if path else f.name)) for f in fields]
    if len(names) > 1 and names == [f"_{i}" for i in range(1, len(names) + 1)]:
        return Tuple(tuple(type_ for _, type_ in inner))
    return Record(tuple(inner))


def widens_to(source: Type, target: Type) -> bool:
    """Whether a column of one type may be read as another: numbers widen, null is anything."""
    match source, target:
        case _ if source == target:
            return True
        case Nothing(), _:
            return True
        case Basic(), Basic():
            order = (BYTE, SHORT, INT, LONG, FLOAT, DOUBLE)
            both = source in order and target in order
            return both and order.index(source) <= order.index(target)
        case Collection(_, element), Collection(_, expected):
            return widens_to(element, expected)
        case Tuple(items), Tuple(others):
            return len(items) == len(others) and all(map(widens_to, items, others))
        case Record(((("_1", only)),)), Tuple((item,)):  # a tuple of one is a record elsewhere
            return widens_to(only, item)
        case Record(), Record(fields):
            pairs = [(source.field(name), expected) for name, expected in fields]
            return all(
                actual is not None and widens_to(actual, expected) for actual, expected in pairs
            )
        case _:
            return False


def _is_list(arrow: Arrow) -> bool:
    return any(
        test(arrow)
        for test in (
            kinds.is_list,
            kinds.is_large_list,
            kinds.is_fixed_size_list,
            kinds.is_list_view,
            kinds.is_large_list_view,
        )
    )


# --- Types as text ---
#
# read_type(write_type(t)) == t
#
# The text is that of the language; names that it does not know are those of data types.


_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|(\w+)(?!\s*:)')
_KNOWN = {*BASIC_NAMES, "decimal", "any", "null"}


def write_type(type_: Type) -> str:
    """The text of a type."""
    return str(type_)


def read_type(text: str) -> Type:
    """The type that a text stands for; raises a ValueError if it stands for none."""
    data = {word for word in _WORD.findall(text) if word} - _KNOWN
    # Only files that `store` wrote need the parser; workers import this module for every batch.
    from incmrql.syntax.parser.scripts import parse_type_text
    from incmrql.types.infer.scripts import resolve_type_tree

    try:
        return resolve_type_tree(parse_type_text(SourceText(text, "<type>")), data)
    except QueryError as error:
        raise ValueError(f"{text!r} is not a type: {error.message}") from None
