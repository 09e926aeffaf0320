"""The operator of a loop: it maintains the loop exactly or recomputes it, whichever costs less.

| way | state | cost of a batch |
|---|---|---|
| exact | the differences from step to step | the changes, in the steps that they reach |
| recompute | the inputs | all rows of the inputs, once for each step |

Both give the answer of the batch loop.  Costs are counted in rows that a loop reads and produces.
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
from incmrql.engine.compile.physical import Inner, Means, NumberedLoop
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
from incmrql.engine.loops.recompute.steps import LoopStats, TooManyRows, recompute_loop
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
"""A loop whose steps change a greater share of their rows than this is recomputed."""
DEARER: Final = 6
"""How many times as much a row costs on the exact way."""
TOO_SMALL: Final = 1e-6
"""When diffusing, differences below this times the mean size of a value are held back."""
PATIENCE: Final = 2
"""The exact way is given up after this many batches in a row that cost more than recomputing."""


@dataclass(frozen=True, slots=True)
class LoopOp(StatefulOp):
    """A loop; its state has all rows of its inputs and its last result.

    `plain` is the program of one step, and `numbered` the one over rows numbered by iteration;
    without it, `reason` says why not.  `counters` is the table of the loop's counters.
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
    numbered: NumberedLoop | None
    reason: str
    counters: NamedSchema
    settings: LoopSettings = field(default_factory=LoopSettings)
    """How users want loops to be maintained."""
    diffusion: Means | AffineTables | str = ""
    """The tables for diffusing the loop; or a text that says why it is recomputed instead."""

    @property
    def state_tables(self) -> tuple[NamedSchema, ...]:
        """The tables of inputs, result, counters and steps."""
        inputs = zip(self.tables, self.schemas, strict=True)
        numbered = () if self.numbered is None else self.numbered.own
        diffusion = () if isinstance(self.diffusion, str) else self.diffusion.own
        return (*inputs, (self.result, self.schema), self.counters, *numbered, *diffusion)

    @property
    def is_by_row(self) -> bool:
        """Whether some step evaluates rows one by one."""
        return self.plain.is_by_row

    @property
    def is_cross(self) -> bool:
        """Whether some step has a cross join."""
        return self.plain.is_cross

    @property
    def delta_schemas(self) -> tuple[TableSchema, ...]:
        """The schemas of the inputs."""
        return self.schemas

    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[SortedRows]:
        """The deltas of the inputs."""
        both = zip(self.schemas, inputs, strict=True)
        return [all_rows(schema, chunks, None, env) for schema, chunks in both]

    def meet(self, deltas: Sequence[SortedRows], context: BatchContext) -> Iterator[Rows]:
        """The delta of the loop's answer, if an input has changed or the loop never ran."""
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
        """The rows of the loop, recomputed."""

        def rows(inputs: Sequence[Iterable[Rows]], context: BatchContext) -> list[Rows]:
            whole = [
                concat_rows(list(map(plain_rows, chunks)), leaves(layout))
                for chunks, layout in zip(inputs, self.layouts, strict=True)
            ]
            return [recompute_loop(self, whole, context, most)[0]]

        return rows


# --- the choice of a way -------------------------------------------------------------------


def _way(step: LoopOp, counters: Counters) -> tuple[Way, str]:
    """Exact or recompute, and the reason."""
    if step.numbered is None:
        return "recompute", step.reason
    match step.settings.mode:
        case "exact":
            return "exact", "requested"
        case "recompute":
            return "recompute", "requested"
        case _:
            pass
    if counters["exact"]:
        share = counters["cost"] / max(counters["again"], 1)
        return "exact", f"the last batch cost {share:.1%} of recomputing the loop"
    return "recompute", _share_moving(counters)


def _share_moving(counters: Counters) -> str:
    if not counters["runs"]:
        return "the first batch"
    return f"{counters['moved']:,} rows change from step to step, of {counters['rows']:,}"


def _dies_out(step: LoopOp, stats: LoopStats) -> bool:
    """Whether a change of the inputs probably affects few rows of later steps.

    That is so if steps change few of their rows.  In a cross join, as of centroids and points, one
    changed row changes everything.
    """
    if step.numbered is None or step.is_cross:
        return False
    return stats.rows > 0 and stats.moved < MOVING * stats.rows


def _give_up_exact(step: LoopOp, counters: Counters) -> None:
    """Leave the exact way if it has cost more than recomputing for several batches.

    It is tried again after a pause, which doubles each time.
    """
    costs_more = counters["cost"] > counters["again"]
    counters["dear"] = counters["dear"] + 1 if costs_more else 0
    if step.settings.mode == "default" and counters["dear"] >= PATIENCE:
        counters["exact"] = 0
        counters["span"] = counters["pause"] = min(max(2 * counters["span"], 8), 256)


def _reason_to_resync(step: LoopOp, counters: Counters) -> str:
    """Why a loop has to be recomputed before it diffuses; "" if it need not."""
    if isinstance(step.diffusion, str):
        return step.diffusion
    if not counters["diffuse"]:
        return "there is no state to diffuse from" if counters["runs"] else "the first batch"
    if step.settings.resync is not None and counters["since"] >= step.settings.resync:
        return f"{counters['since']} batches since it was recomputed"
    return ""


# --- the ways ------------------------------------------------------------------------------


@dataclass(slots=True)
class LoopBatch:
    """One batch of a loop: the deltas of its inputs, its counters, and notes for users."""

    step: LoopOp
    changes: Sequence[SortedRows]
    context: BatchContext
    counters: Counters
    note: dict[str, Any] = field(default_factory=dict)

    def answer(self) -> tuple[SortedRows, Way, str]:
        """The delta of the loop's answer, the way, and the reason for it."""
        way, reason = _way(self.step, self.counters)
        if self.step.settings.mode == "diffuse":
            return self.diffuse()
        if way == "recompute":
            return self.recompute(reason)
        if not self.counters["exact"]:
            return self.build_exact(), way, reason
        answer = self.advance_exactly()
        _give_up_exact(self.step, self.counters)
        return answer, way, reason

    # --- exact

    def advance_exactly(self) -> SortedRows:
        """The delta of the answer, from the deltas of the inputs."""
        tally = self.context.reader.tally
        before = tally.rows
        deltas = [rows_of(change) for change in self.changes]
        rows, self.note = self.drive(deltas, is_first=False)
        self.counters["cost"] = DEARER * (tally.rows - before + self.note["rows"])
        return sorted_rows_of(self.step.schema, self.answer_rows(rows))

    def build_exact(self) -> SortedRows:
        """Start to maintain the loop exactly, from all rows of its inputs."""
        inputs = self.inputs()
        self.forget_steps()
        rows, self.note = self.drive(inputs, is_first=True)
        self.counters["exact"] = 1
        return self.change_to(self.answer_rows(rows))

    def drive(self, given: Sequence[Rows], *, is_first: bool) -> tuple[Rows, dict[str, Any]]:
        """Drive deltas through the steps, and add the changes of the steps to the state.

        Returns the delta of the chosen variable, and the number of steps and rows it took.
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
            for variable, change in enumerate(rows):
                if len(change):
                    context.add(*difference(numbered, variable, number, change))
        for number, count in course.flags.items():
            counters.add("flags", number, count)
        counters["stop"] = course.stop
        note = {"steps": course.ran, "rows": machine.sent}
        return course.answer[step.node.term.chosen], note

    def answer_rows(self, rows: Rows) -> Rows:
        """Rows of the chosen variable as rows of the answer."""
        numbered = self.step.numbered
        assert numbered is not None
        if not len(rows) or numbered.to_answer is None:
            return rows
        return numbered.to_answer.apply(rows, self.context.env)

    def forget_steps(self) -> None:
        """Delete the state of the steps, and of diffusion."""
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
        """Recompute the loop; start to maintain it exactly if changes die out."""
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
            rows, stats = recompute_loop(step, inputs, self.context, limit)
        except TooManyRows:
            raise self.too_large() from None
        self.note = {"steps": stats.steps, "rows": stats.rows}
        answer = self.change_to(rows)
        self.forget_steps()
        counters["again"] = stats.rows + stats.steps * sum(map(len, inputs))
        counters["rows"], counters["moved"] = stats.rows, stats.moved
        counters["pause"] = max(counters["pause"] - 1, 0)
        if step.settings.mode == "default" and _dies_out(step, stats) and not counters["pause"]:
            self.drive(inputs, is_first=True)
            counters["exact"] = 1
            reason = f"{_share_moving(counters)}: from now on exact"
        return answer, "recompute", reason

    def count_inputs(self) -> int:
        """The approximate number of rows of the inputs, with their deltas."""
        tables = [self.context.table(*named) for named in self.input_tables()]
        return sum(table.rows for table in tables) + sum(map(len, self.changes))

    def too_large(self) -> LoopTooLarge:
        """The exception that moves the loop to Spark; writes the deltas that this needs."""
        buckets = self.context.tables[self.step.result].buckets
        files = write_input_changes(self.context.offloading, self.changes, buckets)
        return LoopTooLarge(self.step.result, files)

    # --- diffuse

    def diffuse(self) -> tuple[SortedRows, Way, str]:
        """Update the last answer from the deltas alone; recompute it if the error is too large."""
        step, counters = self.step, self.counters
        counters["since"] += 1
        reason = _reason_to_resync(step, counters)
        if not reason:
            diffused = self.follow()
            if diffused is None:
                reason = "the changes cannot be diffused from the state"
            else:
                change, error = diffused
                if error.figure <= (step.settings.tolerance or math.inf) * error.norm:
                    self.note = {"steps": 1, "rows": len(change), "error": error.as_json()}
                    return sorted_rows_of(step.schema, change), "diffuse", "requested"
                reason = f"its {error.kind} exceeds the tolerance: {error.figure:.3g}"
        inputs = self.inputs()
        rows, stats = recompute_loop(step, inputs, self.context)
        answer = self.change_to(rows)
        self.forget_steps()
        counters["since"] = 0
        counters["diffuse"] = int(self.start_diffusion(inputs, rows, stats))
        no_error = {"kind": "resynchronised", "figure": 0.0}
        self.note = {"steps": stats.steps, "rows": stats.rows, "error": no_error}
        return answer, "recompute", reason

    def follow(self) -> tuple[Rows, StatedError] | None:
        """The delta of the answer from the deltas alone; None if the loop has to be recomputed."""
        deltas, diffusion = [rows_of(change) for change in self.changes], self.step.diffusion
        if isinstance(diffusion, Means):
            every = [partial(self.input, number) for number in range(len(deltas))]
            return follow(diffusion, deltas, every, self.context)
        assert not isinstance(diffusion, str)
        return affine_follow(diffusion, deltas, self.context, TOO_SMALL)

    def start_diffusion(self, inputs: Sequence[Rows], rows: Rows, stats: LoopStats) -> bool:
        """Start to diffuse from a recomputed result; returns whether that is possible."""
        match self.step.diffusion:
            case str():
                return False
            case Means() as means:
                return bool(stats.before) and reset(means, inputs, stats.before[0], self.context)
            case tables:
                return affine_reset(tables, inputs, rows, self.context)

    # --- rows

    def change_to(self, rows: Rows) -> SortedRows:
        """The delta from the last answer to a new one."""
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
        stored = [scan(table, reader, bucket) for bucket in range(table.buckets)]
        whole = input_rows([*stored, self.changes[number]])
        reader.tally.rows += len(whole)
        return whole


def input_rows(contents: Sequence[SortedRows]) -> Rows:
    """All rows of an input, from its stored rows and its delta."""
    whole = rows_of(merge(contents))
    if (whole.weights < 0).any():
        raise NegativeWeight("a loop has fewer than no rows")
    return whole


def replacement(
    schema: TableSchema, new: Sequence[SortedRows], old: Iterable[SortedRows]
) -> SortedRows:
    """The delta that replaces old rows by new ones."""
    removed = [rows.with_weights(-rows.weights) for rows in old if len(rows)]
    return merge_all(schema, [*new, *removed])
