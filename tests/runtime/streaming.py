"""Streams over folders: places for them, data, and what they have published and kept.

As a program it is such a stream in a process of its own, to be killed:
`python -m tests.runtime.streaming MASTER FOLDER [PROGRAM]`.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from incmrql.engine.store.segments import OpenSegments
from incmrql.engine.store.tables import Reader, scan
from incmrql.errors import IncmrqlError
from incmrql.runtime import Driver, StreamOptions
from incmrql.values import Bag, Value
from tests.engine.programs import AVERAGE, NUMBERS, SEVERAL, program_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ONE_BATCH = 3
"""Files of a batch: one of rows that come, one of rows that go, and one of names."""
QUICK = StreamOptions(settle=0.0, trigger=0.0)
OPTIONS = replace(
    QUICK, available_now=True, max_files_per_batch=ONE_BATCH, grace=0.0, keep_batches=0
)
MIXED = replace(OPTIONS, large=6_000, buckets=3, keep_input="all")
"""Each second batch of those below is large."""
MOST_FAILURES = 20
Weights = Counter[tuple[object, ...]]
NAMES = 'stream(line, "{names}", ",", type(< K: int, G: string >))'
CHAIN = f"""incr select (n, count(k), max(m)) from (k, n, m) in
  (select (k, count(y), sum(a)) from (k, a) in
    (select (k, avg(x.V)) from x in {NUMBERS} group by k: x.K), y in {NAMES}
   where y.K = k group by k) group by n;"""
"""Groups of groups over a join with groups."""
LOOP = f"""incr repeat r = {{{{0}}}} step select distinct n from n in
  (r union (select (x.K * 5 + 1) % 12 from x in {NUMBERS}, m in r
            where x.K = m and x.V > 0.99 and x.V < 1.0)) limit 12;"""
"""The keys that can be reached by rare rows, which come and go."""
PROGRAMS = {"several": SEVERAL, "chain": CHAIN, "loop": LOOP}


@dataclass
class Place:
    """The folders of a stream."""

    folder: Path
    query: str = SEVERAL

    def __post_init__(self) -> None:
        names = ("data", "deletes", "names")
        self.data, self.deletes, self.names = (self.folder / name for name in names)
        self.checkpoint, self.output = self.folder / "ck", self.folder / "out"
        for folder in (self.data, self.deletes, self.names):
            folder.mkdir(parents=True, exist_ok=True)
        self.text = self.query.format(data=self.data, deletes=self.deletes, names=self.names)
        self.program = program_of(self.text)

    def driver(self, spark: SparkSession, options: StreamOptions = QUICK) -> Driver:
        """A driver of the stream; the checkpoint goes on."""
        return Driver(self.program, self.checkpoint, self.output, spark, options)

    def put(self, name: str, text: str, *, deletes: bool = False) -> Path:
        """A file of rows that come or go."""
        path = (self.deletes if deletes else self.data) / name
        path.write_text(text)
        os.utime(path, (1_000_000, 1_000_000))
        return path

    def run(self, spark: SparkSession, options: StreamOptions = OPTIONS) -> dict[str, Any]:
        """All batches; the state after them."""
        with self.driver(spark, options) as driver:
            while driver.step() is not None:
                pass
            return state(driver)

    def outputs_sum(self) -> str:
        """All published changes of the one answer, added up, as the answer is shown."""
        total: Weights = Counter()
        for batch in self.published_rows():
            for rows in batch.values():
                total.update(rows)
        assert all(weight in (0, 1) for weight in total.values())
        kept = sorted(f"({k},{v})" for (k, v), weight in total.items() if weight)
        return "{ " + ", ".join(kept) + " }"

    def outputs(self) -> list[Path]:
        """The folders of the answers."""
        several = len(self.program.outputs) > 1
        return [self.output / str(n + 1) for n in range(3)] if several else [self.output]

    def published_rows(self) -> list[dict[str, Weights]]:
        """The rows of each published batch with their weights, answer by answer."""
        return list(map(changes, self.outputs()))


def average(folder: Path) -> Place:
    """A stream with one answer."""
    return Place(folder, AVERAGE)


def fill(place: Place, batches: int, rows: int = 60, *, large: int = 0) -> None:
    """Files of rows with numbers that do not add up in any order but the exact way.

    Each second batch has `large` rows instead, if that is given.
    """
    chance = random.Random(7)
    there: list[str] = []
    for batch in range(batches):
        count = large if large and batch % 2 else rows
        lines = [f"{chance.randrange(12)},{_number(chance)!r}" for _ in range(count)]
        there += lines
        chance.shuffle(there)
        gone, there = there[: count // 5], there[count // 5 :]
        named = [f"{chance.randrange(12)},{chance.choice('abc')}" for _ in range(2)]
        for folder, chosen in ((place.data, lines), (place.deletes, gone), (place.names, named)):
            path = folder / f"{batch:03d}.csv"
            path.write_text("".join(line + "\n" for line in chosen))
            os.utime(path, (1_000_000 + batch, 1_000_000 + batch))


def _number(chance: random.Random) -> float:
    return chance.choice([chance.random(), chance.random() * 1e16, -1e-12 * chance.random()])


def changes(output: Path) -> dict[str, Weights]:
    """The rows of each published batch with their weights."""
    batches: dict[str, Weights] = {}
    for folder in sorted(output.glob("batch=*")):
        rows: Weights = Counter()
        for part in folder.glob("*.parquet"):
            table = pq.ParquetFile(part).read()
            for row in zip(*[column.to_pylist() for column in table.columns], strict=True):
                rows[row[:-1]] += row[-1]
        batches[folder.name] = rows
    return batches


def answer(output: Path) -> Bag:
    """What all changes add up to."""
    total: Weights = Counter()
    for rows in changes(output).values():
        total.update(rows)
    assert all(weight >= 0 for weight in total.values())
    return Bag([_alone(row) for row, weight in total.items() for _ in range(weight)])


def _alone(row: tuple[Any, ...]) -> Value:
    return row[0] if len(row) == 1 else row


def state(driver: Driver) -> dict[str, Any]:
    """The content of all tables, merged, bucket by bucket."""
    reader = Reader(driver.checkpoint.runs.absolute(), OpenSegments())
    return {
        name: [_plain(scan(table, reader, bucket)) for bucket in range(table.buckets)]
        for name, table in driver.state.tables.items()
    }


def _plain(content: Any) -> Any:
    places = np.arange(len(content))
    return (
        content.hashes.tolist(),
        content.keys.key_bytes().bytes_at(places),
        content.rest.key_bytes().bytes_at(places) if content.rest.columns else [],
        content.weights.tolist(),
        {name: column.tolist() for name, column in content.parts.items() if column.any()},
    )


def archived_files(place: Place) -> list[str]:
    """The files in the archive of the input, named by batch and content."""
    return sorted(os.listdir(place.checkpoint / "input" / "archive"))


def strays(checkpoint: Path) -> set[str]:
    """Run files that the last manifest does not name."""
    from incmrql.storage.files import load

    last = load(max((checkpoint / "manifests").glob("[0-9]*.json")))
    kinds = [kind for table in last["tables"].values() for kind in table.values()]
    return set(os.listdir(checkpoint / "runs")) - {run["file"] for kind in kinds for run in kind}


def main(master: str, folder: str, program: str = "several") -> None:
    """All batches, in turns small and large; one that fails is done again."""
    from incmrql.spark.session import private, start

    spark = start(master)
    sys.stdout.write("started\n")
    sys.stdout.flush()
    failures = 0
    with Place(Path(folder), PROGRAMS[program]).driver(private(spark), MIXED) as driver:
        while True:
            try:
                report = driver.step()
            except IncmrqlError as problem:
                failures += 1
                sys.stdout.write(f"failed {driver.state.number + 1}\n")
                sys.stdout.flush()
                if failures > MOST_FAILURES:
                    raise
                sys.stderr.write(f"{problem}\n")
                continue
            if report is None:
                break
            sys.stdout.write(f"batch {report.number}\n")
            sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
