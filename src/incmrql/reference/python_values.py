"""Python objects to values: results of Python functions, registered rows, rows of parsers.

    from_python(object, type) -> value of that type, or ValueError

Nothing is converted that Python itself would not take for it: an int may be a double, but a
string is never a number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any as AnyObject
from typing import NoReturn, assert_never

import numpy as np

from incmrql.diagnostics import InternalError
from incmrql.formats import to_json
from incmrql.reference.operators import collection, fitted
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
from incmrql.values import Bag, Value, canonical, encode, ordered
from incmrql.values import Data as DataValue
from incmrql.values import Record as RecordValue


def from_python(given: AnyObject, type_: Type) -> Value:
    """The value of a type that a Python object stands for; ValueError if it is none."""
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
            return tuple([from_python(part, item) for part, item in zip(parts, items, strict=True)])
        case Record(fields):
            named = _named(plain, type_)
            return RecordValue.of(type_.names, [from_python(named[n], t) for n, t in fields])
        case Collection(_, element):
            values = [from_python(part, element) for part in _elements(plain, type_)]
            is_set = isinstance(plain, set | frozenset | Bag)
            return collection(type_, ordered(values) if is_set else values)
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
        value = fitted(Decimal(number) if isinstance(type_, DecimalType) else number, type_)
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
