"""The paper's theorems, literally, on data that meets their assumptions.

correctness      a(h(S)) = q(S)
homomorphism     h(S ⊎ ΔS) = h(S) ⊗ h(ΔS)
deletion         h(S - ΔS) = h(S) ⊗~ h(ΔS)
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from incmrql.algebra.term import GroupBy
from incmrql.errors import QueryError
from incmrql.paper.annotated import annotated_query
from incmrql.paper.construct import Construction, PerKey, Reduced, Whole
from incmrql.paper.form import OutsideError
from incmrql.paper.inference import NoMonoidError, assumptions, is_outer
from incmrql.values import Bag, Value, identical
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shape_queries
from tests.effort import fewer
from tests.generators.queries import queries
from tests.generators.tables import tables
from tests.paper.carriers import diminisher, same
from tests.paper.run import answer_whole, state_of
from tests.paper.support import Case, Tables, both, case, change_of, for_each
from tests.plan.stepping import ALL, r, s

STREAMS = (ALL, frozenset("R"), frozenset("S"))

GROUPS = {
    "average": "select (k, avg(x.C)) from x in R group by k: x.A",
    "count": "select (k, count(x)) from x in R group by k: x.A",
    "having": "select (k, count(x)) from x in R group by k: x.A having count(x) > 1",
    "greatest and least": "select (k, min(x.B), max(x.C)) from x in R group by k: x.A",
    "for all": "select (k, all(select y.B > 0 from y in x)) from x in R group by k: x.A",
    "nested bag": "select (k, x) from x in R group by k: x.A",
    "median": "select (k, median(x.C)) from x in R group by k: x.A",
    "spread": "select (k, variance(x.C), count(x)) from x in R group by k: x.A",
    "ranks": "select (k, (select count(select z from z in x where z.B > y.B) from y in x)) "
    "from x in R group by k: x.A",
    "distinct": "select distinct x.B from x in R",
    "count distinct": "count(select distinct x.B from x in R)",
    "greatest of counts": "max(select count(x) from x in R group by x.A)",
    "total": "(sum(R.B), avg(R.C), count(R), max(R.C))",
    "nothing but a map": "select (x.A, x.B) from x in R where x.B > 1",
    "clusters": "select < X: avg(s.C), Y: avg(s.B) > from s in R group by k: "
    "(select c from c in {0.0, 2.0} order by (c - s.C) * (c - s.C))[0]",
}
"""Queries without joins: no assumption is needed."""

JOINS = {
    "join and average": "select (x.A, avg(y.D)) from x in R, y in S where x.B = y.A group by x.A",
    "matrix product": "select (i, j, sum(z)) from (i, j, z) in (select (x.A, y.T, x.C * y.D) "
    "from x in R, y in S where x.B = y.A) group by i, j",
    "join alone": "select (x.A, y.D) from x in R, y in S where x.B = y.A",
    "total over a join": "sum(select y.D from x in R, y in S where x.B = y.A)",
    "two joins": "select (x.A, sum(z.C)) from x in R, y in S, z in R "
    "where x.B = y.A and z.B = x.B group by x.A",
}
"""Queries whose functions are additive in each side of a join."""

NESTED = {
    "correlated": "select x from x in R where x.C > sum(select y.D from y in S where x.B = y.A)",
    "semi-join": "select x.A from x in R where exists (select y from y in S where y.A = x.B)",
    "nested bags": "select (x.S, (select y.D from y in S where y.A = x.B)) from x in R",
}
"""Queries that tell of rows without partners too."""


def states(whole: Whole, of: Case, data: Tables) -> list[Any]:
    return [state_of(construction, of.env(data)) for _, construction in whole.parts]


def answer_of_data(whole: Whole, of: Case, data: Tables) -> Value:
    return answer_whole(whole, states(whole, of, data), of.env({}))


def merge_states(whole: Whole, one: list[Any], other: list[Any]) -> list[Any]:
    parts = zip(whole.parts, one, other, strict=True)
    return [construction.merge.merge(a, b) for (_, construction), a, b in parts]


def agree(whole: Whole, one: list[Any], other: list[Any]) -> bool:
    parts = zip(whole.parts, one, other, strict=True)
    return all(same(construction.merge, a, b) for (_, construction), a, b in parts)


def is_lossy(construction: Construction) -> bool:
    return is_outer(annotated_query(construction.form.body))


# --- correctness -----------------------------------------------------------------------------


@fewer
@given(text=shape_queries() | queries(), streams=st.sampled_from(STREAMS), data=tables())
def test_correctness(text: str, streams: Collection[str], data: Tables) -> None:
    """a(h(S)) = q(S), where no rows without partners are told of."""
    try:
        of = case(text, streams)
        whole = of.whole
    except QueryError as error:
        reject_if_refused(error)
    except (OutsideError, NoMonoidError):
        return
    if not any(is_lossy(construction) for _, construction in whole.parts):
        assert identical(answer_of_data(whole, of, data), of.evaluator_answer(data)), text


@pytest.mark.parametrize("name", [*GROUPS, *JOINS])
@for_each
@given(data=tables())
def test_correctness_of_each_shape(name: str, data: Tables) -> None:
    of = case({**GROUPS, **JOINS}[name])
    whole = of.whole
    assert not any(is_lossy(construction) for _, construction in whole.parts)
    assert identical(answer_of_data(whole, of, data), of.evaluator_answer(data))


def test_groups_of_a_source_that_does_not_change_are_kept_too() -> None:
    """F once read the group itself, which is not there any more when it is asked."""
    of = case("select (k, count(x)) from x in R group by k: x.A", "S")
    assert identical(answer_of_data(of.whole, of, {"R": Bag([r(0)])}), Bag([(0, 1)]))


def constructions(text: str) -> list[Construction]:
    try:
        return [construction for _, construction in case(text).whole.parts]
    except (QueryError, OutsideError, NoMonoidError):
        return []


KINDS: dict[str, Callable[[Construction], bool]] = {
    "a join that must be one to many": lambda construction: assumptions(construction.proof) > 0,
    "a join that tells nothing of lone rows": lambda construction: (
        assumptions(construction.proof) > 0 and not is_lossy(construction)
    ),
    "rows without partners": is_lossy,
    "groups of what is joined": lambda construction: (
        isinstance(construction.form.body.source, GroupBy) and assumptions(construction.proof) > 0
    ),
    "a reduction for each lineage": lambda construction: isinstance(construction.answer, Reduced),
    "a reduction of the answer": lambda construction: construction.total is not None,
    "several parts kept": lambda construction: (
        isinstance(construction.answer, PerKey) and len(construction.answer.parts.kept) > 1
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_random_queries_are_of_the_kinds_that_matter(kind: str) -> None:
    """There are such queries among the random ones; `find` fails if there are not."""
    enough = settings(max_examples=500, database=None, phases=[Phase.generate], derandomize=True)
    strategy = (
        shape_queries() if kind != "a reduction of the answer" else shape_queries() | queries()
    )
    text = find(strategy, lambda text: any(map(KINDS[kind], constructions(text))), settings=enough)
    assert constructions(text)


# --- homomorphism ----------------------------------------------------------------------------


@fewer
@given(
    text=shape_queries() | queries(),
    streams=st.sampled_from(STREAMS),
    one=tables(),
    other=tables(),
)
def test_homomorphism(text: str, streams: Collection[str], one: Tables, other: Tables) -> None:
    """h(S ⊎ ΔS) = h(S) ⊗ h(ΔS), where nothing is assumed of joins: one side does not change."""
    try:
        of = case(text, streams)
        whole = of.whole
    except QueryError as error:
        reject_if_refused(error)
    except (OutsideError, NoMonoidError):
        return
    if not any(assumptions(construction.proof) for _, construction in whole.parts):
        follows(whole, of, one, change_of(one, other, streams), both(one, other, streams))


def follows(whole: Whole, of: Case, one: Tables, change: Tables, after: Tables) -> None:
    old, new = states(whole, of, one), states(whole, of, change)
    assert agree(whole, merge_states(whole, old, new), states(whole, of, after))


@pytest.mark.parametrize("name", GROUPS)
@for_each
@given(one=tables(), other=tables())
def test_homomorphism_of_each_shape(name: str, one: Tables, other: Tables) -> None:
    of = case(GROUPS[name])
    whole = of.whole
    assert not any(assumptions(construction.proof) for _, construction in whole.parts)
    follows(whole, of, one, other, both(one, other))


@pytest.mark.parametrize("name", JOINS)
@for_each
@given(one=tables(), other=tables())
def test_homomorphism_of_joins_with_an_invariant_side(
    name: str, one: Tables, other: Tables
) -> None:
    streams = frozenset("S")
    of = case(JOINS[name], streams)
    whole = of.whole
    assert not any(assumptions(construction.proof) for _, construction in whole.parts)
    follows(whole, of, one, change_of(one, other, streams), both(one, other, streams))


@st.composite
def batch(draw: st.DrawFn, keys: tuple[int, ...], *, one: bool) -> Tables:
    """Rows of R and S that meet by these keys; with `one`, each has one of R, and some of S."""
    some = st.sampled_from((0.0, 0.5, 1.5, -2.5, 1e16))
    left, right = Bag(), Bag()
    for key in keys:
        for _ in range(1 if one else draw(st.integers(0, 2))):
            left.append(r(draw(st.integers(0, 2)), key, draw(some), draw(st.sampled_from("ab"))))
        for _ in range(draw(st.integers(1 if one else 0, 3))):
            right.append(s(key, draw(some), draw(st.sampled_from("ab"))))
    return {"R": left, "S": right}


@pytest.mark.parametrize("name", JOINS)
@for_each
@given(one=batch((1, 2), one=False), other=batch((3, 4), one=False))
def test_homomorphism_of_joins_whose_batches_bring_all_partners(
    name: str, one: Tables, other: Tables
) -> None:
    of = case(JOINS[name])
    whole = of.whole
    assert any(assumptions(construction.proof) for _, construction in whole.parts)
    follows(whole, of, one, other, both(one, other))


@pytest.mark.parametrize("name", NESTED)
@for_each
@given(one=batch((1, 2), one=True), other=batch((3, 4), one=True))
def test_theorems_of_nested_queries_one_to_many_with_partners_for_all(
    name: str, one: Tables, other: Tables
) -> None:
    of = case(NESTED[name])
    whole = of.whole
    assert any(is_lossy(construction) for _, construction in whole.parts)
    after = both(one, other)
    follows(whole, of, one, other, after)
    assert identical(answer_of_data(whole, of, after), of.evaluator_answer(after))


@pytest.mark.parametrize("name", NESTED)
@for_each
@given(rows=batch((1, 2, 3), one=True), more=st.lists(st.sampled_from((1, 2, 3)), max_size=4))
def test_more_of_the_many_may_come_where_the_one_comes_again(
    name: str, rows: Tables, more: list[int]
) -> None:
    """□ merges equal rows of the one: each batch brings the partner along, and it counts once."""
    of = case(NESTED[name], frozenset("S"))
    whole = of.whole
    assert not any(assumptions(construction.proof) for _, construction in whole.parts)
    change = {"R": rows["R"], "S": Bag([s(key, 0.5) for key in more])}
    after = {"R": rows["R"], "S": Bag([*rows["S"], *change["S"]])}
    follows(whole, of, rows, change, after)
    state = merge_states(whole, states(whole, of, rows), states(whole, of, change))
    assert identical(answer_whole(whole, state, of.env({})), of.evaluator_answer(after))


# --- batch after batch -----------------------------------------------------------------------


@pytest.mark.parametrize("name", GROUPS)
@for_each
@given(history=st.lists(tables(), min_size=1, max_size=3))
def test_the_state_answers_at_every_batch(name: str, history: list[Tables]) -> None:
    of = case(GROUPS[name])
    whole = of.whole
    state = [construction.merge.zero for _, construction in whole.parts]
    so_far: Tables = {table: Bag() for table in ALL}
    for change in history:
        state = merge_states(whole, state, states(whole, of, change))
        so_far = both(so_far, change)
        assert identical(answer_whole(whole, state, of.env({})), of.evaluator_answer(so_far))


# --- deletion --------------------------------------------------------------------------------

DIMINISHED = ("average", "count", "having", "nested bag", "median", "nothing but a map")


@pytest.mark.parametrize("name", DIMINISHED)
@for_each
@given(rows=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=5), data=st.data())
def test_deletion(name: str, rows: list[tuple[int, int]], data: st.DataObject) -> None:
    """h(S - ΔS) = h(S) ⊗~ h(ΔS): every group that stays has a part that is not zero, its count."""
    of = case(GROUPS[name])
    whole = of.whole
    gone = data.draw(
        st.lists(st.sampled_from(range(len(rows))), unique=True) if rows else st.just([])
    )
    table = [r(a, b, float(b)) for a, b in rows]
    before, deleted, after = (
        {"R": Bag([row for i, row in enumerate(table) if chosen(i in gone)])}
        for chosen in (lambda _: True, lambda x: x, lambda x: not x)
    )
    old, new = states(whole, of, before), states(whole, of, deleted)
    parts = zip(whole.parts, old, new, strict=True)
    left = [diminisher(construction.merge)(a, b) for (_, construction), a, b in parts]
    assert agree(whole, left, states(whole, of, after))
    assert identical(answer_whole(whole, left, of.env({})), of.evaluator_answer(after))
