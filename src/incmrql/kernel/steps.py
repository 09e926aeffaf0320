"""Steps at work: from the changes of the steps below to the change of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, assert_never

import numpy as np

from incmrql.kernel.content import Content, added_up, empty, merge
from incmrql.kernel.desk import Desk, content_of, rows_of
from incmrql.kernel.form import Form
from incmrql.kernel.groups import grouped_gather, grouped_meet, grouped_slots
from incmrql.kernel.joins import joined_gather, joined_meet
from incmrql.kernel.keys import no_keys
from incmrql.kernel.loops import looped_meet
from incmrql.kernel.ordered import front
from incmrql.kernel.physical import (
    GroupOp,
    JoinOp,
    LoopOp,
    OrderOp,
)
from incmrql.kernel.rows import Rows, stacked
from incmrql.kernel.segment import Segment
from incmrql.reference import Environment

Stateful: TypeAlias = JoinOp | GroupOp | OrderOp | LoopOp


def slots(step: Stateful) -> tuple[Form, ...]:
    """The forms of the contents that rows are gathered to, for a step that keeps something."""
    match step:
        case JoinOp(sides=sides):
            return tuple(side.form for side in sides)
        case GroupOp():
            return grouped_slots(step)
        case OrderOp(form=form):
            return (form,)
        case LoopOp(forms=forms):
            return forms
        case _:
            assert_never(step)


def gather(step: Stateful, inputs: Sequence[Iterable[Rows]], env: Environment) -> list[Content]:
    """What rows bring to a step, added up; the state is not looked at."""
    match step:
        case JoinOp():
            return joined_gather(step, inputs, env)
        case GroupOp():
            return grouped_gather(step, inputs, env)
        case OrderOp():
            return [_collected(step.form, inputs[0], step.paired, env)]
        case LoopOp():
            return [
                _collected(form, chunks, None, env)
                for form, chunks in zip(step.forms, inputs, strict=True)
            ]
        case _:
            assert_never(step)


def meet(step: Stateful, brought: Sequence[Content], desk: Desk) -> Iterator[Rows]:
    """The change of a step, from what was brought to it and from the state."""
    match step:
        case JoinOp():
            return joined_meet(step, brought, desk)
        case GroupOp():
            return grouped_meet(step, brought, desk)
        case OrderOp():
            return _sorted(step, brought[0], desk)
        case LoopOp():
            return looped_meet(step, brought, desk)
        case _:
            assert_never(step)


def _sorted(step: OrderOp, change: Content, desk: Desk) -> Iterator[Rows]:
    """-old +new of the first rows."""
    if not len(change):
        return
    table = desk.table(step.table, step.form)
    hashes, keys = change.hashes[:1], no_keys(()).take(np.zeros(1, np.int64))
    if step.limit:
        _, old = front(table, desk.reader, None, hashes, keys, step.limit)
        _, new = front(table, desk.reader, change, hashes, keys, step.limit)
        both = [rows_of(old).times(-1), rows_of(new)]
        form = Form(step.form.rest)
        yield rows_of(content_of(form, stacked(both, form.keys)))
    desk.change(step.table, change)


def _collected(
    form: Form, chunks: Iterable[Rows], paired: Segment | None, env: Environment
) -> Content:
    """All rows of a change as one content."""
    found = []
    for chunk in chunks:
        rows = chunk if paired is None else paired.apply(chunk, env)
        if len(rows):
            found.append(added_up(form, rows.columns, rows.weights))
    return merge(found) if found else empty(form)
