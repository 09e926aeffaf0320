"""States as elements of monoids: canonical, merged, diminished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import InternalError
from incmrql.plan.changes import Weighted
from incmrql.plan.merging import first_of, state_monoid
from incmrql.plan.monoids import BAG, MAX, Monoid, product
from incmrql.plan.nodes import Groups, Node, inputs
from incmrql.values import Bag, encode, identical
from tests.effort import examples, mostly_slow
from tests.generators.tables import TABLES
from tests.oracle.plain import plain
from tests.oracle.states.base import JoinState
from tests.oracle.states.groups import GroupsState
from tests.oracle.states.ordered import OrderedState
from tests.oracle.stepper import Stepper
from tests.plan.stepping import (
    ALL,
    Batch,
    Run,
    all_at_once,
    deletions,
    histories,
    insertions,
    one_by_one,
    planned_run,
    r,
    rows_of,
    s,
)
from tests.plan.test_stepper import SHAPES

ORDERED = {
    "top of each group": "select (k, (select y.S from y in x order by y.C desc limit 2)) "
    "from x in R group by k: x.A",
    "argmin of each group": "select (k, (select y.S from y in x order by y.C)[0], "
    "(select y.S from y in x order by y.C)[-1]) from x in R group by k: x.A",
    "slice of each group": "select (k, (select y.S from y in x order by y.B desc, y.C)[1:2]) "
    "from x in R group by k: x.A",
    "median and percentile": "select (k, median(x.B), percentile(x.C, 0.3), min(x.C), max(x.C)) "
    "from x in R group by k: x.A",
    "different values": "select (k, count(distinct(x.B)), sum(select distinct y.C from y in x), "
    "avg(distinct(x.B)), exists(distinct(x.B))) from x in R group by k: x.A",
    "collected": "select (k, collect(x.B), sum(x.C)) from x in R group by k: x.A",
    "folded": "select (k, fold(\\(a: string, b: string): string. a + b, '', x.S)) from x in R "
    "group by k: x.A",
    "greatest partner": "select (x.S, max(select y.D from y in S where y.A = x.A)) from x in R",
    "first partner": "select (x.S, (select y.T from y in S where y.A = x.A order by y.D limit 1)) "
    "from x in R",
    "greatest of all": "(max(R.A), median(R.C), count(distinct(R.S)), elem(S.T))",
    "aggregate of the first": "select (k, sum(select y.B from y in x order by y.C limit 2)) "
    "from x in R group by k: x.A",
    "groups inside groups": "select (k, (select (b, y) from y in x group by b: y.B)) from x in R "
    "group by k: x.A",
    "some of many": "select (k, (select y.S from y in x limit 2)) from x in R group by k: x.A",
    "one column of several": "select (k, x.S, sum(x.C), count(x.B)) from x in R group by k: x.A",
}
EVERY = {**SHAPES, **ORDERED}


def history_of(data: st.DataObject, most: int = 5) -> list[Batch]:
    busy = {name: rows_of(name, 6 if name in "RS" else 0) for name in TABLES}
    return data.draw(histories(st.fixed_dictionaries(busy), ALL, most))


@pytest.mark.parametrize("text", mostly_slow(ORDERED.values(), 4), ids=ORDERED)
@examples(25)
@given(data=st.data())
def test_each_need_of_an_order(text: str, data: st.DataObject) -> None:
    run = planned_run(text).fresh()
    for batch in history_of(data):
        run.step(batch)


@pytest.mark.parametrize("text", mostly_slow(EVERY.values(), 4), ids=EVERY)
@examples(8)
@given(data=st.data())
def test_any_batches_end_in_the_same_state(text: str, data: st.DataObject) -> None:
    run, history = planned_run(text).fresh(), history_of(data)
    for batch in history:
        run.step(batch)
    for other in (one_by_one(history), all_at_once(history), [{}, *history, {}]):
        again = run.again(other)
        assert not other or again.state() == run.stepper.state()
        assert identical(again.answer(), run.stepper.answer())


# --- merge and diminish --------------------------------------------------------------------------


class Watched(Stepper):
    """A stepper that tells what reached every node."""

    seen: list[list[Weighted]]

    def _advance(self, given: Any) -> list[Weighted]:
        changes = super()._advance(given)
        self.seen = [[changes[below] for below in inputs(node)] for node in self.plan.nodes]
        return changes


def run_watched(run: Run, batches: Sequence[Batch]) -> tuple[Watched, list[list[list[Weighted]]]]:
    """The stepper after some batches, and what reached each node in each of them."""
    stepper = Watched(run.plan, run.start)
    seen = []
    for batch in batches:
        stepper.step(run.restrict(batch))
        seen.append(stepper.seen)
    return stepper, seen


def state_after(node: Node, run: Run, changes: Sequence[Weighted]) -> Any:
    """The state of a node after changes, starting empty."""
    states = {"Join": JoinState, "Groups": GroupsState, "Ordered": OrderedState}
    state = states[type(node).__name__](node, run.start)
    state.take(changes)
    return state.value


def sums_by_node(one: Sequence[Weighted], other: Sequence[Weighted]) -> list[Weighted]:
    return [BAG.merge(a, b) for a, b in zip(one, other, strict=True)]


@pytest.mark.parametrize("text", mostly_slow(EVERY.values(), 4), ids=EVERY)
@examples(6)
@given(data=st.data())
def test_states_merge_and_diminish(text: str, data: st.DataObject) -> None:
    """state(X + Y) = state(X) ⊗ state(Y), whatever the batches; taking away is the inverse."""
    run, history = planned_run(text).fresh(), history_of(data, 3)
    stepper, seen = run_watched(run, [{}, *history])
    for place, node in enumerate(run.plan.nodes):
        monoid = state_monoid(node, run.start)
        if monoid is None or (isinstance(node, Groups) and node.is_final):
            continue
        whole = [Weighted() for _ in inputs(node)]
        merged = monoid.zero
        for changes in seen:
            merged = monoid.merge(merged, state_after(node, run, changes[place]))
            whole = sums_by_node(whole, changes[place])
        total = plain(state_after(node, run, whole))
        assert plain(merged) == total == stepper.state()[place]
        check_diminished(monoid, node, run, whole, seen[-1][place])


def check_diminished(
    monoid: Monoid, node: Node, run: Run, whole: Sequence[Weighted], last: Sequence[Weighted]
) -> None:
    assert monoid.invertible
    before = sums_by_node(whole, [BAG.minus(Weighted(), change) for change in last])
    less = monoid.minus(state_after(node, run, whole), state_after(node, run, last))
    assert plain(less) == plain(state_after(node, run, before))
    if isinstance(node, Groups):
        counts = [multiplicity for _, (multiplicity, _) in state_after(node, run, whole).values()]
        assert all(count > 0 for count in counts)


GROWN = {
    "accumulators": "select (k, max(x.B), min(x.C), avg(x.C)) from x in "
    "stream(R, insert_only: true) group by k: x.A",
    "first of groups": "select (k, (select y.S from y in x order by y.C limit 2)) from x in "
    "stream(R, insert_only: true) group by k: x.A",
    "first rows": "select x.S from x in stream(R, insert_only: true) order by x.C desc limit 2",
    "user aggregation": "aggregation least(\\(a: int, b: int): int. min(b, a), 2147483647): int; "
    "select (k, least(x.B)) from x in stream(R, insert_only: true) group by k: x.A;",
}


@pytest.mark.parametrize("text", GROWN.values(), ids=GROWN)
@examples(20)
@given(rows=st.lists(rows_of("R", 4), min_size=1, max_size=3))
def test_states_of_what_only_grows_merge(text: str, rows: list[Bag]) -> None:
    """state(X + Y) = state(X) ⊗ state(Y) without an inverse."""
    run = planned_run(text).fresh()
    stepper, seen = run_watched(run, [insertions(R=rows_of_batch) for rows_of_batch in rows])
    node, place = next((n, p) for p, n in enumerate(run.plan.nodes) if state_monoid(n) is not None)
    monoid = state_monoid(node, run.start)
    assert monoid is not None
    assert not monoid.invertible
    merged = monoid.total([state_after(node, run, changes[place]) for changes in seen])
    assert plain(merged) == stepper.state()[place]


def test_states_of_every_kind_are_merged() -> None:
    nodes = [node for text in EVERY.values() for node in planned_run(text).plan.nodes]
    kinds = Counter(type(node).__name__ for node in nodes if state_monoid(node) is not None)
    assert set(kinds) == {"Join", "Groups", "Ordered"}
    assert min(kinds.values()) > 2


def test_what_only_grows_is_merged_without_an_inverse() -> None:
    first = first_of((False,), 2)
    one, other = (Weighted((((n,), n), 1) for n in numbers) for numbers in ((1, 5), (3, 4)))
    assert first.merge(one, other) == Weighted([(((1,), 1), 1), (((3,), 3), 1)])
    assert not first.invertible
    assert first_of((True,), 1).merge(one, other) == Weighted([(((5,), 5), 1)])


# --- where the paper is not exact (design, 5.3) --------------------------------------------------


def node_of(run: Run) -> Groups:
    (node,) = [node for node in run.plan.nodes if isinstance(node, Groups)]
    return node


def test_a_partner_that_comes_alone_is_not_lost_by_merging() -> None:
    """h(∅, ΔS) is empty for the paper's join; the sides of a join are merged, not its result."""
    run = Run("select (x.A, y.D) from x in R, y in S where x.B = y.A")
    join = run.plan.nodes[-1]
    monoid = state_monoid(join)
    assert monoid == product(BAG, BAG)
    first = state_after(join, run, [Weighted([((5, 1), 1)]), Weighted([((5, 10.0), 1)])])
    alone = state_after(join, run, [Weighted(), Weighted([((5, 20.0), 1)])])
    both = monoid.merge(first, alone)
    assert both == (Weighted([((5, 1), 1)]), Weighted([((5, 10.0), 1), ((5, 20.0), 1)]))


def test_a_key_stays_while_it_has_rows_though_the_sum_is_that_of_nothing() -> None:
    """{3, 0} without {3}: the paper drops the key, for state and deleted value are the same."""
    run = Run("select (k, sum(x.B)) from x in R group by k: x.A")
    run.step(insertions(R=[r(1, 3), r(1, 0)]))
    run.step(deletions(R=[r(1, 3)]))
    assert run.stepper.answer() == Bag([(1, 0)])
    node = node_of(run)
    monoid = state_monoid(node, run.start)
    assert monoid is not None
    both = state_after(node, run, [Weighted([(((1,), 3), 1), (((1,), 0), 1)])])
    three = state_after(node, run, [Weighted([(((1,), 3), 1)])])
    (left,) = monoid.minus(both, three).values()
    assert left == ((1,), (1, ((1,), (0,), (), ())))
    assert monoid.minus(both, both) == {}


def test_a_least_value_is_diminished_by_the_values_that_are_left() -> None:
    """Least and greatest have no inverse: where rows go, the values are merged instead."""
    run = Run("select (k, min(x.B)) from x in R group by k: x.A")
    monoid = state_monoid(node_of(run), run.start)
    assert monoid is not None
    assert monoid.invertible
    run.step(insertions(R=[r(1, 1), r(1, 2)]))
    run.step(deletions(R=[r(1, 1)]))
    assert run.stepper.answer() == Bag([(1, 2)])


def test_a_great_double_leaves_nothing_behind() -> None:
    """1e16 and 1, then without 1e16: the exact sum is 1, its state that of 1 alone."""
    run = Run("select (k, sum(x.C)) from x in R group by k: x.A")
    run.step(insertions(R=[r(1, 0, 1e16), r(1, 0, 1.0)]))
    run.step(deletions(R=[r(1, 0, 1e16)]))
    alone = run.again([insertions(R=[r(1, 0, 1.0)])])
    assert run.stepper.state() == alone.state()


def test_a_change_of_no_rows_still_says_something() -> None:
    run = Run("select (k, sum(x.B)) from x in R group by k: x.A")
    node = node_of(run)
    change = state_after(node, run, [Weighted([(((1,), 3), 1), (((1,), 5), -1)])])
    assert list(change.values()) == [((1,), (0, ((0,), (-2,), (), ())))]


def test_an_accumulator_without_an_inverse_refuses_to_take_away() -> None:
    run = Run("select (k, max(x.B)) from x in stream(R, insert_only: true) group by k: x.A")
    node = node_of(run)
    assert [accumulator.monoid for accumulator in node.accumulators] == [MAX]
    with pytest.raises(InternalError, match="max has no inverse"):
        state_after(node, run, [Weighted([(((1,), 3), -1)])])


# --- permanent keys ------------------------------------------------------------------------------

TOTALS = "(count(R), sum(R.C), avg(R.C), max(R.C), median(R.C), count(distinct(R.A)))"
OF_NOTHING = (0, 0.0, None, None, None, 0)


def test_a_total_is_there_before_any_row() -> None:
    assert Run(TOTALS).stepper.answer() == OF_NOTHING
    assert Run("select n from n in {count(R)}").stepper.answer() == Bag([0])


def test_a_total_over_a_stream_that_stays_empty() -> None:
    run = Run(TOTALS)
    assert run.step({}) == Weighted([(OF_NOTHING, 1)])
    assert not run.step({})
    assert not run.step(insertions(S=[s(1)]))
    assert run.stepper.answer() == OF_NOTHING


def test_a_total_is_that_of_nothing_after_all_rows_are_gone() -> None:
    run = Run(TOTALS)
    run.step({})
    empty = run.stepper.state()
    run.step(insertions(R=[r(1, 1, 2.0), r(2, 1, 3.0)]))
    assert run.stepper.answer() == (2, 5.0, 2.5, 3.0, 2.5, 2)
    run.step(deletions(R=[r(1, 1, 2.0)]))
    run.step(deletions(R=[r(2, 1, 3.0)]))
    assert run.stepper.answer() == OF_NOTHING
    assert run.stepper.state() == empty


def test_keys_of_groups_come_and_go() -> None:
    run = Run("select (k, count(x)) from x in R group by k: x.A")
    assert not run.step({})
    assert run.step(insertions(R=[r(1)])) == Weighted([((1, 1), 1)])
    assert run.step(deletions(R=[r(1)])) == Weighted([((1, 1), -1)])
    assert run.stepper.state() == run.again([{}]).state()


def test_states_are_plain() -> None:
    run = Run("select (k, sum(x.B), min(x.C)) from x in R group by k: x.A")
    run.step(insertions(R=[r(1, 2, 3.0)]))
    *_, kept = run.stepper.state()
    least = ((encode(3.0), 1),)
    assert kept == ((encode((1,)), (1, ((1,), (2,), (least,), ()))),)
