"""Contents merged piece by piece and gathered on disk are what they are as a whole, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.engine.store import compaction
from incmrql.engine.store import content as contents
from incmrql.engine.store.compaction import ScratchTable, pieces
from incmrql.engine.store.content import SortedRows, concat, consolidate, from_table
from incmrql.engine.store.segments import OpenSegments, SegmentRows, verify_segment, write_segment
from incmrql.engine.store.sorting import TableSchema
from incmrql.types.model import DOUBLE, INT, STRING
from tests.effort import fewest
from tests.engine.store.tables import change, rows_of_content, weak
from tests.engine.store.test_ordered import MOST, ORDERED, UNORDERED, histories


@pytest.fixture(autouse=True)
def without_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def merge_on_disk(parts: Sequence[SortedRows], most: int, folder: Path) -> SortedRows:
    whole = ScratchTable(parts[0].schema, folder, sum(map(len, parts)))
    for piece in pieces([SegmentRows.of(part) for part in parts], most):
        whole.add(piece)
    return (
        from_table(whole.table(), parts[0].schema) if whole.count else contents.empty(whole.schema)
    )


def same(one: Any, two: Any) -> bool:
    return one is None if two is None else one.tolist() == two.tolist()


def with_accumulators(content: SortedRows, numbers: list[int]) -> SortedRows:
    """Rows with accumulators, one of which some parts lack."""
    if not len(content) or not numbers:
        return content
    given = np.resize(np.array(numbers, np.int64), len(content))
    return replace(content, parts={"a0.n": given} | ({"a1.n": -given} if numbers[0] > 1 else {}))


@fewest
@pytest.mark.parametrize("schema", [*UNORDERED, *ORDERED, *MOST], ids=str)
@given(data=st.data())
def test_pieces_are_the_whole(
    schema: TableSchema, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = data.draw(histories(schema, deletes=schema.most is None))
    most = data.draw(st.integers(1, 6))
    numbers = data.draw(st.lists(st.integers(-3, 3), max_size=4)) if schema.most is None else []
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(contents, "hash_keys", weak)
        parts = [change(schema, batch) for batch in history if batch]
        parts = [with_accumulators(part, numbers) for part in parts if len(part)]
        if not parts:
            return
        wanted = consolidate(concat(parts))
        merged = merge_on_disk(parts, most, tmp_path_factory.getbasetemp())
    assert rows_of_content(merged) == rows_of_content(wanted)
    assert merged.hashes.tolist() == wanted.hashes.tolist()
    if len(wanted):
        assert same(merged.order, wanted.order)
        assert same(merged.before, np.cumsum(wanted.weights) if schema.ordered else None)
    assert {n: c.tolist() for n, c in merged.parts.items() if c.any()} == {
        n: c.tolist() for n, c in wanted.parts.items() if c.any()
    }


@pytest.mark.parametrize(
    "schema",
    [
        TableSchema((INT,), (DOUBLE,), (False,)),
        TableSchema((INT,), (DOUBLE,)),
        TableSchema((INT, DOUBLE)),
    ],
    ids=str,
)
def test_pieces_are_small_although_keys_are_few(schema: TableSchema, tmp_path: Path) -> None:
    """Two keys of many rows are cut within; the rows of a piece are about as many as asked for."""
    parts = [
        change(schema, [((n % 2, float(7 * n % 999 + part)), 1) for n in range(1000)])
        for part in range(3)
    ]
    sizes = [len(piece) for piece in pieces([SegmentRows.of(part) for part in parts], 100)]
    assert len(sizes) > 10
    assert max(sizes) <= 300
    assert rows_of_content(merge_on_disk(parts, 100, tmp_path)) == rows_of_content(
        consolidate(concat(parts))
    )


def test_a_key_that_keeps_few_rows_is_not_cut() -> None:
    schema = TableSchema((INT,), (DOUBLE,), (False,), most=3)
    parts = [change(schema, [((1, float(n)), 1) for n in range(part, part + 5)]) for part in (4, 0)]
    (piece,) = pieces([SegmentRows.of(part) for part in parts], 1)
    assert piece.rest.columns[0].to_pylist() == [0.0, 1.0, 2.0]


def test_a_run_is_written_with_its_checksum(tmp_path: Path) -> None:
    schema = TableSchema((STRING,), (INT,), (True,))
    parts = [change(schema, [((text, n), 1) for n in range(9)]) for text in ("a", "bb", "")]
    whole = ScratchTable(schema, tmp_path, 27)
    for piece in pieces([SegmentRows.of(part) for part in parts], 4):
        whole.add(piece)
    run = write_segment(tmp_path, "000001-x.run", whole.table(), {0: 27})
    verify_segment(tmp_path, run)
    assert run.rows == 27
    content = OpenSegments().rows(tmp_path, run, schema).content()
    assert rows_of_content(content) == rows_of_content(consolidate(concat(parts)))
    assert [path.name for path in tmp_path.iterdir()] == ["000001-x.run"], "scratch files are gone"


def test_text_that_arrow_cannot_hold_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_LONGEST", 10)
    whole = ScratchTable(TableSchema((STRING,)), tmp_path, 4)
    whole.add(change(TableSchema((STRING,)), [(("12345678",), 1)]))
    with pytest.raises(pa.ArrowInvalid, match="more than 10 bytes"):
        whole.add(change(TableSchema((STRING,)), [(("abc",), 1)]))
