"""Diffusion and diminisher: the paper's laws, each under what it needs.

always                        T, replaced by T ⊗^ ΔT at its keys, is T ⊗ ΔT
⊕ idempotent, or ΔT has       T ⊗ (T ⊗^ ΔT) = T ⊗ (T ⊗ ΔT)
all keys of T
no x ⊕ y = y at a key         (X ⊗ Y) ⊗~ Y = X
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.plan.changes import Weighted
from incmrql.plan.monoids import (
    AND,
    BAG,
    COUNT,
    FLOATS,
    INVARIANT,
    MAX,
    MIN,
    OR,
    SUM,
    KeyedValues,
    Monoid,
    keyed_map,
    product,
)
from incmrql.values import encode, exact_sum
from tests.effort import fewer
from tests.paper.carriers import diffusion, diminisher, replace_at_keys, same

numbers = st.integers(-2, 3)
VALUES: dict[str, tuple[Monoid, st.SearchStrategy[Any]]] = {
    "sum": (SUM, numbers.map(Fraction)),
    "count": (COUNT, st.integers(0, 3)),
    "doubles": (FLOATS, st.lists(st.sampled_from((0.1, 1e16, -1e16, 1.0))).map(exact_sum)),
    "bag": (BAG, st.lists(numbers, max_size=3).map(lambda xs: Weighted((x, 1) for x in xs))),
    "max": (MAX, numbers),
    "min": (MIN, st.none() | numbers),
    "and": (AND, st.booleans()),
    "or": (OR, st.booleans()),
    "invariant": (INVARIANT, st.just("same")),
    "average": (product(SUM, COUNT), st.tuples(numbers.map(Fraction), st.integers(1, 3))),
    "group": (
        product(INVARIANT, product(SUM, COUNT)),
        st.tuples(st.just("k"), st.tuples(numbers.map(Fraction), st.integers(1, 3))),
    ),
}
INVERTIBLE = ("sum", "count", "doubles", "bag", "average", "group")
IDEMPOTENT = ("max", "min", "and", "or", "invariant")


def states(values: st.SearchStrategy[Any]) -> st.SearchStrategy[KeyedValues]:
    pairs = st.dictionaries(st.integers(0, 3), values, max_size=4)
    return pairs.map(lambda entries: {encode(k): (k, v) for k, v in entries.items()})


def draw_case(name: str, data: st.DataObject) -> tuple[Monoid, KeyedValues, KeyedValues]:
    monoid, values = VALUES[name]
    return keyed_map(monoid), data.draw(states(values)), data.draw(states(values))


@pytest.mark.parametrize("name", VALUES)
@fewer
@given(data=st.data())
def test_a_diffused_state_replaces_what_it_is_made_of(name: str, data: st.DataObject) -> None:
    merge, old, change = draw_case(name, data)
    after = replace_at_keys(old, diffusion(merge)(old, change))
    assert same(merge, after, merge.merge(old, change))


@pytest.mark.parametrize("name", VALUES)
@fewer
@given(data=st.data())
def test_a_diffused_state_has_the_keys_of_the_change_only(name: str, data: st.DataObject) -> None:
    merge, old, change = draw_case(name, data)
    assert diffusion(merge)(old, change).keys() == change.keys()


@pytest.mark.parametrize("name", IDEMPOTENT)
@fewer
@given(data=st.data())
def test_the_property_of_diffusion_where_nothing_counts_twice(
    name: str, data: st.DataObject
) -> None:
    merge, old, change = draw_case(name, data)
    assert merge.idempotent
    spread = merge.merge(old, diffusion(merge)(old, change))
    assert same(merge, spread, merge.merge(old, merge.merge(old, change)))


@pytest.mark.parametrize("name", VALUES)
@fewer
@given(data=st.data())
def test_the_property_of_diffusion_where_the_change_has_all_keys(
    name: str, data: st.DataObject
) -> None:
    merge, old, change = draw_case(name, data)
    old = {key: pair for key, pair in old.items() if key in change}
    spread = merge.merge(old, diffusion(merge)(old, change))
    assert same(merge, spread, merge.merge(old, merge.merge(old, change)))


@pytest.mark.parametrize("name", INVERTIBLE)
@fewer
@given(data=st.data())
def test_the_diminisher_takes_away_what_was_merged(name: str, data: st.DataObject) -> None:
    merge, kept, gone = draw_case(name, data)
    (part,) = merge.parts
    kept = {key: pair for key, pair in kept.items() if not _is_lost(part, key, pair[1], gone)}
    assert same(merge, diminisher(merge)(merge.merge(kept, gone), gone), kept)


def _is_lost(part: Monoid, key: bytes, value: Any, gone: KeyedValues) -> bool:
    """Whether x ⊕ y = y: the paper's proof overlooks it."""
    return key in gone and same(part, part.merge(value, gone[key][1]), gone[key][1])


@pytest.mark.parametrize("name", INVERTIBLE)
@fewer
@given(data=st.data())
def test_all_that_is_taken_away_leaves_the_zero(name: str, data: st.DataObject) -> None:
    merge, _, gone = draw_case(name, data)
    assert same(merge, diminisher(merge)(gone, gone), merge.zero)


@pytest.mark.parametrize("name", ["sum", "average"])
def test_groups_that_stay_and_groups_that_go_are_both_tried(name: str) -> None:
    """The interesting states of the law above exist."""
    one, other = VALUES[name][0], {"sum": Fraction(1), "average": (Fraction(0), 1)}[name]
    merge = keyed_map(one)
    kept, gone = ({encode(1): (1, other)} for _ in range(2))
    merged = merge.merge(kept, gone)
    assert same(merge, diminisher(merge)(merged, gone), kept)
    assert not same(merge, diminisher(merge)(merged, merged), kept)
