"""What came out of a trial: is it right, what does it cost, what is there to watch out for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from incmrql.api.trial.trial import Trial, TriedBatch

_SAME: Final = 0.1
"""A relative difference of two times that says nothing."""
_FEW_ROWS: Final = 10_000
"""Below this size starting a job costs more than its work, in both ways."""


def verdict(trial: Trial) -> tuple[str, str, str]:
    """The three lines of a verdict."""
    return _right(trial), _cost(trial), _watch(trial)


def _right(trial: Trial) -> str:
    wrong = [batch for batch in trial.batches if batch.difference]
    count = len(trial.batches)
    if wrong:
        after = ", ".join(str(batch.number) for batch in wrong[:5])
        after += ", ..." if len(wrong) > 5 else ""
        return (
            f"WRONG: {len(wrong)} of {count} answers differ from those of {wrong[0].judge}: "
            f"after batch {after}"
        )
    if trial.rebuilt == "different":
        return (
            f"WRONG: all {count} answers are right, and the state after the last batch differs "
            "from one that is built from all rows"
        )
    by = " and ".join(dict.fromkeys(batch.judge for batch in trial.batches))
    state = "; the state equals one built from all rows" if trial.rebuilt == "equal" else ""
    rows = _count_of(trial.batches[-1].answer_rows, "row")
    return f"right: all {count} answers equal those of {by} ({rows} at the end){state}"


def _cost(trial: Trial) -> str:
    first, last = trial.batches[0], trial.batches[-1]
    load = f"the first load of {_count_of(first.inserted, 'row')} took {duration(first.seconds)}"
    if not trial.later:
        return f"cost: {load}; no batch followed"
    changes = sorted(batch.inserted + batch.deleted for batch in trial.later)
    typical = _count_of(changes[len(changes) // 2], "change")
    state = (
        f"state: {_count_of(last.state_rows, 'row')} ({size(last.state_bytes)}) for "
        f"{_count_of(last.input_rows, 'row')} of input"
    )
    growth = _growth(first, last)
    return (
        f"{_speed(trial)}: a batch of {typical} took {duration(trial.seconds)}, plain Spark "
        f"{duration(trial.again)} (medians); {load}; {state}{growth}"
    )


def _speed(trial: Trial) -> str:
    ratio = trial.again / trial.seconds
    if abs(ratio - 1) <= _SAME:
        return "cost: as fast as plain Spark"
    return f"cost: {ratio:.1f} times faster" if ratio > 1 else f"cost: {1 / ratio:.1f} times SLOWER"


def _growth(first: TriedBatch, last: TriedBatch) -> str:
    """How the state grew, beside the input."""
    if first is last or not first.state_rows or not first.input_rows:
        return ""
    state = last.state_rows / first.state_rows - 1
    rows = last.input_rows / first.input_rows - 1
    return f", {state:+.1%} while the input changed by {rows:+.1%}"


def _watch(trial: Trial) -> str:
    cautions = list(_cautions(trial))
    return f"watch out: {'; '.join(cautions)}" if cautions else "watch out: nothing to report"


def _cautions(trial: Trial) -> Iterator[str]:
    if trial.batches[-1].answer_rows == 0:
        yield "the answer is empty, so little was compared (--rows takes more rows of each table)"
    elif len({batch.changed == 0 for batch in trial.later}) == 1 and not any(
        batch.changed for batch in trial.later
    ):
        yield "no batch changed the answer"
    codes = dict.fromkeys(
        warning.code for warning in trial.warnings if warning.severity == "warning"
    )
    if codes:
        yield f"{', '.join(codes)}: batches may read more than the change, as said above"
    scopes = {"groups": "whole groups", "tables": "tables"}
    for scope, words in scopes.items():
        most = max((batch.read.get(scope, 0) for batch in trial.later), default=0)
        if most:
            yield f"a batch read up to {_count_of(most, 'row')} of {words}"
    if trial.later and trial.seconds > trial.again:
        rows = trial.batches[-1].input_rows
        if rows < _FEW_ROWS:
            yield f"with {_count_of(rows, 'row')} of input both times are those of starting a job"
        else:
            yield "recomputing costs more with more data, and batches with more changes: try --rows"
    if trial.out_of_time:
        yield f"there was time for {_count_of(len(trial.later), 'batch')} only (--seconds)"
    choices = [batch for batch in trial.batches if batch.judge != trial.judge]
    if choices and not any(batch.difference for batch in trial.batches):
        yield "plain Spark chose other rows where the query leaves a choice open"
    for use in trial.tables:
        if use.rows is None or use.rows > use.used:
            yield "not all rows were used, so joins may find fewer partners than in all data"
            return


def duration(seconds: float) -> str:
    """A time in words."""
    return f"{seconds * 1000:,.0f} ms" if seconds < 2 else f"{seconds:,.1f} s"


def size(count: int) -> str:
    """A number of bytes in words."""
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:,.1f} GB"


def _count_of(count: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"1 {noun}" if count == 1 else f"{count:,} {plural}"


__all__ = ["duration", "size", "verdict"]
