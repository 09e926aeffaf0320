"""Values in order, against a sorted list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import InternalError
from incmrql.plan.changes import Weighted
from incmrql.values import Value, encode, sort_values
from tests.oracle.ranked import BLOCK, Ranked, rank
from tests.oracle.tables import TableState

VALUES = st.integers(-400, 400) | st.sampled_from(["a", "b", None, 2.5, (1, "x")])


def ranked_of(values: list[Value]) -> Ranked:
    ranked = Ranked()
    for value in values:
        ranked.add(rank(value, None), value, 1)
    return ranked


@given(st.lists(VALUES), st.data())
def test_values_come_by_place(values: list[Value], data: st.DataObject) -> None:
    gone = data.draw(st.lists(st.sampled_from(values), unique_by=encode)) if values else []
    ranked = ranked_of([*values, *gone])
    for value in gone:
        ranked.add(rank(value, None), value, -1)
    expected = sort_values(values)
    assert ranked.total == len(expected)
    assert len(ranked) == len(set(map(encode, values)))
    start, stop = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))
    assert list(map(encode, ranked.span(start, stop))) == list(map(encode, expected[start:stop]))
    for place, value in enumerate(expected):
        assert encode(ranked.at(place)) == encode(value)


def test_many_values_are_many_blocks_and_few_are_read() -> None:
    numbers = [(n * 7919) % 5000 for n in range(5000)]
    ranked = ranked_of(list(numbers))
    assert len(ranked._blocks) > 5000 / BLOCK
    assert ranked.at(2500) == 2500
    assert list(ranked.span(4990, 4993)) == [4990, 4991, 4992]
    assert list(ranked.first(2)) == [0, 1]
    assert ranked.read == 6
    for number in numbers[:4990]:
        ranked.add(rank(number, None), number, -1)
    assert list(ranked.span(0, 10)) == sorted(numbers[4990:])
    for number in numbers[4990:]:
        ranked.add(rank(number, None), number, -1)
    assert (len(ranked), ranked.total, ranked._blocks, list(ranked)) == (0, 0, [], [])


def test_a_value_that_is_there_often_fills_many_places() -> None:
    ranked = Ranked()
    ranked.add(rank("b", None), "b", 3)
    ranked.add(rank("a", None), "a", 2)
    assert list(ranked.span(1, 4)) == ["a", "b", "b"]
    assert list(ranked.weights(1, 4)) == [("a", 1), ("b", 2)]
    assert ranked.add(rank("a", None), "a", 0) == 2


def test_keys_may_fall_while_values_rise() -> None:
    ranked = Ranked()
    for pair in (((1,), "b"), ((2,), "z"), ((2,), "a"), ((None,), "n")):
        ranked.add(rank(pair, (True,)), pair, 1)
    assert [value for _, value in ranked.span(0, 9)] == ["a", "z", "b", "n"]


def test_what_is_there_less_than_never_is_found_out() -> None:
    ranked = Ranked()
    ranked.add(rank(1, None), 1, -1)
    ranked.add(rank(2, None), 2, 2)
    with pytest.raises(InternalError, match="-1 times 1"):
        list(ranked.first(1))


@given(
    st.lists(VALUES.filter(lambda value: value is not None)),
    st.lists(st.tuples(VALUES, st.integers(0, 2))),
)
def test_a_change_can_be_given_back(values: list[Value], changes: list[tuple[Value, int]]) -> None:
    table = TableState(None)
    table.change(Weighted((value, 1) for value in values))
    table.commit()
    before = table.weights
    table.change(Weighted(changes))
    table.cancel()
    assert table.weights == before
    assert table.span(0, 99) == sort_values(values)


def test_a_table_tells_which_values_are_new_or_gone() -> None:
    table = TableState(())
    came = table.change(Weighted([(((), 1), 2), (((), None), 1)]))
    assert came == Weighted([(1, 1), (None, 1)])
    assert not table.change(Weighted([(((), 1), -1)]))
    assert table.change(Weighted([(((), 1), -1), (((), 2), 1)])) == Weighted([(1, -1), (2, 1)])


def test_a_table_of_values_leaves_nulls_out() -> None:
    table = TableState(None)
    assert table.change(Weighted([(None, 3), (1, 1)])) == Weighted([(1, 1)])
    assert table.span(0, 9) == [1]
