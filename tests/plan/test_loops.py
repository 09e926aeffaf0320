"""Loops kept by the stepper, exactly and by running them again, against the batch loop."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from incmrql.plan.loops.program import numbered_program, step_program
from incmrql.plan.nodes import Repeated, inputs
from tests.effort import fewer, mostly_slow
from tests.oracle.states.loops import NumberedState
from tests.plan.loops import EXACT, OTHERS, Batch, Loops, histories


@pytest.mark.parametrize("name", mostly_slow(EXACT, 4))
def test_every_batch_of_an_exact_loop_answers_as_the_batch_loop_does(name: str) -> None:
    loop = Loops(EXACT[name])
    assert any(isinstance(state, NumberedState) for state in loop.stepper._states)

    @settings(fewer)
    @given(histories())
    def run_history(history: list[Batch]) -> None:
        run = loop.again()
        for batch in history:
            run.step(batch)

    run_history()


@pytest.mark.parametrize("name", OTHERS)
def test_a_loop_that_has_no_numbers_says_why_and_is_run_again(name: str) -> None:
    run = Loops(OTHERS[name])
    (node,) = [node for node in run.plan.nodes if isinstance(node, Repeated)]
    assert isinstance(numbered_program(node, run.script), str)
    run.step({"E": [((1, 2), 1), ((2, 3), 1)], "P": [((1.0, 2.0), 1)]})
    run.step({"E": [((1, 2), -1), ((1, 4), 1)]})


@pytest.mark.parametrize("name", [*EXACT, *OTHERS])
def test_a_step_repeats_the_nodes_that_a_variable_reaches(name: str) -> None:
    run = Loops((EXACT | OTHERS)[name])
    loops = [node for node in run.plan.nodes if isinstance(node, Repeated)]
    assert loops
    for looping in (step_program(node, run.script) for node in loops):
        constant, steps = set(looping.constant_nodes), set(looping.step_nodes)
        varying = looping.varying
        assert not constant & varying
        assert constant | varying == set(range(len(looping.nodes)))
        assert varying - steps == set(looping.variables)
        assert all(constant.issuperset(inputs(looping.nodes[index])) for index in constant)
        assert all(varying.intersection(inputs(looping.nodes[index])) for index in steps)
