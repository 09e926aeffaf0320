"""A stream in a process of its own, to be killed: data, deletes, checkpoint, output."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from incmrql.runtime import BatchReport, Driver, StreamOptions, run_stream
from incmrql.values import Bag
from tests.kernel.programs import AVERAGE, program_of

ONE_BATCH = 2
"""Files of a batch: one of rows that come and one of rows that go."""
OPTIONS = StreamOptions(
    settle=0.0, available_now=True, max_files_per_batch=ONE_BATCH, grace=0.0, trigger=0.0
)


def fill(data: Path, deletes: Path, batches: int, rows: int = 60) -> None:
    """Files of rows with numbers that do not add up in any order but the exact way."""
    chance = random.Random(7)
    there: list[str] = []
    for folder in (data, deletes):
        folder.mkdir(parents=True, exist_ok=True)
    for batch in range(batches):
        lines = [f"{chance.randrange(12)},{_number(chance)!r}" for _ in range(rows)]
        there += lines
        chance.shuffle(there)
        gone, there = there[: rows // 5], there[rows // 5 :]
        for folder, chosen in ((data, lines), (deletes, gone)):
            path = folder / f"{batch:03d}.csv"
            path.write_text("".join(line + "\n" for line in chosen))
            _set_time(path, 1_000_000 + batch)


def _number(chance: random.Random) -> float:
    return chance.choice([chance.random(), chance.random() * 1e16, -1e-12 * chance.random()])


def _set_time(path: Path, seconds: int) -> None:
    import os

    os.utime(path, (seconds, seconds))


def changes(output: Path) -> dict[str, Counter[tuple[object, ...]]]:
    """The rows of each published batch with their weights."""
    found: dict[str, Counter[tuple[object, ...]]] = {}
    for folder in sorted(output.glob("batch=*")):
        rows: Counter[tuple[object, ...]] = Counter()
        for part in folder.glob("*.parquet"):
            table = pq.ParquetFile(part).read()
            for row in zip(*[column.to_pylist() for column in table.columns], strict=True):
                rows[row[:-1]] += row[-1]
        found[folder.name] = rows
    return found


def answer(output: Path) -> Bag:
    """What all changes add up to."""
    total: Counter[tuple[object, ...]] = Counter()
    for rows in changes(output).values():
        total.update(rows)
    return Bag([row for row, weight in total.items() for _ in range(weight)])


def main(data: str, deletes: str, checkpoint: str, output: str) -> None:
    from incmrql.spark.session import private, start

    spark = start("local[2]")
    program = program_of(AVERAGE.format(data=data, deletes=deletes))

    def say(_driver: Driver, report: BatchReport) -> None:
        sys.stdout.write(f"batch {report.number}\n")

    run_stream(program, Path(checkpoint), Path(output), private(spark), OPTIONS, on_batch=say)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
