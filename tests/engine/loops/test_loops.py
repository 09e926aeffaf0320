"""Loops in the kernel, on each way, against the batch loop at every batch."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from incmrql.engine.loops import operator
from incmrql.plan.changes import Weighted
from incmrql.plan.program import LoopMode, LoopSettings, Program
from incmrql.values import identical, show
from tests.effort import fewest, sample
from tests.engine.kernels import KernelRun, StagedRun
from tests.plan.loops import EXACT, OTHERS, REACHED, Batch, Loops, histories

ALL = EXACT | OTHERS


def program(text: str, iterate: LoopMode) -> tuple[Loops, Program]:
    known = Loops(text, "recompute")
    return known, known.program(LoopSettings(iterate))


def agrees(known: Loops, run: KernelRun, batch: Batch) -> None:
    run.step(batch)
    for name, rows in batch.items():
        known.data[name].merge(Weighted(rows))
    expected, got = known.evaluator_answer(), run.answer()
    assert identical(expected, got), f"{known.text}\n{show(expected)}\n{show(got)}"


def way(run: KernelRun) -> dict[str, Any]:
    (note,) = run.worked.notes.values()
    return note


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "iterate"),
    sample([*[(name, "exact") for name in EXACT], *[(name, "default") for name in ALL]], 2),
)
def test_every_batch_answers_as_the_batch_loop_does(
    name: str, iterate: LoopMode, tmp_path: Path
) -> None:
    known, compiled = program(ALL[name], iterate)
    first = KernelRun(compiled, tmp_path / "first")

    @settings(fewest)
    @given(histories(4))
    def run_history(history: list[Batch]) -> None:
        known.again()
        run = KernelRun(compiled, Path(tempfile.mkdtemp(dir=tmp_path)), physical=first.physical)
        for batch in history:
            agrees(known, run, batch)

    run_history()


def chain(length: int, start: int = 1) -> list[tuple[Any, int]]:
    return [((n, n + 1), 1) for n in range(start, start + length)]


def test_the_default_begins_by_running_the_loop_and_goes_on_exactly(tmp_path: Path) -> None:
    known, compiled = program(REACHED, "default")
    run = KernelRun(compiled, tmp_path)
    agrees(known, run, {"E": chain(40)})
    assert way(run)["way"] == "recompute"
    assert way(run)["reason"].endswith("from now on exact")
    for batch in ({"E": [((40, 90), 1)]}, {"E": [((40, 90), -1), ((3, 91), 1)]}):
        agrees(known, run, batch)
        assert way(run)["way"] == "exact"
        assert way(run)["steps"] <= 6


def test_the_default_gives_up_the_exact_way_where_it_is_dearer(tmp_path: Path) -> None:
    known, compiled = program(REACHED, "default")
    run = KernelRun(compiled, tmp_path)
    agrees(known, run, {"E": chain(12)})
    ways = Counter[str]()
    for number in range(8):
        sign = -1 if number % 2 == 0 else 1
        agrees(known, run, {"E": [((1, 2), sign)]})
        ways[way(run)["way"]] += 1
    assert ways == {"exact": operator.PATIENCE, "recompute": 8 - operator.PATIENCE}


def test_centroids_at_rest_are_run_again_all_the_same(tmp_path: Path) -> None:
    known, compiled = program(EXACT["means"], "default")
    run = KernelRun(compiled, tmp_path)
    for x in (0.5, 0.25, 3.5):
        agrees(known, run, {"P": [((0.0, 0.0), 3), ((4.0, 4.0), 3), ((x, x), 1)]})
        assert way(run)["way"] == "recompute"


def test_loops_that_move_everywhere_are_run_again(tmp_path: Path) -> None:
    known, compiled = program(EXACT["pagerank"], "default")
    run = KernelRun(compiled, tmp_path)
    for more in (2, 3, 5):
        agrees(
            known,
            run,
            {"E": [((n, m), 1) for n in range(11) for m in (n * n % 11, (n + more) % 11)]},
        )
        assert way(run)["way"] == "recompute"


@pytest.mark.parametrize("size", [40, 400])
def test_an_exact_batch_reads_what_it_changes(size: int, tmp_path: Path) -> None:
    _, compiled = program(REACHED, "exact")
    run = KernelRun(compiled, tmp_path)
    run.step({"E": [((1, n), 1) for n in range(2, size)]})
    run.step({"E": [((5, 10_001), 1), ((10_001, 10_002), 1)]})
    assert sum(run.worked.read) <= 30
    run.step({"E": [((5, 10_001), -1)]})
    assert sum(run.worked.read) <= 60


@pytest.mark.parametrize("name", ["shortest", "components"])
def test_what_an_exact_batch_reads_does_not_grow_with_the_graph(name: str, tmp_path: Path) -> None:
    """Islands of six nodes; a batch links two of them and takes an edge of another one away."""
    reads, kept = [], 0
    for islands in (5, 50):
        edges = [
            (10 * island + n, 10 * island + n + 1) for island in range(islands) for n in range(1, 6)
        ]
        roads = [(1, 10 * island + 1) for island in range(1, islands)] if name == "shortest" else []
        known, compiled = program(EXACT[name], "exact")
        run = KernelRun(compiled, tmp_path / str(islands))
        batches: list[Batch] = [
            {"E": [(edge, 1) for edge in edges], "W": [((*e, 2), 1) for e in (*edges, *roads)]},
            {"E": [((6, 11), 1), ((23, 24), -1)], "W": [((6, 12, 1), 1), ((23, 24, 2), -1)]},
        ]
        for batch in batches:
            agrees(known, run, batch)
        reads.append(sum(run.worked.read))
        kept = sum(table.rows for table in run.tables.values())
    assert reads[0] == reads[1]
    assert 0 < reads[1] < kept / 2


@pytest.mark.parametrize("name", ["reached", "pagerank-until", "factors"])
def test_stages_answer_as_one_place_does(name: str, tmp_path: Path) -> None:
    known, compiled = program(ALL[name], "default")
    first = KernelRun(compiled, tmp_path / "first")

    @fewest
    @given(histories(3))
    def run_history(history: list[Batch]) -> None:
        known.again()
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        run = StagedRun(compiled, folder, physical=first.physical)
        for batch in history:
            agrees(known, run, batch)

    run_history()
