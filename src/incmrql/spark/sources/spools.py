"""Rows of new files, read by Spark as the user's own reader reads them, as spool files.

One job reads all new files of a batch before its intent is written.  Its tasks write the rows to
the checkpoint, a spool file for each file that they meet, and report names and counts: no rows
pass through the driver.  Spools of an attempt that failed are named by nobody, and removed.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types

from incmrql.engine.inputs import InputFile, Origin, check_unchanged, checksum
from incmrql.errors import DataError, InternalError
from incmrql.io.arrow.tables import column_array
from incmrql.io.arrow.types import arrow_type
from incmrql.io.spark_files import base_directory, escape, local_path
from incmrql.io.spools import SpoolWriter, spool_schema, spooling, write_spool
from incmrql.plan.program import Stream
from incmrql.spark.clusters import EncodedDataError, error_of, is_out_of_memory, watch_executors
from incmrql.spark.forms import kept_columns
from incmrql.spark.internals import FUNCTIONS_BY_ROW
from incmrql.spark.opaque import failure_of, with_computed
from incmrql.spark.sources.columns import quote_name
from incmrql.spark.values import spark_type
from incmrql.types.model import Tuple
from incmrql.types.typed import SparkReader

_PATH: Final = "path"
_JAVA: Final = re.compile(r"^(?:: |Caused by: )?(?:[a-z][\w$]*\.)+[\w$]+: |SQLSTATE: \w+$")
"""What a line of an exception of Java has before its message, and after it."""
_REPORT: Final = "path string, name string, rows long"
_SETTINGS: Final = {
    **FUNCTIONS_BY_ROW,
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 14),
    "spark.sql.files.ignoreMissingFiles": "false",  # a file that vanishes must not be no rows
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text,xml",
}


def reading_session(spark: SparkSession, reader: SparkReader) -> SparkSession:
    """A session in which a reader reads as in the session that it comes from."""
    session = spark.newSession()
    for name, value in (*reader.settings, *_SETTINGS.items()):
        session.conf.set(name, value)
    return session


def reader_frame(
    session: SparkSession, reader: SparkReader, files: Sequence[str], base: str
) -> DataFrame:
    """The rows of some files as a reader reads them, with the columns `_1`, `_2`, ..., `path`.

    `base` is the directory from which partitions count.
    """
    read = session.read.format(reader.format)
    read = read.schema(spark_types.StructType.fromJson(json.loads(reader.schema)))
    for name, value in reader.options:
        if name.lower() != "basepath":
            read = read.option(name, value)
    if reader.partitions:
        read = read.option("basePath", base)
    frame = read.load(list(map(escape, files)))
    columns = [
        sql.col(quote_name(name)).alias(f"_{place}") for place, name in enumerate(reader.columns, 1)
    ]
    file_path = frame.metadataColumn("_metadata").getField("file_path")
    return frame.select(*columns, file_path.alias(_PATH))


def spool_files(
    session: SparkSession, stream: Stream, files: Sequence[InputFile], folder: Path
) -> list[InputFile]:
    """Spool files with the rows of some files, each of which has at least one.

    A file that changes meanwhile is refused, and so is one that Spark cannot read.
    """
    reader = stream.source.reader
    assert reader is not None
    folder, attempt = folder.absolute(), uuid.uuid4().hex[:12]
    plain: list[tuple[DataFrame, bool]] = []
    by_path = {os.path.abspath(file.path): file for file in files}
    task = partial(_spool, stream, str(folder), attempt)
    try:
        plain = [
            (reader_frame(session, reader, paths, base), deletes)
            for (base, deletes), paths in _by_base(stream, reader, by_path).items()
        ]
        whole = [_with_computed(frame, stream, deletes=deletes) for frame, deletes in plain]
        frames = [frame.select(*kept_columns(frame)) for frame in whole]
        rows = reduce(DataFrame.union, frames).mapInArrow(task, _REPORT)
        with watch_executors(session):
            report = rows.collect()
        return list(_spools(report, by_path, stream, folder, attempt))
    except (PySparkException, Py4JJavaError) as problem:
        _remove(folder, attempt)
        failure = _failure(problem, stream, plain)
        if failure is not None:
            raise failure from None
        raise _unreadable(problem, stream, files) from None
    except BaseException:
        _remove(folder, attempt)
        raise


def _with_computed(frame: DataFrame, stream: Stream, *, deletes: bool) -> DataFrame:
    """Rows with the columns that are computed when they are inserted; of deletions, with nulls."""
    reader, element = stream.source.reader, stream.element
    assert reader is not None
    assert isinstance(element, Tuple)
    width = len(reader.columns)
    if not reader.computed:
        return frame
    if not deletes:
        return with_computed(frame, width, reader.computed)
    nulls = [
        sql.lit(None).cast(spark_type(type_)).alias(f"computed {number}")
        for number, type_ in enumerate(element.items[width:])
    ]
    names = frame.columns
    return frame.select(*names[:width], *nulls, *names[width:])


def _failure(
    problem: Exception, stream: Stream, plain: Sequence[tuple[DataFrame, bool]]
) -> DataError | None:
    """The error for a function that fails for a row, if that is what the problem is."""
    reader = stream.source.reader
    assert reader is not None
    if not reader.computed or isinstance(error_of(problem), DataError):
        return None
    try:
        for frame, deletes in plain:
            failure = (
                None
                if deletes
                else failure_of(problem, frame, len(reader.columns), reader.computed, stream.name)
            )
            if failure is not None:
                return failure
    except (PySparkException, Py4JJavaError):
        pass  # the files cannot be read either
    return None


def _by_base(
    stream: Stream, reader: SparkReader, by_path: dict[str, InputFile]
) -> dict[tuple[str, bool], list[str]]:
    """Paths of files by the directory from which their partitions count, deletions apart."""
    groups: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for path, file in by_path.items():
        base = ""
        if reader.partitions:
            base = base_directory(reader, path, stream.deletes if file.deletes else None)
        groups[base, bool(reader.computed) and file.deletes].append(path)
    return groups


def _spools(
    report: Sequence[Any],
    by_path: dict[str, InputFile],
    stream: Stream,
    folder: Path,
    attempt: str,
) -> Iterator[InputFile]:
    """The spool files that a job has written, and empty ones for files without rows."""
    names: dict[str, list[str]] = {path: [] for path in by_path}
    for path, name, _ in report:
        if _local(path) not in names:
            raise InternalError(f"Spark has read {path}, which is no file of the batch")
        names[_local(path)].append(name)
    for number, (path, file) in enumerate(by_path.items()):
        if not names[path]:
            names[path].append(f"{attempt}-empty-{number}.arrow")
            write_spool(folder / names[path][0], stream.element, ())
        origin = Origin(file.path, file.size, file.modified, checksum(file))
        check_unchanged(file)
        for name in names[path]:
            there = (folder / name).stat()
            yield replace(
                file,
                path=str(folder / name),
                size=there.st_size,
                modified=there.st_mtime_ns,
                kind="spool",
                origin=origin,
            )


def _local(uri: str) -> str:
    """The path of a file that Spark names by an URI."""
    return unquote(local_path(uri))


def _remove(folder: Path, attempt: str) -> None:
    for path in folder.glob(f"*{attempt}*"):
        path.unlink(missing_ok=True)


def _unreadable(problem: PySparkException, stream: Stream, files: Sequence[InputFile]) -> Exception:
    """The error for files that Spark does not read."""
    known = error_of(problem)
    if isinstance(known, DataError) or is_out_of_memory(str(problem)):
        return known
    lines = (_JAVA.sub("", line.strip()).strip() for line in str(problem).splitlines())
    said = [line for line in lines if line and not line.startswith(("at ", "... ", "An error "))]
    why = " ".join(dict.fromkeys([*said[:3], *said[-1:]]))[:800]
    hint = (
        "Nothing of these files was ingested. Correct or remove the file that Spark names; the "
        "reader's option mode says what becomes of bad records."
    )
    shown = files[0].path if len(files) == 1 else f"{files[0].path} and {len(files) - 1} more"
    return DataError("R325", f"Spark cannot read {stream.name}: {why}", place=shown, hint=hint)


# --- In tasks ---


def _spool(stream: Stream, folder: str, attempt: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Write the rows of a partition, and report a spool for each file that they come from."""
    from pyspark import TaskContext

    context = TaskContext.get()
    task = 0 if context is None else context.taskAttemptId()
    report: list[tuple[str, str, int]] = []
    with ExitStack() as files:
        current, writer = None, None
        for batch in batches:
            paths = batch.column(batch.num_columns - 1)
            for start, length, path in _stretches(paths):
                if path != current:
                    files.close()
                    current, name = path, f"{attempt}-{task}-{len(report)}.arrow"
                    writer = files.enter_context(spooling(Path(folder, name), stream.element))
                    report.append((path, name, 0))
                assert writer is not None
                _write(writer, stream, batch.slice(start, length), path)
                report[-1] = (*report[-1][:2], writer.count)
    if report:
        yield pa.record_batch(
            [pa.array(column) for column in zip(*report, strict=True)], ["path", "name", "rows"]
        )


def _stretches(paths: Any) -> Iterator[tuple[int, int, str]]:
    """Where the rows of each file start in a batch, and how many they are."""
    if not len(paths):
        return
    runs = pc.run_end_encode(paths)
    start = 0
    for end, path in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield start, end - start, path
        start = end


def _write(writer: SpoolWriter, stream: Stream, batch: Any, path: str) -> None:
    """Add rows to a spool, in the Arrow form of their type."""
    reader, element = stream.source.reader, stream.element
    assert reader is not None
    assert isinstance(element, Tuple)
    columns = []
    names = [*reader.columns, *(column.shown for column in reader.computed)]
    for place, (name, type_) in enumerate(zip(names, element.items, strict=True)):
        try:
            columns.append(column_array(batch.column(place), type_))
        except (DataError, UnicodeDecodeError, pa.ArrowInvalid) as problem:
            why = problem.message if isinstance(problem, DataError) else str(problem)
            hint = "Correct the file, or read the column as another type."
            message = f'column "{name}" has a value that no {type_} is: {why}'
            raise EncodedDataError(
                DataError("R325", message, place=_local(path), hint=hint)
            ) from None
    values = pa.StructArray.from_arrays(columns, fields=list(arrow_type(element)))
    weights = pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
    writer.batch(pa.record_batch([values, weights], schema=spool_schema(element)))
