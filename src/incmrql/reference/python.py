"""Python objects and code of the user: objects to values, calls, and types of what Python brings.

    from_python(object, type) -> value of that type, or ValueError

Nothing is converted that Python itself would not take for it: an int may be a double, but a
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
    JSON,
    Any,
    Basic,
    Collection,
    Data,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
    is_float,
    is_integer,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Value, canonical, encode, sort_values
from incmrql.values import Data as DataValue
from incmrql.values import Record as RecordValue

# --- Calls ---


@contextmanager
def user_code() -> Iterator[None]:
    """What the code prints goes to stderr, as stdout has the answers and nothing else."""
    with redirect_stdout(sys.stderr):
        yield


def describe_exception(problem: BaseException) -> str:
    """`raised KeyError: 3`, on one line."""
    text = " ".join(str(problem).split())
    return f"raised {type(problem).__name__}" + (f": {text}" if text else "")


# --- Objects to values ---


def from_python(given: AnyObject, type_: Type, *, exact: bool = False) -> Value:
    """The value of a type that a Python object stands for; ValueError if it is none.

    Fields that a record type does not have are left out, unless the match has to be `exact`.
    """
    plain = given.item() if isinstance(given, np.generic) else given
    match type_:
        case _ if plain is None:
            return None
        case Any():
            return _natural(plain)
        case Basic() | DecimalType():
            return _scalar(plain, type_)
        case Tuple(items):
            parts = plain if isinstance(plain, tuple | list) else _refuse(plain, type_)
            if len(parts) != len(items):
                _refuse(plain, type_)
            pairs = zip(parts, items, strict=True)
            return tuple([from_python(part, item, exact=exact) for part, item in pairs])
        case Record(fields):
            named = _named(plain, type_)
            if exact and len(named) > len(fields):
                surplus = next(name for name in named if name not in type_.names)
                raise ValueError(f'there is no field "{surplus}" in {type_}')
            values = [from_python(named[name], part, exact=exact) for name, part in fields]
            return RecordValue.of(type_.names, values)
        case Collection(_, element):
            values = [from_python(part, element, exact=exact) for part in _elements(plain, type_)]
            is_set = isinstance(plain, set | frozenset | Bag)
            return collection(type_, sort_values(values) if is_set else values)
        case Data():
            if isinstance(plain, DataValue):
                return plain
            return to_json(_natural(plain)) if type_ == JSON else _refuse(plain, type_)
        case Nothing() | Function():
            return _refuse(plain, type_)
        case _:
            assert_never(type_)


def _scalar(given: AnyObject, type_: Type) -> Value:
    """A scalar of exactly this kind, within the range of its type."""
    kind = _kind(type_)
    # A bool is an int and a datetime a date to Python, but not to us.
    exact = all(isinstance(given, sub) == (sub in kind) for sub in (bool, datetime))
    if not (isinstance(given, kind) and exact):
        _refuse(given, type_)
    try:
        number: AnyObject = float(given) if is_float(type_) else given  # type: ignore[arg-type]
        value = fit_to_type(Decimal(number) if isinstance(type_, DecimalType) else number, type_)
    except ArithmeticError:
        _refuse(given, type_)
    return canonical(value) if value is not None else _refuse(given, type_)


def _kind(type_: Type) -> tuple[type, ...]:
    if is_integer(type_):
        return (int,)
    if is_float(type_):
        return (float, int)
    if isinstance(type_, DecimalType):
        return (Decimal, int)
    return {"bool": (bool,), "string": (str,), "date": (date,)}.get(str(type_), (datetime,))


def _named(given: AnyObject, type_: Record) -> Mapping[str, AnyObject]:
    """The fields of a mapping, data class or named tuple, or those of a plain tuple in order."""
    named: Mapping[str, AnyObject]
    if dataclasses.is_dataclass(given):
        named = {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    elif hasattr(given, "_asdict"):
        named = given._asdict()
    elif isinstance(given, tuple) and len(given) == len(type_.fields):
        named = dict(zip(type_.names, given, strict=True))
    else:
        named = given if isinstance(given, Mapping) else _refuse(given, type_)
    missing = [name for name in type_.names if name not in named]
    if missing:
        raise ValueError(f'{given!r} has no "{missing[0]}", which {type_} needs')
    return named


def _elements(given: AnyObject, type_: Type) -> list[AnyObject]:
    if isinstance(given, np.ndarray):
        return list(given.tolist())
    if isinstance(given, list | tuple | set | frozenset):
        return list(given)
    return _refuse(given, type_)


def _natural(given: AnyObject) -> Value:
    """The value that a Python object most plainly is."""
    match given:
        case np.generic():
            return _natural(given.item())
        case RecordValue():
            return RecordValue.of(given.names_, [_natural(part) for part in given.values_])
        case Mapping():
            return RecordValue([(str(name), _natural(part)) for name, part in given.items()])
        case set() | frozenset() | Bag():
            return Bag([_natural(part) for part in given])
        case list():
            return [_natural(part) for part in given]
        case tuple():
            return tuple([_natural(part) for part in given])
        case _:
            return _checked(given)


def _checked(given: AnyObject) -> Value:
    try:
        encode(given)
    except InternalError as problem:
        raise ValueError(str(problem)) from None
    return canonical(given)


def _refuse(given: AnyObject, type_: Type) -> NoReturn:
    raise ValueError(f"{given!r} is not a value of type {type_}")


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
    """The type of a row of a table of pandas or Arrow, or of rows in a list."""
    if isinstance(data, list):
        return _common(data, name)
    return table_type(_arrow_schema(data, name), name)


def arrow_table(frame: AnyObject, name: str, code: str = "R208") -> AnyObject:
    """A pandas frame as an Arrow table; objects that no type of the language holds are refused."""
    with _objects_refused(frame, name, code):
        return pa.Table.from_pandas(frame, preserve_index=False)


@contextmanager
def _objects_refused(frame: AnyObject, name: str, code: str) -> Iterator[None]:
    """Name the column of a pandas frame that Arrow cannot hold."""
    try:
        yield
    except pa.ArrowException:
        hint = "Give the column values of one basic type, or leave it out."
        for column, values in frame.items():
            try:
                pa.array(values, from_pandas=True)
            except pa.ArrowException as problem:
                kinds = sorted({type(value).__name__ for value in values if value is not None})
                what = f"objects that no type holds ({', '.join(kinds[:5])})"
                message = f'column "{column}" of "{name}" has {what}'
                raise DataError(code, message, hint=hint) from problem
        raise


def _arrow_schema(data: AnyObject, name: str) -> AnyObject:
    if isinstance(data, pa.Table):
        return data.schema
    if hasattr(data, "dtypes") and hasattr(data, "to_numpy"):
        with _objects_refused(data, name, "R208"):
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


def _common(rows: Iterable[AnyObject], name: str) -> model.Type:
    """The least type that all values have."""
    common: model.Type = model.NOTHING
    for number, row in enumerate(rows):
        own = _value_type(row, name)
        joined = join(common, own)
        if joined is None:
            message = f'row {number} of "{name}" has type {own}, the rows before it {common}'
            hint = "Give rows of one type, or say it: register(name, rows, type=...)."
            raise DataError("R208", message, hint=hint)
        for some, other in ((common, own), (own, common)):
            if (lost := _lost_field(some, joined)) and other != model.NOTHING:
                message = f'some rows of "{name}" have the field "{lost}", and row {number} '
                message += "has not" if some == common else "is the first with it"
                hint = "Write None where a field is missing, or say the type of the rows: type=..."
                raise DataError("R208", message, hint=hint)
        common = joined
    return common


def _lost_field(type_: model.Type, joined: model.Type) -> str | None:
    """A field of records that the join with another type has dropped."""
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
            return model.list_of(_common(value, name))
        case set() | frozenset():
            return model.bag(_common(value, name))
        case _:
            message = f'a value of "{name}" is a {type(value).__name__}'
            hint = "Give it another form, or say the type: register(name, rows, type=...)."
            raise DataError("R208", message, hint=hint)
