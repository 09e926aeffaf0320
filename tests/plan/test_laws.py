"""The laws of docs/theory.md that nodes follow, each on its own, by brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import DataError
from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import Groups, Input, Join, Linear, Merge
from incmrql.syntax.depth import deep_recursion
from incmrql.values import Record, Value, encode
from tests.effort import fewer
from tests.generators.stacked import stacked_shapes
from tests.oracle.states.base import JoinState
from tests.oracle.stepper import Stepper
from tests.plan.seeded import EVERY, history
from tests.plan.stepping import ALL, Batch, Run, all_at_once, deletions, insertions, r
from tests.plan.test_coverage import recorded_changes
from tests.plan.test_plan import over_folder

VALUES = st.one_of(st.integers(0, 2), st.none(), st.sampled_from([0.0, -0.0, float("nan"), "a"]))
BAGS = st.lists(st.tuples(VALUES, st.integers(-2, 2)), max_size=4).map(Weighted)
ROWS = st.builds(r, st.integers(0, 2), st.integers(0, 2), st.sampled_from([0.5, 1.0, float("nan")]))
CHANGES = st.lists(st.tuples(ROWS, st.integers(1, 2)), max_size=4).map(Weighted)


def plus(*bags: Weighted) -> Weighted:
    total = Weighted()
    for bag in bags:
        total.merge(bag)
    return total


def minus(one: Weighted, other: Weighted) -> Weighted:
    difference = one.copy()
    difference.merge(other, -1)
    return difference


@given(BAGS, BAGS, BAGS)
def test_weighted_bags_are_a_commutative_group(x: Weighted, y: Weighted, z: Weighted) -> None:
    assert plus(plus(x, y), z) == plus(x, plus(y, z))
    assert plus(x, y) == plus(y, x)
    assert plus(x, Weighted()) == x
    assert not minus(x, x)
    assert all(weight for _, weight in plus(x, y))


def test_weights_add_up_and_rows_of_weight_0_leave() -> None:
    twice = Weighted([("a", 1), ("b", 2), ("a", 1), ("b", -2)])
    assert list(twice) == [("a", 2)]
    assert twice.total == 2


def test_rows_are_the_same_by_their_bytes() -> None:
    nan = float("nan")
    assert len(Weighted([(nan, 1), (nan, -1)])) == 0
    assert len(Weighted([(None, 1), (None, 1)])) == 1
    assert len(Weighted([(1, 1), (1.0, 1), ("1", 1)])) == len({encode(1), encode(1.0), encode("1")})


def changes_of_nodes(stepper: Stepper, batch: Batch) -> list[Weighted]:
    """The change that every node emits in a batch."""
    with recorded_changes() as batches:
        stepper.step(batch)
    return batches[-1]


def batch_of(**streams: Weighted) -> Batch:
    return {name: list(rows) for name, rows in streams.items()}


@lru_cache
def planned_run(text: str) -> Run:
    return Run(text)


def place_of(run: Run, kind: type[object]) -> int:
    (place,) = [at for at, node in enumerate(run.plan.nodes) if isinstance(node, kind)]
    return place


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("select (x.A, x.C) from x in R where x.B > 0", Linear),
        ("select (x.A, v) from x in R, v in {x.A, x.B}", Linear),
        ("R union R", Merge),
    ],
)
@given(x=CHANGES, y=CHANGES)
def test_linear_nodes_are_additive(text: str, kind: type[object], x: Weighted, y: Weighted) -> None:
    run = planned_run(text)
    place = place_of(run, kind)
    both, one, other = (
        changes_of_nodes(run.fresh().stepper, batch_of(R=rows))[place]
        for rows in (plus(x, y), x, y)
    )
    assert both == plus(one, other)


def natural_join(left: Weighted, right: Weighted) -> Weighted:
    """All matching pairs with the products of their weights; null matches nothing."""
    return Weighted(
        ((one.S, one.A, other.C), times * weight)
        for one, times in left
        for other, weight in right
        if one.A is not None and one.A == other.B
    )


@given(x=CHANGES, more=CHANGES, less=st.data())
def test_joins_are_bilinear(x: Weighted, more: Weighted, less: st.DataObject) -> None:
    """The product rule, on a self-join: both sides change at once, and in both directions."""
    gone = Weighted((row, -less.draw(st.integers(0, weight))) for row, weight in x)
    change = plus(more, gone)
    run = planned_run("select (x.S, x.A, y.C) from x in R, y in R where x.A = y.B").fresh()
    place = place_of(run, Join)
    assert changes_of_nodes(run.stepper, batch_of(R=x))[place] == natural_join(x, x)
    change_of_join = changes_of_nodes(run.stepper, batch_of(R=change))[place]
    assert change_of_join == plus(
        natural_join(change, x), natural_join(x, change), natural_join(change, change)
    )
    assert change_of_join == minus(
        natural_join(plus(x, change), plus(x, change)), natural_join(x, x)
    )


def test_a_join_forgets_the_keys_that_are_gone() -> None:
    run = Run("select (x.S, x.A, y.C) from x in R, y in R where x.A = y.B")
    run.step(insertions(R=[r(1, 2), r(2, 1)]))
    run.step(deletions(R=[r(1, 2), r(2, 1)]))
    (state,) = [state for state in run.stepper._states if isinstance(state, JoinState)]
    assert state.sides == ({}, {})


def by_key(rows: Weighted) -> dict[Value, list[Record]]:
    groups: dict[Value, list[Record]] = {}
    for row, weight in rows:
        groups.setdefault(row.A, []).extend([row] * weight)
    return groups


ASKED: dict[str, Callable[[list[Record]], int]] = {
    "sum(x.B)": lambda rows: sum(row.B for row in rows),
    "count(x)": len,
    "max(x.B)": lambda rows: max(row.B for row in rows),
    "count(distinct(x.B))": lambda rows: len({row.B for row in rows}),
}


@pytest.mark.parametrize("head", ASKED)
@given(x=CHANGES, more=CHANGES, less=st.data())
def test_groups_emit_old_and_new_of_touched_keys_only(
    head: str, x: Weighted, more: Weighted, less: st.DataObject
) -> None:
    gone = Weighted((row, -less.draw(st.integers(0, weight))) for row, weight in x)
    change = plus(more, gone)
    run = planned_run(f"select (k, {head}) from x in R group by k: x.A").fresh()
    place = place_of(run, Groups)
    changes_of_nodes(run.stepper, batch_of(R=x))
    change_of_groups = changes_of_nodes(run.stepper, batch_of(R=change))[place]
    old, new = by_key(x), by_key(plus(x, change))
    expected = Weighted()
    for key in {row.A for row, _ in change}:
        for groups, sign in ((old, -1), (new, 1)):
            if key in groups:
                expected.add((key, ASKED[head](groups[key])), sign)
    assert change_of_groups == expected


def test_an_answer_that_cannot_be_had_leaves_the_one_before() -> None:
    """What was merged into the parts of an answer is taken back when a batch fails."""
    plan = over_folder("(STREAM, count(STREAM))", ', deletes: "out", trusted_deletes: true')
    (name,) = [node.name for node in plan.nodes if isinstance(node, Input)]
    stepper = Stepper(plan, Run("1").start)
    one, other = (Record({"K": key, "V": 1.0, "W": 1}) for key in (1, 2))
    stepper.step({name: [(one, 1)]})
    before = stepper.answer()
    with pytest.raises(DataError, match="deleted that is not there") as caught:
        stepper.step({name: [(other, -1)]})
    assert caught.value.code == "R205"
    assert encode(stepper.answer()) == encode(before)


@fewer
@given(text=stacked_shapes(), data=st.data())
def test_the_changes_of_every_node_add_up(text: str, data: st.DataObject) -> None:
    """Batch by batch, every node sends in all what it sends when everything comes at once."""
    with deep_recursion():
        run = Run(text)
        chance = data.draw(st.randoms(use_true_random=False))
        batches = history(chance, data.draw(st.sampled_from(EVERY)), ALL)
        assert totals(run, batches) == totals(run, all_at_once(batches))


def totals(run: Run, batches: Iterable[Batch]) -> list[Weighted]:
    stepper = run.fresh().stepper
    sums = [Weighted() for _ in run.plan.nodes]
    for batch in batches:
        for total, change in zip(sums, changes_of_nodes(stepper, run.restrict(batch)), strict=True):
            total.merge(change)
    return sums
