"""Windows read by rank: right for larger partitions, and no more rows than their functions need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from incmrql.catalyst.nodes import PlanNode
from incmrql.engine.compile.program import compile_program
from incmrql.engine.operators.groups import GroupOp
from incmrql.plan.changes import Weighted
from incmrql.plan.explain.nodes import program_shapes
from incmrql.plan.windows import Everything, Front, Near, Onward
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.values import identical, show
from tests.catalyst.judging import plans_of, program_of_script, reference_answer, script_of_plan
from tests.catalyst.random_windows import TABLE, random_query, random_rows
from tests.effort import mostly_slow, scale
from tests.engine.kernels import KernelRun, StagedRun

PARTS = 8
PER_PART = scale(3, 12)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_large_partitions_are_followed(part: int, tmp_path: Path) -> None:
    for seed in range(part * PER_PART, (part + 1) * PER_PART):
        follow_large(seed, tmp_path / str(seed))


def test_stages_follow_large_partitions(tmp_path: Path) -> None:
    for seed in range(PER_PART):
        follow_large(seed, tmp_path / str(seed), StagedRun)


def follow_large(seed: int, directory: Path, how: type[KernelRun] = KernelRun) -> None:
    """Compare the engine with the reference evaluator over batches that change a few rows."""
    chance = Random(1000 + seed)
    query, hard = random_query(chance), seed % 3 == 0
    script = script_of_plan(query.analyzed).script
    with deep_recursion():
        program = program_of_script(script)
        kernel = how(program, directory, 2, compile_program(program))
        rows = Weighted([(row, 1) for row in random_rows(chance, 60, hard=hard)])
        change = rows
        for number in range(6):
            kernel.step({TABLE: list(change)})
            answer, expected = kernel.answer(), reference_answer(script, {TABLE: rows.bag()})
            assert identical(answer, expected), (
                f"seed {seed}, batch {number}: {query.text}\n{show(answer)}\n{show(expected)}"
            )
            known = [row for row, weight in rows for _ in range(weight)]
            left = chance.sample(known, min(len(known), chance.randint(0, 2)))
            change = Weighted([(row, -1) for row in left])
            change.merge(Weighted([(row, 1) for row in random_rows(chance, 2, hard=hard)]))
            rows.merge(change)


# --- Rows read ---

NEAR, ONWARD, FIRST, GROUPS = "near", "onward", "first", "groups"

CASES: Final = {
    "latest_row": FIRST,
    "first_rows": FIRST,
    "first_rank": FIRST,
    "first_ranks": FIRST,
    "first_dense_ranks": FIRST,
    "qualified": FIRST,
    "neighbours": NEAR,
    "moving": NEAR,
    "moving_ahead": NEAR,
    "values": NEAR,
    "running": GROUPS,  # it has a least and a greatest value too
    "running_sums": ONWARD,
    "running_rows": GROUPS,
    "rank_alone": ONWARD,
    "number_alone": ONWARD,
    "dense_alone": ONWARD,
    "ranks": GROUPS,
    "by_values": GROUPS,
    "rest_of_partition": GROUPS,
    "neighbours_with_values": GROUPS,
}
"""What each text of the set reads of a large partition, when a row near its end changes."""


def script_of(query: str) -> typed.Script:
    """The script of a text; `dense_alone` is `rank_alone` with another function."""
    analyzed = plans_of("windows")[query.replace("dense_alone", "rank_alone")]
    if query == "dense_alone":
        analyzed = replace(analyzed, plan=_dense(analyzed.plan))
    return script_of_plan(analyzed).script


def _dense(node: Any) -> Any:
    match node:
        case PlanNode("Rank", fields):
            return PlanNode("DenseRank", fields)
        case PlanNode(name, fields, place):
            return PlanNode(name, {key: _dense(value) for key, value in fields.items()}, place)
        case tuple():
            return tuple(map(_dense, node))
        case _:
            return node


def work(query: str, size: int, *, at_end: bool) -> tuple[int, list[Any]]:
    """Rows read for one row in a partition of some size, and how its windows are read."""
    with deep_recursion():
        program = program_of_script(script_of(query))
        physical = compile_program(program)
        kernel = KernelRun(program, Path(_directory()), 2, physical)
        kernel.step({"r": [(_row(2 * number), 1) for number in range(size)]})
        kernel.step({"r": [(_row(2 * size - 9 if at_end else 9), 1)]})
    reaches = [s.window.reach for s in physical.steps if isinstance(s, GroupOp) and s.window]
    return sum(kernel.worked.read), reaches


def _directory() -> str:
    from tempfile import mkdtemp

    return mkdtemp()


def _row(number: int) -> tuple[Any, ...]:
    return (1, number, number, "x", None, float(number), None, None)


@pytest.mark.parametrize(("query", "kind"), mostly_slow(CASES.items(), 5))
def test_a_change_reads_what_the_functions_need(query: str, kind: str) -> None:
    few, _ = work(query, 300, at_end=True)
    many, reaches = work(query, 1200, at_end=True)
    if kind == GROUPS:
        assert many > 1000
        assert any(isinstance(reach, Everything) for reach in reaches)
        return
    assert many <= max(few, 80), (few, many, reaches)
    expected = {NEAR: Near, ONWARD: Onward, FIRST: Front}[kind]
    assert all(isinstance(reach, expected) for reach in reaches)


@pytest.mark.parametrize("query", ["running_sums", "rank_alone", "dense_alone", "number_alone"])
def test_what_runs_along_is_read_from_the_first_changed_row_on(query: str) -> None:
    assert work(query, 1200, at_end=False)[0] > 1000


@pytest.mark.parametrize(("query", "kind"), CASES.items())
def test_explain_warns_of_whole_partitions(query: str, kind: str) -> None:
    shapes = program_shapes(program_of_script(script_of(query)))
    codes = {warning.code for shape in shapes for warning in shape.warnings}
    assert codes == ({"W105"} if kind == GROUPS else set())
