"""`assert_incremental` passes what is right, and says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from incmrql.api.results import Result
from incmrql.api.runs import Run
from incmrql.api.session import Session
from incmrql.errors import DataError
from incmrql.storage.files import POINTS
from incmrql.testing import assert_incremental, text_table
from incmrql.testing import incremental as module
from incmrql.values import Bag, Record

SALES = """
    city: string | price: decimal(7,2) | weight
    -------------|---------------------|-------
    Oslo         | 10                  |
    Rome         | 4.50                | 2
    Oslo         | 10                  | -1
    ""           |                     |
    Rome         | 4.50                | -1
"""
BY_CITY = "select (c, count(s), sum(s.price), max(s.price)) from s in sales group by c: s.city"
QUERIES = [
    BY_CITY,
    "select s from s in sales order by s.price desc limit 2",
    "select (s.city, t.price) from s in sales, t in sales where s.city = t.city",
    "count(sales)",
]


def test_a_table_is_read_from_text() -> None:
    table = text_table(SALES)
    assert table.row == "< city: string, price: decimal(7,2) >"
    rows = [(row.city, str(row.price), weight) for row, weight in table.changes]
    assert rows == [
        ("Oslo", "10.00", 1), ("Rome", "4.50", 2), ("Oslo", "10.00", -1), ("", "None", 1),
        ("Rome", "4.50", -1),
    ]  # fmt: skip
    table = text_table("| a: [int] | b: bool |\n|---|---|\n| [1, 2] | true |\n| null | |")
    assert table.changes == (
        (Record({"a": [1, 2], "b": True}), 1), (Record({"a": None, "b": None}), 1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no header"),
        ("a: int\nx", 'line 2, column "a": "x" is not an int'),
        ("a: int | b: int\n1", "line 2 of the table has 1 cells, expected 2"),
        ("a: int | weight\n1 | x", "line 2: 'x' is not a weight"),
        ("a: [int]\n[1,", 'line 2, column "a": expected'),
    ],
)
def test_a_text_that_is_no_table_is_refused(text: str, named: str) -> None:
    with pytest.raises(DataError) as refused:
        text_table(text)
    assert refused.value.code == "R330"
    assert named in refused.value.message


@pytest.mark.parametrize("query", QUERIES)
def test_what_is_right_passes(query: str) -> None:
    assert_incremental(query, {"sales": SALES}, splits=1)


@pytest.mark.parametrize("point", POINTS)
def test_a_batch_crashes_at_every_step(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []

    def noted(_running: Any, way: str) -> None:
        reached.append(way)

    monkeypatch.setattr(module, "crash_points", lambda: (point,))
    monkeypatch.setattr(module._Running, "_crashed", noted, raising=False)
    assert_incremental(BY_CITY, {"sales": SALES}, splits=1, crashes=9, seed=len(point))
    assert set(reached) == {point}


def test_a_wrong_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that forgets to add up the second batch."""
    answer = Run.answer

    def wrong(run: Run, item: int = 0) -> Any:
        rows = answer(run, item)
        return Bag([(*row[:1], row[1] - 1, *row[2:]) for row in rows]) if run.status.batch else rows

    monkeypatch.setattr(Run, "answer", wrong)
    with pytest.raises(AssertionError) as failed:
        assert_incremental(BY_CITY, {"sales": SALES}, splits=0)
    assert str(failed.value).splitlines()[:4] == [
        "the answer after batch 1 is not that of the query over all data",
        "in one by one: batches of 1, 1, 1, 1, 1 changes",
        'missing: ("Oslo",1,decimal("10"),decimal("10"))',
        'missing: ("Rome",2,decimal("9"),decimal("4.5"))',
    ]


def test_a_query_may_be_made_by_a_function() -> None:
    def query(session: Session) -> Result:
        return session.query(BY_CITY)

    assert_incremental(query, {"sales": text_table(SALES)}, splits=1, deletes=0, crashes=0)


def test_the_fixture(incmrql_session: Session) -> None:
    assert incmrql_session.runs_locally


def test_deletions_never_come_before_their_rows() -> None:
    import random

    table = text_table(SALES)
    for seed in range(30):
        for way in module._ways({"sales": table, "more": table}, 2, 0.5, 1, random.Random(seed)):
            there: dict[Any, int] = {}
            for name, row, weight in (change for batch in way.batches for change in batch):
                key = name, repr(row)
                there[key] = there.get(key, 0) + weight
                assert there[key] >= 0
            assert sum(there.values()) == 4
