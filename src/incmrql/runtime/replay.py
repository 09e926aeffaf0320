"""Spark jobs that read back what a checkpoint has: kept input, answers and state tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from incmrql.engine.batch import OPEN_SEGMENTS, CompiledProgram, read_rows
from incmrql.engine.columns.layouts import Struct
from incmrql.engine.columns.rows import Rows, to_values
from incmrql.engine.context import BatchContext
from incmrql.engine.inputs import InputFile
from incmrql.engine.messages import Reading, tables_of_json
from incmrql.engine.operators.answers import bucket_rows
from incmrql.engine.store.tables import Reader, StateTable, scan
from incmrql.errors import DataError
from incmrql.io.arrow.columns import WEIGHT, is_spread, parts_of
from incmrql.plan.program import Stream
from incmrql.runtime.driver import Driver
from incmrql.runtime.local_replay import bucket_difference
from incmrql.spark.clusters import EncodedDataError
from incmrql.spark.packing import PickledObject
from incmrql.spark.sources.columns import quote_name
from incmrql.spark.stream_job import StreamJob, balance_files
from incmrql.spark.values import (
    ONE,
    batches,
    from_arrow,
    is_wide,
    spark_schema,
    spark_type,
    tables,
    value_schema,
    without_null,
)
from incmrql.types.model import Type
from incmrql.values import Value


def stream_job(driver: Driver) -> StreamJob:
    """The job of a driver whose batches run on Spark."""
    job = driver.job
    assert isinstance(job, StreamJob)
    return job


def packed(driver: Driver) -> PickledObject:
    """The program of a driver whose batches run on Spark, as its tasks load it."""
    return stream_job(driver).sent.content


def net_rows(
    spark: SparkSession,
    compiled: PickledObject,
    stream: Stream,
    files: Sequence[InputFile],
    *,
    packed: bool,
) -> DataFrame:
    """The rows of a source after some files, each as often as its weights add up to.

    A row that was deleted more often than inserted, which only trusted deletions can cause, does
    not appear.
    """
    if not files:
        return spark.createDataFrame([], spark_schema(stream.element, packed=packed))
    net = _sum_weights(_weighted_rows(spark, compiled, stream, files), stream).where(
        f"{WEIGHT} > 0"
    )
    row = f"explode(array_repeat({_element(stream)}, cast({WEIGHT} as int))) as {ONE}"
    rows = net.selectExpr(row)
    return rows if packed or not is_wide(stream.element) else rows.select(f"{ONE}.*")


def ledger_differences(  # noqa: PLR0913 (a source, its files and its ledger)
    spark: SparkSession,
    compiled: PickledObject,
    stream: Stream,
    files: Sequence[InputFile],
    ledger: StateTable,
    runs: Path,
    *,
    most: int,
) -> list[tuple[Value, int]]:
    """Rows of which the ledger has more (positive) or fewer than the files, at most `most`."""
    task = partial(_ledger, ledger, str(runs.absolute()), len(_columns(stream)))
    kept = spark.range(0, ledger.buckets, 1, ledger.buckets).mapInArrow(task, _schema(stream))
    if files:
        ingested = _weighted_rows(spark, compiled, stream, files)
        names = ingested.columns[:-1]
        kept = kept.union(ingested.selectExpr(*names, f"-{WEIGHT}"))
    differing = _sum_weights(kept, stream).where(f"{WEIGHT} <> 0").limit(most)
    differences: list[tuple[Value, int]] = []
    for table in tables(differing.selectExpr(f"{_element(stream)} as {ONE}", WEIGHT)):
        rows = from_arrow(table.select([ONE]), stream.element, packed=True)
        differences += zip(rows, table.column(WEIGHT).to_pylist(), strict=True)
    return differences


def _weighted_rows(
    spark: SparkSession, compiled: PickledObject, stream: Stream, files: Sequence[InputFile]
) -> DataFrame:
    """The rows of files with their weights."""
    groups = balance_files(files, max(2 * spark.sparkContext.defaultParallelism, 1))
    task = partial(_read, compiled, len(_columns(stream)), groups)
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(task, _schema(stream))


def _schema(stream: Stream) -> str:
    types = [spark_type(type_).simpleString() for type_ in _columns(stream)]
    return ", ".join([*[f"c{n} {t}" for n, t in enumerate(types)], f"{WEIGHT} bigint"])


def _sum_weights(frame: DataFrame, stream: Stream) -> DataFrame:
    """Each distinct row once, with the sum of its weights."""
    names = [f"c{index}" for index in range(len(_columns(stream)))]
    return frame.groupBy(*names).agg({WEIGHT: "sum"}).toDF(*names, WEIGHT)


def _columns(stream: Stream) -> tuple[Type, ...]:
    """The types of the columns that hold the rows of a source."""
    if stream.packed:
        return (stream.element,)
    return tuple(type_ for _, type_ in parts_of(stream.element))


def _element(stream: Stream) -> str:
    """The SQL that makes a row of a source from its columns."""
    if stream.packed or not is_spread(stream.element):
        return "c0"
    labels = [label for label, _ in parts_of(stream.element)]
    parts = [f"c{index} as {quote_name(label)}" for index, label in enumerate(labels)]
    return f"struct({', '.join(parts)})"


def _read(
    sent: PickledObject, width: int, groups: list[list[InputFile]], numbers: Iterator[Any]
) -> Iterator[Any]:
    """In a task: the rows of groups of files with their weights."""
    compiled: CompiledProgram = sent.load()
    names = [*[f"c{index}" for index in range(width)], WEIGHT]
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for file in groups[number]:
                try:
                    for rows in read_rows(compiled, file, Reading()):
                        columns = [_as_spark(column) for column in rows.columns]
                        weights = pa.array(rows.weights, pa.int64())
                        yield pa.record_batch([*columns, weights], names=names)
                except DataError as problem:
                    raise EncodedDataError(problem) from None


def _ledger(table: StateTable, runs: str, width: int, given: Iterator[Any]) -> Iterator[Any]:
    """In a task: the rows of buckets of a ledger."""
    reader = Reader(Path(runs), OPEN_SEGMENTS)
    # The row is in the last columns: a declared key comes before it.
    names = [*[f"c{index}" for index in range(width)], WEIGHT]
    for batch in given:
        for bucket in batch.column(0).to_pylist():
            content = scan(table, reader, bucket)
            columns = [_as_spark(column) for column in content.columns[-width:]]
            yield pa.record_batch([*columns, pa.array(content.weights)], names=names)


def _as_spark(column: Any) -> Any:
    """A column in the Arrow type that Spark uses for it."""
    return column.cast(without_null(column.type))


# --- answers -------------------------------------------------------------------------------


def answer_rows(
    spark: SparkSession,
    compiled: CompiledProgram,
    sent: PickledObject,
    number: int,
    state: Mapping[str, StateTable],
    runs: Path,
) -> DataFrame:
    """The rows of an answer, unordered; tasks read them from segments, bucket by bucket."""
    answer = compiled.physical.answers[number]
    packed = not isinstance(answer.layout, Struct)
    buckets = max((table.buckets for table in state.values()), default=1)
    state_json = {name: table.as_json() for name, table in state.items()}
    task = partial(_bucket, sent, number, state_json, buckets, str(runs.absolute()), packed=packed)
    schema = spark_schema(answer.output.element, packed=packed)
    return spark.range(0, buckets, 1, buckets).mapInArrow(task, schema)


def _bucket(  # noqa: PLR0913 (all that a task needs to know)
    sent: PickledObject,
    number: int,
    state_json: Mapping[str, Any],
    buckets: int,
    runs: str,
    given: Iterator[Any],
    *,
    packed: bool,
) -> Iterator[Any]:
    """In a task: the rows of an answer in buckets."""
    compiled: CompiledProgram = sent.load()
    answer = compiled.physical.answers[number]
    state = tables_of_json(state_json, compiled.physical.schemas, buckets)
    context = BatchContext(state, Reader(Path(runs), OPEN_SEGMENTS), compiled.env(), is_first=False)
    element = answer.output.element
    for batch in given:
        for bucket in batch.column(0).to_pylist():
            rows = bucket_rows(answer, bucket, context)
            rows = rows.take(np.repeat(np.arange(len(rows)), rows.weights))
            if packed or not is_wide(element):
                values = [value for value, _ in to_values(rows, answer.layout)]
                yield from batches(values, element, packed=packed)
            else:
                shown = rows if answer.shown is None else answer.shown.apply(rows, context.env)
                yield _wide(shown, element)


def _wide(rows: Rows, element: Type) -> Any:
    """Rows with one column for each field."""
    schema = value_schema(element)
    columns = [c.cast(field.type) for c, field in zip(rows.columns, schema, strict=True)]
    return pa.record_batch(columns, schema=schema)


def state_differences(
    spark: SparkSession,
    kept: Mapping[str, StateTable],
    runs: Path,
    built: Mapping[str, StateTable],
    scratch: Path,
) -> list[tuple[str, int, str]]:
    """Tables that differ from `built`: name, number of differing rows, and the first ones.

    `built` are the tables of a rebuild, with segments in `scratch`.  Tasks compare buckets.
    """
    pairs = [(name, bucket) for name in sorted(kept) for bucket in range(kept[name].buckets)]
    if not pairs:
        return []
    directories = str(runs.absolute()), str(scratch.absolute())
    task = partial(_compare_buckets, pairs, dict(kept), dict(built), directories)
    frame = spark.range(0, len(pairs), 1, min(len(pairs), 8)).mapInArrow(
        task, "name string, rows long, first string"
    )
    differences: dict[str, tuple[int, str]] = {}
    for name, count, first in frame.collect():
        before = differences.get(name, (0, first))
        differences[name] = before[0] + count, before[1]
    return [(name, count, first) for name, (count, first) in sorted(differences.items())]


def _compare_buckets(
    pairs: Sequence[tuple[str, int]],
    kept: Mapping[str, StateTable],
    built: Mapping[str, StateTable],
    directories: tuple[str, str],
    rows: Iterator[Any],
) -> Iterator[Any]:
    """In a task: the differences of tables in some of their buckets."""
    runs, scratch = map(Path, directories)
    for batch in rows:
        for number in batch.column(0).to_pylist():
            name, bucket = pairs[number]
            count, first = bucket_difference(name, bucket, (kept, runs), (built, scratch))
            if count:
                yield pa.record_batch([[name], [count], [first]], names=["name", "rows", "first"])
