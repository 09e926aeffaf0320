"""Breaking any one rule makes a test fail; `make mutants` tries those that are left out here."""

from __future__ import annotations

import pytest

from tests.effort import sample
from tests.plan.mutants import MUTANTS, Mutant, apply_mutant, killer
from tests.plan.stepping import Run, insertions, r

FEWEST = 40


@pytest.mark.slow
@pytest.mark.parametrize("mutant", sample(MUTANTS, 6), ids=str)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert killer(mutant) is not None


def test_there_are_many_and_each_has_its_own_rule() -> None:
    assert len({str(mutant) for mutant in MUTANTS}) == len(MUTANTS) >= FEWEST
    assert len({(mutant.place, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
    modules = {mutant.place.partition(":")[0] for mutant in MUTANTS}
    assert modules >= {"changes", "nodes", "additivity"}
    assert modules >= {
        f"oracle.{name}" for name in ("states.base", "states.groups", "stepper", "sums")
    }


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_mutant_fits_the_code(mutant: Mutant) -> None:
    with apply_mutant(mutant):  # asserts that the place is there and has the text once
        assert mutant.tests


def test_a_mutant_leaves_nothing_behind() -> None:
    text = "select x.A from x in R where x.B > 0"
    (mutant,) = [
        candidate for candidate in MUTANTS if candidate.rule == "a map keeps the weight of its row"
    ]
    with apply_mutant(mutant):
        run = Run(text)
        run.stepper.step({"R": [(r(1, 1), 2)]})
        assert run.stepper.answer() == [1]
    Run(text).step(insertions(R=[r(1, 1), r(1, 1)]))


def test_a_mutant_must_fit_the_code() -> None:
    other = Mutant("none", "oracle.sums:_scale", "not there", "", ())
    with pytest.raises(AssertionError, match="is 0 times in"), apply_mutant(other):
        pass
