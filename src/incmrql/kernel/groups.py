"""Groups: -old +new for the keys that a batch touches.

what rows bring        accumulators, values of tables, rows, each added up by key
what is asked          before and after, of the touched keys
what is answered       for keys for which it changed, and for rows that came or went
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from incmrql.incremental.changes import Negative
from incmrql.kernel.accumulators import Parts, add
from incmrql.kernel.asked import Answers, column_before_after
from incmrql.kernel.content import Content, added_up, asked_keys, empty
from incmrql.kernel.desk import Desk, merged, zeros
from incmrql.kernel.form import Form
from incmrql.kernel.joins import Sums
from incmrql.kernel.keys import Keys, concat_keys, no_keys, same_keys
from incmrql.kernel.layouts import leaves, part, width
from incmrql.kernel.lifting import lifted
from incmrql.kernel.look import look_up, partners
from incmrql.kernel.physical import Block, Grouped, Ranking, Side
from incmrql.kernel.rows import Rows, no_rows, stacked
from incmrql.kernel.sorting import Groups
from incmrql.kernel.table import scan
from incmrql.kernel.touched import Touched
from incmrql.kernel.whole import whole_changes
from incmrql.reference import Environment
from incmrql.values.exact.sums import Integers

Mask = npt.NDArray[np.bool_]


def grouped_slots(step: Grouped) -> tuple[Form, ...]:
    """The forms of what rows bring: to accumulators, to tables, to the rows of sides."""
    return (
        step.form,
        *[ranking.form for ranking in step.rankings],
        *[side.form for side in step.sides],
    )


def grouped_gather(
    step: Grouped, inputs: Sequence[Iterable[Rows]], env: Environment
) -> list[Content]:
    """What rows bring, added up by key, without a look at the state."""
    sums: list[Content] = []
    rankings: list[list[Content]] = [[] for _ in step.rankings]
    rows: list[list[Content]] = [[] for _ in step.sides]
    for number, (side, chunks) in enumerate(zip(step.sides, inputs, strict=True)):
        for chunk in chunks:
            if not len(chunk):
                continue
            if isinstance(chunk, Sums):
                sums.append(chunk.content)
                continue
            pairs = chunk if side.paired is None else side.paired.apply(chunk, env)
            if _needs_rows(step, number):
                rows[number].append(_kept(side, pairs))
            sums += [
                _added(step, block, pairs, env)
                for block in step.blocks[number]
                if block.table is None
            ]
            for place, ranking in enumerate(step.rankings):
                if ranking.side == number:
                    rankings[place].append(_ranked(ranking, pairs, env))
    parts = [sums, *rankings, *rows]
    return [merged(form, each) for form, each in zip(grouped_slots(step), parts, strict=True)]


def grouped_meet(step: Grouped, brought: Sequence[Content], desk: Desk) -> Iterator[Rows]:
    """What the rows that were brought do to the answers of their keys."""
    sums, rankings, rows = _split(step, brought)
    sums = merged(step.form, [sums, *_of_different(step, rankings, desk)])
    touched = _touched(step, sums, rankings, rows, desk)
    if len(touched):
        answers = column_before_after(step, touched, desk)
        match step.mode:
            case "fold":
                yield _folded(step, touched, answers, desk)
            case "linear":
                yield from _row_by_row(step, touched, answers, desk)
            case "whole":
                yield whole_changes(step, touched, answers, desk)
    desk.change(step.table, sums)
    for ranking, content in zip(step.rankings, rankings, strict=True):
        desk.change(ranking.name, content)
    for side, content in zip(step.sides, rows, strict=True):
        desk.change(side.table, content)


def fold_rows(step: Grouped, bucket: int, desk: Desk) -> Rows:
    """All rows that the keys of a bucket answer with, from the tables of a fold."""
    content = scan(desk.table(step.table, step.form), desk.reader, bucket)
    there = content.take(content.weights > 0)
    none = [empty(form) for form in grouped_slots(step)]
    _, rankings, rows = _split(step, none)
    weights, parts = there.weights, there.parts
    nothing = [(each, zeros(0)) for each in rows]
    touched = Touched(there.hashes, there.keys, weights, weights, parts, parts, rankings, nothing)
    if not len(touched):
        return no_rows(step.body.types)
    columns = column_before_after(step, touched, desk).before
    return step.body.apply(Rows((*there.keys.columns, *columns), np.ones_like(weights)), desk.env)


def _split(
    step: Grouped, brought: Sequence[Content]
) -> tuple[Content, Sequence[Content], Sequence[Content]]:
    until = 1 + len(step.rankings)
    return brought[0], brought[1:until], brought[until:]


# --- what rows bring -----------------------------------------------------------------------


def _of_different(step: Grouped, rankings: Sequence[Content], desk: Desk) -> Iterator[Content]:
    """What the different values of tables that come and go bring to accumulators."""
    for block in (each for blocks in step.blocks for each in blocks):
        if block.table is not None and len(rankings[block.table]):
            came = _different(step.rankings[block.table], rankings[block.table], desk)
            yield _added(step, block, came, desk.env)


def _needs_rows(step: Grouped, side: int) -> bool:
    """Whether the rows of a side matter themselves."""
    walked = [each.request.side for each in step.wanted if each.request.is_walked]
    return side in (step.linear, *step.used, *walked) or step.sides[side].table is not None


def _kept(side: Side, pairs: Rows) -> Content:
    columns = (*range(side.key_width), *side.columns)
    return added_up(side.form, pairs.pick(columns).columns, pairs.weights)


def _added(step: Grouped, block: Block, pairs: Rows, env: Environment) -> Content:
    """What rows add to the accumulators of their keys."""
    rows = block.segment.apply(pairs, env)
    columns, weights = list(rows.columns), rows.weights

    def parts(groups: Groups) -> Parts:
        of, n = groups.of_row, len(groups)
        found: Parts = {}
        for lift in block.lifts:
            found |= lifted(lift, columns, weights, of, n)
        return found

    counts = weights if block.counted else zeros(len(rows))
    return added_up(step.form, columns[: len(step.form.keys)], counts, parts)


def _ranked(ranking: Ranking, pairs: Rows, env: Environment) -> Content:
    rows = ranking.segment.apply(pairs, env)
    if ranking.drops_null and rows.columns[-1].null_count:
        rows = rows.take(rows.columns[-1].is_valid().to_numpy(zero_copy_only=False))
    return added_up(ranking.form, rows.columns, rows.weights)


def _different(ranking: Ranking, change: Content, desk: Desk) -> Rows:
    """The different values of a table that come and go: pairs of key and value."""
    before, _ = look_up(desk.table(ranking.name, ranking.form), desk.reader, change)
    came = (before + change.weights > 0).astype(np.int64) - (before > 0)
    value = part(ranking.element, 1) if ranking.paired else ranking.element
    columns = change.columns[: len(ranking.form.keys)]
    values = change.columns[len(change.columns) - width(value) :]
    return Rows((*columns, *values), came).take(came != 0)


# --- the touched keys ----------------------------------------------------------------------


def _touched(
    step: Grouped,
    sums: Content,
    rankings: Sequence[Content],
    rows: Sequence[Content],
    desk: Desk,
) -> Touched:
    """The keys that something was brought to, and their accumulators before and after."""
    some = [content for content in (sums, *rankings, *rows) if len(content)]
    if not some:
        none = no_keys(step.form.keys)
        return Touched(np.zeros(0, np.uint64), none, zeros(0), zeros(0), {}, {}, [], [])
    if len(some) == 1 and some[0] is sums:
        hashes, keys = sums.hashes, sums.keys
        places: list[Integers] = [np.arange(len(sums))]
    else:
        hashes, keys, of_row = asked_keys(concat_keys([content.keys for content in some]))
        ends = np.cumsum([len(content) for content in some])
        places = np.split(of_row, ends[:-1])
    where = {id(content): at for content, at in zip(some, places, strict=True)}
    nothing = zeros(0)
    at = where.get(id(sums), nothing)
    asked = Content(step.form, hashes, keys, no_keys(()), None, zeros(len(hashes)))
    weights, parts = look_up(desk.table(step.table, step.form), desk.reader, asked)
    added = zeros(len(hashes))
    added[at] = sums.weights
    after: Parts = {}
    for name, column in sums.parts.items():
        after[name] = zeros(len(hashes))
        after[name][at] = column
    if (weights + added < 0).any():
        raise Negative("a group has fewer than no rows")
    placed = [(each, where.get(id(each), nothing)) for each in rows]
    return Touched(
        hashes, keys, weights, weights + added, parts, add(parts, after), rankings, placed
    )


# --- answers -------------------------------------------------------------------------------


def changed(touched: Touched, answers: Answers) -> Mask:
    """For which keys something that is asked has another value."""
    everything = np.arange(len(touched))
    found = np.zeros(len(touched), np.bool_)
    for before, after, type_ in zip(answers.before, answers.after, answers.types, strict=True):
        if before is after:
            continue
        one, two = Keys((before,), (type_,)), Keys((after,), (type_,))
        found |= ~same_keys(one, everything, two, everything)
    return found


def _folded(step: Grouped, touched: Touched, answers: Answers, desk: Desk) -> Rows:
    """The answers of keys that came, went, or for which what is asked changed."""
    was, is_ = touched.before > 0, touched.after > 0
    differs = changed(touched, answers) | (was != is_)
    old, new = np.flatnonzero(was & differs), np.flatnonzero(is_ & differs)
    given = [
        Rows((*_take(touched.keys.columns, places), *_take(columns, places)), signs)
        for places, columns, signs in (
            (old, answers.before, np.full(len(old), -1)),
            (new, answers.after, np.full(len(new), 1)),
        )
    ]
    types = (*step.form.keys, *answers.types)
    return step.body.apply(stacked(given, types), desk.env)


def _row_by_row(step: Grouped, touched: Touched, answers: Answers, desk: Desk) -> Iterable[Rows]:
    """Rows that came or went, and all rows of keys for which what is asked changed."""
    assert step.linear is not None
    side = step.sides[step.linear]
    new, at = touched.rows[step.linear]
    if len(new):
        rows = Rows((*new.columns, *_take(answers.after, at)), new.weights)
        yield step.body.apply(rows, desk.env)
    differs = np.flatnonzero(changed(touched, answers)) if answers.types else zeros(0)
    table = desk.table(side.table, side.form)
    if not len(differs) or not table.runs:
        return
    keys = touched.keys.take(differs)
    for places, old in partners(table, desk.reader, touched.hashes[differs], keys):
        at = differs[places]
        before = Rows((*old.columns, *_take(answers.before, at)), -old.weights)
        after = Rows((*old.columns, *_take(answers.after, at)), old.weights)
        types = (*side.form.keys, *leaves(side.value), *answers.types)
        yield step.body.apply(stacked([before, after], types), desk.env)


def _take(columns: Sequence[Any], places: npt.NDArray[Any]) -> list[Any]:
    index = pa.array(places)
    return [column.take(index) for column in columns]
