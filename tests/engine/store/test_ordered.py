"""State tables of all forms against a model: rows of keys, merged, from the front and by rank."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.engine.store import content as contents
from incmrql.engine.store import ordered, tables
from incmrql.engine.store import ordered as ranks
from incmrql.engine.store.content import SortedRows, concat, consolidate, keys_of_rows, merge
from incmrql.engine.store.lookup import grouped_rows, look_up, partners
from incmrql.engine.store.ordered import front, rows_between, totals
from incmrql.engine.store.segments import OpenSegments
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import Reader, by_bucket
from incmrql.plan.changes import NegativeWeight
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Record,
    Tuple,
    Type,
    bag,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag
from incmrql.values import Record as RecordValue
from tests.effort import fewest
from tests.engine.store.tables import (
    BUCKETS,
    Asked,
    Bytes,
    Kept,
    Model,
    Row,
    as_bytes,
    change,
    rows_between_ranks,
    rows_of_content,
    weak,
)

WIDE, NARROW = DecimalType(38, 10), DecimalType(9, 2)
PAIR, FIELDS = Tuple((INT, STRING)), Record((("a", STRING), ("b", INT)))
VALUES: dict[Type, list[Any]] = {
    BOOL: [None, False, True],
    INT: [None, 0, 1, -1, 2**31 - 1, -(2**31)],
    LONG: [None, 0, -1, 7, 2**63 - 1, -(2**63), -(2**63) + 1],
    DOUBLE: [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5, 5e-324],
    STRING: [None, "", "\0", "a", "prefix__", "prefix__\0", "prefix__\0\0", "prefix__a",
             "prefix__ab", "prefix__é", "z"],
    DATE: [None, date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
    TIMESTAMP: [None, datetime(1, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
    WIDE: [None, *map(Decimal, ("0", "0.0000000001", "-0.0000000001", "1", "1E27", "-1E27",
                                "1E27", "1000000000000000000000000001"))],
    NARROW: [None, *map(Decimal, ("0", "0.01", "-0.01", "9999999.99"))],
    PAIR: [None, (1, "x"), (1, "y"), (None, ""), (-1, None)],
    FIELDS: [None, *[RecordValue.of(("a", "b"), v) for v in (["x", 1], [None, 1], ["x", None])]],
    bag(INT): [None, Bag([]), Bag([1]), Bag([1, 2]), Bag([2])],
}  # fmt: skip

UNORDERED = [
    TableSchema((INT,)),
    TableSchema(()),
    TableSchema((), (STRING,)),
    TableSchema((INT,), (STRING,)),
    TableSchema((STRING, DOUBLE), (LONG, FIELDS)),
    TableSchema((PAIR,), (bag(INT), DOUBLE)),
    TableSchema((BOOL,), (WIDE,)),
]
ORDERED = [
    *[TableSchema((INT,), (type_,), (falls,)) for type_ in VALUES for falls in (False, True)],
    TableSchema((), (STRING, INT), (False, True)),
    TableSchema((STRING,), (STRING, DOUBLE, STRING), (True, False, True)),
    TableSchema((BOOL,), (BOOL, LONG), (True, True)),
    TableSchema((DOUBLE,), (NARROW, STRING), (False, False)),
]
MOST = [
    TableSchema((INT,), (LONG,), (False,), most=3),
    TableSchema((BOOL,), (STRING,), (True,), most=2),
    TableSchema((), (STRING, DOUBLE), (False, True), most=4, last=True),
    TableSchema((BOOL,), (DOUBLE,), (False,), most=1, last=True),
]


@pytest.fixture(autouse=True)
def small_and_without_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(tables, "LEAST_BASE", 5)


@pytest.fixture(params=["hash", "weak hash"])
def any_hash(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The hash, or one that maps all keys to three values."""
    if request.param == "weak hash":
        monkeypatch.setattr(contents, "hash_keys", weak)
    return str(request.param)


@pytest.fixture(params=["as it is", "small steps"])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With steps so small that searches and growing chunks have something to do."""
    if request.param == "small steps":
        monkeypatch.setattr(ranks, "SMALL", 1)
        monkeypatch.setattr(ordered, "_MOST_AT_FIRST", 1)
    return str(request.param)


def rows_of(schema: TableSchema) -> st.SearchStrategy[Row]:
    return st.tuples(*[st.sampled_from(VALUES[type_]) for type_ in (*schema.keys, *schema.rest)])


@st.composite
def histories(
    draw: st.DrawFn, schema: TableSchema, *, deletes: bool = True, negative: bool = False
) -> list[list[tuple[Row, int]]]:
    """Changes after which no row is there less than zero times, unless that is asked for."""
    pool = draw(st.lists(rows_of(schema), min_size=1, max_size=12))
    weights = st.sampled_from([1, 1, 2, 3, *([-1, -2, -3] if deletes else [])])
    rows = st.tuples(st.sampled_from(pool), weights)
    drawn = draw(st.lists(st.lists(rows, max_size=14), min_size=1, max_size=6))
    there: dict[Bytes, int] = defaultdict(int)
    batches = []
    for batch in drawn:
        kept = []
        for row, weight in batch:
            if negative or there[as_bytes(row)] + weight >= 0:
                there[as_bytes(row)] += weight
                kept.append((row, weight))
        batches.append(kept)
    return batches


def all_keys(schema: TableSchema, history: list[list[tuple[Row, int]]]) -> list[Row]:
    """The keys of a history, and some that are not there."""
    width = len(schema.keys)
    keys = [row[:width] for batch in history for row, _ in batch]
    if not width:
        return [()]
    return [*keys, *zip(*[VALUES[type_][:3] for type_ in schema.keys], strict=True)]


def check_rows(kept: Kept, asked: Asked, pool: list[Row]) -> None:
    """Look-ups, partners and groups are what the model says."""
    schema, model = kept.schema, kept.model
    touched = change(schema, [(row, 1) for row in {as_bytes(row): row for row in pool}.values()])
    weights, _ = look_up(kept.table, kept.reader, touched)
    if schema.most is None:
        assert weights.tolist() == [model.weights[row] for row, _ in rows_of_content(touched)]
    for most_rows in (1, 3, 1000):
        sums: dict[tuple[int, Bytes], int] = defaultdict(int)
        for places, rows in partners(kept.table, kept.reader, asked.hashes, asked.keys, most_rows):
            assert len(places) == len(rows) <= most_rows
            for place, (row, weight) in zip(places.tolist(), rows_of_content(rows), strict=True):
                assert row[: len(schema.keys)] == asked.in_bytes[place]
                sums[place, row] += weight
        if schema.most is None:
            wanted = {
                (place, row): weight
                for place, key in enumerate(asked.in_bytes)
                for row, weight in model.of_key(key)
            }
            assert {pair: weight for pair, weight in sums.items() if weight} == wanted
    places, rows = grouped_rows(kept.table, kept.reader, asked.hashes, asked.keys)
    for key, group in zip(asked.in_bytes, asked.by_place(places, rows), strict=True):
        wanted_rows = model.of_key(key)
        assert (group if schema.ordered else sorted(group)) == wanted_rows


def check_order(kept: Kept, asked: Asked, extra: SortedRows | None, model: Model) -> None:
    """Totals, fronts and spans are what the model says."""
    where = kept.table, kept.reader, extra, asked.hashes, asked.keys
    groups = [model.of_key(key) for key in asked.in_bytes]
    sizes = [sum(weight for _, weight in group) for group in groups]
    assert totals(*where).tolist() == sizes
    for count in (1, 2, 5, 100):
        first = asked.by_place(*front(*where, count))
        assert first == [rows_between_ranks(group, 0, count) for group in groups]
        last = asked.by_place(*front(*where, count, last=True))
        assert last == [
            rows_between_ranks(group, size - count, size)
            for group, size in zip(groups, sizes, strict=True)
        ]
    for start, length in ((0, 1), (1, 1), (2, 3), (-1, 3), (3, 0), (0, 100)):
        shifts = np.arange(len(groups)) % 3
        starts, stops = start + shifts, start + shifts + length
        spans = asked.by_place(*rows_between(*where, starts, stops))
        find_spans = zip(groups, starts.tolist(), stops.tolist(), strict=True)
        assert spans == [rows_between_ranks(*span) for span in find_spans]


def check_everything(kept: Kept) -> None:
    """A scan gives each row once, sorted, whatever the history; runs say what they hold."""
    wanted = {row: n for key in kept.model.present() for row, n in kept.model.of_key(key)}
    rows = kept.everything()
    assert len(rows) == len(wanted)
    assert dict(rows) == wanted
    together = change(kept.schema, [])
    for run in kept.table.segments:
        together = merge([together, kept.reader.read(kept.table, run)])
        assert len(kept.reader.read(kept.table, run)) == run.rows
    assert rows_of_content(together) == rows
    assert sum(len(part) for _, part in by_bucket(together, BUCKETS)) == len(rows)


def run_history(folder: Path, schema: TableSchema, history: list[list[tuple[Row, int]]]) -> None:
    kept = Kept(Reader(folder, OpenSegments()), schema)
    asked = Asked.of(schema, all_keys(schema, history))
    pool = [row for batch in history for row, _ in batch]
    for batch in history:
        if schema.ordered:
            after = Model(schema, defaultdict(int, kept.model.weights))
            after.add(batch)
            check_order(kept, asked, change(schema, batch), after)
        kept.add(batch)
        check_rows(kept, asked, pool)
        if schema.ordered:
            check_order(kept, asked, None, kept.model)
    check_everything(kept)


Case: TypeAlias = tuple[TableSchema, list[list[tuple[Row, int]]]]


def cases(schemas: list[TableSchema], **how: bool) -> st.SearchStrategy[Case]:
    return st.sampled_from(schemas).flatmap(
        lambda schema: st.tuples(st.just(schema), histories(schema, **how))
    )


@pytest.mark.usefixtures("any_hash")
def test_unordered_tables_hold_the_sum_of_their_changes(tmp_path: Path) -> None:
    @fewest
    @given(cases(UNORDERED, negative=True))
    def holds(case: Case) -> None:
        run_history(tmp_path, *case)

    holds()


@pytest.mark.usefixtures("any_hash", "steps")
def test_ordered_tables_give_rows_by_their_place(tmp_path: Path) -> None:
    @fewest
    @given(cases(ORDERED))
    def holds(case: Case) -> None:
        run_history(tmp_path, *case)

    holds()


@pytest.mark.usefixtures("any_hash", "steps")
def test_tables_that_keep_only_some_rows_of_a_key(tmp_path: Path) -> None:
    @fewest
    @given(cases(MOST, deletes=False))
    def holds(case: Case) -> None:
        run_history(tmp_path, *case)

    holds()


@pytest.mark.usefixtures("any_hash")
def test_a_content_is_sorted_whatever_the_order_of_its_rows() -> None:
    given(st.data())(check_sorted)()


def check_sorted(data: st.DataObject) -> None:
    """The same rows in another order, or in two parts, are the same content."""
    schema = data.draw(st.sampled_from(ORDERED))
    rows = data.draw(st.lists(st.tuples(rows_of(schema), st.sampled_from([1, -1, 2])), max_size=20))
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    whole = change(schema, rows)
    assert rows_of_content(change(schema, shuffled)) == rows_of_content(whole)
    halves = [change(schema, shuffled[:cut]), change(schema, shuffled[cut:])]
    assert rows_of_content(merge(halves)) == rows_of_content(whole)
    assert rows_of_content(consolidate(concat(halves[::-1]))) == rows_of_content(whole)
    model = Model(schema)
    model.add(rows)
    hashes, keys, of_row = keys_of_rows(whole)
    assert len(hashes) == len(keys) == len(model.present())
    groups: list[list[tuple[Bytes, int]]] = [[] for _ in hashes]
    for place, row in zip(of_row.tolist(), rows_of_content(whole), strict=True):
        groups[place].append(row)
    assert sorted(groups) == sorted(model.of_key(key) for key in model.present())


def test_less_than_nothing_is_refused_where_it_is_met(tmp_path: Path) -> None:
    schema = TableSchema((INT,), (LONG,), (False,))
    kept = Kept(Reader(tmp_path, OpenSegments()), schema)
    kept.add([((1, number), 1) for number in range(10)])
    kept.add([((1, 0), -2)])
    asked = Asked.of(schema, [(1,)])
    where = kept.table, kept.reader, None, asked.hashes, asked.keys
    with pytest.raises(NegativeWeight, match="-1 times"):
        front(*where, 1)
    with pytest.raises(NegativeWeight, match="-1 times"):
        rows_between(*where, np.array([0]), np.array([2]))
    assert len(front(*where, 1, last=True)[0]) == 1
    kept.add([((1, 0), -20)])
    with pytest.raises(NegativeWeight, match="-12 rows"):
        totals(kept.table, *where[1:])


def test_few_rows_of_a_large_group_are_read(tmp_path: Path) -> None:
    """Fronts and ranks cost the logarithm of the group, in every run."""
    schema = TableSchema((INT,), (LONG, STRING), (True, False))
    kept = Kept(Reader(tmp_path, OpenSegments()), schema)
    chance = np.random.default_rng(7)
    weights: dict[tuple[int, str], int] = defaultdict(int)
    for size in (20_000, 3_000, 400, 50):
        batch = []
        for number in chance.integers(0, 500, size).tolist():
            row = (number, f"a long common prefix {chance.integers(0, 50)}")
            weight = -1 if weights[row] > 0 and chance.random() < 0.3 else 1
            weights[row] += weight
            batch.append(((1, *row), weight))
        kept.add(batch)
    assert len(kept.table.segments) > 1
    asked = Asked.of(schema, [(1,)])
    where = kept.table, kept.reader, None, asked.hashes, asked.keys
    (group,) = [kept.model.of_key(key) for key in asked.in_bytes]
    size = int(totals(*where)[0])
    assert size == sum(weight for _, weight in group)
    assert kept.reader.tally.rows == 0
    for rank in chance.integers(0, size, 20).tolist():
        kept.reader.tally.rows = 0
        rows = asked.by_place(*rows_between(*where, np.array([rank]), np.array([rank + 2])))
        assert rows == [rows_between_ranks(group, rank, rank + 2)]
        assert kept.reader.tally.rows <= 100
    for last in (False, True):
        kept.reader.tally.rows = 0
        (some,) = asked.by_place(*front(*where, 3, last=last))
        assert some == (
            rows_between_ranks(group, size - 3, size) if last else rows_between_ranks(group, 0, 3)
        )
        assert kept.reader.tally.rows <= 200
    kept.reader.tally.rows = 0
    grouped_rows(kept.table, kept.reader, asked.hashes, asked.keys)
    assert kept.reader.tally.rows == kept.table.rows
