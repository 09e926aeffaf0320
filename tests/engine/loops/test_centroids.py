"""Centroids that are diffused in the kernel, beside the same on dictionaries."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incmrql.errors import QueryError
from incmrql.plan.changes import Weighted
from incmrql.plan.program import LoopSettings
from incmrql.values import Value, identical, show
from tests.effort import fewer
from tests.engine.kernels import KernelRun
from tests.oracle.diffusion.state import DiffusedState
from tests.plan.loops import COMPONENTS, MEANS, REACHED, Loops

POINTS = st.tuples(*[st.floats(-8, 8, width=32) for _ in range(2)])


@st.composite
def histories(draw: st.DrawFn) -> list[list[tuple[Value, int]]]:
    """Batches of points that come, and some that go again; two stay, so there is a centroid.

    Without any the two begin anew at different batches.
    """
    there: list[Value] = []
    batches = []
    for number in range(draw(st.integers(2, 5))):
        gone = [
            (there.pop(draw(st.integers(0, len(there) - 1))), -1)
            for _ in range(draw(st.integers(0, min(2, len(there)))))
        ]
        fresh = draw(st.lists(POINTS, max_size=6))
        there += fresh
        stay = [] if number else [(0.5, 0.25), (3.5, 4.0)]
        batches.append([*gone, *[(point, 1) for point in (*stay, *fresh)]])
    return batches


def error(run: KernelRun) -> dict[str, Any]:
    (note,) = run.worked.notes.values()
    error: dict[str, Any] = note["error"]
    return error


def kernel(folder: Path, asked: LoopSettings, like: KernelRun | None = None) -> KernelRun:
    known = Loops(MEANS, "recompute")
    program = known.program(asked)
    return KernelRun(program, folder, physical=None if like is None else like.physical)


def test_the_kernel_diffuses_as_dictionaries_do(tmp_path: Path) -> None:
    first = kernel(tmp_path / "first", LoopSettings("diffuse"))
    seen = set[str]()
    loop = Loops(MEANS, "diffuse")

    @settings(fewer)
    @given(histories())
    def run_history(history: list[list[tuple[Value, int]]]) -> None:
        run = kernel(Path(tempfile.mkdtemp(dir=tmp_path)), LoopSettings("diffuse"), first)
        stepper = loop.again().stepper
        (state,) = [state for state in stepper._states if isinstance(state, DiffusedState)]
        for batch in history:
            run.step({"P": batch})
            stepper.step({"P": batch})
            assert identical(run.answer(), stepper.answer()), f"{show(stepper.answer())}"
            if run.worked.notes:
                assert error(run)["kind"] == state.error.kind
                assert error(run)["figure"] == pytest.approx(state.error.figure, abs=1e-9)
                seen.add(state.error.kind)

    run_history()
    assert seen == {"residual", "resynchronised"}


def test_a_batch_reads_its_points_and_not_the_others(tmp_path: Path) -> None:
    reads = []
    for size in (50, 500):
        run = kernel(tmp_path / str(size), LoopSettings("diffuse"))
        run.step({"P": [((n % 17 / 4, n % 13 / 3 + n / 1000), 1) for n in range(size)]})
        run.step({"P": [((0.25, 0.125), 1), ((3.75, 3.5), 1)]})
        assert error(run)["kind"] == "residual"
        reads.append(sum(run.worked.read))
    assert reads[0] == reads[1]


def test_it_is_run_again_when_the_residual_passes_and_after_some_batches(tmp_path: Path) -> None:
    asked = LoopSettings("diffuse", tolerance=0.05, resync=3)
    run = kernel(tmp_path, asked)
    kinds = []
    for number in range(8):
        far = 6.0 if number == 2 else 0.0
        run.step({"P": [((far + n / 7, n / 9 + 3 * (n % 2)), 1) for n in range(6)]})
        kinds.append(error(run)["kind"])
    assert kinds[:3] == ["resynchronised", "residual", "resynchronised"]
    last = len(kinds) - 1 - kinds[::-1].index("resynchronised")
    assert last > 2


def test_old_points_alike_count_too(tmp_path: Path) -> None:
    """Points that are there already have no change of their own where points are told apart."""
    run = kernel(tmp_path, LoopSettings("diffuse"))
    run.step({"P": [((0.5, 0.5), 1), ((3.5, 3.5), 1)]})
    run.step({"P": [((0.5, 0.5), 2), ((1.0, 0.5), 1)]})
    assert error(run)["kind"] == "residual"
    assert identical(sorted(run.answer()), [(0.625, 0.5), (3.5, 3.5)])


@pytest.mark.parametrize("text", [REACHED, COMPONENTS])
def test_what_supports_itself_is_refused(text: str, tmp_path: Path) -> None:
    known = Loops(text, "recompute")
    program = known.program(LoopSettings("diffuse"))
    with pytest.raises(QueryError, match="A104"):
        KernelRun(program, tmp_path)


def test_a_centroid_without_a_coordinate_is_not_diffused(tmp_path: Path) -> None:
    """What is left near to it has none; and there is no distance to what has none."""
    run, known = kernel(tmp_path, LoopSettings("diffuse")), Loops(MEANS, "recompute")
    batches: list[list[tuple[Value, int]]] = [
        [((0.5, 0.5), 1), ((0.25, None), 1), ((3.5, 3.5), 1)],
        [((0.5, 0.5), -1)],
    ]
    for batch in batches:
        run.step({"P": batch})
        known.data["P"].merge(Weighted(batch))
        assert error(run)["kind"] == "resynchronised"
        assert identical(run.answer(), known.evaluator_answer())
