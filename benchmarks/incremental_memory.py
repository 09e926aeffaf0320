"""State that is larger than the memory of a worker, under a limit that the system enforces.

The limit is RLIMIT_DATA, which every worker sets for itself before it does anything else (see
`limited/sitecustomize.py`).  RLIMIT_AS would count mapped files, which take no memory that the
system cannot have back.  A task that reads the same state into memory shows that the limit holds.
"""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.incremental_data import Draw, Supply, Table
from benchmarks.incremental_process import watch_memory, workers
from benchmarks.incremental_queries import FACTS, Workload, average, stream
from benchmarks.incremental_run import Bench, prepare_place, time_call
from incmrql.engine.store.segments import Segment
from incmrql.runtime import Driver
from incmrql.runtime.checkpoint.manifests import State

LIMITED: Final = Path(__file__).with_name("limited")
VARIABLE: Final = "INCMRQL_DATA_LIMIT"
LEAST: Final = 768 << 20
"""Less than this is not enough for Python with its libraries."""
BUCKETS: Final = 32
BATCHES: Final = 5


def _all_different(draw: Draw) -> dict[str, Any]:
    return {"K": draw.each(draw.size.keys), "D": draw.doubles()}


MANY = Table("many", FACTS.columns, _all_different)
MEMORY = Workload(
    "memory",
    "group-by avg, 40M keys",
    f"incr select < K: k, m: avg(x.D) > from x in {stream(MANY)} group by k: x.K;",
    (MANY,),
    average,
    rows=40_000_000,
    floats=True,
)


def memory(bench: Bench, limit: int | None = None) -> dict[str, Any]:
    """Batches without a limit and with one, and a task that needs the whole state with both."""
    spark = bench.spark
    size = MEMORY.size(bench.scale)
    options = {"buckets": BUCKETS}
    with prepare_place(bench, MEMORY, size) as place:
        with place.driver(spark, options) as driver, watch_memory("VmData") as free:
            bench.with_patience(driver.step)
            usual = _batches(bench, place.supply, driver)
            state, runs = driver.state, driver.checkpoint.runs
        files = [runs / name for name in sorted({run.file for run in _runs(state)})]
        known = workers()
        most = max(state.size // 2, LEAST) if limit is None else limit
        with memory_limit(spark, most), place.driver(spark, options) as driver:
            enforced = _limit_seen(spark)
            naive = _loads(spark, files)
            seconds, problem = [], ""
            with watch_memory("VmData", but=known) as bound:
                try:
                    seconds = _batches(bench, place.supply, driver)
                except Exception as error:  # it may be anything that lack of memory brings about
                    problem = f"a batch failed: {type(error).__name__}"
        naive_free = _loads(spark, files)
    problems = [problem] if problem else []
    problems += [] if enforced == most else ["the limit is not set"]
    problems += [] if state.size > most else ["the state is smaller than the limit"]
    problems += [] if naive_free and not naive else ["a task without the feature is not stopped"]
    return {
        "about": f"{size.rows:,} keys, state beside a limit of memory for each worker",
        "state_bytes": state.size,
        "limit_bytes": most,
        "batch_seconds": statistics.median(usual),
        "limited_batch_seconds": statistics.median(seconds) if seconds else None,
        "peak_data_bytes": free.one,
        "limited_peak_data_bytes": bound.one,
        "whole_state_in_memory": {"limited": _word(naive), "unlimited": _word(naive_free)},
        "verdict": f"FAIL: {'; '.join(problems)}" if problems else "PASS",
    }


def _word(has_worked: bool) -> str:
    return "worked" if has_worked else "stopped"


def _batches(bench: Bench, supply: Supply, driver: Driver) -> list[float]:
    seconds = []
    for _ in range(BATCHES):
        supply.add()
        seconds.append(time_call(lambda: bench.with_patience(driver.step))[1])
    return seconds


def _runs(state: State) -> Iterator[Segment]:
    for table in state.tables.values():
        yield from table.segments


@contextmanager
def memory_limit(spark: SparkSession, limit: int) -> Iterator[None]:
    """Limit the memory of workers that start in the block, for frames created in it."""
    environment = spark.sparkContext.environment
    before = dict(environment)
    path = [str(LIMITED), environment.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))]
    environment["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
    environment[VARIABLE] = str(limit)
    try:
        yield
    finally:
        environment.clear()
        environment.update(before)


def _limit_seen(spark: SparkSession) -> int:
    """The limit that a task finds."""

    def look(rows: Iterator[Any]) -> Iterator[Any]:
        for _ in rows:
            yield pa.record_batch({"n": [resource.getrlimit(resource.RLIMIT_DATA)[0]]})

    return int(spark.range(0, 1, 1, 1).mapInArrow(look, "n long").collect()[0][0])


def _loads(spark: SparkSession, files: list[Path]) -> bool:
    """Whether a task can hold the content of all files."""

    def read(paths: list[str], rows: Iterator[Any]) -> Iterator[Any]:
        for _ in rows:
            content = [Path(path).read_bytes() for path in paths]
            yield pa.record_batch({"n": [sum(map(len, content))]})

    frame = spark.range(0, 1, 1, 1).mapInArrow(partial(read, list(map(str, files))), "n long")
    try:
        return int(frame.collect()[0][0]) == sum(file.stat().st_size for file in files)
    except Exception:  # the worker is gone, or told of a MemoryError
        return False
