"""Loops kept by the stepper over odd values and odd batches, and through batches that fail."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from incmrql.plan.program import LoopMode
from incmrql.values import Value
from tests.oracle.states.base import RepeatedState
from tests.oracle.states.loops import NumberedState
from tests.plan.loops import OTHERS, Batch, Loops
from tests.plan.odd import FAILING, LOOPS, attempt, failing_loop, history, marks, odd_loop

pytestmark = pytest.mark.slow
WAYS: list[LoopMode] = ["exact", "recompute"]
SEEDS = 5


def runs_or_fails_alike(loop: Loops, batch: Batch) -> bool:
    """Whether a batch succeeds; if not, it fails as the batch loop does and changes nothing."""
    stepper = loop.stepper

    def run() -> Value:
        stepper.step({name: rows for name, rows in batch.items() if name in loop.names})
        return stepper.answer()

    before = stepper.batches, stepper.state()
    went_well = attempt(loop, batch, run)
    assert went_well or (stepper.batches, stepper.state()) == before
    return went_well


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("iterate", WAYS)
def test_odd_values_in_odd_batches(name: str, iterate: LoopMode) -> None:
    loop = odd_loop(name, iterate)
    kind = NumberedState if iterate == "exact" and name not in OTHERS else RepeatedState
    assert any(isinstance(state, kind) for state in loop.stepper._states)
    for seed in range(SEEDS):
        loop.again()
        for batch in history(Random(f"{name} {seed}"), loop.names):
            if not runs_or_fails_alike(loop, batch):
                break


def test_what_is_odd_is_there() -> None:
    counts: Counter[str] = Counter()
    for name in LOOPS:
        names = odd_loop(name, "recompute").names
        for seed in range(SEEDS):
            for batch in history(Random(f"{name} {seed}"), names):
                counts += marks(batch)
    assert min(counts[mark] for mark in ("nothing", "null", "nan", "-0.0")) > SEEDS


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("iterate", WAYS)
def test_a_batch_that_fails_changes_nothing(name: str, iterate: LoopMode) -> None:
    loop = failing_loop(name, iterate)
    _, before, bad, instead = FAILING[name]
    assert all(runs_or_fails_alike(loop, batch) for batch in before)
    assert not runs_or_fails_alike(loop, bad)
    assert not runs_or_fails_alike(loop, bad)
    assert runs_or_fails_alike(loop, {})
    assert runs_or_fails_alike(loop, instead)


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("iterate", WAYS)
def test_a_first_batch_that_fails(name: str, iterate: LoopMode) -> None:
    loop = failing_loop(name, iterate)
    _, before, bad, instead = FAILING[name]
    at_once: Batch = {n: [row for batch in (*before, bad) for row in batch[n]] for n in bad}
    assert not runs_or_fails_alike(loop, at_once)
    assert all(runs_or_fails_alike(loop, batch) for batch in (*before, instead))
