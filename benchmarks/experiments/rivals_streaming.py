"""Structured Streaming: the same data frames over streams of files, where Spark takes them.

One query runs all the time, with RocksDB and its changelog as state and a checkpoint.  What a
micro-batch gives goes to Parquet, as that of incmrql does.  Output modes are tried in turn; what is
refused in all of them is told in the words that Spark has for the first.
"""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.batch_sides import Kept
from benchmarks.experiments.rivals_files import Form
from benchmarks.experiments.rivals_queries import Query
from benchmarks.experiments.rivals_sides import Answer, Late, Refused, Side, Table
from benchmarks.incremental_data import GONE
from benchmarks.incremental_queries import NUMBERS, frame

MODES: Final = ("update", "append", "complete")
SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
Code: TypeAlias = Callable[[SparkSession, Path, Kept], DataFrame]


class _Streams:
    """A session whose `read` is that of streams: frames by hand need not be written again."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def read(self) -> Any:
        return self._spark.readStream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


def _extremes(spark: SparkSession, data: Path, _: Kept) -> DataFrame:
    """Deletions as rows of weight -1: a stream has no other."""
    there = frame(spark, data, NUMBERS).withColumn("w", sql.lit(1))
    gone = frame(spark, data, NUMBERS, GONE).withColumn("w", sql.lit(-1))
    rows = there.unionAll(gone).groupBy("K", "V").agg(sql.sum("w").alias("w")).where("w > 0")
    return rows.groupBy("K").agg(sql.min("V").alias("low"), sql.max("V").alias("high"))


OTHERWISE: Final[dict[str, Code]] = {"extremes": _extremes}
"""Queries that are simpler to say over streams than what an expert recomputes."""


def streaming_session(spark: SparkSession) -> SparkSession:
    """A session for streams beside another one."""
    own = spark.newSession()
    for name, value in SETTINGS.items():
        own.conf.set(name, value)
    own.conf.set(
        "spark.sql.shuffle.partitions", spark.conf.get("spark.sql.shuffle.partitions") or "2"
    )
    return own


def reason(error: Exception) -> str:
    """What Spark says about a query that it does not take, in a line."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    text = str(error).split(";\n")[0].split("\n")[0].removeprefix(f"[{condition}]")
    name = type(error).__name__ + (f" [{condition}]" if condition else "")
    return f"{name}: {textwrap.shorten(text, 160, placeholder=' …')}"


def start_query(query: Query, spark: SparkSession, folder: Path, place: Path, mode: str) -> Running:
    """Start a query over streams in an output mode; raises Spark's error if it is refused."""
    code = OTHERWISE.get(query.name, query.expert)
    stream = code(cast("SparkSession", _Streams(spark)), folder, [])
    return Running(stream, place, mode)


class Running:
    """A streaming query that runs, each micro-batch into a folder of its own."""

    def __init__(self, stream: DataFrame, place: Path, mode: str) -> None:
        self.mode, self.out = mode, place / "out"

        def write(rows: DataFrame, number: int) -> None:
            rows.write.mode("overwrite").parquet(str(self.out / f"{number:06d}"))

        writer = stream.writeStream.outputMode(mode).foreachBatch(write)
        self.query: StreamingQuery = writer.option(
            "checkpointLocation", str(place / "checkpoint")
        ).start()

    def catch_up(self, patience: float) -> None:
        """Wait until everything that is there is processed."""
        timer = threading.Timer(patience, self.query.stop)
        timer.start()
        try:
            self.query.processAllAvailable()
        finally:
            timer.cancel()
        if not self.query.isActive:
            raise Late(f"given up after {patience:.0f} s")

    def rows(self) -> pa.Table:
        """The answer from all that was written: the last row of each key, or all rows.

        The key of what is written in update mode is the first column.
        """
        tables = []
        for folder in sorted(self.out.iterdir()):
            batch = pq.read_table(folder)
            tables.append(batch.append_column("_n", pa.array([int(folder.name)] * len(batch))))
        rows = pa.concat_tables(tables)
        if self.mode == "complete":
            rows = rows.filter(pc.equal(rows["_n"], pc.max(rows["_n"])))
        elif self.mode == "update":
            names, key = rows.column_names, rows.column_names[0]
            last = rows.group_by(key).aggregate([("_n", "max")])
            rows = rows.join(last, [key, "_n"], [key, "_n_max"], join_type="inner")
            rows = rows.select(names)
        return rows.drop_columns(["_n"])

    def stop(self) -> None:
        """End it."""
        self.query.stop()


class Streamed:
    """A query that Structured Streaming took."""

    form: Form = "parquet"

    def __init__(self, table: Table) -> None:
        self.table = table
        self.folder = table.files.open("streaming")
        self.spark = streaming_session(table.session.spark)
        self.running: Running | None = None

    def take(self, number: int, expected: Answer) -> float:  # noqa: ARG002 - it knows when it is done
        """From the files to the micro-batch that has taken them in; the first one starts it."""
        self.table.files.reveal(number, "streaming", self.form)
        begun = time.perf_counter()
        if self.running is None:
            self.running = self._start()
        else:
            self.running.catch_up(self.table.patience)
        return time.perf_counter() - begun

    def _start(self) -> Running:
        """Whatever Spark refuses, it refuses before or in its first micro-batch."""
        reasons = []
        for mode in MODES:
            place = self.table.files.folder / f"streaming-{mode}"
            running = None
            try:
                running = start_query(self.table.query, self.spark, self.folder, place, mode)
                running.catch_up(self.table.patience_for(0))
            except PySparkException as error:
                if running is not None:
                    running.stop()
                reasons.append(f"{mode} mode: {reason(error)}")
            else:
                return running
        raise Refused(reasons[0])

    def answer(self) -> Answer:
        """What was written, put together."""
        assert self.running is not None
        return self.running.rows()

    def close(self) -> None:
        """End the query."""
        if self.running is not None:
            self.running.stop()


class StructuredStreaming:
    """Structured Streaming in the process of the experiment."""

    name = "Structured Streaming"

    def open(self, table: Table) -> Side:
        """Whether it accepts the query is known once it has processed the history."""
        return Streamed(table)

    def close(self) -> None:
        """Nothing runs beside the sides."""
