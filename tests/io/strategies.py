"""Random types, and rows of them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from hypothesis import strategies as st

from incmrql.types import model as t
from incmrql.types.model import Type
from incmrql.values import Bag, Record, Value
from incmrql.values.numbers import INTEGER_RANGES, normal, to_float32
from tests.io.trees import JSON_TREES, xml_trees

Values: TypeAlias = st.SearchStrategy[Any]

TEXTS = st.text(max_size=6) | st.text('",\n\r\t a', max_size=5)
DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.builds(t.Decimal, st.just(precision), st.integers(0, precision))
)
BASIC: st.SearchStrategy[Type] = st.one_of(
    st.sampled_from([t.Basic(name) for name in t.BASIC_NAMES]), DECIMALS
)
NAMES = st.one_of(st.sampled_from(["A", "B", "value", "_1"]), st.text(min_size=1, max_size=3))


def types() -> st.SearchStrategy[Type]:
    others: list[Type] = [t.ANY, t.XML, t.JSON, t.NOTHING, t.UNIT]
    leaves = BASIC | st.sampled_from(others)
    return st.recursive(leaves, _grow, max_leaves=5)


def records(field: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    return st.dictionaries(NAMES, field, min_size=1, max_size=3).map(
        lambda fields: t.Record(tuple(fields.items()))
    )


def tuples(item: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    return st.lists(item, min_size=2, max_size=3).map(lambda items: t.Tuple(tuple(items)))


def _grow(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    return st.one_of(inner.map(t.bag), inner.map(t.list_of), records(inner), tuples(inner))


def typed_rows(element: Type) -> st.SearchStrategy[list[Value]]:
    return st.lists(typed_values(element), max_size=4)


def typed_values(type_: Type) -> Values:
    """Values of a type, or null."""
    return st.none() | present(type_)


def present(type_: Type) -> Values:
    match type_:
        case t.Basic(name) if name in INTEGER_RANGES:
            kind = INTEGER_RANGES[name]
            return st.integers(kind.start, kind.stop - 1)
        case t.Basic():
            return _SCALARS[type_]
        case t.Decimal(precision, scale):
            most = 10**precision - 1
            return st.integers(-most, most).map(lambda n: Decimal((n < 0, _digits(n), -scale)))
        case t.Tuple(items):
            return st.tuples(*map(typed_values, items))
        case t.Record(fields):
            inner = st.tuples(*(typed_values(field) for _, field in fields))
            return inner.map(lambda values: Record.of(type_.names, values))
        case t.Collection(shape, element):
            several = st.lists(typed_values(element), max_size=3)
            return several.map(Bag) if shape == "bag" else several
        case t.Data("XML"):
            return xml_trees(1)
        case t.Data():
            return JSON_TREES
        case t.Any():
            flags = st.lists(st.booleans()).map(Bag)
            return st.one_of(st.integers(-5, 5), TEXTS, flags, JSON_TREES)
        case _:
            return st.none()


def _digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


_SCALARS: dict[Type, Values] = {
    t.BOOL: st.booleans(),
    t.FLOAT: st.floats(width=32).map(to_float32),
    t.DOUBLE: st.floats().map(normal),
    t.STRING: TEXTS,
    t.DATE: st.dates(date.min, date.max),
    t.TIMESTAMP: st.datetimes(datetime.min, datetime.max, timezones=st.just(UTC)),
}
