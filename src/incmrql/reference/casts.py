"""Conversions of values: `widen` cannot fail, `cast` gives null where it fails.

Both depend on the value and the target type only, so that a value whose static type is `any`
converts like any other value of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

from incmrql.io.json.values import is_json, to_json
from incmrql.io.scalars import Unparsable, parse_scalar
from incmrql.io.xml.files import typed_xml
from incmrql.io.xml.values import is_xml
from incmrql.reference.navigate import Fail, ignore, members, pairs_of, text_of
from incmrql.reference.operators import collection, elements, fit_to_type
from incmrql.types.model import (
    BOOL,
    DATE,
    JSON,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    XML,
    Any,
    Basic,
    Data,
    Nothing,
    Type,
    is_day_time,
    is_float,
    is_integer,
    is_year_month,
)
from incmrql.types.model import Collection as CollectionType
from incmrql.types.model import Decimal as DecimalType
from incmrql.types.model import Record as RecordType
from incmrql.types.model import Tuple as TupleType
from incmrql.values import Bag, LocalTime, Months, Record, Value, canonical, show, sort_values
from incmrql.values import Data as DataValue
from incmrql.values.encoding import MICROSECOND
from incmrql.values.notation import show_float


def widen(value: Value, target: Type) -> Value:
    """The value in a type that its own type widens to."""
    match target:
        case _ if value is None:
            return None
        case Basic("float" | "double"):
            return fit_to_type(float(value), target)
        case DecimalType():
            return fit_to_type(Decimal(value), target)
        case TupleType(types):
            return tuple([widen(item, type_) for item, type_ in zip(value, types, strict=True)])
        case RecordType(fields):
            return Record.of(target.names, [widen(value[name], type_) for name, type_ in fields])
        case CollectionType(_, element):
            return collection(target, [widen(item, element) for item in value])
        case Basic():
            return _of_storage(value, target)
        case _:
            return value


def _of_storage(value: Value, target: Basic) -> Value:
    """An interval or local time as the number or timestamp that stands for it, or back."""
    match value:
        case Months():
            return Months(value) if is_year_month(target) else int(value)
        case timedelta():
            return value if is_day_time(target) else value // MICROSECOND
        case LocalTime() if target == TIMESTAMP:
            return datetime.combine(value.date(), value.time(), UTC)
        case datetime() if target == TIMESTAMP_NTZ:
            return LocalTime.of(canonical(value))
        case int() if is_year_month(target):
            return Months(value)
        case int() if is_day_time(target):
            return value * MICROSECOND
        case _:
            return value


def cast(value: Value, target: Type, fail: Fail = ignore) -> Value:
    """The value in the target type; calls `fail` and gives null if there is no conversion.

    Null stays null, except that JSON has its own null.
    """
    match target:
        case _ if value is None:
            return to_json(None) if target == JSON else None
        case Any():
            return value
        case Nothing():
            return _fail_cast(value, target, fail)
        case Data():
            return _to_data(value, target, fail)
        case _ if is_null(value):
            return None
        case TupleType() | RecordType() | CollectionType() if is_xml(value):
            return _from_xml(value, target, fail)
        case TupleType() | RecordType() | CollectionType():
            is_array = isinstance(value, DataValue) and value.constructor == "JArray"
            return _to_structure(value.content if is_array else value, target, fail)
        case _:
            return _to_scalar(_scalar_content(value), target, fail)


def is_null(value: Value) -> bool:
    """Whether this is null or JSON's null, which becomes null outside of JSON."""
    return value is None or (isinstance(value, DataValue) and value.constructor == "Jnull")


def text(value: Value) -> str:
    """A value as a string: scalars plainly, structured values in MRQL notation."""
    match value:
        case str():
            return value
        case float():
            return show_float(value)
        case Decimal():
            return f"{value:f}"
        case datetime() | date():
            return show(value).split('"')[1]  # timestamp("…")
        case _:
            return show(value)


def parse_or_null(source: str, target: Type) -> Value:
    """The scalar that a text denotes, or null."""
    try:
        return parse_scalar(source, target)
    except Unparsable:
        return None


def _scalar_content(value: Value) -> Value:
    """The content of a JSON leaf, the text of an XML tree; other values unchanged."""
    match value:
        case DataValue(constructor="Jstring" | "Jlong" | "Jdouble" | "Jbool"):
            return value.content
        case DataValue(constructor="Node" | "CData"):
            return text_of(value)
        case _:
            return value


def _to_data(value: Value, target: Type, fail: Fail) -> Value:
    """Any value as JSON; for other data types the value must already have that type."""
    if target == JSON:
        return to_json(value)
    fits = is_xml(value) if target == XML else _is_own_data(value)
    return value if fits else _fail_cast(value, target, fail)


def _is_own_data(value: Value) -> bool:
    """Whether this is a value of a data type that a script declares."""
    return isinstance(value, DataValue) and not (is_xml(value) or is_json(value))


def _to_scalar(value: Value, target: Type, fail: Fail) -> Value:
    if target == STRING:
        return text(value)
    result = None
    match value:
        case str():
            result = parse_or_null(value, target)
        case int() | float() | Decimal() if target == BOOL:
            result = value != 0
        case bool() | int() | float() | Decimal():
            result = _to_number(value, target)
        case datetime() | date():
            result = _to_time(value, target)
        case _:
            pass
    return _fail_cast(value, target, fail) if result is None else result


def _to_number(value: float | Decimal, target: Type) -> Value:
    """A number in another numeric type: integers truncate, decimals round halves up."""
    if is_float(target):
        return fit_to_type(float(value), target)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if is_integer(target):
        return fit_to_type(math.trunc(Fraction(value)), target)
    if isinstance(target, DecimalType):
        return fit_to_type(Decimal(repr(value) if isinstance(value, float) else value), target)
    return None


def _to_time(value: date, target: Type) -> Value:
    is_time = isinstance(value, datetime)
    if target == DATE:
        return value.date() if isinstance(value, datetime) else value
    if target == TIMESTAMP:
        return value if is_time else datetime.combine(value, time(), UTC)
    return None


def _to_structure(value: Value, target: Type, fail: Fail) -> Value:
    match value, target:
        case ((tuple() | list()), TupleType(types)) if _is_sequence(value, len(types)):
            return tuple(
                [cast(item, type_, fail) for item, type_ in zip(value, types, strict=True)]
            )
        case Record(), RecordType(fields):
            return _record(target, [cast(value.get(name), t, fail) for name, t in fields])
        case DataValue(constructor="JObject"), RecordType(fields):
            pairs = members(value)
            lookups = [(pairs_of(pairs, name), type_) for name, type_ in fields]
            return _record(target, [cast(v[0] if v else None, t, fail) for v, t in lookups])
        case ((list() | DataValue(constructor="JObject")), CollectionType(kind, element)):
            items = members(value) if isinstance(value, DataValue) else elements(value)
            result = [cast(item, element, fail) for item in items]
            unordered = isinstance(items, Bag) and kind == "list"
            return collection(target, sort_values(result) if unordered else result)
        case _:
            return _fail_cast(value, target, fail)


def _from_xml(tree: DataValue, target: Type, fail: Fail) -> Value:
    """An element, converted as rows of an XML source are; text has no parts."""
    if tree.constructor != "Node":
        return _fail_cast(tree, target, fail)
    try:
        return typed_xml(tree, target)
    except Unparsable as problem:
        fail(f"an XML element has no form of type {target}: {problem.reason}")
        return None


def _is_sequence(value: Value, length: int) -> bool:
    return not isinstance(value, Bag) and len(value) == length


def _record(target: RecordType, values: Iterable[Value]) -> Record:
    return Record.of(target.names, values)


def _fail_cast(value: Value, target: Type, fail: Fail) -> None:
    fail(f"{show(value, 10)} has no form of type {target}")
