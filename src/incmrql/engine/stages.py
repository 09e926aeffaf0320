"""A large batch in stages: rows meet by bucket between them.

    stage 0    files are read; what rows bring to the steps above is added up and sent
    stage n    what was brought to a bucket meets its state; what that changes is sent on
    last       answers

What is sent is a content (`store.content`) with the name of whom it is for: a ledger, a step, or a
part of an answer.  What is for a later stage is passed on.  The same functions as in one place
(`batch.py`) give the same state and the same answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from incmrql.engine.batch import CompiledProgram, batch_context, finish, read_rows
from incmrql.engine.columns.layouts import leaves
from incmrql.engine.columns.rows import Rows, concat_rows
from incmrql.engine.compile.physical import Physical
from incmrql.engine.context import BatchContext, merge_all
from incmrql.engine.inputs import BadRowWriter, InputFile
from incmrql.engine.messages import BatchRequest, BatchResult, Reading
from incmrql.engine.operators.answers import answer_gather, answer_meet, answer_slots
from incmrql.engine.operators.base import StatefulOp
from incmrql.engine.program import Worked
from incmrql.engine.store.content import SortedRows, merge
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import by_bucket
from incmrql.storage.files import crash_here

Name: TypeAlias = tuple[str, int, int]
"""Whom a content is for: ("ledger", place, 0), ("step", place, slot), ("answer", number, part)."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A content on its way to a bucket."""

    bucket: int
    name: Name
    content: SortedRows


class Route:
    """At which stage each step has rows, and at which what is brought to one meets."""

    def __init__(self, physical: Physical) -> None:
        self.physical = physical
        self.born: list[frozenset[int]] = []
        for step in physical.steps:
            stages = frozenset[int]().union(*[self.born[place] for place in step.inputs])
            if isinstance(step, StatefulOp):
                stages = frozenset((1 + max(stages),))
            self.born.append(stages or frozenset((0,)))
        self.answered = [
            (not answer.is_keyed)
            + max((max(self.born[part.place]) for part in answer.parts), default=0)
            for answer in physical.answers
        ]
        self.last = max([*self.answered, *[max(each) for each in self.born]])

    def stage(self, name: Name) -> int:
        """Where a content is taken in."""
        kind, number, _ = name
        match kind:
            case "ledger":
                return 1
            case "step":
                return max(self.born[number])
            case _:
                return self.answered[number]

    def schema(self, name: Name) -> TableSchema:
        """The form of a content."""
        kind, number, slot = name
        match kind:
            case "ledger":
                ((_, schema),) = self.physical.source(number).state_tables
                return schema
            case "step":
                return self._stateful(number).delta_schemas[slot]
            case _:
                return answer_slots(self.physical.answers[number])[slot]

    def _stateful(self, place: int) -> StatefulOp:
        step = self.physical.steps[place]
        assert isinstance(step, StatefulOp)
        return step

    def is_single(self, name: Name) -> bool:
        """Whether all that is for a step or an answer has to be in one place."""
        kind, number, _ = name
        if kind == "step":
            return self._stateful(number).is_single
        return kind == "answer" and self.physical.answers[number].is_single

    def single_tables(self) -> list[str]:
        """The tables of such steps and answers."""
        found: list[str] = []
        for step in self.physical.steps:
            if isinstance(step, StatefulOp) and step.is_single:
                found += [name for name, _ in step.state_tables]
        for answer in self.physical.answers:
            if answer.is_single:
                found += [part.table for part in answer.parts if part.table is not None]
        return found

    def names(self) -> Iterator[Name]:
        """The names of what has to be in one place."""
        for place, step in enumerate(self.physical.steps):
            if isinstance(step, StatefulOp) and step.is_single:
                yield from (("step", place, slot) for slot in range(len(step.delta_schemas)))
        for number, answer in enumerate(self.physical.answers):
            if answer.is_single:
                yield from (("answer", number, part) for part in range(len(answer.parts)))


def read_stage(
    compiled: CompiledProgram, order: BatchRequest, files: Sequence[InputFile], *, is_one: bool
) -> Iterator[Sent | Reading]:
    """Some files of a batch, chunk by chunk; one task also starts what needs no rows."""
    route = Route(compiled.physical)
    context = batch_context(compiled, order, order.tables)
    reading = Reading(attempt=order.attempt)
    bad = BadRowWriter(order.quarantine, order.names)
    worked = Worked.of(len(compiled.physical.steps))
    outbox = _Outbox(route, order)
    for file in files:
        for rows in read_rows(compiled, file, reading, bad):
            change = compiled.physical.source(file.place).ledger_delta([rows], context)
            if change is not None:
                yield from outbox.put(("ledger", file.place, 0), change)
            yield from _deliver(compiled, {file.place: [rows]}, context, worked, outbox)
    if is_one:
        fixed = {
            place: list(step.advance([], context))
            for place, step in enumerate(compiled.physical.steps)
            if not step.inputs
        }
        yield from _deliver(compiled, fixed, context, worked, outbox)
        for name in route.names():
            yield Sent(0, name, merge_all(route.schema(name), []))
    yield from outbox.all()
    reading.quarantined = bad.close()
    crash_here("task-sent", order.number)
    yield reading


def meet_stage(
    compiled: CompiledProgram, order: BatchRequest, stage: int, bucket: int, given: Iterable[Sent]
) -> Iterator[Sent | BatchResult]:
    """What was brought to a bucket meets its state."""
    start = time.perf_counter()
    route = Route(compiled.physical)
    brought: dict[Name, list[SortedRows]] = {}
    for sent in given:
        brought.setdefault(sent.name, []).append(sent.content)
    single = route.single_tables()
    mine = {n: t if n in single else t.only([bucket]) for n, t in order.tables.items()}
    context = batch_context(compiled, order, mine)
    worked = Worked.of(len(compiled.physical.steps))
    outbox = _Outbox(route, order)
    answers: dict[int, Rows] = {}
    keyed = _RowsOf(
        each.main.derived.place
        for each in compiled.physical.answers
        if each.is_keyed and each.main and each.main.derived
    )
    for kind, number, slot in list(brought):
        if kind == "ledger":
            compiled.physical.source(number).check(brought[kind, number, slot], context)
    called = {name[:2] for name in brought}
    for place, step in enumerate(compiled.physical.steps):
        if ("step", place) not in called:
            continue
        assert isinstance(step, StatefulOp)
        with worked.at(place, context):
            contents = [
                merge_all(schema, brought.get(("step", place, slot), []))
                for slot, schema in enumerate(step.delta_schemas)
            ]
        for rows in worked.counted(place, step.meet(contents, context), context):
            keyed.put(place, rows)
            yield from _deliver(compiled, {place: [rows]}, context, worked, outbox)
    for number, answer in enumerate(compiled.physical.answers):
        if answer.main is not None and answer.main.derived is not None and answer.is_keyed:
            rows_ = keyed.rows.get(answer.main.derived.place, [])
            for pipeline in answer.main.derived.maps:
                rows_ = [pipeline.apply(each, context.env) for each in rows_]
            if rows_:
                answers[number] = concat_rows(rows_, leaves(answer.layout))
        elif route.answered[number] == stage:
            parts = [
                merge_all(schema, brought.get(("answer", number, part), []))
                for part, schema in enumerate(answer_slots(answer))
            ]
            if not answer.is_single or bucket == 0:
                answers[number] = answer_meet(answer, parts, context)
    yield from outbox.all()
    seconds = time.perf_counter() - start
    done = finish(compiled, order, context, answers, [bucket], single if bucket == 0 else ())
    worked.add_answers(context)
    done.worked, done.shuffled = worked, outbox.sent
    done.seconds.kernel += seconds
    yield done


def _deliver(
    compiled: CompiledProgram,
    given: dict[int, list[Rows]],
    context: BatchContext,
    worked: Worked,
    outbox: _Outbox,
) -> Iterator[Sent]:
    """Rows through the steps that keep nothing, to what they bring to those that do."""
    found: dict[int, list[Rows]] = dict(given)
    physical = compiled.physical
    for place, step in enumerate(physical.steps):
        inputs = [found.get(each, []) for each in step.inputs]
        if place in found or not any(inputs):
            continue
        if isinstance(step, StatefulOp):
            with worked.at(place, context):
                deltas = step.gather(inputs, context.env)
            for slot, content in enumerate(deltas):
                yield from outbox.put(("step", place, slot), content)
        else:
            chunks = step.advance(inputs, context)
            found[place] = list(worked.counted(place, chunks, context))
    everything = [found.get(place, []) for place in range(len(physical.steps))]
    for number, answer in enumerate(physical.answers):
        if not answer.is_keyed and any(everything[part.place] for part in answer.parts):
            for part, content in enumerate(answer_gather(answer, everything, context.env)):
                yield from outbox.put(("answer", number, part), content)


class _RowsOf:
    """The rows of some steps, kept as they go by."""

    def __init__(self, places: Iterable[int]) -> None:
        self.rows: dict[int, list[Rows]] = {place: [] for place in places}

    def put(self, place: int, rows: Rows) -> None:
        """Keep rows, if they are of such a step."""
        if place in self.rows:
            self.rows[place].append(rows)


_MOST_WAITING = 1 << 21
"""Rows that a task adds up before it sends them."""


class _Outbox:
    """Contents that are added up until there are many, and then sent to their buckets."""

    def __init__(self, route: Route, order: BatchRequest) -> None:
        self.route, self.buckets = route, order.buckets
        self.parts: dict[Name, list[SortedRows]] = {}
        self.sizes: dict[Name, int] = {}
        self.sent = 0

    def put(self, name: Name, content: SortedRows) -> Iterator[Sent]:
        """Add a content; what is sent because of it."""
        if not len(content):
            return
        self.parts.setdefault(name, []).append(content)
        self.sizes[name] = self.sizes.get(name, 0) + len(content)
        if self.sizes[name] > _MOST_WAITING:
            whole = merge(self.parts.pop(name))
            if 2 * len(whole) > self.sizes.pop(name) or len(whole) > _MOST_WAITING:
                yield from self._messages(name, whole)
            else:
                self.parts[name], self.sizes[name] = [whole], len(whole)

    def all(self) -> Iterator[Sent]:
        """Send the rest."""
        for name in list(self.parts):
            yield from self._messages(name, merge(self.parts.pop(name)))

    def _messages(self, name: Name, content: SortedRows) -> Iterator[Sent]:
        self.sent += len(content)
        if self.route.is_single(name):
            yield Sent(0, name, content)
        else:
            for bucket, part in by_bucket(content, self.buckets):
                yield Sent(bucket, name, part)
