"""The interpreter that all ways to run a loop share, and how pairs are cut in portions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from incmrql.engine.columns.layouts import leaves
from incmrql.engine.columns.rows import Rows, of_values
from incmrql.engine.compile.program import compile_program
from incmrql.engine.context import environment
from incmrql.engine.loops.operator import LoopOp
from incmrql.engine.loops.steps import StepInterpreter
from incmrql.engine.store.lookup import slices_by_count
from incmrql.plan.assembly import program_of
from incmrql.plan.program import LoopSettings
from tests.plan.loops import PAGERANK, Loops


class Recorder(StepInterpreter):
    """Notes what each step is given, and makes no rows."""

    def __init__(self, loop: LoopOp) -> None:
        known = Loops(PAGERANK)
        self.steps = loop.plain.steps
        self.env = environment(program_of([known.item], known.script))
        self.given: dict[int, list[list[Rows]]] = {}

    def output(self, place: int, inputs: Sequence[Iterable[Rows]]) -> Iterable[Rows]:
        self.given[place] = [list(rows) for rows in inputs]
        return ()


@pytest.fixture(scope="module")
def loop() -> LoopOp:
    known = Loops(PAGERANK)
    program = known.program(LoopSettings("recompute"))
    (step,) = [step for step in compile_program(program).steps if isinstance(step, LoopOp)]
    return step


def test_each_step_is_run_once_with_the_rows_of_the_steps_below(loop: LoopOp) -> None:
    looping, run = loop.plain.looping, Recorder(loop)
    known = {
        p: of_values([], layout) for p, layout in zip(looping.inputs, loop.layouts, strict=True)
    }
    outputs = run.run(looping.constant_nodes, {place: [rows] for place, rows in known.items()})
    assert list(run.given) == [place for place in looping.constant_nodes if place not in known]
    outputs = run.run(looping.step_nodes, outputs)
    assert list(run.given) == sorted({*looping.constant_nodes, *looping.step_nodes} - known.keys())
    assert any(rows for given in run.given.values() for rows in given)
    for place, given in run.given.items():
        sources = run.steps[place].inputs
        assert [list(map(id, rows)) for rows in given] == [
            [id(known[source])] if source in known else [] for source in sources
        ]


def test_results_are_brought_to_the_columns_that_are_wanted(loop: LoopOp) -> None:
    run, types = Recorder(loop), leaves(loop.layouts[0])
    pages = of_values([((1, 0.5), 1), ((3, 1.0), 2)], loop.layouts[0])
    both, none = run.results({0: [pages, pages]}, [(0, None, types), (1, None, types)])
    assert (len(both), both.weights.tolist()) == (4, [1, 2, 1, 2])
    assert (len(none), len(none.columns)) == (0, len(types))


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_portions_are_as_long_as_they_may_be(most: int) -> None:
    counts = np.array([2, 0, 1, 9, 0, 3, 3, 1, 0], np.int64)
    cut = list(slices_by_count(counts, most))
    assert [n for portion in cut for n in range(portion.start, portion.stop)] == list(
        range(len(counts))
    )
    for portion in cut:
        assert counts[portion].sum() <= most or portion.stop == portion.start + 1
        if portion.stop < len(counts):
            assert counts[portion.start : portion.stop + 1].sum() > most
    assert list(slices_by_count(counts[:0], most)) == []
