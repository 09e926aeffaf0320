"""Files to chunks of rows: vectorised where that is sure to be right, else row by row.

The rows, weights and bad rows of all chunks of a file are, in order, those of `reader.read`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any as Arrow

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import to_arrow
from incmrql.io.by_row import note_by_row
from incmrql.io.notices import SourceFacts
from incmrql.io.parquet import parquet_rows
from incmrql.io.reader import read_rows, with_display_path
from incmrql.io.rows import MOST_REMEMBERED, BadRow, Read, Row, refusal
from incmrql.io.spec import INSIDE, FileSplit, ReadSpec
from incmrql.io.vectorised.parquet import parquet_batches
from incmrql.io.vectorised.parser import Parser, SplitBlock
from incmrql.io.vectorised.reader import VectorReader, vector_reader


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a file with their weights, and the parts of it that are none."""

    values: Arrow
    """An array of the Arrow type of the rows."""
    weights: Arrow
    bad: tuple[BadRow, ...] = ()
    facts: SourceFacts = field(default_factory=SourceFacts)
    size: int = 0
    """The bytes of text that it was read from, where that is known."""


def read_chunks(spec: ReadSpec, part: FileSplit) -> Iterator[Chunk]:
    """The rows of a part; a bad one is an error if the source says `on_error: fail`.

    The last chunk may be empty: it says which names JSON documents have, if they lack a field.
    """
    reader = vector_reader(spec, part)
    if reader is not None:
        chunks = _text_chunks(spec, reader)
    elif spec.source.format == "binary" and spec.arrow_type == arrow_type(spec.element):
        chunks = _parquet_chunks(spec, part)
    else:
        chunks = row_chunks(spec, read_rows(spec, part), part.display_path)
    totals = SourceFacts()
    for chunk in chunks:
        totals.add(chunk.facts)
        yield chunk
    column_names = SourceFacts(rows=totals.rows, present=set(totals.present))
    column_names.look_up_names(part.path, spec.source, spec.nullable_fields)
    if column_names.names:
        last = SourceFacts(present=column_names.present, names=column_names.names)
        yield Chunk(pa.array([], spec.arrow_type), pa.array([], pa.int64()), facts=last)


def row_chunks(spec: ReadSpec, rows: Iterable[Read], place: str) -> Iterator[Chunk]:
    """Chunks of rows that were read one by one; `place` is named for rows that are no text."""
    remaining = iter(rows)
    while chunk := _rows_or_error(islice(remaining, spec.chunk_rows), spec):
        yield _row_chunk(spec, chunk, place)


def _rows_or_error(rows: Iterable[Read], spec: ReadSpec) -> list[Read]:
    """The rows; an error at the first bad one, if the source says so."""
    if spec.policy != "fail":
        return list(rows)
    good: list[Read] = []
    for row in rows:
        if isinstance(row, BadRow):
            raise refusal(row)
        good.append(row)
    return good


def _row_chunk(spec: ReadSpec, rows: list[Read], place: str) -> Chunk:
    note_by_row(len(rows))
    good = [row for row in rows if isinstance(row, Row)]
    bad = [row for row in rows if isinstance(row, BadRow)]
    try:
        values = _array(spec, good)
    except UnicodeEncodeError:
        spoiled = [row for row in good if not _is_storable(spec, row)]
        broken_strings = [_half_a_character(row, place) for row in spoiled]
        _rows_or_error(broken_strings, spec)
        bad += broken_strings
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
    present = {path for path in spec.nullable_fields if _has_value(values, path)}
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
    blocks, parser, place = reader.blocks(), reader.parser, reader.split.display_path
    for block in blocks:
        split_block = parser.split_block(block)
        yield replace(_block_chunk(spec, parser, split_block, place), size=len(block.data))
        if split_block.first_dependent is not None:
            yield from row_chunks(spec, parser.read_rows(split_block.rest(blocks)), place)


def _block_chunk(spec: ReadSpec, parser: Parser, split_block: SplitBlock, place: str) -> Chunk:
    """The rows of lines that have nothing to do with what follows, in the order of the lines."""
    parsed, numbers, odd = split_block.parse(parser)
    rows = _rows_or_error(parser.read_independent(odd), spec)
    odd_chunk = _row_chunk(spec, rows, place)
    if parsed is None:
        return odd_chunk
    values, bad = parsed.values, list(odd_chunk.bad)
    weights = _ones(values) if parsed.weights is None else parsed.weights
    if len(odd_chunk.values):
        lines = [row.line for row in rows if isinstance(row, Row)]
        order = pa.array(np.argsort(np.concatenate([numbers, lines]), kind="stable"))
        values = pa.concat_arrays([values, odd_chunk.values]).take(order)
        weights = pa.concat_arrays([weights, odd_chunk.weights]).take(order)
    return _chunk(spec, values, weights, bad, parsed.beyond + odd_chunk.facts.beyond)


def _parquet_chunks(spec: ReadSpec, part: FileSplit) -> Iterator[Chunk]:
    """Batches of columns, and batches with a bad row one by one."""
    rows = parquet_rows(Path(part.path), spec.source.row, spec.options.get("sign", ""))
    for batch in parquet_batches(rows, spec.element):
        if batch.rows is None:
            yield _chunk(spec, batch.values, batch.weights, [])
        else:
            yield from row_chunks(spec, with_display_path(batch.rows, part), part.display_path)
