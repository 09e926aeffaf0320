"""One batch of a program in one place: from the changes of sources to new runs and answers.

check      ledgers refuse deletions of what is not there
advance    the steps in order, each fed by those below it
answer     the changes of parts, and what they make of the answers
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
from incmrql.engine.compile.physical import Answer, Physical
from incmrql.engine.context import BatchContext
from incmrql.engine.operators.answers import answer_gather, answer_meet


@dataclass(slots=True)
class Worked:
    """What a batch did at each step: rows sent on, rows of state read, seconds.

    Chunks are often made when they are asked for; such work counts where it is done.
    """

    sent: list[int]
    read: list[int]
    seconds: list[float]
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What steps say of themselves, by the name of a table of theirs."""
    _inside: list[tuple[float, int]] = field(default_factory=list, repr=False)
    """Of what is being counted: the seconds and rows of what was counted inside of it."""

    @staticmethod
    def of(count: int) -> Worked:
        """Nothing yet, at so many steps."""
        return Worked([0] * count, [0] * count, [0.0] * count)

    @contextmanager
    def at(self, place: int, context: BatchContext) -> Iterator[None]:
        """Count what is done inside as work of a step, but for what counts as that of another."""
        start, before = time.perf_counter(), context.reader.tally.rows
        self._inside.append((0.0, 0))
        try:
            yield
        finally:
            seconds, read = time.perf_counter() - start, context.reader.tally.rows - before
            others = self._inside.pop()
            self.seconds[place] += seconds - others[0]
            self.read[place] += read - others[1]
            if self._inside:
                outer = self._inside.pop()
                self._inside.append((outer[0] + seconds, outer[1] + read))

    def counted(self, place: int, chunks: Iterable[Rows], context: BatchContext) -> Iterator[Rows]:
        """The chunks that a step sends on, counted as they are made."""
        waiting = iter(chunks)
        while True:
            with self.at(place, context):
                rows = next(waiting, None)
            if rows is None:
                return
            self.sent[place] += len(rows)
            yield rows

    def as_json(self) -> dict[str, Any]:
        """The numbers as text can hold them."""
        return {
            "sent": self.sent,
            "read": self.read,
            "seconds": self.seconds,
            "notes": self.notes,
        }

    def add_answers(self, context: BatchContext) -> None:
        """Put in what was read for answers that are one value, and what steps say."""
        for place, rows in context.part_reads.items():
            self.read[place] += rows
        self.notes = context.notes

    def add(self, other: Worked) -> None:
        """Put in what was done elsewhere."""
        self.sent = [a + b for a, b in zip(self.sent, other.sent, strict=True)]
        self.read = [a + b for a, b in zip(self.read, other.read, strict=True)]
        self.seconds = [a + b for a, b in zip(self.seconds, other.seconds, strict=True)]
        self.notes |= other.notes


def run_steps(
    physical: Physical, given: Mapping[int, Sequence[Rows]], context: BatchContext
) -> tuple[list[Rows], Worked]:
    """All steps of a batch: the changes of the answers; the context has those of the tables."""
    for place, rows in given.items():
        source = physical.source(place)
        source.check([source.ledger_delta(rows, context)], context)
    found: list[Iterable[Rows]] = []
    worked = Worked.of(len(physical.steps))
    users = users_of(physical)
    for place, step in enumerate(physical.steps):
        with worked.at(place, context):
            chunks = given.get(place) or step.advance(
                [found[each] for each in step.inputs], context
            )
            chunks = worked.counted(place, chunks, context)
            found.append(chunks if users[place] == 1 else list(chunks))
    answers = [_answer_delta(answer, found, context) for answer in physical.answers]
    worked.add_answers(context)
    return answers, worked


def _answer_delta(answer: Answer, found: Sequence[Iterable[Rows]], context: BatchContext) -> Rows:
    """What a batch does to an answer, equal rows added up."""
    if answer.is_keyed and answer.main is not None:
        return concat_rows(list(found[answer.main.place]), leaves(answer.layout))
    return answer_meet(answer, answer_gather(answer, found, context.env), context)


def users_of(physical: Physical) -> Counter[int]:
    """How many take the rows of each step; those of one user are never all there at once."""
    users = Counter(place for step in physical.steps for place in step.inputs)
    users.update(part.place for answer in physical.answers for part in answer.parts)
    return users
