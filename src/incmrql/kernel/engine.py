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

import numpy as np

from incmrql.diagnostics import DataError, InternalError
from incmrql.kernel.answers import answer_gather, answer_meet
from incmrql.kernel.content import Content, touched_keys
from incmrql.kernel.desk import Desk, content_of, merged
from incmrql.kernel.layouts import leaves
from incmrql.kernel.look import grouped_rows, look_up
from incmrql.kernel.physical import (
    Answer,
    ConstOp,
    MapOp,
    ParamOp,
    Physical,
    SourceOp,
    Step,
    UnionOp,
    below,
)
from incmrql.kernel.rows import Rows, stacked, to_values
from incmrql.kernel.stateless import stateless
from incmrql.kernel.steps import gather, meet
from incmrql.values import Value, show

MOST_NAMED = 3


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
    def at(self, place: int, desk: Desk) -> Iterator[None]:
        """Count what is done inside as work of a step, but for what counts as that of another."""
        start, before = time.perf_counter(), desk.reader.tally.rows
        self._inside.append((0.0, 0))
        try:
            yield
        finally:
            seconds, read = time.perf_counter() - start, desk.reader.tally.rows - before
            others = self._inside.pop()
            self.seconds[place] += seconds - others[0]
            self.read[place] += read - others[1]
            if self._inside:
                outer = self._inside.pop()
                self._inside.append((outer[0] + seconds, outer[1] + read))

    def counted(self, place: int, chunks: Iterable[Rows], desk: Desk) -> Iterator[Rows]:
        """The chunks that a step sends on, counted as they are made."""
        waiting = iter(chunks)
        while True:
            with self.at(place, desk):
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

    def add_answers(self, desk: Desk) -> None:
        """Put in what was read for answers that are one value, and what steps say."""
        for place, rows in desk.part_reads.items():
            self.read[place] += rows
        self.notes = desk.notes

    def add(self, other: Worked) -> None:
        """Put in what was done elsewhere."""
        self.sent = [a + b for a, b in zip(self.sent, other.sent, strict=True)]
        self.read = [a + b for a, b in zip(self.read, other.read, strict=True)]
        self.seconds = [a + b for a, b in zip(self.seconds, other.seconds, strict=True)]
        self.notes |= other.notes


def run_steps(
    physical: Physical, given: Mapping[int, Sequence[Rows]], desk: Desk
) -> tuple[list[Rows], Worked]:
    """All steps of a batch: the changes of the answers; the desk has those of the tables."""
    for place, rows in given.items():
        step = physical.steps[place]
        assert isinstance(step, SourceOp)
        check(place, step, [ledger_content(place, step, rows, desk)], desk)
    found: list[Iterable[Rows]] = []
    worked = Worked.of(len(physical.steps))
    users = users_of(physical)
    for place, step in enumerate(physical.steps):
        with worked.at(place, desk):
            if isinstance(step, SourceOp):
                chunks: Iterable[Rows] = given.get(place, ())
            else:
                chunks = advanced(step, [found[each] for each in below(step)], desk)
            chunks = worked.counted(place, chunks, desk)
            found.append(chunks if users[place] == 1 else list(chunks))
    answers = [_answered(answer, physical, found, desk) for answer in physical.answers]
    worked.add_answers(desk)
    return answers, worked


def _answered(
    answer: Answer, physical: Physical, found: Sequence[Iterable[Rows]], desk: Desk
) -> Rows:
    """What a batch does to an answer, equal rows added up."""
    if answer.is_keyed and answer.main is not None:
        return stacked(list(found[answer.main.place]), leaves(answer.layout))
    return answer_meet(answer, answer_gather(answer, found, desk.env), physical.steps, desk)


def users_of(physical: Physical) -> Counter[int]:
    """How many take the rows of each step; those of one user are never all there at once."""
    users = Counter(place for step in physical.steps for place in below(step))
    users.update(part.place for answer in physical.answers for part in answer.parts)
    return users


def advanced(step: Step, inputs: Sequence[Iterable[Rows]], desk: Desk) -> Iterable[Rows]:
    """The change of a step's rows, in chunks."""
    match step:
        case ConstOp() | MapOp() | UnionOp():
            return stateless(step, inputs, desk)
        case SourceOp() | ParamOp():
            raise InternalError("rows that come from outside are given")
        case _:
            return meet(step, gather(step, inputs, desk.env), desk)


def ledger_content(place: int, step: SourceOp, rows: Sequence[Rows], desk: Desk) -> Content | None:
    """What changes of a source add to its ledger, if it has one."""
    if step.insert_only and any((each.weights < 0).any() for each in rows):
        deleted = next(each.take(each.weights < 0) for each in rows if (each.weights < 0).any())
        first = show(to_values(deleted, step.layout)[0][0])
        message = f"rows are deleted from a stream that only grows: {first}"
        raise DataError("R205", message, place=step.stream.name)
    name = f"l{place}"
    if name not in desk.tables:
        return None
    form = desk.tables[name].form
    keyed = rows if step.key is None else [step.key.apply(each, desk.env) for each in rows]
    return merged(form, [content_of(form, each) for each in keyed])


def check(place: int, step: SourceOp, changes: Sequence[Content | None], desk: Desk) -> None:
    """Refuse a change of a source that cannot be; the ledger remembers one that can."""
    some = [change for change in changes if change is not None]
    if not some:
        return
    name = f"l{place}"
    change = merged(some[0].form, some)
    _check_there(step, name, change, desk)
    if step.key is not None:
        _check_unique(step, name, change, desk)
    desk.change(name, change)


def _check_there(step: SourceOp, name: str, change: Content, desk: Desk) -> None:
    absent = missing(name, change, desk)
    if len(absent):
        raise _refused(step, absent)


def missing(name: str, change: Content, desk: Desk) -> Content:
    """The rows that a change deletes more often than they are there; weights say by how many."""
    leaving = change.take(change.weights < 0)
    if not len(leaving):
        return leaving
    there, _ = look_up(desk.tables[name], desk.reader, leaving)
    after = there + leaving.weights
    return leaving.take(after < 0).with_weights(after[after < 0])


def _refused(step: SourceOp, absent: Content) -> DataError:
    first = absent.slice(0, MOST_NAMED)
    columns = first.rest.columns if step.key is not None else first.keys.columns
    rows = to_values(Rows(columns, first.weights), step.layout)
    shown = ", ".join(show(row, 10) for row, _ in rows)
    more = f" and {len(absent) - len(first)} more" if len(absent) > len(first) else ""
    place = step.stream.deletes or step.stream.path or step.stream.name
    hint = "Mend or remove what deletes them; the batch was not taken in."
    message = f"rows are deleted that are not there: {shown}{more}"
    return DataError("R205", message, place=place, hint=hint)


def _check_unique(step: SourceOp, name: str, change: Content, desk: Desk) -> None:
    """Refuse rows that share a declared key after the batch."""
    found = next(crowded(step, name, change, desk), None)
    if found is None:
        return
    several = [row for row, weight in found for _ in range(weight)]
    shown = ", ".join(show(row, 10) for row in several[:MOST_NAMED])
    names = ", ".join(dict(step.stream.source.options)["key"])
    raise DataError(
        "R304",
        f"{len(several)} rows have the same key, {names}: {shown}",
        place=step.stream.name,
        hint="Delete the old row in the batch that brings the new one, or declare no key.",
    )


def crowded(
    step: SourceOp, name: str, change: Content, desk: Desk
) -> Iterator[list[tuple[Value, int]]]:
    """For each declared key that several rows share after a change: these rows with weights."""
    hashes, keys, _ = touched_keys(change)
    places, rows = grouped_rows(desk.tables[name], desk.reader, hashes, keys, change)
    counts = np.bincount(places, weights=rows.weights, minlength=len(hashes))
    for key in np.flatnonzero(counts > 1):
        mine = rows.take(places == key)
        yield to_values(Rows(mine.rest.columns, mine.weights), step.layout)
