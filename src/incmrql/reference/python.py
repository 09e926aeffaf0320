"""Python objects and user code: objects to values, calls, and the types of Python data.

    from_python(object, type) -> value of that type, or ValueError

Objects are converted only where Python itself would accept them: an int may be a double, but a
string is never a number.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from datetime import date, datetime
from decimal import Decimal
from typing import Any as AnyObject
from typing import NoReturn, assert_never

import numpy as np
import pyarrow as pa

from incmrql.errors import DataError, InternalError
from incmrql.io.arrow.types import NoSuchType, struct_type
from incmrql.io.json.values import to_json
from incmrql.reference.operators import collection, fit_to_type
from incmrql.types import model
from incmrql.types.lattice import join
from incmrql.types.model import (
    BINARY,
    JSON,
    SPARK_TYPES,
    TIMESTAMP_NTZ,
    Any,
    Basic,
    Collection,
    Data,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
    is_day_time,
    is_float,
    is_integer,
    is_map,
    is_year_month,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, LocalTime, Months, Value, canonical, encode, sort_values
from incmrql.values import Data as DataValue
from incmrql.values import Record as RecordValue
from incmrql.values.encoding import MICROSECOND
from incmrql.values.numbers import INTEGER_RANGES

# --- Calls ---


@contextmanager
def user_code() -> Iterator[None]:
    """Redirect what the code prints to stderr: stdout is for answers only."""
    with redirect_stdout(sys.stderr):
        yield


def describe_exception(problem: BaseException) -> str:
    """`raised KeyError: 3`, on one line."""
    text = " ".join(str(problem).split())
    return f"raised {type(problem).__name__}" + (f": {text}" if text else "")


# --- Objects to values ---


def from_python(obj: AnyObject, type_: Type, *, exact: bool = False) -> Value:
    """The value of type `type_` for a Python object; ValueError if the object does not fit.

    Fields that a record type does not have are dropped, unless the match has to be `exact`.
    """
    plain = obj.item() if isinstance(obj, np.generic) else obj
    match type_:
        case _ if plain is None:
            return None
        case Any():
            return _untyped_value(plain)
        case Basic() if type_ in SPARK_TYPES:
            return _spark_scalar(plain, type_)
        case Basic() | DecimalType():
            return _scalar(plain, type_)
        case Tuple(items):
            parts = plain if isinstance(plain, tuple | list) else _refuse(plain, type_)
            if len(parts) != len(items):
                _refuse(plain, type_)
            pairs = zip(parts, items, strict=True)
            return tuple([from_python(part, item, exact=exact) for part, item in pairs])
        case Record(fields):
            by_name = _fields_by_name(plain, type_)
            if exact and len(by_name) > len(fields):
                surplus = next(name for name in by_name if name not in type_.names)
                raise ValueError(f'there is no field "{surplus}" in {type_}')
            values = [from_python(by_name[name], part, exact=exact) for name, part in fields]
            return RecordValue.of(type_.names, values)
        case Collection(_, element):
            if isinstance(plain, Mapping) and is_map(type_):
                plain = [{"key": key, "value": value} for key, value in plain.items()]
            values = [from_python(part, element, exact=exact) for part in _elements(plain, type_)]
            is_set = isinstance(plain, set | frozenset | Bag)
            return collection(type_, sort_values(values) if is_set else values)
        case Data():
            if isinstance(plain, DataValue):
                return plain
            return to_json(_untyped_value(plain)) if type_ == JSON else _refuse(plain, type_)
        case Nothing() | Function():
            return _refuse(plain, type_)
        case _:
            assert_never(type_)


def _scalar(obj: AnyObject, type_: Type) -> Value:
    """A scalar of this type, within its range."""
    allowed = _python_types(type_)
    # In Python a bool is an int and a datetime is a date; in MRQL they are different types.
    exact = all(isinstance(obj, sub) == (sub in allowed) for sub in (bool, datetime))
    if not (isinstance(obj, allowed) and exact):
        _refuse(obj, type_)
    try:
        number: AnyObject = float(obj) if is_float(type_) else obj  # type: ignore[arg-type]
        value = fit_to_type(Decimal(number) if isinstance(type_, DecimalType) else number, type_)
    except ArithmeticError:
        _refuse(obj, type_)
    return canonical(value) if value is not None else _refuse(obj, type_)


def _spark_scalar(obj: AnyObject, type_: Basic) -> Value:
    """A scalar of a type that only plans of Spark have; an interval of months is their number."""
    match obj:
        case bytes() | bytearray() if type_ == BINARY:
            return bytes(obj)
        case datetime() if type_ == TIMESTAMP_NTZ and obj.tzinfo is None:
            return LocalTime.of(obj)
        case dt.timedelta() if is_day_time(type_) and obj // MICROSECOND in INTEGER_RANGES["long"]:
            return obj
        case int() if is_year_month(type_) and not isinstance(obj, bool):
            # A range looks a subclass of int up number by number.
            return Months(obj) if int(obj) in INTEGER_RANGES["int"] else _refuse(obj, type_)
        case _:
            return _refuse(obj, type_)


def _python_types(type_: Type) -> tuple[type, ...]:
    if is_integer(type_):
        return (int,)
    if is_float(type_):
        return (float, int)
    if isinstance(type_, DecimalType):
        return (Decimal, int)
    return {"bool": (bool,), "string": (str,), "date": (date,)}.get(str(type_), (datetime,))


def _fields_by_name(obj: AnyObject, type_: Record) -> Mapping[str, AnyObject]:
    """The fields of a mapping, data class or named tuple, or those of a plain tuple in order."""
    by_name: Mapping[str, AnyObject]
    if dataclasses.is_dataclass(obj):
        by_name = {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}
    elif hasattr(obj, "_asdict"):
        by_name = obj._asdict()
    elif isinstance(obj, tuple) and len(obj) == len(type_.fields):
        by_name = dict(zip(type_.names, obj, strict=True))
    else:
        by_name = obj if isinstance(obj, Mapping) else _refuse(obj, type_)
    missing = [name for name in type_.names if name not in by_name]
    if missing:
        raise ValueError(f'{obj!r} has no "{missing[0]}", which {type_} needs')
    return by_name


def _elements(obj: AnyObject, type_: Type) -> list[AnyObject]:
    if isinstance(obj, np.ndarray):
        return list(obj.tolist())
    if isinstance(obj, list | tuple | set | frozenset):
        return list(obj)
    return _refuse(obj, type_)


def _untyped_value(obj: AnyObject) -> Value:
    """The value for a Python object when no type is given."""
    match obj:
        case np.generic():
            return _untyped_value(obj.item())
        case RecordValue():
            return RecordValue.of(obj.names_, [_untyped_value(part) for part in obj.values_])
        case Mapping():
            return RecordValue([(str(name), _untyped_value(part)) for name, part in obj.items()])
        case set() | frozenset() | Bag():
            return Bag([_untyped_value(part) for part in obj])
        case list():
            return [_untyped_value(part) for part in obj]
        case tuple():
            return tuple([_untyped_value(part) for part in obj])
        case _:
            return _canonical_scalar(obj)


def _canonical_scalar(obj: AnyObject) -> Value:
    try:
        encode(obj)
    except InternalError as problem:
        raise ValueError(str(problem)) from None
    return canonical(obj)


def _refuse(obj: AnyObject, type_: Type) -> NoReturn:
    raise ValueError(f"{obj!r} is not a value of type {type_}")


# --- Types of rows ---


_SCALARS: tuple[tuple[type, model.Type], ...] = (
    (bool, model.BOOL),
    (int, model.LONG),
    (float, model.DOUBLE),
    (str, model.STRING),
    (dt.datetime, model.TIMESTAMP),
    (dt.date, model.DATE),
)


def row_type(data: AnyObject, name: str) -> model.Type:
    """The type of a row of a pandas or Arrow table, or of a list of rows."""
    if isinstance(data, list):
        return _common_type(data, name)
    return table_type(_arrow_schema(data, name), name)


def arrow_table(frame: AnyObject, name: str, code: str = "R208") -> AnyObject:
    """A pandas frame as an Arrow table; raises if a column has objects without an MRQL type."""
    with _name_bad_column(frame, name, code):
        return pa.Table.from_pandas(frame, preserve_index=False)


@contextmanager
def _name_bad_column(frame: AnyObject, name: str, code: str) -> Iterator[None]:
    """On failure, raise an error that names the column of a pandas frame that Arrow cannot hold."""
    try:
        yield
    except pa.ArrowException:
        hint = "Give the column values of one basic type, or leave it out."
        for column, values in frame.items():
            try:
                pa.array(values, from_pandas=True)
            except pa.ArrowException as problem:
                kinds = sorted({type(value).__name__ for value in values if value is not None})
                problem_text = f"objects that no type holds ({', '.join(kinds[:5])})"
                message = f'column "{column}" of "{name}" has {problem_text}'
                raise DataError(code, message, hint=hint) from problem
        raise


def _arrow_schema(data: AnyObject, name: str) -> AnyObject:
    if isinstance(data, pa.Table):
        return data.schema
    if hasattr(data, "dtypes") and hasattr(data, "to_numpy"):
        with _name_bad_column(data, name, "R208"):
            return pa.Schema.from_pandas(data, preserve_index=False)
    message = f"data of type {type(data).__name__} cannot be registered"
    hint = "Give a DataFrame of Spark or pandas, an Arrow table, or a list of rows."
    raise DataError("R208", message, hint=hint)


def table_type(schema: AnyObject, name: str) -> model.Type:
    """The type of a row of a table with an Arrow schema."""
    try:
        return struct_type(list(schema))
    except NoSuchType as problem:
        message = f'column "{problem.path}" of "{name}" has type {problem.arrow}'
        hint = "Cast the column to another type, or leave it out."
        raise DataError("R208", message, hint=hint) from None


def _common_type(rows: Iterable[AnyObject], name: str) -> model.Type:
    """The least common type of all values."""
    common: model.Type = model.NOTHING
    for number, row in enumerate(rows):
        row_type_ = _value_type(row, name)
        joined = join(common, row_type_)
        if joined is None:
            message = f'row {number} of "{name}" has type {row_type_}, the rows before it {common}'
            hint = "Give rows of one type, or say it: register(name, rows, type=...)."
            raise DataError("R208", message, hint=hint)
        for with_field, without_field in ((common, row_type_), (row_type_, common)):
            if (lost := _lost_field(with_field, joined)) and without_field != model.NOTHING:
                message = f'some rows of "{name}" have the field "{lost}", and row {number} '
                message += "has not" if with_field == common else "is the first with it"
                hint = "Write None where a field is missing, or say the type of the rows: type=..."
                raise DataError("R208", message, hint=hint)
        common = joined
    return common


def _lost_field(type_: model.Type, joined: model.Type) -> str | None:
    """A record field that the join with the other rows' type has dropped, if any."""
    match type_, joined:
        case model.Record(), model.Record():
            fields = dict(joined.fields)
            for field, own in type_.fields:
                lost = field if field not in fields else _lost_field(own, fields[field])
                if lost is not None:
                    return lost
        case model.Tuple(items), model.Tuple(others):
            pairs = zip(items, others, strict=False)
            return next((lost for pair in pairs if (lost := _lost_field(*pair))), None)
        case model.Collection(element=own), model.Collection(element=other):
            return _lost_field(own, other)
        case _:
            pass
    return None


def _value_type(value: AnyObject, name: str) -> model.Type:
    if value is None:
        return model.NOTHING
    for python, type_ in _SCALARS:
        if isinstance(value, python):
            return type_
    match value:
        case Decimal():
            return model.DECIMAL
        case tuple():
            return model.Tuple(tuple(_value_type(item, name) for item in value))
        case Mapping():
            fields = [(str(key), _value_type(item, name)) for key, item in value.items()]
            return model.Record(tuple(fields))
        case list():
            return model.list_of(_common_type(value, name))
        case set() | frozenset():
            return model.bag(_common_type(value, name))
        case _:
            message = f'a value of "{name}" is a {type(value).__name__}'
            hint = "Give it another form, or say the type: register(name, rows, type=...)."
            raise DataError("R208", message, hint=hint)
