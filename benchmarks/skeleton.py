"""Group-by average kept up to date, against plain Spark doing it again from the same files.

A history of 1M or 10M rows with 10K keys is loaded as batch 0; then come batches of 10K rows, of
which 20 % are deletions.  Now and then the same average is computed by Spark from all files of both
folders, in the same process and between the batches, so that both see the same machine.

    python -m benchmarks.skeleton [ROWS ...]
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from incmrql.diagnostics import Source
from incmrql.incremental import Program, program_of
from incmrql.loading import catalog_for, read_include
from incmrql.pipeline import compile_script
from incmrql.runtime import BatchReport, Driver, StreamOptions
from incmrql.spark.session import private, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 10_000
BATCHES = 24
WARM_UP = 6
AGAIN_EVERY = 3
"""Batches from one recomputation to the next."""
INSERTED, DELETED = 8_000, 2_000
HISTORY_FILES = 8
SOURCES = {
    "csv": 'stream(line, "{data}", ",", type(< K: int, V: double >), deletes: "{deletes}")',
    "parquet": 'stream(binary, "{data}", type(< K: int, V: double >), deletes: "{deletes}")',
}
QUERY = "incr select (k, avg(x.V)) from x in {source} group by k: x.K;"


def program(data: Path, deletes: Path, format_: str) -> Program:
    """The program of the query."""
    text = SOURCES[format_].format(data=data, deletes=deletes)
    source = Source(QUERY.format(source=text))
    script = compile_script(source, catalog_for(source, ()), read_include).typed
    return program_of(script.items[0], script, ())


def rows(count: int, chance: np.random.Generator) -> pa.Table:
    """Rows with keys and doubles."""
    keys = chance.integers(0, KEYS, count).astype(np.int32)
    return pa.table({"K": keys, "V": chance.random(count) * 1000})


def write(table: pa.Table, path: Path) -> None:
    """A file of lines; it appears whole."""
    hidden = path.with_name(f".{path.name}")
    if path.suffix == ".csv":
        csv.write_csv(table, hidden, csv.WriteOptions(include_header=False))
    else:
        pq.write_table(table, hidden)
    hidden.rename(path)


def recompute(spark: SparkSession, data: Path, deletes: Path, format_: str) -> float:
    """Seconds that Spark takes for the same answer from the same files."""
    begun = time.perf_counter()
    shape = "K int, V double"
    read = spark.read.schema(shape).format(format_)
    there = read.load(str(data)).selectExpr("K", "V", "1 as w")
    gone = read.load(str(deletes)).selectExpr("K", "V", "-1 as w")
    signed = there.unionAll(gone).selectExpr("K", "V * w as V", "w").groupBy("K").sum("V", "w")
    signed.selectExpr("K", "`sum(V)` / `sum(w)` as a").where("a is not null").toArrow()
    return time.perf_counter() - begun


def measure(
    spark: SparkSession, history: int, format_: str, folder: Path
) -> list[tuple[BatchReport, float | None]]:
    """The first load, then batches in turn with recomputation."""
    data, deletes = folder / "data", folder / "deletes"
    data.mkdir()
    deletes.mkdir()
    chance = np.random.default_rng(1)
    there: list[pa.Table] = []
    for i in range(HISTORY_FILES):
        there.append(rows(history // HISTORY_FILES, chance))
        write(there[-1], data / f"history-{i}.{format_}")
    options = StreamOptions(settle=0.0)
    found: list[tuple[BatchReport, float | None]] = []
    with Driver(
        program(data, deletes, format_), folder / "ck", folder / "out", spark, options
    ) as driver:
        load = driver.step()
        assert load is not None
        print(_loaded(history, load))
        places = chance.permutation(len(there[0]))
        for number in range(BATCHES):
            write(rows(INSERTED, chance), data / f"batch-{number:03d}.{format_}")
            gone = places[number * DELETED :][:DELETED]
            write(there[0].take(pa.array(gone)), deletes / f"batch-{number:03d}.{format_}")
            again = recompute(spark, data, deletes, format_) if number % AGAIN_EVERY == 0 else None
            report = driver.step()
            assert report is not None
            assert report.jobs == 1
            found.append((report, again))
    return found


def _loaded(history: int, load: BatchReport) -> str:
    return (
        f"first load of {history:,} rows: {load.seconds:.1f} s, {load.jobs} job, "
        f"{load.tasks} tasks, state {load.state_rows:,} rows in {load.state_bytes / 1e6:.0f} MB"
    )


def main(histories: list[int]) -> None:
    """Measure and print a table."""
    spark = private(start("local[2]", {"spark.driver.memory": "2g"}))
    lines = [
        "history     files    batch ms  (   job   read kernel  write commit publish)"
        "  recompute ms  ratio"
    ]
    for history, format_ in itertools.product(histories, SOURCES):
        with tempfile.TemporaryDirectory() as folder:
            found = measure(spark, history, format_, Path(folder))[WARM_UP:]
        reports = [report for report, _ in found]
        batch = _median([report.seconds for report in reports])
        again = _median([seconds for _, seconds in found if seconds is not None])
        phases = [
            _median([getattr(report, name) for report in reports])
            for name in ("job", "read", "kernel", "write", "commit", "publish")
        ]
        numbers = " ".join(f"{phase:6.0f}" for phase in phases)
        lines.append(
            f"{history:<11,} {format_:8} {batch:8.0f}  ({numbers})"
            f" {again:14.0f} {again / batch:6.1f}"
        )
    print("\n".join(lines))
    spark.sparkContext.stop()


def _median(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1_000_000, 10_000_000])
