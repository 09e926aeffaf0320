"""Random plans in random batches, and queries that a condition cuts into three.

`make show-spark` tries 20,000 cases of a larger pool, here are some of the small one.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import pytest

from incmrql.catalyst.convert import Question, convert_script
from incmrql.catalyst.nodes import nodes_of
from incmrql.errors import QueryError
from incmrql.plan.assembly import program_of
from incmrql.plan.changes import Weighted
from incmrql.syntax.depth import deep_recursion
from tests.catalyst.judging import stream_leaves
from tests.catalyst.random_cases import MOST_REFUSED, Follower, batches_of, try_plan
from tests.catalyst.random_plans import KINDS, RandomPlan, read_pool

STEP = 24
"""One in this many plans is tried in batches."""
PARTS = 4
"""The tests among which they are."""


@cache
def pool() -> list[RandomPlan]:
    return read_pool()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_batch_is_followed(part: int) -> None:
    wrong = [why for plan in pool()[part * STEP :: STEP * PARTS] for why in try_plan(plan, 2).wrong]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
def test_two_columns_in_a_query_below_not_and_or_are_planned() -> None:
    """Ten sub-queries over the rows of joins, each with these rows on both of its sides."""
    (plan,) = (plan for plan in pool() if plan.name == "parts 83")
    with deep_recursion():
        script = convert_script([Question(plan.plans[1], stream_leaves())]).script
        assert len(program_of(script.items, script).nodes) < 400


def is_refused(plan: RandomPlan) -> bool:
    try:
        convert_script([Question(analyzed, stream_leaves()) for analyzed in plan.plans])
    except QueryError:
        return True
    return False


@pytest.mark.slow
def test_most_plans_are_converted() -> None:
    """A generator of queries that are refused would show nothing."""
    assert sum(map(is_refused, pool())) <= MOST_REFUSED * len(pool())
    assert {plan.kind for plan in pool()} == set(KINDS)
    assert sum(plan.is_cut for plan in pool()) > len(pool()) / 5


REACHED = (
    "Join", "LateralJoin", "Exists", "InSubquery", "ListQuery", "ScalarSubquery", "OuterReference",
    "Expand", "Union", "Except", "Intersect", "GlobalLimit", "Offset", "Distinct", "Generate",
    "Aggregate", "GetStructField", "CreateNamedStruct", "LambdaFunction", "WithCTE", "PivotFirst",
    "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti",
)  # fmt: skip
FEWEST = 3


@pytest.mark.slow
def test_every_operator_is_reached() -> None:
    """In several plans that are converted, and among them aggregates with DISTINCT and FILTER."""
    counts: Counter[str] = Counter()
    for plan in pool():
        if is_refused(plan):
            continue
        names = set()
        for node in (node for analyzed in plan.plans for node in nodes_of(analyzed.plan)):
            names.add(node.name)
            if node.name == "AggregateExpression":
                names |= {name for name in ("isDistinct", "filter") if node.fields.get(name)}
        counts.update(names)
    assert {name for name in (*REACHED, "isDistinct", "filter") if counts[name] < FEWEST} == set()


def test_rows_come_and_go_and_half_of_the_columns_have_nulls() -> None:
    signs: Counter[int] = Counter()
    with_nulls: Counter[bool] = Counter()
    for seed in range(200):
        rows: dict[str, list[tuple[object, ...]]] = {}
        for batch in batches_of(Random(seed)):
            for name, changes in batch.items():
                signs.update(sign for _, sign in changes)
                rows.setdefault(name, []).extend(row for row, sign in changes if sign > 0)
        for there in rows.values():
            with_nulls.update(None in column for column in zip(*there, strict=True))
    assert signs[1] > signs[-1] > 500
    assert 0.3 < with_nulls[True] / with_nulls.total() < 0.6


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The comparison itself can fail: an engine that keeps one row to itself is found."""
    plan = next(plan for plan in pool() if plan.kind == "parts" and not is_refused(plan))
    follower = Follower.of(plan)
    expected = Follower.reference_answers

    def more(self: Follower, rows: dict[str, Weighted]) -> list[object]:
        answers: list[object] = list(expected(self, rows))
        answers[0] = ()
        return answers

    assert not follower.problem(Random(1), tmp_path / "right")
    monkeypatch.setattr(Follower, "reference_answers", more)
    assert follower.problem(Random(1), tmp_path / "wrong")
