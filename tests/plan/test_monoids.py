"""The laws of every monoid; a law that is not claimed of one has a counterexample."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incmrql.errors import InternalError
from incmrql.plan.changes import Weighted
from incmrql.plan.monoids import (
    ABSENT,
    AND,
    BAG,
    COUNT,
    FLOATS,
    INVARIANT,
    LIST,
    MAX,
    MIN,
    OR,
    PRODUCT,
    SUM,
    Monoid,
    groups,
    keyed_map,
    product,
    user_monoid,
)
from incmrql.reference import Environment, new_world
from incmrql.values import Bag, ExactSum, Record, encode
from tests.plan.stepping import typed_script

INTEGERS = st.integers(-3, 3)
VALUES = st.sampled_from([None, -1, 0, 1, 2.0, math.nan, math.inf, "a", (1, "b"), Bag([1])])
EXACT = st.builds(
    ExactSum,
    st.integers(-(2**70), 2**70),
    INTEGERS,
    INTEGERS,
    INTEGERS,
)
BAGS = st.lists(st.tuples(st.sampled_from([1, 2, "a", None]), INTEGERS), max_size=4).map(Weighted)


def keys_to(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values by key."""
    dictionaries = st.dictionaries(st.sampled_from([1, "k", None]), values, max_size=3)
    return dictionaries.map(lambda entries: {encode(k): (k, v) for k, v in entries.items()})


def declared_monoid(declared: str, **laws: Any) -> Monoid:
    script = typed_script(f"{declared}; 1;")
    (aggregation,) = script.aggregations.values()
    return user_monoid(aggregation, Environment(new_world(script)), **laws)


JOINED = declared_monoid("aggregation joined(\\(x: string, y: string): string. x + y, ''): string")
ADDED = declared_monoid(
    "aggregation added(\\(x: long, y: long): long. x + y, 0, \\(x: long): long. x, "
    "\\(x: long): long. -x): long",
    commutative=True,
)


@dataclass(frozen=True)
class Case:
    """A monoid, and its elements."""

    monoid: Monoid
    elements: st.SearchStrategy[Any]


CASES = {
    "count": Case(COUNT, INTEGERS),
    "sum": Case(SUM, st.integers() | st.fractions()),
    "sum of doubles": Case(FLOATS, EXACT),
    "product of numbers": Case(PRODUCT, INTEGERS | st.fractions(-2, 2, max_denominator=3)),
    "least": Case(MIN, VALUES),
    "greatest": Case(MAX, VALUES),
    "and": Case(AND, st.booleans()),
    "or": Case(OR, st.booleans()),
    "bag": Case(BAG, BAGS),
    "list": Case(LIST, st.lists(VALUES, max_size=3)),
    "pair": Case(product(SUM, BAG), st.tuples(INTEGERS, BAGS)),
    "pair without an inverse": Case(product(SUM, MIN), st.tuples(INTEGERS, VALUES)),
    "idempotent pair": Case(product(MIN, OR), st.tuples(VALUES, st.booleans())),
    "pair that keeps an order": Case(product(MIN, LIST), st.tuples(VALUES, st.lists(VALUES))),
    "nothing at all": Case(product(), st.just(())),
    "by key, least": Case(keyed_map(MIN), keys_to(VALUES)),
    "by key, sum": Case(keyed_map(SUM), keys_to(INTEGERS)),
    "by key, lists": Case(keyed_map(LIST), keys_to(st.lists(INTEGERS, max_size=2))),
    "by key, by key": Case(keyed_map(keyed_map(SUM)), keys_to(keys_to(INTEGERS))),
    "groups of sums": Case(
        groups(SUM), keys_to(st.tuples(INTEGERS, INTEGERS).filter(lambda pair: any(pair)))
    ),
    "groups of bags": Case(
        groups(BAG), keys_to(st.tuples(INTEGERS, BAGS).filter(lambda pair: pair[0] or pair[1]))
    ),
    "user, only a monoid": Case(JOINED, st.text("ab", max_size=2)),
    "user, with an inverse": Case(ADDED, INTEGERS),
}
LAWS = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def plain(value: Any) -> Any:
    """A form that is equal for the same elements only: 1 is not True, and NaN is NaN."""
    match value:
        case Weighted():
            return {key: weight for key, (_, weight) in value.rows.items()}
        case dict():
            return {key: (encode(k), plain(v)) for key, (k, v) in value.items()}
        case tuple():
            return tuple(map(plain, value))
        case list():
            return list(map(plain, value))
        case int() | Fraction() if not isinstance(value, bool):
            return Fraction(value)
        case ExactSum():
            return value
        case _:
            return encode(value)


def same(one: Any, other: Any) -> bool:
    equal: bool = plain(one) == plain(other)
    return equal


@LAWS
@given(data=st.data())
def test_merge_is_associative(case: Case, data: st.DataObject) -> None:
    a, b, c = (data.draw(case.elements) for _ in range(3))
    merge = case.monoid.merge
    assert same(merge(merge(a, b), c), merge(a, merge(b, c)))


@LAWS
@given(data=st.data())
def test_zero_changes_nothing(case: Case, data: st.DataObject) -> None:
    a, monoid = data.draw(case.elements), case.monoid
    assert same(monoid.merge(monoid.zero, a), a)
    assert same(monoid.merge(a, monoid.zero), a)


@LAWS
@given(data=st.data())
def test_merge_changes_neither(case: Case, data: st.DataObject) -> None:
    a, b = data.draw(case.elements), data.draw(case.elements)
    before, monoid = (plain(a), plain(b), plain(case.monoid.zero)), case.monoid
    monoid.merge(monoid.merge(monoid.zero, a), b)
    assert (plain(a), plain(b), plain(monoid.zero)) == before


@LAWS
@given(data=st.data())
def test_an_inverse_takes_away(case: Case, data: st.DataObject) -> None:
    a, b, monoid = data.draw(case.elements), data.draw(case.elements), case.monoid
    if monoid.inverse is None:
        with pytest.raises(InternalError, match="has no inverse"):
            monoid.minus(a, b)
        return
    assert same(monoid.merge(a, monoid.inverse(a)), monoid.zero)
    assert same(monoid.merge(monoid.inverse(a), a), monoid.zero)
    assert same(monoid.minus(monoid.merge(a, b), b), a)


def exists(case: Case, breaks: Callable[[Any, Any], bool]) -> bool:
    """Whether some of many pairs of elements break a law."""
    outcomes = []

    @settings(max_examples=max(30, settings().max_examples))  # or nothing is found that exists
    @given(a=case.elements, b=case.elements)
    def record_outcome(a: Any, b: Any) -> None:
        outcomes.append(breaks(a, b))

    record_outcome()
    return any(outcomes)


@LAWS
def test_commutative_says_whether_the_order_matters(case: Case) -> None:
    merge = case.monoid.merge
    matters = exists(case, lambda a, b: not same(merge(a, b), merge(b, a)))
    assert case.monoid.commutative is not matters


@LAWS
def test_idempotent_says_whether_twice_is_once(case: Case) -> None:
    merge = case.monoid.merge
    differs = exists(case, lambda a, _: not same(merge(a, a), a))
    assert case.monoid.idempotent is not differs


NOT_INVERTIBLE = {
    "product of numbers": 0,
    "least": 1,
    "greatest": 1,
    "and": False,
    "or": True,
    "list": [1],
    "pair without an inverse": (0, 1),
    "idempotent pair": (1, True),
    "pair that keeps an order": (1, []),
    "by key, least": {encode(1): (1, None)},
    "by key, sum": {encode(1): (1, 0)},
    "by key, lists": {encode(1): (1, [])},
    "by key, by key": {encode(1): (1, {})},
    "user, only a monoid": "a",
}


def test_every_other_monoid_has_an_inverse() -> None:
    without = {name for name, case in CASES.items() if not case.monoid.invertible}
    assert without == set(NOT_INVERTIBLE)


@pytest.mark.parametrize("name", NOT_INVERTIBLE)
@given(data=st.data())
def test_some_element_has_no_inverse(name: str, data: st.DataObject) -> None:
    monoid, other = CASES[name].monoid, data.draw(CASES[name].elements)
    assert not same(monoid.merge(NOT_INVERTIBLE[name], other), monoid.zero)


def test_what_does_not_change_merges_with_itself_only() -> None:
    row = Record({"K": 1})
    assert INVARIANT.merge(INVARIANT.zero, row) == row == INVARIANT.merge(row, row)
    assert INVARIANT.merge(row, ABSENT) == row
    assert INVARIANT.merge(ABSENT, ABSENT) is ABSENT
    assert (INVARIANT.idempotent, INVARIANT.invertible) == (True, False)
    with pytest.raises(InternalError, match="< K: 1 > and < K: 2 >"):
        INVARIANT.merge(row, Record({"K": 2}))


def test_a_sum_of_nothing_left_is_not_a_group_that_is_gone() -> None:
    """The paper's diminisher: {3, 0} without {3} is {0}, whose sum is the zero."""
    three, both = {encode(1): (1, (1, 3))}, {encode(1): (1, (2, 3))}
    assert groups(SUM).minus(both, three) == {encode(1): (1, (1, 0))}
    assert groups(SUM).minus(three, three) == {}


def test_a_change_that_keeps_the_number_of_rows_is_one() -> None:
    change = groups(SUM).merge({encode(1): (1, (1, 3))}, {encode(1): (1, (-1, -5))})
    assert change == {encode(1): (1, (0, -2))}


def test_least_and_greatest_skip_null() -> None:
    assert MIN.total([None, 2, 1, None]) == 1
    assert MAX.total([None, 2, 1, None]) == 2
    assert (MIN.total([]), MAX.total([None])) == (None, None)


def test_monoids_are_the_same_by_name() -> None:
    assert (
        product(SUM, keyed_map(MIN)) == product(SUM, keyed_map(MIN)) != product(SUM, keyed_map(MAX))
    )
    assert str(groups(product(SUM, BAG))) == "⇑ (count, (+, ⊎))"
    assert len({SUM, COUNT, MIN, product(SUM), product(SUM)}) == 4
