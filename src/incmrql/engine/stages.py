"""A large batch in stages, with a shuffle by bucket between them.

    stage 0    read files; gather what rows bring to the operators above, and send it
    stage n    in each bucket, meet the state with what was sent there; send what that changes
    last       answers

A message has sorted rows (`store.content`) and an address: a ledger, an operator, or a part of an
answer.  Messages for a later stage are passed on.  All of this uses the same functions as a batch
in one task (`batch.py`), so state and answers are the same.
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
from incmrql.engine.program import StepWork
from incmrql.engine.progress import ProgressFile
from incmrql.engine.store.content import SortedRows, merge
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import by_bucket
from incmrql.storage.files import crash_here

Name: TypeAlias = tuple[str, int, int]
"""An address: ("ledger", index, 0), ("step", index, slot) or ("answer", number, part)."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to a bucket: sorted rows and their address."""

    bucket: int
    name: Name
    content: SortedRows


class Route:
    """The stages at which operators produce rows, and those at which messages meet the state."""

    def __init__(self, physical: Physical) -> None:
        self.physical = physical
        self.row_stages: list[frozenset[int]] = []
        for step in physical.steps:
            stages = frozenset[int]().union(*[self.row_stages[place] for place in step.inputs])
            if isinstance(step, StatefulOp):
                # It meets its state once, when the messages of all of its inputs have come.
                stages = frozenset((1 + max(stages),))
            self.row_stages.append(stages or frozenset((0,)))
        self.answer_stages = [
            (not answer.is_keyed)
            + max((max(self.row_stages[part.place]) for part in answer.parts), default=0)
            for answer in physical.answers
        ]
        self.last = max([*self.answer_stages, *[max(stages) for stages in self.row_stages]])

    def stage(self, name: Name) -> int:
        """The stage at which messages to an address meet the state."""
        kind, number, _ = name
        match kind:
            case "ledger":
                return 1
            case "step":
                return max(self.row_stages[number])
            case _:
                return self.answer_stages[number]

    def schema(self, name: Name) -> TableSchema:
        """The schema of the rows sent to an address."""
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
        """Whether one task has to get all messages to an address."""
        kind, number, _ = name
        if kind == "step":
            return self._stateful(number).is_single
        return kind == "answer" and self.physical.answers[number].is_single

    def single_tables(self) -> list[str]:
        """The tables of operators and answers that one task runs as a whole."""
        tables: list[str] = []
        for step in self.physical.steps:
            if isinstance(step, StatefulOp) and step.is_single:
                tables += [name for name, _ in step.state_tables]
        for answer in self.physical.answers:
            if answer.is_single:
                tables += [part.table for part in answer.parts if part.table is not None]
        return tables

    def single_names(self) -> Iterator[Name]:
        """The addresses of operators and answers that one task runs as a whole."""
        for place, step in enumerate(self.physical.steps):
            if isinstance(step, StatefulOp) and step.is_single:
                yield from (("step", place, slot) for slot in range(len(step.delta_schemas)))
        for number, answer in enumerate(self.physical.answers):
            if answer.is_single:
                yield from (("answer", number, part) for part in range(len(answer.parts)))


def read_stage(
    compiled: CompiledProgram, request: BatchRequest, files: Sequence[InputFile], *, is_one: bool
) -> Iterator[Message | Reading]:
    """Read files of a batch, chunk by chunk; task `is_one` also runs operators without inputs."""
    route = Route(compiled.physical)
    context = batch_context(compiled, request, request.tables)
    reading = Reading(attempt=request.attempt)
    bad, progress = BadRowWriter(request.quarantine, request.names), ProgressFile(request.progress)
    worked = StepWork.of(len(compiled.physical.steps))
    outbox = _Outbox(route, request)
    for file in files:
        for rows in read_rows(compiled, file, reading, bad, progress):
            change = compiled.physical.source(file.place).ledger_delta([rows], context)
            if change is not None:
                yield from outbox.put(("ledger", file.place, 0), change)
            yield from _deliver(compiled, {file.place: [rows]}, context, worked, outbox)
    if is_one:
        constant = {
            place: list(step.advance([], context))
            for place, step in enumerate(compiled.physical.steps)
            if not step.inputs
        }
        yield from _deliver(compiled, constant, context, worked, outbox)
        for name in route.single_names():
            yield Message(0, name, merge_all(route.schema(name), []))
    yield from outbox.all()
    progress.close()
    reading.quarantined = bad.close()
    crash_here("task-sent", request.number)
    yield reading


def meet_stage(
    compiled: CompiledProgram,
    request: BatchRequest,
    stage: int,
    bucket: int,
    given: Iterable[Message],
) -> Iterator[Message | BatchResult]:
    """Meet the state of a bucket with the messages that were sent to it."""
    start = time.perf_counter()
    route = Route(compiled.physical)
    received: dict[Name, list[SortedRows]] = {}
    for message in given:
        received.setdefault(message.name, []).append(message.content)
    single = route.single_tables()
    own = {n: t if n in single else t.only([bucket]) for n, t in request.tables.items()}
    context = batch_context(compiled, request, own)
    worked = StepWork.of(len(compiled.physical.steps))
    outbox = _Outbox(route, request)
    answers: dict[int, Rows] = {}
    keyed = _RowsOf(
        answer.main.derived.place
        for answer in compiled.physical.answers
        if answer.is_keyed and answer.main and answer.main.derived
    )
    for kind, number, slot in list(received):
        if kind == "ledger":
            compiled.physical.source(number).check(received[kind, number, slot], context)
    addressed = {name[:2] for name in received}
    for place, step in enumerate(compiled.physical.steps):
        if ("step", place) not in addressed:
            continue
        assert isinstance(step, StatefulOp)
        with worked.at(place, context):
            contents = [
                merge_all(schema, received.get(("step", place, slot), []))
                for slot, schema in enumerate(step.delta_schemas)
            ]
        for rows in worked.count(place, step.meet(contents, context), context):
            keyed.put(place, rows)
            yield from _deliver(compiled, {place: [rows]}, context, worked, outbox)
    for number, answer in enumerate(compiled.physical.answers):
        if answer.main is not None and answer.main.derived is not None and answer.is_keyed:
            chunks = keyed.rows.get(answer.main.derived.place, [])
            for pipeline in answer.main.derived.maps:
                chunks = [pipeline.apply(chunk, context.env) for chunk in chunks]
            if chunks:
                answers[number] = concat_rows(chunks, leaves(answer.layout))
        elif route.answer_stages[number] == stage:
            parts = [
                merge_all(schema, received.get(("answer", number, part), []))
                for part, schema in enumerate(answer_slots(answer))
            ]
            if not answer.is_single or bucket == 0:
                answers[number] = answer_meet(answer, parts, context)
    yield from outbox.all()
    seconds = time.perf_counter() - start
    result = finish(compiled, request, context, answers, [bucket], single if bucket == 0 else ())
    worked.add_answers(context)
    result.worked, result.shuffled = worked, outbox.sent
    result.seconds.kernel += seconds
    yield result


def _deliver(
    compiled: CompiledProgram,
    given: dict[int, list[Rows]],
    context: BatchContext,
    worked: StepWork,
    outbox: _Outbox,
) -> Iterator[Message]:
    """Send rows through the stateless operators, and what stateful ones gather to the outbox."""
    rows: dict[int, list[Rows]] = dict(given)
    physical = compiled.physical
    for place, step in enumerate(physical.steps):
        inputs = [rows.get(index, []) for index in step.inputs]
        if place in rows or not any(inputs):
            continue
        if isinstance(step, StatefulOp):
            with worked.at(place, context):
                deltas = step.gather(inputs, context.env)
            for slot, content in enumerate(deltas):
                yield from outbox.put(("step", place, slot), content)
        else:
            chunks = step.advance(inputs, context)
            rows[place] = list(worked.count(place, chunks, context))
    by_step = [rows.get(place, []) for place in range(len(physical.steps))]
    for number, answer in enumerate(physical.answers):
        if not answer.is_keyed and any(by_step[part.place] for part in answer.parts):
            for part, content in enumerate(answer_gather(answer, by_step, context.env)):
                yield from outbox.put(("answer", number, part), content)


class _RowsOf:
    """Collects the rows of some operators."""

    def __init__(self, places: Iterable[int]) -> None:
        self.rows: dict[int, list[Rows]] = {place: [] for place in places}

    def put(self, place: int, rows: Rows) -> None:
        """Keep rows, if they come from one of these operators."""
        if place in self.rows:
            self.rows[place].append(rows)


_MOST_WAITING = 1 << 21
"""The number of rows that a task collects for an address before it adds them up and sends them."""


class _Outbox:
    """Collects sorted rows by address; when there are many, adds them up and sends them."""

    def __init__(self, route: Route, request: BatchRequest) -> None:
        self.route, self.buckets = route, request.buckets
        self.parts: dict[Name, list[SortedRows]] = {}
        self.sizes: dict[Name, int] = {}
        self.sent = 0

    def put(self, name: Name, content: SortedRows) -> Iterator[Message]:
        """Add sorted rows for an address; yields the messages that become due."""
        if not len(content):
            return
        self.parts.setdefault(name, []).append(content)
        self.sizes[name] = self.sizes.get(name, 0) + len(content)
        if self.sizes[name] > _MOST_WAITING:
            whole = merge(self.parts.pop(name))
            # Send unless adding up has at least halved the rows: then collecting more pays.
            if 2 * len(whole) > self.sizes.pop(name) or len(whole) > _MOST_WAITING:
                yield from self._messages(name, whole)
            else:
                self.parts[name], self.sizes[name] = [whole], len(whole)

    def all(self) -> Iterator[Message]:
        """Send everything that is left."""
        for name in list(self.parts):
            yield from self._messages(name, merge(self.parts.pop(name)))

    def _messages(self, name: Name, content: SortedRows) -> Iterator[Message]:
        self.sent += len(content)
        if self.route.is_single(name):
            yield Message(0, name, content)
        else:
            for bucket, part in by_bucket(content, self.buckets):
                yield Message(bucket, name, part)
