"""What a task does: the files of a source to record batches.

Bad rows and errors do not go through Spark as rows or exceptions.  Each task says at its end,
in an accumulator, what became of each of its parts; an error ends the part it is in, and the
driver raises it when the query's job is done.  A part that Spark did not read to its end, for
want of need, says nothing, and is read once more by `context`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any as Arrow
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.accumulators import Accumulator

from incmrql.algebra.term import Picks
from incmrql.errors import DataError
from incmrql.io import Chunk, Part, read_chunks, read_rows, row_chunks, with_shown_path
from incmrql.io.rows import BadRow, Policy, Read, Row, refusal
from incmrql.reference.sources import parser_rows
from incmrql.spark.sources.picked import columns, is_raw, picker, raw_picker, raw_rows
from incmrql.spark.sources.plan import Plan, Tallies, Tally, chunked, numbers
from incmrql.spark.values import BATCH, array_batch, value_schema

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
            if plan.picks is not None:
                yield from _picked(plan, part, plan.picks, tally)
                return
            for chunk in _chunks(plan, part):
                before = tally.rows
                tally.add_chunk(chunk)
                if len(chunk.values):
                    yield _batch(plan, part, chunk, before)
    except DataError as error:
        tally.failure = error.code, error.message, error.place, error.hint


def _chunks(plan: Plan, part: Part) -> Iterator[Chunk]:
    if plan.spec.source.format == "python":
        return row_chunks(plan.spec, _reads(plan, part), part.shown)
    return read_chunks(plan.spec, part)


def _batch(plan: Plan, part: Part, chunk: Chunk, before: int) -> Arrow:
    if not plan.weighted:
        schema = value_schema(plan.spec.element, packed=plan.packed)
        return array_batch(chunk.values, plan.spec.element, schema)
    size = len(chunk.values)
    return pa.record_batch(
        {
            "row": chunk.values,
            "weight": chunk.weights,
            "part": pa.repeat(pa.scalar(part.number, pa.int32()), size),
            "place": pa.array(range(before, before + size), pa.int64()),
        }
    )


def _picked(plan: Plan, part: Part, picks: Picks, tally: Tally) -> Iterator[Arrow]:
    values = (row.value for row in _good(_reads(plan, part), plan.spec.policy, tally))
    pick = raw_picker(picks) if is_raw(plan) else picker(picks)
    for picked in chunked(map(pick, values), BATCH):
        yield columns(picks, picked)
        tally.rows += len(picked)


def _good(rows: Iterable[Read], policy: Policy, tally: Tally) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, Row):
            yield row
        elif policy == "fail":
            raise refusal(row)
        else:
            tally.add(row)


def bad_rows(plan: Plan, part: Part) -> Iterator[BadRow]:
    """The bad rows of a part, of which there may be many."""
    plan.paths.check(part.path)
    if plan.picks is not None:
        return (row for row in _reads(plan, part) if isinstance(row, BadRow))
    return (row for chunk in _chunks(plan, part) for row in chunk.bad)


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


def _reads(plan: Plan, part: Part) -> Iterator[Read]:
    """The rows of a file one by one, with the names that messages use."""
    spec = plan.spec
    if spec.source.format == "python":
        rows = parser_rows(plan.parser.unpacked(), spec.source, part.path, spec.policy)
        return with_shown_path(rows, part)
    if plan.picks is not None and is_raw(plan):
        return with_shown_path(raw_rows(plan, part), part)
    return read_rows(spec, part)
