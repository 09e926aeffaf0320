"""The three lines of a verdict say what was measured, also where that is bad."""

from __future__ import annotations

from dataclasses import replace

import pytest

from incmrql.api.trial import TableUse, Trial, TriedBatch, verdict
from incmrql.errors import Diagnostic, SourceText, Span

BATCH = TriedBatch(
    1, 80, 20, 7, 0.05, 0.5, 9_060, 30, 1_000, 50_000, {"groups": 0, "tables": 0}, "the judge"
)
LOAD = replace(BATCH, number=0, inserted=9_000, deleted=0, seconds=3.0, input_rows=9_000)
USES = (TableUse("t", 10_000, 10_000),)


def trial(*batches: TriedBatch, uses: tuple[TableUse, ...] = USES) -> Trial:
    return Trial(uses, "the judge", (), (), list(batches), "equal")


def test_a_good_trial() -> None:
    right, cost, watch = verdict(trial(LOAD, BATCH))
    assert right == (
        "right: all 2 answers equal those of the judge (30 rows at the end); "
        "the state equals one built from all rows"
    )
    assert cost == (
        "cost: 10.0 times faster: a batch of 100 changes took 50 ms, plain Spark 500 ms (medians); "
        "the first load of 9,000 rows took 3.0 s; "
        "state: 1,000 rows (50.0 KB) for 9,060 rows of input, +0.0% while the input changed "
        "by +0.7%"
    )
    assert watch == "watch out: nothing to report"


def test_a_wrong_answer_is_wrong() -> None:
    bad = trial(LOAD, replace(BATCH, difference="missing: (1)"))
    assert not bad.is_right
    assert verdict(bad)[0] == (
        "WRONG: 1 of 2 answers differ from those of the judge: after batch 1"
    )


def test_a_wrong_state_is_wrong() -> None:
    bad = trial(LOAD, BATCH)
    bad.rebuilt = "different"
    assert not bad.is_right
    assert verdict(bad)[0].startswith("WRONG: all 2 answers are right, and the state")


def test_a_trial_without_batches_is_not_right() -> None:
    assert not trial().is_right


def test_a_slow_query_is_said_to_be_slow() -> None:
    _, cost, watch = verdict(trial(LOAD, replace(BATCH, seconds=1.0)))
    assert cost.startswith("cost: 2.0 times SLOWER: a batch")
    assert "starting a job" in watch


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (replace(BATCH, answer_rows=0), "the answer is empty"),
        (replace(BATCH, changed=0), "no batch changed the answer"),
        (replace(BATCH, read={"groups": 12, "tables": 0}), "up to 12 rows of whole groups"),
        (replace(BATCH, read={"groups": 0, "tables": 1}), "up to 1 row of tables"),
        (replace(BATCH, judge="another"), "leaves a choice open"),
    ],
)
def test_what_to_watch_out_for(batch: TriedBatch, said: str) -> None:
    assert said in verdict(trial(LOAD, batch))[2]


@pytest.mark.parametrize("rows", [None, 20_000])
def test_a_part_of_the_data_is_said_to_be_one(rows: int | None) -> None:
    uses = (TableUse("t", 10_000, rows),)
    assert "not all rows were used" in verdict(trial(LOAD, BATCH, uses=uses))[2]


def test_warnings_are_named_once() -> None:
    tried = trial(LOAD, BATCH)
    span = Span(SourceText("select", "q.sql"), 0, 6)
    warning = Diagnostic("W105", "reads groups", span, severity="warning")
    tried.warnings = [warning, warning, replace(warning, code="W304", severity="note")]
    assert "watch out: W105: batches" in verdict(tried)[2]
