"""Loops in the kernel over odd values and odd batches, and through batches that fail."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from incmrql.engine.compile.physical import Physical
from incmrql.engine.context import Counters
from incmrql.engine.loops.operator import PATIENCE, _give_up_exact
from incmrql.errors import QueryError
from incmrql.plan.assembly import program_of
from incmrql.plan.changes import Weighted
from incmrql.plan.program import LoopMode, LoopSettings
from incmrql.values import Bag, Value, encode, identical, show
from tests.effort import sample
from tests.engine.kernels import KernelRun
from tests.plan.loops import Batch, Loops
from tests.plan.odd import (
    DIFFUSED,
    FAILING,
    LOOPS,
    MOST_STEPS,
    ROWS,
    attempt,
    canonical,
    failing_loop,
    history,
    odd_loop,
)
from tests.plan.stepping import Run, insertions, r

WAYS: list[LoopMode] = ["exact", "default", "recompute"]
SEEDS = 2


def kernel(
    known: Loops, iterate: LoopMode, folder: Path, physical: Physical | None = None
) -> KernelRun:
    program = known.program(LoopSettings(iterate))
    run = KernelRun(program, folder, physical=physical)
    run.env.world.max_steps = MOST_STEPS
    return run


def runs_or_fails_alike(known: Loops, run: KernelRun, batch: Batch) -> bool:
    """Whether a batch succeeds; if not, it fails as the batch loop does and changes nothing."""

    def step() -> Value:
        run.step(canonical(batch))
        return run.answer()

    before = dict(run.tables)
    went_well = attempt(known, batch, step)
    assert went_well or run.tables == before
    return went_well


def notes(run: KernelRun) -> list[dict[str, Any]]:
    return list(run.worked.notes.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(LOOPS, 3))
def test_odd_values_in_odd_batches(name: str, tmp_path: Path) -> None:
    known, ways = odd_loop(name, "recompute"), Counter[str]()
    for iterate in WAYS:
        physical = None
        for seed in range(SEEDS):
            known.again()
            run = kernel(known, iterate, tmp_path / f"{iterate}{seed}", physical)
            physical = run.physical
            for batch in history(Random(f"{name} {seed}"), known.names):
                if not runs_or_fails_alike(known, run, batch):
                    break
                ways.update(note["way"] for note in notes(run))
    assert ways["recompute"] > 0
    assert (ways["exact"] > 0) == (name not in ("nested", "first"))


# --- diffused ----------------------------------------------------------------------------------


def far(one: Value, other: Value) -> float:
    """The sum of the sizes of all differences of values, by label."""
    sums: dict[bytes, float] = {}
    for rows, sign in ((one, 1.0), (other, -1.0)):
        for label, value in rows:
            known = sums.get(encode(label), 0.0)
            sums[encode(label)] = math.nan if value is None else known + sign * value
    return sum(map(abs, sums.values()))


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFUSED)
def test_what_is_stated_of_odd_values_holds(name: str, tmp_path: Path) -> None:
    known, kinds = odd_loop(name, "recompute"), Counter[str]()
    physical = None
    for seed in range(3 * SEEDS):
        known.again()
        run = kernel(known, "diffuse", tmp_path / str(seed), physical)
        physical = run.physical
        error: dict[str, Any] = {}
        for batch in history(Random(f"{name} {seed}"), known.names):
            run.step(canonical(batch))
            for stream, rows in canonical(batch).items():
                known.data[stream].merge(Weighted(rows))
            error = next((note["error"] for note in notes(run)), error)
            kinds[error["kind"]] += 1
            expected, got = known.evaluator_answer(), run.answer()
            if error["kind"] == "resynchronised":
                assert identical(expected, got), f"{show(expected)}\n{show(got)}"
            elif error["kind"] == "bound":
                assert far(expected, got) <= error["figure"], f"{show(expected)}\n{show(got)}"
    assert kinds["resynchronised"] > 0
    assert name == "products" or kinds["residual" if name == "means" else "bound"] > 0


def test_rows_that_are_grouped_by_their_value_are_not_diffused(tmp_path: Path) -> None:
    """The matrix of such a step would count rows twice that are the same, and so are one."""
    text = """repeat r = (select distinct (n, 1.0) from n in N) step
      select distinct (v, 0.15 + 0.85 * sum(select x / 2.0 from (n, x) in r, (a, b) in E
                                            where a = n and b = v)) from v in N limit 8"""
    with pytest.raises(QueryError, match="A104"):
        kernel(Loops(text, "recompute", ROWS), "diffuse", tmp_path)


# --- failures ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("iterate", WAYS)
def test_a_batch_that_fails_changes_nothing(name: str, iterate: LoopMode, tmp_path: Path) -> None:
    known = failing_loop(name, "recompute")
    run = kernel(known, iterate, tmp_path)
    _, before, bad, instead = FAILING[name]
    assert all(runs_or_fails_alike(known, run, batch) for batch in before)
    assert not runs_or_fails_alike(known, run, bad)
    assert not runs_or_fails_alike(known, run, bad)
    assert runs_or_fails_alike(known, run, {})
    assert runs_or_fails_alike(known, run, instead)


@pytest.mark.parametrize("iterate", WAYS)
@pytest.mark.parametrize(("limit", "steps"), [("(null as int)", 0), ("0", 0), ("2", 2)])
def test_a_limit_that_is_null_allows_no_step(
    iterate: LoopMode, limit: str, steps: int, tmp_path: Path
) -> None:
    run = Run(f"repeat v = (select x.A from x in R) step select a + 1 from a in v limit {limit}")
    program = program_of([run.item], run.script, iteration=LoopSettings(iterate))
    kernel_run = KernelRun(program, tmp_path)
    kernel_run.step(insertions(R=[r(1, 0, 0.0, "a"), r(5, 0, 0.0, "a")]))
    assert identical(kernel_run.answer(), Bag([1 + steps, 5 + steps]))


def test_the_exact_way_is_tried_again_after_ever_longer_pauses() -> None:
    step: Any = SimpleNamespace(settings=SimpleNamespace(mode="default"))
    counters, pauses = Counters({}, {}), []
    counters["cost"], counters["again"] = 9, 1
    for _ in range(8):
        counters["exact"], counters["dear"] = 1, 0
        for _ in range(PATIENCE):
            assert counters["exact"] == 1
            _give_up_exact(step, counters)
        assert counters["exact"] == 0
        pauses.append(counters["pause"])
    assert pauses == [8, 16, 32, 64, 128, 256, 256, 256]
