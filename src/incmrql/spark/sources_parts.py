"""What a task does: the files of a source to record batches, by the reference reader.

Bad rows and errors do not go through Spark as rows or exceptions.  Each task says at its end,
in an accumulator, what became of each of its parts; an error ends the part it is in, and the
driver raises it when the query's job is done.  A part that Spark did not read to its end, for
want of need, says nothing, and is read once more by `sources_context`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any as Arrow
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.accumulators import Accumulator

from incmrql.diagnostics import DataError
from incmrql.formats import BadRow, Policy, Read, Row, read
from incmrql.formats.notices import Noticed, watched_fields
from incmrql.formats.rows import collect
from incmrql.reference.sources import _parsed as parsed
from incmrql.spark.native_lines import LineShape
from incmrql.spark.native_shapes import Start, blocks_of, start_of
from incmrql.spark.native_text import fast_batches
from incmrql.spark.sources_picked import columns, is_raw, picker, raw_picker, raw_rows
from incmrql.spark.sources_plan import Part, Plan, Tallies, Tally, chunked, numbers
from incmrql.spark.values import BATCH, batch, value_schema

Task: TypeAlias = Callable[[Iterable[Arrow]], Iterator[Arrow]]


def rows_task(
    plan: Plan, tasks: tuple[tuple[int, ...], ...], reading: int, tallies: Accumulator[Tallies]
) -> Task:
    """The function for `mapInArrow` over the numbers of tasks that gives the rows."""
    return partial(_rows_of_tasks, plan, tasks, reading, tallies)


def _rows_of_tasks(
    plan: Plan,
    tasks: tuple[tuple[int, ...], ...],
    reading: int,
    tallies: Accumulator[Tallies],
    given: Iterable[Arrow],
) -> Iterator[Arrow]:
    for number in numbers(given):
        for place in tasks[number]:
            tally = Tally()
            yield from good_rows(plan, plan.parts[place], tally)
            tallies.add({(reading, place): tally})


def bad_task(plan: Plan, places: tuple[int, ...]) -> Task:
    """The function for `mapInArrow` over numbers of `places` that gives the bad rows."""
    return partial(_bad_of_parts, plan, places)


BAD_SCHEMA: Final = "part int, path string, line int, text binary, reason binary"
_BAD_SCHEMA: Final = pa.schema(
    [
        ("part", pa.int32()),
        ("path", pa.string()),
        ("line", pa.int32()),
        ("text", pa.binary()),
        ("reason", pa.binary()),
    ]
)
_ERRORS: Final = "surrogatepass"


def _bad_of_parts(plan: Plan, places: tuple[int, ...], given: Iterable[Arrow]) -> Iterator[Arrow]:
    for number in numbers(given):
        part = plan.parts[places[number]]
        for chunk in chunked(bad_rows(plan, part), BATCH >> 4):
            yield pa.RecordBatch.from_pylist([_packed_bad(part, row) for row in chunk], _BAD_SCHEMA)


def _packed_bad(part: Part, row: BadRow) -> dict[str, Arrow]:
    return {
        "part": part.number,
        "path": row.path,
        "line": row.line,
        "text": row.text.encode(errors=_ERRORS),
        "reason": row.reason.encode(errors=_ERRORS),
    }


def unpacked_bad(row: Arrow) -> BadRow:
    """A bad row that came from `bad_task`."""
    text, reason = bytes(row.text), bytes(row.reason)
    return BadRow(row.path, row.line, text.decode(errors=_ERRORS), reason.decode(errors=_ERRORS))


# --- one part ----------------------------------------------------------------------------


def good_rows(plan: Plan, part: Part, tally: Tally) -> Iterator[Arrow]:
    """The rows of a part in batches; the tally gets the rest."""
    try:
        with _shown_places(part):
            plan.paths.check(part.path)
            start = start_of(plan, part)
            if start is None:
                yield from _row_by_row(plan, part, reads(plan, part), tally)
            else:
                yield from _natively(plan, part, start, tally)
            if plan.picks is None:
                watched = watched_fields(plan.source, plan.element)
                tally.noticed.look_up_names(part.path, plan.source.keys, watched)
    except DataError as error:
        tally.failure = error.code, error.message, error.place, error.hint


def _natively(plan: Plan, part: Part, start: Start, tally: Tally) -> Iterator[Arrow]:
    for natives, others in fast_batches(start.shape, blocks_of(part, start)):
        if natives is not None:
            tally.rows += natives.num_rows
            _notice_natives(plan, natives, tally.noticed)
            yield natives
        yield from _row_by_row(plan, part, others, tally)
    if isinstance(start.shape, LineShape):
        tally.noticed.beyond += start.shape.beyond


def _notice_natives(plan: Plan, natives: Arrow, noticed: Noticed) -> None:
    noticed.rows += natives.num_rows
    watched = watched_fields(plan.source, plan.element)
    fields = natives.columns if len(natives.columns) == len(watched) else natives.column(0)
    for place, name in enumerate(watched):
        if name not in noticed.present:
            values = fields[place] if isinstance(fields, list) else fields.field(place)
            if values.null_count < len(values):
                noticed.present.add(name)


def _row_by_row(plan: Plan, part: Part, rows: Iterable[Read], tally: Tally) -> Iterator[Arrow]:
    if plan.picks is not None:
        values = (row.value for row in _good(rows, plan.policy, tally))
        pick = raw_picker(plan.picks) if is_raw(plan) else picker(plan.picks)
        for picked in chunked(map(pick, values), BATCH):
            yield columns(plan.picks, picked)
            tally.rows += len(picked)
        return
    watched = watched_fields(plan.source, plan.element)
    for chunk in chunked(_good(rows, plan.policy, tally), BATCH):
        tally.noticed.add_rows(chunk, watched)
        yield _weighted(plan, part, chunk, tally.rows) if plan.weighted else _plain(plan, chunk)
        tally.rows += len(chunk)


def _good(rows: Iterable[Read], policy: Policy, tally: Tally) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, Row):
            yield row
        else:
            if policy == "fail":
                collect([row], "fail")
            tally.add(row)


def bad_rows(plan: Plan, part: Part) -> Iterator[BadRow]:
    """The bad rows of a part, of which there may be many."""
    plan.paths.check(part.path)
    start = start_of(plan, part)
    if start is None:
        found = reads(plan, part)
    else:
        natively = fast_batches(start.shape, blocks_of(part, start))
        found = (row for _, others in natively for row in others)
    return (row for row in found if isinstance(row, BadRow))


@contextmanager
def _shown_places(part: Part) -> Iterator[None]:
    """Errors name the file as the source does."""
    try:
        yield
    except DataError as error:
        place = error.place
        if place.startswith(part.path):
            place = part.shown + place[len(part.path) :]
        raise DataError(error.code, error.message, place=place, hint=error.hint) from None


def reads(plan: Plan, part: Part) -> Iterator[Read]:
    """What the reference reader makes of a file, with the names that messages use."""
    for row in _reads(plan, part):
        if isinstance(row, BadRow) and row.path == part.path:
            yield replace(row, path=part.shown)
        else:
            yield row


def _reads(plan: Plan, part: Part) -> Iterator[Read]:
    source = plan.source
    if source.format == "python":
        return parsed(_parser(plan), source, part.path, plan.policy)
    if plan.picks is not None and is_raw(plan):
        return raw_rows(plan, part)
    return read(
        source.format,
        part.path,
        source.row,
        delimiter=source.delimiter,
        keys=source.keys,
        steps=source.steps,
        options=plan.options,
        data=plan.data,
    )


def _plain(plan: Plan, rows: list[Row]) -> Arrow:
    schema = value_schema(plan.element, packed=plan.packed)
    return batch([row.value for row in rows], plan.element, schema)


def _weighted(plan: Plan, part: Part, rows: list[Row], before: int) -> Arrow:
    packed = value_schema(plan.element, packed=True)
    (array,) = batch([row.value for row in rows], plan.element, packed).columns
    size = len(rows)
    return pa.record_batch(
        {
            "row": array,
            "weight": pa.array([row.weight for row in rows], pa.int64()),
            "part": pa.repeat(pa.scalar(part.number, pa.int32()), size),
            "place": pa.array(range(before, before + size), pa.int64()),
        }
    )


def _parser(plan: Plan) -> Arrow:
    return plan.parser.unpacked()
