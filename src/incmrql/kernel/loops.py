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

from incmrql.incremental.changes import Negative
from incmrql.incremental.diffuse import StatedError
from incmrql.incremental.driving import drive
from incmrql.incremental.looping import Iteration
from incmrql.incremental.nodes import Repeated
from incmrql.kernel.apart import TooLarge, leave_inputs, left_answer
from incmrql.kernel.content import Content, merge
from incmrql.kernel.counters import Counters, counters_in, keep_counters
from incmrql.kernel.desk import Desk, content_of, merged, rows_of
from incmrql.kernel.diffuse_affine import affine_follow, affine_reset
from incmrql.kernel.diffuse_affine_tables import AffineTables
from incmrql.kernel.diffuse_means import follow, reset
from incmrql.kernel.form import Form
from incmrql.kernel.layouts import Layout, leaves
from incmrql.kernel.numbered import Machine, difference
from incmrql.kernel.operators import Evaluator, NamedForm, StatefulOp, all_rows
from incmrql.kernel.physical import Inner, Means, Numbered
from incmrql.kernel.recompute import Ran, TooManyRows, recompute_loop
from incmrql.kernel.recompute_columns import plain_rows
from incmrql.kernel.rows import Rows, stacked
from incmrql.kernel.table import scan
from incmrql.reference import Environment
from incmrql.reference.repeat import Ending

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
    forms: tuple[Form, ...]
    result: str
    layout: Layout
    form: Form
    limit: int | None
    plain: Inner
    numbered: Numbered | None
    reason: str
    counters: NamedForm
    asked: Iteration = field(default_factory=Iteration)
    """How the loop is to be kept."""
    diffused: Means | AffineTables | str = ""
    """How the loop is diffused; or why it is run again instead."""

    @property
    def state_tables(self) -> tuple[NamedForm, ...]:
        """Inputs, result, counters, and what is kept of the steps."""
        inputs = zip(self.tables, self.forms, strict=True)
        numbered = () if self.numbered is None else self.numbered.own
        diffused = () if isinstance(self.diffused, str) else self.diffused.own
        return (*inputs, (self.result, self.form), self.counters, *numbered, *diffused)

    @property
    def is_by_row(self) -> bool:
        """Whether rows are gone through one by one in some step."""
        return self.plain.is_by_row

    @property
    def is_cross(self) -> bool:
        """Whether all rows of two inputs meet in some step."""
        return self.plain.is_cross

    @property
    def delta_forms(self) -> tuple[Form, ...]:
        """Those of the inputs."""
        return self.forms

    def gather(self, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[Content]:
        """The changes of the inputs."""
        both = zip(self.forms, inputs, strict=True)
        return [all_rows(form, chunks, None, env) for form, chunks in both]

    def meet(self, deltas: Sequence[Content], desk: Desk) -> Iterator[Rows]:
        """The change of the loop's answer, if an input has changed or it never ran."""
        return _meet(self, deltas, desk)

    def evaluator(self, _moving: tuple[bool, ...], most: int) -> Evaluator:
        """The rows of the loop, run from its beginning."""

        def rows(inputs: Sequence[Iterable[Rows]], desk: Desk) -> list[Rows]:
            given = [
                stacked(list(map(plain_rows, chunks)), leaves(layout))
                for chunks, layout in zip(inputs, self.layouts, strict=True)
            ]
            return [recompute_loop(self, given, desk, most)[0]]

        return rows


def _meet(step: LoopOp, changes: Sequence[Content], desk: Desk) -> Iterator[Rows]:
    counters = counters_in(*step.counters, desk)
    if counters["runs"] and not any(map(len, changes)):
        return
    way, reason = _way(step, counters)
    note: dict[str, Any] = {}
    if step.asked.way == "diffuse":
        answer, way, reason = _diffuse(step, changes, counters, desk, note)
    elif way == "recompute":
        answer, reason = _recompute(step, changes, counters, desk, note, reason)
    elif counters["exact"]:
        answer = _exact_change(step, changes, counters, desk, note)
        _judge(step, counters)
    else:
        answer = _build_exact(step, _inputs(step, changes, desk), counters, desk, note)
    for name, change in zip(step.tables, changes, strict=True):
        desk.change(name, change)
    counters["runs"] += 1
    keep_counters(counters, *step.counters, desk)
    desk.change(step.result, answer)
    desk.notes[step.result] = {"way": way, "reason": reason, **note}
    yield rows_of(answer)


# --- which way -----------------------------------------------------------------------------


def _way(step: LoopOp, counters: Counters) -> tuple[Way, str]:
    if step.numbered is None:
        return "recompute", step.reason
    match step.asked.way:
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
    if step.asked.way == "default" and counters["dear"] >= PATIENCE:
        counters["exact"] = 0
        counters["span"] = counters["pause"] = min(max(2 * counters["span"], 8), 256)


# --- the ways ------------------------------------------------------------------------------


def _exact_change(
    step: LoopOp, changes: Sequence[Content], counters: Counters, desk: Desk, note: dict[str, Any]
) -> Content:
    """Send the changes through the steps."""
    given = [rows_of(change) for change in changes]
    before = desk.reader.tally.rows
    found = _drive(step, given, counters, desk, note, is_first=False)
    counters["cost"] = DEARER * (desk.reader.tally.rows - before + note["rows"])
    answer = _answer_rows(step, found, desk)
    return content_of(step.form, answer)


def _build_exact(
    step: LoopOp, inputs: Sequence[Rows], counters: Counters, desk: Desk, note: dict[str, Any]
) -> Content:
    """Begin to keep the loop exactly, from all rows of its inputs."""
    _forget_steps(step, counters, desk)
    found = _drive(step, inputs, counters, desk, note, is_first=True)
    counters["exact"] = 1
    new = content_of(step.form, _answer_rows(step, found, desk))
    return _change_of_answer(step, new, desk)


def _recompute(
    step: LoopOp,
    changes: Sequence[Content],
    counters: Counters,
    desk: Desk,
    note: dict[str, Any],
    reason: str,
) -> tuple[Content, str]:
    """Run the loop again from all rows of its inputs; begin to keep it exactly if it dies out."""
    if _is_large(step, changes, desk):
        return _offloaded_answer(step, changes, counters, desk, note)
    inputs = _inputs(step, changes, desk)
    try:
        rows, ran = recompute_loop(
            step, inputs, desk, desk.apart.most.get(step.result, sys.maxsize)
        )
    except TooManyRows:
        raise _too_large(step, changes, desk) from None
    note |= {"steps": ran.steps, "rows": ran.rows}
    answer = _change_of_answer(step, content_of(step.form, rows), desk)
    _forget_steps(step, counters, desk)
    counters["again"] = ran.rows + ran.steps * sum(map(len, inputs))
    counters["rows"], counters["moved"] = ran.rows, ran.moved
    counters["pause"] = max(counters["pause"] - 1, 0)
    if step.asked.way == "default" and _dies_out(step, ran) and not counters["pause"]:
        _drive(step, inputs, counters, desk, {}, is_first=True)
        counters["exact"] = 1
        reason = f"{_share_moving(counters)}: from now on exact"
    return answer, reason


def _diffuse(
    step: LoopOp, changes: Sequence[Content], counters: Counters, desk: Desk, note: dict[str, Any]
) -> tuple[Content, Way, str]:
    """Let the changes alone move the last answer; or run the loop again, and begin from there."""
    counters["since"] += 1
    reason = _reason_to_resync(step, counters)
    if not reason:
        found = _follow(step, changes, desk)
        if found is None:
            reason = "what has changed cannot be measured against what is kept"
        else:
            change, error = found
            if error.figure <= (step.asked.tolerance or math.inf) * error.norm:
                note |= {"steps": 1, "rows": len(change), "error": error.as_json()}
                return content_of(step.form, change), "diffuse", "asked for"
            reason = f"its {error.kind} passes the tolerance: {error.figure:.3g}"
    inputs = _inputs(step, changes, desk)
    rows, ran = recompute_loop(step, inputs, desk)
    answer = _change_of_answer(step, content_of(step.form, rows), desk)
    _forget_steps(step, counters, desk)
    counters["since"] = 0
    counters["diffuse"] = int(_start_diffusion(step, inputs, rows, ran, desk))
    none = {"kind": "resynchronised", "figure": 0.0}
    note |= {"steps": ran.steps, "rows": ran.rows, "error": none}
    return answer, "recompute", reason


def _follow(
    step: LoopOp, changes: Sequence[Content], desk: Desk
) -> tuple[Rows, StatedError] | None:
    """What the changes alone do to the last answer; None if the loop has to be run again."""
    given = [rows_of(change) for change in changes]
    if isinstance(step.diffused, Means):
        every = [partial(_input, step, n, changes, desk) for n in range(len(changes))]
        return follow(step.diffused, given, every, desk)
    assert not isinstance(step.diffused, str)
    return affine_follow(step.diffused, given, desk, TOO_SMALL)


def _start_diffusion(
    step: LoopOp, inputs: Sequence[Rows], rows: Rows, ran: Ran, desk: Desk
) -> bool:
    """Begin to diffuse from the loop's own result; whether that can be done."""
    match step.diffused:
        case str():
            return False
        case Means():
            return bool(ran.before) and reset(step.diffused, inputs, ran.before[0], desk)
        case _:
            return affine_reset(step.diffused, inputs, rows, desk)


def _reason_to_resync(step: LoopOp, counters: Counters) -> str:
    """Why a loop is run again before anything is diffused."""
    if isinstance(step.diffused, str):
        return step.diffused
    if not counters["diffuse"]:
        return "nothing is kept to diffuse from" if counters["runs"] else "the first batch"
    if step.asked.resync is not None and counters["since"] >= step.asked.resync:
        return f"{counters['since']} batches since it was run"
    return ""


def _drive(
    step: LoopOp,
    given: Sequence[Rows],
    counters: Counters,
    desk: Desk,
    note: dict[str, Any],
    *,
    is_first: bool,
) -> Rows:
    """Drive changes through a loop, and keep what that changes; the change of its answer."""
    numbered = step.numbered
    assert numbered is not None
    ending = Ending(step.node.term.flagged, step.limit, desk.env.world.max_steps)
    machine = Machine(numbered, given, desk, is_first)
    stop = None if is_first else counters["stop"]
    course = drive(machine, ending, counters.numbers("flags"), stop)
    for number, rows in enumerate(course.differences):
        for variable, each in enumerate(rows):
            if len(each):
                desk.change(*difference(numbered, variable, number, each))
    for number, count in course.flags.items():
        counters.add("flags", number, count)
    counters["stop"] = course.stop
    note |= {"steps": course.ran, "rows": machine.sent}
    return course.answer[step.node.term.chosen]


def _is_large(step: LoopOp, changes: Sequence[Content], desk: Desk) -> bool:
    """Whether a loop is too much for a task."""
    if desk.apart.of(step.result) is not None:
        return True
    tables = [desk.table(*each) for each in zip(step.tables, step.forms, strict=True)]
    rows = sum(table.rows for table in tables) + sum(map(len, changes))
    return rows > desk.apart.most.get(step.result, sys.maxsize)


def _offloaded_answer(
    step: LoopOp, changes: Sequence[Content], counters: Counters, desk: Desk, note: dict[str, Any]
) -> tuple[Content, str]:
    """What Spark has found, by running the loop again in steps of its own; or ask for that."""
    ran = desk.apart.of(step.result)
    if ran is None:
        raise _too_large(step, changes, desk)
    answer = left_answer(desk.apart.folder, ran, step.form)
    _forget_steps(step, counters, desk)
    note |= {"steps": ran.steps, "rows": len(answer)}
    return answer, "too large for a task: as steps on Spark"


def _too_large(step: LoopOp, changes: Sequence[Content], desk: Desk) -> TooLarge:
    """A request to run the loop apart, for which all is put down."""
    inputs = leave_inputs(desk.apart, changes, desk.tables[step.result].buckets)
    return TooLarge(step.result, inputs)


def _change_of_answer(step: LoopOp, new: Content, desk: Desk) -> Content:
    """The change from the last answer to another one."""
    table = desk.table(step.result, step.form)
    old = (scan(table, desk.reader, bucket) for bucket in range(table.buckets))
    return replacement(step.form, [new], old)


def replacement(form: Form, new: Sequence[Content], old: Iterable[Content]) -> Content:
    """The change that puts new rows in the place of old ones."""
    return merged(form, [*new, *[each.with_weights(-each.weights) for each in old if len(each)]])


def _answer_rows(step: LoopOp, rows: Rows, desk: Desk) -> Rows:
    numbered = step.numbered
    assert numbered is not None
    if not len(rows) or numbered.brought is None:
        return rows
    return numbered.brought.apply(rows, desk.env)


def _inputs(step: LoopOp, changes: Sequence[Content], desk: Desk) -> list[Rows]:
    """All rows of the inputs."""
    return [_input(step, number, changes, desk) for number in range(len(changes))]


def _input(step: LoopOp, number: int, changes: Sequence[Content], desk: Desk) -> Rows:
    """All rows of an input."""
    table = desk.table(step.tables[number], step.forms[number])
    known = [scan(table, desk.reader, bucket) for bucket in range(table.buckets)]
    whole = input_rows([*known, changes[number]])
    desk.reader.tally.rows += len(whole)
    return whole


def input_rows(contents: Sequence[Content]) -> Rows:
    """All rows of an input, from what is kept of it and what a batch changes."""
    whole = rows_of(merge(contents))
    if (whole.weights < 0).any():
        raise Negative("a loop has fewer than no rows")
    return whole


# --- what is kept --------------------------------------------------------------------------


def _forget_steps(step: LoopOp, counters: Counters, desk: Desk) -> None:
    """Keep nothing of the steps."""
    counters["diffuse"] = 0
    numbered = step.numbered
    if numbered is None:
        return
    for name, form in numbered.own:
        if desk.table(name, form).runs:
            desk.clear(name, form)
    for number, count in counters.numbers("flags").items():
        counters.add("flags", number, -count)
    counters["stop"] = counters["exact"] = counters["dear"] = 0
