"""What is printed is a query, and its answer is printed the same."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from incmrql.values import Bag, Data, Record, Value, show
from tests.cli.commands import run_query
from tests.values import strategies as values

Values: TypeAlias = st.SearchStrategy[Any]

DECLARED = "data Tree = Leaf: long | Fork: (Tree, Tree) | Named: < name: string > | Empty: (); "
NAMES = ("A", "B", "name", "_x1", "select", "group", "in", "true", "null")


def decimals() -> Values:
    """Decimals of one scale, as a column of a table has them."""
    digits = st.one_of(st.integers(-200, 200), st.integers(-(10**38) + 1, 10**38 - 1))
    return st.builds(lambda n: Decimal((n < 0, Decimal(abs(n)).as_tuple().digits, -2)), digits)


def trees() -> Values:
    leaves = st.one_of(
        values.integers().map(lambda n: Data("Leaf", 0, n)),
        values.texts().map(lambda name: Data("Named", 2, Record({"name": name}))),
        st.just(Data("Empty", 3, ())),
    )
    return st.recursive(leaves, lambda inner: st.tuples(inner, inner).map(_fork), max_leaves=4)


def _fork(sides: tuple[Value, Value]) -> Data:
    return Data("Fork", 1, sides)


def xml() -> Values:
    def element(children: Values) -> Values:
        attributes = st.dictionaries(st.sampled_from("abc"), values.texts(), max_size=2)
        return st.builds(
            lambda tag, pairs, inner: Data("Node", 0, (tag, Bag(pairs.items()), inner)),
            st.sampled_from(["a", "b-c"]), attributes, st.lists(children, max_size=3),
        )  # fmt: skip

    text = values.texts().map(lambda content: Data("CData", 1, content))
    return st.recursive(text, element, max_leaves=4)


def json() -> Values:
    def grow(inner: Values) -> Values:
        fields = st.dictionaries(values.texts(), inner, max_size=3)
        return st.one_of(
            fields.map(lambda members: Data("JObject", 0, Bag(members.items()))),
            st.lists(inner, max_size=3).map(lambda items: Data("JArray", 1, items)),
        )

    scalars = st.one_of(
        values.texts().map(lambda text: Data("Jstring", 2, text)),
        values.integers().map(lambda n: Data("Jlong", 3, n)),
        values.floats().map(lambda x: Data("Jdouble", 4, x)),
        st.booleans().map(lambda flag: Data("Jbool", 5, flag)),
        st.just(Data("Jnull", 6, ())),
    )
    return st.recursive(scalars, grow, max_leaves=5)


def columns() -> st.SearchStrategy[Values]:
    """Strategies that give values of one type each."""
    scalars = [
        *[st.booleans(), values.integers(), values.floats(), decimals(), values.texts()],
        *[values.dates(), values.timestamps(), trees(), xml(), json()],
    ]
    return st.recursive(st.sampled_from(scalars), _grow, max_leaves=5)


def _grow(inner: st.SearchStrategy[Values]) -> st.SearchStrategy[Values]:
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: st.tuples(*parts)),
        inner.map(lambda column: st.lists(column, max_size=3)),
        inner.map(lambda column: st.lists(column, max_size=3).map(Bag)),
        st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3).map(_records),
        inner.map(lambda column: st.one_of(st.none(), column)),
    )


def _records(fields: dict[str, Values]) -> Values:
    """Records whose fields stand in one order, which is part of their type."""
    return st.tuples(*fields.values()).map(lambda row: Record.of(tuple(fields), row))


@given(columns().flatmap(lambda column: column))
def test_what_is_printed_reads_back(value: Value) -> None:
    printed = show(value)
    assert run_query(DECLARED + printed).answer == printed


@given(columns().flatmap(lambda column: st.lists(column, min_size=1, max_size=3)))
def test_what_is_printed_is_equal(column: list[Value]) -> None:
    """Equal and not only alike: a list is compared by the identity of its elements."""
    printed = show(column)
    again = run_query(DECLARED + printed).answer
    assert run_query(f"{DECLARED} {printed} = {again}").answer == "true"


@given(values.decimals())
def test_a_decimal_of_any_scale_reads_back(number: Decimal) -> None:
    assert run_query(show(number)).answer == show(number)
