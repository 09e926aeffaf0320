"""The named shapes on Spark: one task or many, and what is read of a state that has grown."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from incmrql.runtime import BatchReport, Driver
from incmrql.values import Value, encode, identical, show
from tests.engine.programs import reference_answers
from tests.runtime.streaming import QUICK, Place, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.slow]

R: Final = 'stream(line, "{data}", ",", type(< A: int, B: int, C: double >), deletes: "{deletes}")'
S: Final = 'stream(line, "{names}", ",", type(< A: int, D: double >))'
SHAPES: Final = {
    "average": "select (k, avg(x.C)) from x in RR group by k: x.A",
    "join and group-by":
        "select (k, sum(y.D), count(x)) from x in RR, y in SS where x.A = y.A group by k: x.B",
    "histogram":
        "select (n, count(k)) from (k, n) in (select (k, count(x)) from x in RR group by k: x.A) "
        "group by n: n",
    "correlated filter":
        "select x from x in RR where x.C > sum(select y.D from y in SS where y.A = x.A)",
    "least and greatest": "select (k, min(x.C), max(x.C)) from x in RR group by k: x.A",
    "order by, limit": "select x from x in RR order by x.C desc limit 5",
    "distinct": "select distinct (x.A, x.B) from x in RR",
    "total": "sum(select x.C from x in RR)",
    "greatest of all": "max(select x.C from x in RR)",
    "nested": "select (x.A, (select y.D from y in SS where y.A = x.A)) from x in RR",
    "union": "(select x.A from x in RR) union (select y.A from y in SS)",
    "outer": "select (x.A, x.C, count(select y from y in SS where y.A = x.A)) from x in RR",
}  # fmt: skip
LOOP: Final = (
    "repeat v = (select x.A from x in RR where x.B = 0) step "
    "select distinct z from z in v union (select x.B from x in RR, w in v where x.A = w) limit 3"
)
BATCHES: Final = 4


def script(*texts: str) -> str:
    """Items of one program."""
    return "".join(f"incr {t.replace('RR', R).replace('SS', S)};\n" for t in texts)


class Rows:
    """Rows that come and go, written batch by batch to any number of places."""

    def __init__(self, keys: int, seed: int = 5) -> None:
        self.chance, self.keys = random.Random(seed), keys
        self.there: list[str] = []
        self.number = 0

    def batch(self, places: list[Place], rows: int, going: int) -> None:
        """The files of the next batch."""
        chance = self.chance
        lines = [self._row(3) for _ in range(rows)]
        self.there += lines
        chance.shuffle(self.there)
        gone, self.there = self.there[:going], self.there[going:]
        others = [self._row(2) for _ in range(rows // 2)]
        for place in places:
            for folder, chosen in (
                (place.data, lines), (place.deletes, gone), (place.names, others),
            ):  # fmt: skip
                half = len(chosen) // 2
                for part, some in enumerate((chosen[:half], chosen[half:])):
                    path = folder / f"{self.number}-{part}.csv"
                    path.write_text("".join(line + "\n" for line in some))
                    os.utime(path, (1_000_000, 1_000_000))
        self.number += 1

    def _row(self, width: int) -> str:
        whole = [str(self.chance.randrange(self.keys)) for _ in range(width - 1)]
        number = self.chance.choice([self.chance.random() * 1e16, self.chance.random(), 0.5])
        return ",".join([*whole, repr(number)])


def answers(driver: Driver) -> list[Value]:
    return [driver.answer(number) for number in range(len(driver.program.outputs))]


@pytest.mark.parametrize("texts", [tuple(SHAPES.values()), (LOOP,)], ids=["shapes", "loop"])
def test_one_task_many_and_both_in_turns_give_the_same(
    tmp_path: Path, spark: SparkSession, texts: tuple[str, ...]
) -> None:
    """After each batch: the answers, what changed, and the state to the last bit."""
    places = [Place(tmp_path / how, script(*texts)) for how in ("one", "many", "turns")]
    rows = Rows(keys=9)
    drivers = [
        place.driver(spark, replace(QUICK, buckets=3, keep_changes=True)) for place in places
    ]
    for batch in range(BATCHES):
        rows.batch(places, 24, 6 * (batch > 0))
        for driver, large in zip(drivers, (1 << 30, 0, 0 if batch % 2 else 1 << 30), strict=True):
            driver.options = replace(driver.options, large=large)
            report = driver.step()
            assert report is not None
            assert (report.number, report.jobs, report.tasks > 1) == (batch, 1, large == 0)
        one, many, turns = drivers
        for number, wanted in enumerate(reference_answers(places[0].text)):
            got = one.answer(number)
            assert identical(got, wanted), (texts[number], show(got), show(wanted))
            assert identical(many.answer(number), wanted), texts[number]
            assert identical(turns.answer(number), wanted), texts[number]
            changes = [_sorted_changes(driver.changes(number)) for driver in drivers]
            assert changes[0] == changes[1] == changes[2], texts[number]
        assert state(one) == state(many) == state(turns)
    for driver in drivers:
        driver.close()


def _sorted_changes(changes: list[tuple[Value, int]]) -> list[tuple[bytes, int]]:
    return sorted((encode(row), weight) for row, weight in changes)


# --- rows of state that are read ---------------------------------------------------------


READ: Final = {
    "average": 5, "join and group-by": 15, "histogram": 6, "correlated filter": 6,
    "least and greatest": 19, "order by, limit": 17, "distinct": 5, "total": 3,
    "greatest of all": 2, "nested": 15, "union": 0, "outer": 6,
}  # fmt: skip
"""Rows of state that the batch of `_few` reads for each shape, whatever came before."""


def test_what_a_batch_reads_does_not_grow_with_the_history(
    tmp_path: Path, spark: SparkSession
) -> None:
    """A history of 1 and of 10 times as many keys; the batch touches the same few of them."""
    texts = tuple(SHAPES.values())
    reads_by_size = {}
    for times in (1, 10):
        place = Place(tmp_path / str(times), script(*texts))
        with place.driver(spark, replace(QUICK, buckets=4)) as driver:
            _history(place, 100 * times)
            driver.step()
            _few(place)
            report = driver.step()
            assert report is not None
            assert report.state_rows > 100 * times
            reads = [_read(driver, report, number) for number in range(len(texts))]
            reads_by_size[times] = dict(zip(SHAPES, reads, strict=True))
            assert sum(node.read for node in report.nodes) == report.state_read
            assert sum(report.read_by_scope.values()) == report.state_read
            assert [node.scope for node in report.nodes] == list(driver.compiled.physical.scopes)
            groups = [node.read for node in report.nodes if node.scope == "groups"]
            assert report.read_by_scope["groups"] == sum(groups) > 0
            if times == 1:  # the evaluator's joins take long
                assert all(map(identical, answers(driver), reference_answers(place.text)))
    assert reads_by_size[1] == READ
    assert reads_by_size[10] == READ


def _history(place: Place, keys: int) -> None:
    """A key has one row of R and one of S; few have a B in common."""
    _put(place.data / "1.csv", (f"{key},{key // 2},{key}.5" for key in range(keys)))
    _put(place.names / "1.csv", (f"{key},{key}.25" for key in range(keys)))


def _few(place: Place) -> None:
    """Rows of five keys, one of which goes."""
    _put(place.data / "2.csv", (f"{key},{key // 2},1.5" for key in range(10, 14)))
    _put(place.deletes / "2.csv", ["20,10,20.5"])
    _put(place.names / "2.csv", ["12,0.5"])


def _put(path: Path, lines: Any) -> None:
    path.write_text("".join(line + "\n" for line in lines))
    os.utime(path, (1_000_000, 1_000_000))


def _read(driver: Driver, report: BatchReport, number: int) -> int:
    """The rows of state that the steps of an answer have read."""
    physical = driver.compiled.physical
    steps = {part.place for part in physical.answers[number].parts}
    waiting = list(steps)
    while waiting:
        more = set(physical.steps[waiting.pop()].inputs) - steps
        steps |= more
        waiting += more
    return sum(report.nodes[step].read for step in steps)
