"""`IN` and `NOT IN` over several columns with nulls: what they mean, and what a batch reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random
from typing import Any

import pytest

from incmrql.catalyst.nodes import AnalyzedPlan, PlanNode, PlanValue
from incmrql.engine.compile.program import compile_program
from incmrql.syntax.depth import deep_recursion
from tests.catalyst.judging import (
    assert_follows,
    cross_products,
    plans_of,
    program_of_script,
    reference_answer,
    script_of_plan,
)
from tests.engine.kernels import KernelRun

Pair = tuple[int | None, int | None]
PAIRS: list[Pair] = [(a, b) for a in (None, 1, 2) for b in (None, 1, 2)]
NOT_IN = plans_of("operators")["not_in_pairs"]
CORRELATED = plans_of("shapes")["not_in_correlated"]


def is_in(pair: Pair, rows: list[Pair]) -> bool | None:
    """`pair in (rows)` as SQL says it, by comparing all rows."""
    unknown = False
    for row in rows:
        same = [None if None in sides else sides[0] == sides[1] for sides in zip(pair, row)]  # noqa: B905
        if all(same):
            return True
        unknown |= False not in same
    return None if unknown else False


def with_condition(value: PlanValue, change: Callable[[PlanNode], PlanNode]) -> Any:
    """The plan of `not (x in (S))` with its condition changed."""
    match value:
        case PlanNode("Not"):
            return change(value)
        case PlanNode(_, fields):
            parts = {name: with_condition(part, change) for name, part in fields.items()}
            return replace(value, fields=parts)
        case tuple():
            return tuple(with_condition(part, change) for part in value)
        case _:
            return value


def is_null(condition: PlanNode) -> PlanNode:
    """`(x in (S)) is null`."""
    return PlanNode("IsNull", {"child": condition["child"], "$type": PlanNode("BooleanType")})


IN: AnalyzedPlan = replace(NOT_IN, plan=with_condition(NOT_IN.plan, lambda node: node["child"]))
UNKNOWN: AnalyzedPlan = replace(NOT_IN, plan=with_condition(NOT_IN.plan, is_null))


@pytest.mark.parametrize(("plan", "wanted"), [(NOT_IN, False), (IN, True)])
def test_pairs_with_nulls_are_in_or_not_or_unknown(plan: AnalyzedPlan, wanted: bool | None) -> None:
    """All pairs of two values and null, against all sets of at most two of them."""
    script = script_of_plan(plan).script
    left = [(k, a, None, None, None, None) for k, a in PAIRS]
    sets = [list(rows) for n in (0, 1, 2) for rows in combinations_with_replacement(PAIRS, n)]
    seen = set()
    for rows in sets:
        answer = set(reference_answer(script, {"r": left, "q": [(k, a, "x") for k, a in rows]}))
        expected = {pair for pair in PAIRS if is_in(pair, rows) is wanted}
        assert answer == expected, rows
        seen.add(len(expected))
    assert len(seen) >= 3


def test_no_membership_is_null_in_spark() -> None:
    """As a value, `x in (S)` is true or false: `trap_answers` has what Spark says."""
    left = [(k, a, None, None, None, None) for k, a in PAIRS]
    right = [(k, a, "x") for k, a in PAIRS]
    assert not list(reference_answer(script_of_plan(UNKNOWN).script, {"r": left, "q": right}))


@pytest.mark.parametrize("plan", [NOT_IN, IN])
def test_pairs_are_followed(plan: AnalyzedPlan, tmp_path: Path) -> None:
    chance = Random("pairs")
    left = [(*chance.choice(PAIRS), 1, "x", None, None) for _ in range(12)]
    right = [(*chance.choice(PAIRS), "x") for _ in range(6)]
    assert_follows(script_of_plan(plan).script, {"r": left, "q": right}, chance, tmp_path)


def test_pairs_are_found_by_key() -> None:
    """Compared with all rows is only the count of the rows that have nothing but nulls."""
    assert cross_products(program_of_script(script_of_plan(NOT_IN).script)) == 1
    assert cross_products(program_of_script(script_of_plan(CORRELATED).script)) == 0


CHANGES: list[dict[str, list[tuple[Any, int]]]] = [
    {"q": [((7, 7, "x"), 1)]},  # a row leaves
    {"q": [((7, 7, "x"), -1)]},
    {"q": [((8, None, "x"), 1)]},
    {"q": [((None, -1, "x"), 1)]},  # equals nothing
    {"r": [((9, 9, 0, "x", None, None), 1)]},
    {"r": [((None, 9, 0, "x", None, None), 1)]},
    {"r": [((None, None, 0, "x", None, None), 1)]},
]


@pytest.mark.parametrize("size", [200, 1_000])
def test_a_batch_reads_what_has_its_key(size: int, tmp_path: Path) -> None:
    """However many rows there are on both sides."""
    with deep_recursion():
        program = program_of_script(script_of_plan(NOT_IN).script)
        kernel = KernelRun(program, tmp_path, 2, compile_program(program))
        left = [((n, n, 0, "x", None, None), 1) for n in range(size)]
        right = [((n, n + 1, "x"), 1) for n in range(size)]
        kernel.step({"r": left, "q": right})
        sent = 0
        for batch in CHANGES:
            (change,) = kernel.step(batch)
            sent += len(list(change))
            assert sum(kernel.worked.read) <= 30, batch
    assert sent >= 4
