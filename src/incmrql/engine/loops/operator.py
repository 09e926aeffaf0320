"""Loops at work: kept exactly from step to step, or run again, whichever the costs favour.

| way | kept | a batch costs |
|---|---|---|
| exact | the differences from step to step | what changes, in the steps that it reaches |
| recompute | the inputs | all of them, once for each step |

Both give the answer of the batch loop.  Costs are counted in rows: what a loop reads and makes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeAlias

from incmrql.engine.columns.layouts import Layout, leaves
from incmrql.engine.columns.rows import Rows, concat_rows
from incmrql.engine.compile.physical import Inner, Means, Numbered
from incmrql.engine.context import (
    BatchContext,
    Counters,
    counters_in,
    keep_counters,
    merge_all,
    rows_of,
    sorted_rows_of,
)
from incmrql.engine.loops.affine.operator import affine_follow, affine_reset
from incmrql.engine.loops.affine.tables import AffineTables
from incmrql.engine.loops.centroids import follow, reset
from incmrql.engine.loops.exact import Machine, difference
from incmrql.engine.loops.offload import LoopTooLarge, read_changes, write_input_changes
from incmrql.engine.loops.recompute.columns import plain_rows
from incmrql.engine.loops.recompute.steps import Ran, TooManyRows, recompute_loop
from incmrql.engine.operators.base import Evaluator, NamedSchema, StatefulOp, all_rows
from incmrql.engine.store.content import SortedRows, merge
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import scan
from incmrql.plan.changes import NegativeWeight
from incmrql.plan.diffusion.ways import StatedError
from incmrql.plan.loops.driving import drive
from incmrql.plan.nodes import Repeated
from incmrql.plan.program import LoopSettings
from incmrql.reference import Environment
from incmrql.reference.queries import Ending

Way: TypeAlias = Literal["exact", "recompute", "diffuse"]

MOVING: Final = 0.5
"""A loop whose steps change more of their rows than this is run again."""
DEARER: Final = 6
"""How much more a row costs on the exact way."""
TOO_SMALL: Final = 1e-6
"""Differences of less than this times the mean size of a value do not flow."""
PATIENCE: Final = 2
"""Batches in a row that are dearer than running the loop again before that is done."""


@dataclass(frozen=True, slots=True)
class LoopOp(StatefulOp):
    """A loop: all rows of its inputs and its last result are kept.

    `plain` is the program of one step, `numbered` that of all steps, and `reason` says why there
    is none.  `counters` has what is known of the loop itself, by name and number.
    """

    is_single: ClassVar[bool] = True

    layouts: tuple[Layout, ...]
    node: Repeated
    tables: tuple[str, ...]
    schemas: tuple[TableSchema, ...]
    result: str
    layout: Layout
    schema: TableSchema
    limit: int | None
    plain: Inner
    numbered: Numbered | None
    reason: str
    counters: NamedSchema
    asked: LoopSettings = field(default_factory=LoopSettings)
    """How the loop is to be kept."""
    diffused: Means | AffineTables | str = ""
    """How the loop is diffused; or why it is run again instead."""

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """Inputs, result, counters, and what is kept of the steps."""
        inputs = zip(self.tables, self.schemas, strict=True)
        numbered = () if self.numbered is None else self.numbered.own
        diffused = () if isinstance(self.diffused, str) else self.diffused.own
        return (*inputs, (self.result, self.schema), self.counters, *numbered, *diffused)

    @property
    def is_by_row(self) -> bool:
        """Whether rows are gone through one by one in some step."""
        return self.plain.is_by_row

    @property
    def is_cross(self) -> bool:
        """Whether all rows of two inputs meet in some step."""
        return self.plain.is_cross

    @property
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """Those of the inputs."""
        return self.schemas

    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        """The changes of the inputs."""
        both = zip(self.schemas, inputs, strict=True)
        return [all_rows(schema, chunks, None, env) for schema, chunks in both]

    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        """The change of the loop's answer, if an input has changed or it never ran."""
        counters = counters_in(*self.counters, context)
        if counters["runs"] and not any(map(len, deltas)):
            return
        batch = LoopBatch(self, deltas, context, counters)
        answer, way, reason = batch.answer()
        for name, delta in zip(self.tables, deltas, strict=True):
            context.add(name, delta)
        counters["runs"] += 1
        keep_counters(counters, *self.counters, context)
        context.add(self.result, answer)
        context.notes[self.result] = {"way": way, "reason": reason, **batch.note}
        yield rows_of(answer)

    def evaluator(self, _moving: tuple[bool, ...], most: int) -> Evaluator:
        """The rows of the loop, run from its beginning."""

        def rows(inputs: Sequence[Iterable[Rows]], context: BatchContext) -> list[Rows]:
            given = [
                concat_rows(list(map(plain_rows, chunks)), leaves(layout))
                for chunks, layout in zip(inputs, self.layouts, strict=True)
            ]
            return [recompute_loop(self, given, context, most)[0]]

        return rows


# --- which way -----------------------------------------------------------------------------


def _way(step: LoopOp, counters: Counters) -> tuple[Way, str]:
    if step.numbered is None:
        return "recompute", step.reason
    match step.asked.mode:
        case "exact":
            return "exact", "asked for"
        case "recompute":
            return "recompute", "asked for"
        case _:
            pass
    if counters["exact"]:
        share = counters["cost"] / max(counters["again"], 1)
        return "exact", f"the last batch cost {share:.1%} of running the loop again"
    return "recompute", _share_moving(counters)


def _share_moving(counters: Counters) -> str:
    if not counters["runs"]:
        return "the first batch"
    return f"{counters['moved']:,} rows change from step to step, of {counters['rows']:,}"


def _dies_out(step: LoopOp, ran: Ran) -> bool:
    """Whether most rows of a step are those of the step before, and a row meets few others.

    Where each row of a variable meets all rows of an input, as centroids meet points, one that
    changes changes everything.
    """
    if step.numbered is None or step.is_cross:
        return False
    return ran.rows > 0 and ran.moved < MOVING * ran.rows


def _judge(step: LoopOp, counters: Counters) -> None:
    """Give up the exact way when it has been the dearer one for some batches.

    It is tried again after a while, which gets longer each time.
    """
    dear = counters["cost"] > counters["again"]
    counters["dear"] = counters["dear"] + 1 if dear else 0
    if step.asked.mode == "default" and counters["dear"] >= PATIENCE:
        counters["exact"] = 0
        counters["span"] = counters["pause"] = min(max(2 * counters["span"], 8), 256)


def _reason_to_resync(step: LoopOp, counters: Counters) -> str:
    """Why a loop is run again before anything is diffused."""
    if isinstance(step.diffused, str):
        return step.diffused
    if not counters["diffuse"]:
        return "nothing is kept to diffuse from" if counters["runs"] else "the first batch"
    if step.asked.resync is not None and counters["since"] >= step.asked.resync:
        return f"{counters['since']} batches since it was run"
    return ""


# --- the ways ------------------------------------------------------------------------------


@dataclass(slots=True)
class LoopBatch:
    """One batch of a loop: the changes of its inputs, what is known of it, and notes for users."""

    step: LoopOp
    changes: Sequence[SortedRows]
    context: BatchContext
    counters: Counters
    note: dict[str, Any] = field(default_factory=dict)

    def answer(self) -> tuple[SortedRows, Way, str]:
        """The change of the loop's answer, the way that was taken, and why."""
        way, reason = _way(self.step, self.counters)
        if self.step.asked.mode == "diffuse":
            return self.diffuse()
        if way == "recompute":
            return self.recompute(reason)
        if not self.counters["exact"]:
            return self.build_exact(), way, reason
        answer = self.advance_exactly()
        _judge(self.step, self.counters)
        return answer, way, reason

    # --- exact

    def advance_exactly(self) -> SortedRows:
        """Send the changes through the steps."""
        tally = self.context.reader.tally
        before = tally.rows
        given = [rows_of(change) for change in self.changes]
        rows, self.note = self.drive(given, is_first=False)
        self.counters["cost"] = DEARER * (tally.rows - before + self.note["rows"])
        return sorted_rows_of(self.step.schema, self.answer_rows(rows))

    def build_exact(self) -> SortedRows:
        """Begin to keep the loop exactly, from all rows of its inputs."""
        inputs = self.inputs()
        self.forget_steps()
        rows, self.note = self.drive(inputs, is_first=True)
        self.counters["exact"] = 1
        return self.change_to(self.answer_rows(rows))

    def drive(self, given: Sequence[Rows], *, is_first: bool) -> tuple[Rows, dict[str, Any]]:
        """Drive changes through the steps and keep what that changes.

        The change of the chosen variable, and how many steps and rows that took.
        """
        step, context, counters, numbered = (
            self.step,
            self.context,
            self.counters,
            self.step.numbered,
        )
        assert numbered is not None
        ending = Ending(step.node.term.flagged, step.limit, context.env.world.max_steps)
        machine = Machine(numbered, given, context, is_first)
        stop = None if is_first else counters["stop"]
        course = drive(machine, ending, counters.numbers("flags"), stop)
        for number, rows in enumerate(course.differences):
            for variable, each in enumerate(rows):
                if len(each):
                    context.add(*difference(numbered, variable, number, each))
        for number, count in course.flags.items():
            counters.add("flags", number, count)
        counters["stop"] = course.stop
        done = {"steps": course.ran, "rows": machine.sent}
        return course.answer[step.node.term.chosen], done

    def answer_rows(self, rows: Rows) -> Rows:
        """Rows of the chosen variable as rows of the answer."""
        numbered = self.step.numbered
        assert numbered is not None
        if not len(rows) or numbered.brought is None:
            return rows
        return numbered.brought.apply(rows, self.context.env)

    def forget_steps(self) -> None:
        """Keep nothing of the steps."""
        counters, numbered = self.counters, self.step.numbered
        counters["diffuse"] = 0
        if numbered is None:
            return
        for name, schema in numbered.own:
            if self.context.table(name, schema).segments:
                self.context.truncate(name, schema)
        for number, count in counters.numbers("flags").items():
            counters.add("flags", number, -count)
        counters["stop"] = counters["exact"] = counters["dear"] = 0

    # --- recompute

    def recompute(self, reason: str) -> tuple[SortedRows, Way, str]:
        """Run the loop again; begin to keep it exactly if its changes die out."""
        step, counters, offloading = self.step, self.counters, self.context.offloading
        limit = offloading.row_limits.get(step.result, sys.maxsize)
        offloaded = offloading.result_of(step.result)
        if offloaded is not None:
            answer = read_changes(offloading.directory, offloaded.files, step.schema)
            self.forget_steps()
            self.note = {"steps": offloaded.steps, "rows": len(answer)}
            return answer, "recompute", "too large for a task: as steps on Spark"
        if self.count_inputs() > limit:
            raise self.too_large()
        inputs = self.inputs()
        try:
            rows, ran = recompute_loop(step, inputs, self.context, limit)
        except TooManyRows:
            raise self.too_large() from None
        self.note = {"steps": ran.steps, "rows": ran.rows}
        answer = self.change_to(rows)
        self.forget_steps()
        counters["again"] = ran.rows + ran.steps * sum(map(len, inputs))
        counters["rows"], counters["moved"] = ran.rows, ran.moved
        counters["pause"] = max(counters["pause"] - 1, 0)
        if step.asked.mode == "default" and _dies_out(step, ran) and not counters["pause"]:
            self.drive(inputs, is_first=True)
            counters["exact"] = 1
            reason = f"{_share_moving(counters)}: from now on exact"
        return answer, "recompute", reason

    def count_inputs(self) -> int:
        """How many rows the inputs have about, with their changes."""
        tables = [self.context.table(*each) for each in self.input_tables()]
        return sum(table.rows for table in tables) + sum(map(len, self.changes))

    def too_large(self) -> LoopTooLarge:
        """A request to run the loop on Spark; writes what that needs."""
        buckets = self.context.tables[self.step.result].buckets
        files = write_input_changes(self.context.offloading, self.changes, buckets)
        return LoopTooLarge(self.step.result, files)

    # --- diffuse

    def diffuse(self) -> tuple[SortedRows, Way, str]:
        """Let the changes alone move the last answer; or begin again from the loop's own result."""
        step, counters = self.step, self.counters
        counters["since"] += 1
        reason = _reason_to_resync(step, counters)
        if not reason:
            found = self.follow()
            if found is None:
                reason = "what has changed cannot be measured against what is kept"
            else:
                change, error = found
                if error.figure <= (step.asked.tolerance or math.inf) * error.norm:
                    self.note = {"steps": 1, "rows": len(change), "error": error.as_json()}
                    return sorted_rows_of(step.schema, change), "diffuse", "asked for"
                reason = f"its {error.kind} passes the tolerance: {error.figure:.3g}"
        inputs = self.inputs()
        rows, ran = recompute_loop(step, inputs, self.context)
        answer = self.change_to(rows)
        self.forget_steps()
        counters["since"] = 0
        counters["diffuse"] = int(self.start_diffusion(inputs, rows, ran))
        none = {"kind": "resynchronised", "figure": 0.0}
        self.note = {"steps": ran.steps, "rows": ran.rows, "error": none}
        return answer, "recompute", reason

    def follow(self) -> tuple[Rows, StatedError] | None:
        """What the changes alone do to the last answer; None if the loop has to be run again."""
        given, diffused = [rows_of(change) for change in self.changes], self.step.diffused
        if isinstance(diffused, Means):
            every = [partial(self.input, number) for number in range(len(given))]
            return follow(diffused, given, every, self.context)
        assert not isinstance(diffused, str)
        return affine_follow(diffused, given, self.context, TOO_SMALL)

    def start_diffusion(self, inputs: Sequence[Rows], rows: Rows, ran: Ran) -> bool:
        """Begin to diffuse from the loop's own result; whether that can be done."""
        match self.step.diffused:
            case str():
                return False
            case Means() as means:
                return bool(ran.before) and reset(means, inputs, ran.before[0], self.context)
            case tables:
                return affine_reset(tables, inputs, rows, self.context)

    # --- rows

    def change_to(self, rows: Rows) -> SortedRows:
        """The change from the last answer to another one."""
        step = self.step
        table = self.context.table(step.result, step.schema)
        old = (scan(table, self.context.reader, bucket) for bucket in range(table.buckets))
        return replacement(step.schema, [sorted_rows_of(step.schema, rows)], old)

    def input_tables(self) -> list[tuple[str, TableSchema]]:
        """The tables of the inputs."""
        return list(zip(self.step.tables, self.step.schemas, strict=True))

    def inputs(self) -> list[Rows]:
        """All rows of the inputs."""
        return [self.input(number) for number in range(len(self.changes))]

    def input(self, number: int) -> Rows:
        """All rows of an input."""
        table, reader = self.context.table(*self.input_tables()[number]), self.context.reader
        known = [scan(table, reader, bucket) for bucket in range(table.buckets)]
        whole = input_rows([*known, self.changes[number]])
        reader.tally.rows += len(whole)
        return whole


def input_rows(contents: Sequence[SortedRows]) -> Rows:
    """All rows of an input, from what is kept of it and what a batch changes."""
    whole = rows_of(merge(contents))
    if (whole.weights < 0).any():
        raise NegativeWeight("a loop has fewer than no rows")
    return whole


def replacement(
    schema: TableSchema, new: Sequence[SortedRows], old: Iterable[SortedRows]
) -> SortedRows:
    """The change that puts new rows in the place of old ones."""
    return merge_all(
        schema, [*new, *[each.with_weights(-each.weights) for each in old if len(each)]]
    )
