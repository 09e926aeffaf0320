"""Runs the operators of a program in one task: from deltas of sources to deltas of answers.

check      ledgers refuse deletions of rows that do not exist
advance    the operators in order, each fed by those below it
answer     from the deltas of its parts to the delta of each answer
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from incmrql.engine.columns.layouts import leaves
from incmrql.engine.columns.rows import Rows, concat_rows
from incmrql.engine.compile.physical import Physical, PhysicalOutput
from incmrql.engine.context import BatchContext
from incmrql.engine.operators.answers import answer_gather, answer_meet
from incmrql.io.by_row import by_row_count


@dataclass(slots=True)
class StepWork:
    """The work of each operator in a batch: rows sent on and read from state, seconds, values.

    Chunks are computed lazily, inside of the operators that read them; such work counts for the
    operator that computes the chunk.
    """

    sent: list[int]
    read: list[int]
    seconds: list[float]
    by_row: list[int]
    """Values that Python handled one by one."""
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What operators report about themselves, by the name of one of their tables."""
    _inside: list[tuple[float, int, int]] = field(default_factory=list, repr=False)
    """For each measurement in progress: seconds, rows and values of measurements inside of it."""

    @staticmethod
    def of(count: int) -> StepWork:
        """No work yet, of `count` operators."""
        return StepWork([0] * count, [0] * count, [0.0] * count, [0] * count)

    @contextmanager
    def at(self, place: int, context: BatchContext) -> Iterator[None]:
        """Count the work inside the block for an operator, except what others count inside."""
        start, before = time.perf_counter(), context.reader.tally.rows
        values_before = by_row_count()
        self._inside.append((0.0, 0, 0))
        try:
            yield
        finally:
            seconds, read = time.perf_counter() - start, context.reader.tally.rows - before
            by_row = by_row_count() - values_before
            inner_seconds, inner_read, inner_by_row = self._inside.pop()
            self.seconds[place] += seconds - inner_seconds
            self.read[place] += read - inner_read
            self.by_row[place] += by_row - inner_by_row
            if self._inside:
                outer = self._inside.pop()
                self._inside.append((outer[0] + seconds, outer[1] + read, outer[2] + by_row))

    def count(self, place: int, chunks: Iterable[Rows], context: BatchContext) -> Iterator[Rows]:
        """The chunks that an operator sends on, counted as they are computed."""
        waiting = iter(chunks)
        while True:
            with self.at(place, context):
                rows = next(waiting, None)
            if rows is None:
                return
            self.sent[place] += len(rows)
            yield rows

    def as_json(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {
            "sent": self.sent,
            "read": self.read,
            "seconds": self.seconds,
            "by_row": self.by_row,
            "notes": self.notes,
        }

    def add_answers(self, context: BatchContext) -> None:
        """Add the reads for answers that are one value, and the operators' notes."""
        for place, rows in context.part_reads.items():
            self.read[place] += rows
        self.notes = context.notes

    def add(self, other: StepWork) -> None:
        """Add the work of another task."""
        self.sent = [a + b for a, b in zip(self.sent, other.sent, strict=True)]
        self.read = [a + b for a, b in zip(self.read, other.read, strict=True)]
        self.seconds = [a + b for a, b in zip(self.seconds, other.seconds, strict=True)]
        self.by_row = [a + b for a, b in zip(self.by_row, other.by_row, strict=True)]
        self.notes |= other.notes


def run_steps(
    physical: Physical, inputs: Mapping[int, Sequence[Rows]], context: BatchContext
) -> tuple[list[Rows], StepWork]:
    """The deltas of the answers, with the work that took; adds deltas of tables to the context."""
    for place, rows in inputs.items():
        source = physical.source(place)
        source.check([source.ledger_delta(rows, context)], context)
    deltas: list[Iterable[Rows]] = []
    worked = StepWork.of(len(physical.steps))
    users = users_of(physical)
    for place, step in enumerate(physical.steps):
        with worked.at(place, context):
            chunks = inputs.get(place) or step.advance(
                [deltas[index] for index in step.inputs], context
            )
            chunks = worked.count(place, chunks, context)
            # Chunks for a single reader stay lazy, so that a large delta is never all in memory.
            deltas.append(chunks if users[place] == 1 else list(chunks))
    answers = [_answer_delta(answer, deltas, context) for answer in physical.answers]
    worked.add_answers(context)
    return answers, worked


def _answer_delta(
    answer: PhysicalOutput, deltas: Sequence[Iterable[Rows]], context: BatchContext
) -> Rows:
    """The delta of an answer, consolidated."""
    if answer.is_keyed and answer.main is not None:
        return concat_rows(list(deltas[answer.main.place]), leaves(answer.layout))
    return answer_meet(answer, answer_gather(answer, deltas, context.env), context)


def users_of(physical: Physical) -> Counter[int]:
    """The number of readers of each operator's rows, by the operator's index."""
    users = Counter(place for step in physical.steps for place in step.inputs)
    users.update(part.place for answer in physical.answers for part in answer.parts)
    return users
