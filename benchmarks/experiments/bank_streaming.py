"""The bank on Structured Streaming, as far as it takes the views; nothing is taken back.

Three ways: the views as they are, which it refuses; balances as one sum over both ends of each
transfer; credits and debits as two queries, whose tables a reader puts together.  A reader may look
whenever a table has changed, so that is when the total is taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.experiments.bank_data import COLUMNS, TRANSFERS, Batch
from benchmarks.experiments.base import Finding, Tell, failure
from benchmarks.experiments.rivals_streaming import MODES, reason, streaming_session

AS_VIEWS: Final = "Structured Streaming: balance as a join of credits and debits"
AS_SUM: Final = "Structured Streaming: balance as one sum over both ends"
APART: Final = "Structured Streaming: credits and debits as two queries, read at any time"


def streaming_findings(
    spark: SparkSession, history: list[Batch], folder: Path, tell: Tell
) -> Iterator[Finding]:
    """The same bank on Structured Streaming."""
    own = streaming_session(spark)
    yield refused_views(own, history, folder / "views")
    for name, run in ((AS_SUM, _as_sum), (APART, _apart)):
        tell(f"bank: {name}")
        try:
            yield run(own, history, folder / run.__name__)
        except Exception as error:  # whatever it is, the others are still wanted
            yield failure("bank", name, error)


def _transfers(spark: SparkSession, folder: Path) -> DataFrame:
    place = folder / TRANSFERS
    place.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema(COLUMNS).parquet(str(place))


def _sums(spark: SparkSession, folder: Path, account: str) -> DataFrame:
    grouped = _transfers(spark, folder).groupBy(sql.col(account).alias("account"))
    return grouped.agg(sql.sum("amount").alias(account))


def refused_views(spark: SparkSession, history: list[Batch], folder: Path) -> Finding:
    """Credits and debits joined by account: what Spark says in each output mode."""
    history[0].write(folder)
    joined = _sums(spark, folder, "dst").join(_sums(spark, folder, "src"), "account", "full")
    reasons = []
    for mode in MODES:
        started = None
        try:
            place = str(folder / f"checkpoint-{mode}")
            writer = joined.writeStream.outputMode(mode).format("noop")
            started = writer.option("checkpointLocation", place).start()
            started.processAllAvailable()
        except PySparkException as error:
            reasons.append(f"{mode} mode: {reason(error)}")
        else:
            return Finding("bank", AS_VIEWS, verdict="right", note=f"taken in {mode} mode")
        finally:
            if started is not None:
                started.stop()
    return Finding("bank", AS_VIEWS, verdict="refused", note=reasons[0])


@dataclass(slots=True)
class Reader:
    """Tables by name, and the totals that were seen whenever one of them changed."""

    total: Callable[[dict[str, int]], int]
    tables: dict[str, int] = field(default_factory=dict)
    looks: int = 0
    not_zero: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def publish(self, name: str, total: int) -> None:
        """A table has changed: look."""
        with self.lock:
            self.tables[name] = total
            self.looks += 1
            self.not_zero += bool(self.total(self.tables))

    def finding(self, case: str, history: list[Batch], last: int) -> Finding:
        """What was seen."""
        figures = {
            "transfers": sum(len(batch.come) for batch in history),
            "taken back": 0,
            "looks": self.looks,
            "not 0": self.not_zero,
            "not 0 at rest": last,
        }
        note = "wrong between the triggers of its queries" if self.not_zero else ""
        return Finding(
            "bank", case, figures, None, "inconsistent" if self.not_zero else "right", note
        )


def _follow(stream: DataFrame, name: str, reader: Reader, place: Path) -> StreamingQuery:
    """A query in complete mode; the sum over its last column is published at each trigger."""

    def publish(rows: DataFrame, _: int) -> None:
        reader.publish(name, sum(row[-1] for row in rows.collect()))

    writer = stream.writeStream.outputMode("complete").foreachBatch(publish)
    return writer.option("checkpointLocation", str(place)).start()


def _finding_of(
    case: str, history: list[Batch], folder: Path, reader: Reader, queries: list[StreamingQuery]
) -> Finding:
    """Write batch after batch; all queries process one before the next is written."""
    at_rest = 0
    try:
        for batch in history:
            batch.write(folder)
            for query in queries:
                query.processAllAvailable()
            at_rest += bool(reader.total(reader.tables))
    finally:
        for query in queries:
            query.stop()
    return reader.finding(case, history, at_rest)


def _as_sum(spark: SparkSession, history: list[Batch], folder: Path) -> Finding:
    transfers = _transfers(spark, folder)
    ends = transfers.selectExpr("dst as account", "amount").unionAll(
        transfers.selectExpr("src as account", "-amount as amount")
    )
    balance = ends.groupBy("account").agg(sql.sum("amount").alias("balance"))
    reader = Reader(lambda tables: tables.get("balance", 0))
    query = _follow(balance, "balance", reader, folder / "checkpoint")
    return _finding_of(AS_SUM, history, folder, reader, [query])


def _apart(spark: SparkSession, history: list[Batch], folder: Path) -> Finding:
    reader = Reader(lambda tables: tables.get("dst", 0) - tables.get("src", 0))
    queries = [
        _follow(_sums(spark, folder, side), side, reader, folder / f"checkpoint-{side}")
        for side in ("dst", "src")
    ]
    return _finding_of(APART, history, folder, reader, queries)
