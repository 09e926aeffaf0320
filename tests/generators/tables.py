"""The tables that random queries are about: their types, and random small contents.

Nulls, duplicates, empty tables, NaN, both zeros, infinities and odd strings are all in them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Collection,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
)
from incmrql.types.model import Basic as BasicType
from incmrql.types.model import Decimal as DecimalType
from incmrql.types.scope import Catalog
from incmrql.values import Bag, Value
from incmrql.values import Record as RecordValue

PRICE = DecimalType(10, 2)

TABLES: Mapping[str, Record] = {
    "R": Record((("A", INT), ("B", INT), ("C", DOUBLE), ("S", STRING))),
    "S": Record((("A", INT), ("D", DOUBLE), ("T", STRING))),
    "N": Record((("K", INT), ("items", bag(Record((("v", INT), ("w", DOUBLE))))))),
    "W": Record(
        (
            ("id", LONG),
            ("flag", BOOL),
            ("day", DATE),
            ("at", TIMESTAMP),
            ("price", PRICE),
            ("pair", Tuple((INT, STRING))),
            ("marks", list_of(INT)),
        )
    ),
}
"""The type of a row of each table."""

CATALOG = Catalog(arguments=(), registered={name: (row, False) for name, row in TABLES.items()})
"""The tables as registered sources."""

MOST_ROWS = 4

_NUMBERS: Mapping[str, tuple[int, ...]] = {
    "int": (2**31 - 1, -(2**31)),
    "long": (2**63 - 1, -(2**63), 2**53 + 1),
}
_DOUBLES = (0.0, -0.0, 0.1, 0.5, 1.5, -2.5, 1e308, float("nan"), float("inf"), float("-inf"))
_STRINGS = ("", "a", "b", "ab", "A", "1", "2.5", "é", "a b", "\U00010000", "x\ty", '"', "null")
_DAYS = (datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), datetime.date(2026, 1, 31))


def tables(rows: int = MOST_ROWS) -> st.SearchStrategy[dict[str, Bag]]:
    """Contents for every table."""
    return st.fixed_dictionaries({name: _bags(row, rows) for name, row in TABLES.items()})


def values(type_: Type, size: int = 2) -> st.SearchStrategy[Value]:
    """Values of a type, null among them; few of each, so that rows often agree."""
    return st.one_of(*[_present(type_, size)] * 5, st.none())


def _present(type_: Type, size: int) -> st.SearchStrategy[Any]:
    match type_:
        case BasicType(name):
            return _basic(name)
        case DecimalType(_, scale):
            return st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-scale))
        case Tuple(items):
            return st.tuples(*(values(item, size) for item in items))
        case Record(fields):
            inner = st.tuples(*(values(field, size) for _, field in fields))
            return inner.map(lambda parts: RecordValue.of(type_.names, parts))
        case Collection("bag", element):
            return _bags(element, size)
        case Collection(_, element):
            return st.lists(values(element, size), max_size=size)
        case _:
            raise AssertionError(type_)


def _basic(name: str) -> st.SearchStrategy[Any]:
    match name:
        case "bool":
            return st.booleans()
        case "int" | "long":
            return st.one_of(*[st.integers(0, 3)] * 8, st.sampled_from(_NUMBERS[name]))
        case "double":
            return st.one_of(st.integers(-1, 2).map(float), st.sampled_from(_DOUBLES))
        case "string":
            return st.sampled_from(_STRINGS)
        case "date":
            return st.sampled_from(_DAYS)
        case "timestamp":
            zone = datetime.UTC
            start = datetime.datetime(2026, 1, 31, 10, tzinfo=zone)
            return st.integers(-2, 2).map(lambda n: start + datetime.timedelta(hours=13 * n))
        case _:
            raise AssertionError(name)


def _bags(element: Type, size: int) -> st.SearchStrategy[Bag]:
    """Bags of a few values, some of them several times."""
    present = _present(element, 2) if isinstance(element, Record) else values(element)
    return st.lists(present, max_size=size).flatmap(_with_duplicates)


def _with_duplicates(rows: list[Value]) -> st.SearchStrategy[Bag]:
    if not rows:
        return st.builds(Bag)
    again = st.lists(st.sampled_from(rows), max_size=1)
    return again.map(lambda more: Bag([*rows, *more]))
