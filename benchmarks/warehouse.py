"""A warehouse's daily load, kept up to date against computed again by plain Spark.

    python -m benchmarks.warehouse [--orders N] [--rounds N] [--share F]

`warehouse.sql` has 40 views over six raw tables (staging, cleaning, latest versions, joins,
aggregates, top-k), twelve of them answers.  incmrql keeps all twelve in one program; plain Spark
runs the same texts over the rows that are there, in two ways: each answer on its own, and with
the views that several answers read cached first.  Both sides take turns in one process on one
session, and every answer is compared after every round.  Half of the changes are deletions.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import incmrql
from incmrql.api.listeners import Warnings
from incmrql.api.options import stream_options
from incmrql.api.runs import Run
from incmrql.runtime import BatchReport

VIEWS: Final = Path(__file__).with_suffix(".sql")
SHARED: Final = ("latest_orders", "latest_customers", "sales", "customer_value", "product_sales")
"""The views that several answers read."""
SEED: Final = 27
_FIRST_DAY: Final = date(2023, 1, 1)
_DAYS: Final = 700

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RawTable:
    """A raw table: its columns, its rows for each order, and how a row is made."""

    name: str
    columns: tuple[str, ...]
    per_order: float
    make: Callable[[random.Random, int, int], Row]
    """From a number of its own and the number of orders."""


def _order(rng: random.Random, number: int, orders: int) -> Row:
    # One row in ten is a later version of an order that is there.
    again = number > 10 and rng.random() < 0.1
    order = rng.randrange(number) if again else number
    status = rng.choice(("shipped", "shipped", " Shipped", "open", "returned", "cancelled", "test"))
    customer = None if rng.random() < 0.01 else str(rng.randrange(orders // 5))
    channel = rng.choice(("web", "shop", "phone"))
    return str(order), customer, _day(rng), status, channel, str(number)


def _line(rng: random.Random, number: int, orders: int) -> Row:
    discount = None if rng.random() < 0.3 else f"0.{rng.randrange(40):02}"
    price = f"{rng.randrange(100, 20_000) / 100:.2f}"
    product = str(rng.randrange(orders // 50))
    return str(rng.randrange(orders)), str(number), product, str(rng.randrange(12)), price, discount


def _customer(rng: random.Random, number: int, orders: int) -> Row:
    customer = rng.randrange(orders // 5)
    email = f"c{customer}@example.org" if rng.random() < 0.98 else "none"
    country = rng.choice(("no", "pl", "jp", "de", "br", "in", "ke", None))
    return str(customer), f" Name {customer} ", email, country, rng.choice("ABCD"), str(number)


def _product(rng: random.Random, number: int, _orders: int) -> Row:
    brand = None if rng.random() < 0.05 else f"brand {rng.randrange(40)}"
    category = f"Category {rng.randrange(12)}"
    return str(number), category, brand, f"{rng.randrange(50, 9_000) / 100:.2f}"


def _payment(rng: random.Random, number: int, orders: int) -> Row:
    amount = f"{rng.randrange(0, 90_000) / 100:.2f}"
    method = rng.choice(("Card", "card", "invoice", "cash"))
    return str(number), str(rng.randrange(orders)), amount, _day(rng), method


def _visit(rng: random.Random, number: int, orders: int) -> Row:
    customer, page = rng.randrange(orders // 4), f"/p/{rng.randrange(100)}"
    return str(number), str(customer), _day(rng), page, str(rng.randrange(9_000))


def _day(rng: random.Random) -> str:
    return (_FIRST_DAY + timedelta(days=rng.randrange(_DAYS))).isoformat()


TABLES: Final = tuple(
    RawTable(name, tuple(columns.split()), per_order, make)
    for name, columns, per_order, make in (
        ("raw_orders", "order_id customer_id ordered_on status channel version", 1, _order),
        ("raw_lines", "order_id line product_id quantity price discount", 4, _line),
        ("raw_customers", "customer_id name email country segment version", 0.25, _customer),
        ("raw_products", "product_id category brand cost", 0.02, _product),
        ("raw_payments", "payment_id order_id amount paid_on method", 1, _payment),
        ("raw_visits", "visit_id customer_id visited_on page seconds", 2, _visit),
    )
)


@dataclass(slots=True)
class ChangingTable:
    """A raw table whose rows come and go: a folder of insertions, and one of deletions."""

    table: RawTable
    folder: Path
    orders: int
    rng: random.Random
    rows: list[Row] = field(default_factory=list)
    number: int = 0

    @property
    def inserted(self) -> Path:
        """Where inserted rows arrive."""
        return self.folder / self.table.name

    @property
    def deleted(self) -> Path:
        """Where deleted rows arrive."""
        return self.folder / f"{self.table.name}-deleted"

    def load(self) -> int:
        """Write the first rows; returns how many."""
        for path in (self.inserted, self.deleted):
            path.mkdir(parents=True)
        return self._insert(round(self.orders * self.table.per_order), "first")

    def change(self, batch: int, share: float) -> int:
        """Write the changes of a batch, half insertions and half deletions; returns how many."""
        count = max(1, round(len(self.rows) * share / 2))
        gone = []
        for _ in range(count):
            place = self.rng.randrange(len(self.rows))
            self.rows[place], self.rows[-1] = self.rows[-1], self.rows[place]
            gone.append(self.rows.pop())
        self._write(gone, self.deleted / f"{batch}.parquet")
        return count + self._insert(count, str(batch))

    def _insert(self, count: int, name: str) -> int:
        new = [self.table.make(self.rng, self.number + i, self.orders) for i in range(count)]
        self.number += count
        self.rows += new
        self._write(new, self.inserted / f"{name}.parquet")
        return count

    def _write(self, rows: Sequence[Row], path: Path) -> None:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, pa.string()) for column in columns]
        hidden = path.with_name(f".{path.name}")
        pq.write_table(pa.table(arrays, names=list(self.table.columns)), hidden)
        hidden.rename(path)

    def snapshot(self, folder: Path) -> None:
        """Write the rows that are there, in four files as a load in batches would have left."""
        target = folder / self.table.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        quarter = -(-len(self.rows) // 4)
        for part in range(4):
            if rows := self.rows[part * quarter : (part + 1) * quarter]:
                self._write(rows, target / f"{part}.parquet")


def script(tables: Sequence[ChangingTable]) -> str:
    """The views, over the folders of the tables."""
    inputs = [
        f"CREATE TEMPORARY VIEW {changing.table.name} "
        f"({', '.join(f'{column} STRING' for column in changing.table.columns)}) USING parquet "
        f"OPTIONS (path '{changing.inserted}', deletes '{changing.deleted}');"
        for changing in tables
    ]
    return "\n".join([*inputs, VIEWS.read_text(encoding="utf-8")])


def statements() -> Iterator[tuple[str, str, bool]]:
    """The name and text of each view, and whether it is an answer."""
    text = re.sub(r"--.*", "", VIEWS.read_text(encoding="utf-8"))
    for statement in filter(str.strip, text.split(";")):
        match = re.match(r"\s*CREATE (TEMPORARY|MATERIALIZED) VIEW (\w+) AS", statement)
        assert match is not None, statement
        yield match[2], statement[match.end() :], match[1] == "MATERIALIZED"


class PlainSpark:
    """The same views over the rows that are there, computed from the start."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark.newSession(), folder
        self.answers = [name for name, _, is_answer in statements() if is_answer]

    def prepare(self) -> None:
        """Define the views over the present files."""
        for table in TABLES:
            frame = self.spark.read.parquet(str(self.folder / table.name))
            frame.createOrReplaceTempView(table.name)
        for name, text, _ in statements():
            self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {text}")

    def compute(self) -> None:
        """Each answer on its own."""
        for name in self.answers:
            self.spark.table(name).write.format("noop").mode("overwrite").save()

    def compute_with_cache(self) -> None:
        """The same, with the views that several answers read in memory."""
        for name in SHARED:
            self.spark.catalog.cacheTable(name)
        try:
            self.compute()
        finally:
            self.spark.catalog.clearCache()

    def rows(self, name: str) -> Counter[Row]:
        """The rows of an answer."""
        return Counter(map(tuple, self.spark.table(name).collect()))


@dataclass(slots=True)
class Measured:
    """The seconds of each side by round, and what the batches did."""

    batch: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    cached: list[float] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    different: list[str] = field(default_factory=list)

    def add(self, seconds: Mapping[str, float], changes: int, report: BatchReport) -> None:
        """Add a round."""
        self.batch.append(seconds["batch"])
        self.plain.append(seconds["plain"])
        self.cached.append(seconds["cached"])
        self.changes.append(changes)
        self.changed.append(report.changed)
        self.jobs.append(report.jobs)
        self.read.append(report.state_read)

    def lines(self) -> Iterator[str]:
        """What was measured, for a reader."""
        best = [min(pair) for pair in zip(self.plain, self.cached, strict=True)]
        ratios = [again / batch for again, batch in zip(best, self.batch, strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        median = statistics.median
        yield (
            f"a batch of {median(self.changes):.0f} changes: {1000 * median(self.batch):.0f} ms, "
            f"{max(self.jobs)} job, {median(self.read):.0f} rows of state read, "
            f"{median(self.changed):.0f} answer rows changed"
        )
        yield (
            f"plain Spark: {1000 * median(self.plain):.0f} ms answer by answer, "
            f"{1000 * median(self.cached):.0f} ms with shared views cached"
        )
        yield f"{median(ratios):.1f} times faster than the better way ({low:.1f}-{high:.1f})"
        yield "all answers equal" if not self.different else f"DIFFERENT: {self.different}"


def differences(run: Run, plain: PlainSpark) -> list[str]:
    """The answers of a run that differ from those of plain Spark."""
    return [
        name
        for item, name in enumerate(plain.answers)
        if Counter(map(tuple, run.answer(item))) != plain.rows(name)
    ]


def _step(run: Run, reports: list[BatchReport]) -> None:
    batch = run.step()
    assert batch is not None
    reports.append(batch.report)


def seconds_taken(run: Callable[[], object]) -> float:
    """The seconds that something takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(folder: Path, orders: int, rounds: int, warm_up: int, share: float) -> Measured:
    """Run both sides in turn."""
    rng = random.Random(SEED)
    tables = [ChangingTable(table, folder / "raw", orders, rng) for table in TABLES]
    rows = sum(table.load() for table in tables)
    (folder / "warehouse.sql").write_text(script(tables), encoding="utf-8")
    measured = Measured()
    with incmrql.Session() as session:
        planning = time.perf_counter()
        prepared = session.script(folder / "warehouse.sql")
        options = stream_options({"settle": 0.0, "checkpoint": folder / "ck"})
        run = prepared.run(options, lambda *_: None, Warnings())
        assert run is not None
        with run:
            run.prepare()
            print(f"planned in {time.perf_counter() - planning:.1f} s")
            seconds = seconds_taken(run.step)
            print(f"first load of {rows} rows: {seconds:.1f} s")
            spark = SparkSession.getActiveSession()
            assert spark is not None
            plain = PlainSpark(spark, folder / "now")
            for batch in range(warm_up + rounds):
                changes = sum(table.change(batch, share) for table in tables)
                for table in tables:
                    table.snapshot(folder / "now")
                plain.prepare()
                reports: list[BatchReport] = []
                sides: dict[str, Callable[[], object]] = {
                    "batch": partial(_step, run, reports),
                    "plain": plain.compute,
                    "cached": plain.compute_with_cache,
                }
                seconds_of = {
                    name: seconds_taken(sides[name]) for name in rng.sample(sorted(sides), 3)
                }
                measured.different += differences(run, plain)
                if batch >= warm_up:
                    measured.add(seconds_of, changes, reports[0])
    return measured


def main() -> int:
    """Measure, print, and say by the exit code whether all answers were equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.01, help="changed rows of each table")
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measured = measure(Path(directory), words.orders, words.rounds, words.warm_up, words.share)
    sys.stdout.write("\n".join(measured.lines()) + "\n")
    if words.json is not None:
        numbers = {name: getattr(measured, name) for name in Measured.__slots__}
        words.json.write_text(json.dumps(numbers, indent=1), encoding="utf-8")
    return 1 if measured.different else 0


if __name__ == "__main__":
    sys.exit(main())
