"""Files to chunks of rows: vectorised where that is sure to be right, else row by row.

The rows, weights and bad rows of all chunks of a file are, in order, those of `reader.read`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any as Arrow

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.io.arrow.values import to_arrow
from incmrql.io.files import broken
from incmrql.io.notices import SourceFacts
from incmrql.io.reader import read_rows
from incmrql.io.rows import MOST_REMEMBERED, BadRow, Read, Row, refusal
from incmrql.io.spec import INSIDE, Part, ReadSpec
from incmrql.io.vectorised.parquet import parquet_arrays
from incmrql.io.vectorised.parser import Divided, Parser
from incmrql.io.vectorised.reader import VectorReader, vector_reader


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a file with their weights, and the parts of it that are none."""

    values: Arrow
    """An array of the Arrow type of the rows."""
    weights: Arrow
    bad: tuple[BadRow, ...] = ()
    facts: SourceFacts = field(default_factory=SourceFacts)


def read_chunks(spec: ReadSpec, part: Part) -> Iterator[Chunk]:
    """The rows of a part; a bad one is an error if the source says `on_error: fail`.

    The last chunk may be empty: it says which names JSON documents have, if they lack a field.
    """
    reader = vector_reader(spec, part)
    if reader is not None:
        chunks = _text_chunks(spec, reader)
    elif spec.source.format == "binary" and "sign" not in spec.options:
        chunks = _parquet_chunks(spec, part)
    else:
        chunks = row_chunks(spec, read_rows(spec, part), part.shown)
    whole = SourceFacts()
    for chunk in chunks:
        whole.add(chunk.facts)
        yield chunk
    known = SourceFacts(rows=whole.rows, present=set(whole.present))
    known.look_up_names(part.path, spec.source, spec.watched)
    if known.names:
        last = SourceFacts(present=known.present, names=known.names)
        yield Chunk(pa.array([], spec.arrow_type), pa.array([], pa.int64()), facts=last)


def row_chunks(spec: ReadSpec, rows: Iterable[Read], place: str) -> Iterator[Chunk]:
    """Chunks of rows that were read one by one; `place` is named for rows that are no text."""
    left = iter(rows)
    while chunk := _checked(islice(left, spec.chunk_rows), spec):
        yield _row_chunk(spec, chunk, place)


def _checked(rows: Iterable[Read], spec: ReadSpec) -> list[Read]:
    """The rows; an error at the first bad one, if the source says so."""
    if spec.policy != "fail":
        return list(rows)
    found: list[Read] = []
    for row in rows:
        if isinstance(row, BadRow):
            raise refusal(row)
        found.append(row)
    return found


def _row_chunk(spec: ReadSpec, rows: list[Read], place: str) -> Chunk:
    good = [row for row in rows if isinstance(row, Row)]
    bad = [row for row in rows if isinstance(row, BadRow)]
    try:
        values = _array(spec, good)
    except UnicodeEncodeError:
        spoiled = [row for row in good if not _is_storable(spec, row)]
        halves = [_half_a_character(row, place) for row in spoiled]
        _checked(halves, spec)
        bad += halves
        good = [row for row in good if row not in spoiled]
        values = _array(spec, good)
    weights = pa.array([row.weight for row in good], pa.int64())
    return _chunk(spec, values, weights, bad, sum(row.beyond for row in good))


def _array(spec: ReadSpec, rows: list[Row]) -> Arrow:
    return pa.array([to_arrow(row.value, spec.element) for row in rows], spec.arrow_type)


def _is_storable(spec: ReadSpec, row: Row) -> bool:
    """Whether all strings of a row are text; those of parsers in Python need not be."""
    try:
        _array(spec, [row])
    except UnicodeEncodeError:
        return False
    return True


def _half_a_character(row: Row, place: str) -> BadRow:
    return BadRow(place, 0, repr(row.value), "a string holds half of a surrogate pair")


def _chunk(
    spec: ReadSpec, values: Arrow, weights: Arrow, bad: list[BadRow], beyond: int = 0
) -> Chunk:
    present = {path for path in spec.watched if _has_value(values, path)}
    first = bad[:MOST_REMEMBERED]
    facts = SourceFacts(len(values), len(bad), beyond, present, first=first)
    return Chunk(values, weights, tuple(bad), facts)


def _has_value(values: Arrow, path: str) -> bool:
    """Whether the field with a path is not null in all rows."""
    name, *inside = path.split(INSIDE)
    column = values.field(name)
    if inside:
        column = pc.struct_field(column, inside)  # null also where a parent is
    return bool(column.null_count < len(column))


def _ones(values: Arrow) -> Arrow:
    return pa.repeat(pa.scalar(1, pa.int64()), len(values))


# --- blocks of lines ---------------------------------------------------------------------


def _text_chunks(spec: ReadSpec, reader: VectorReader) -> Iterator[Chunk]:
    blocks, parser, place = reader.blocks(), reader.parser, reader.part.shown
    for block in blocks:
        divided = parser.divide(block)
        yield _block_chunk(spec, parser, divided, place)
        if divided.bound is not None:
            yield from row_chunks(spec, parser.read_rows(divided.rest(blocks)), place)


def _block_chunk(spec: ReadSpec, parser: Parser, divided: Divided, place: str) -> Chunk:
    """The rows of lines that have nothing to do with what follows, in the order of the lines."""
    values, beyond, numbers, odd = divided.parsed(parser)
    rows = _checked(parser.read_apart(odd), spec)
    others = _row_chunk(spec, rows, place)
    if values is None:
        return others
    weights, bad = _ones(values), list(others.bad)
    if len(others.values):
        lines = [row.line for row in rows if isinstance(row, Row)]
        order = pa.array(np.argsort(np.concatenate([numbers, lines]), kind="stable"))
        values = pa.concat_arrays([values, others.values]).take(order)
        weights = pa.concat_arrays([weights, others.weights]).take(order)
    return _chunk(spec, values, weights, bad, beyond + others.facts.beyond)


def _parquet_chunks(spec: ReadSpec, part: Part) -> Iterator[Chunk]:
    """Arrays of plain columns; where these end, the rest row by row."""
    done = 0
    try:
        for values in parquet_arrays(Path(part.path), spec.element):
            if values is None:
                break
            yield _chunk(spec, values, _ones(values), [])
            done += len(values)
        else:
            return
    except (OSError, pa.ArrowException) as cause:
        raise broken(Path(part.path), str(cause)) from cause
    yield from row_chunks(spec, islice(read_rows(spec, part), done, None), part.shown)
