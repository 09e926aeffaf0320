"""Data frames to files: `store` writes Parquet, `dump` writes text, as `io.writers` does.

    store(df, "out.parquet", type)      dump(df, "out.csv", type)

Tasks write parts into a hidden directory beside the target, which readers skip.  When all parts are
written and `before_replace` raises no error (it may be a source's `finish`), the target appears:
text parts are concatenated into one file; a single Parquet part becomes the file, and several
become a directory, which reads like one file.  If anything fails, the target is unchanged and no
part remains.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StructField, StructType

from incmrql.errors import DataError
from incmrql.io.arrow.types import arrow_type, write_type
from incmrql.io.arrow.values import to_arrow
from incmrql.io.writers import binary_file
from incmrql.io.writers import dump as dump_values
from incmrql.spark.values import ONE, element_reader, is_packed, is_wide, spark_type
from incmrql.storage.files import replacing, write_error
from incmrql.types.model import Collection, Nothing, Record, Tuple, Type, list_of
from incmrql.values import encode

_TYPE: Final = b"incmrql.type"
_MARK: Final = "_incmrql"
"""Marks a directory that `store` wrote and may therefore replace."""
_CHUNK: Final = 1 << 14
_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst")


def _do_nothing() -> None:
    """The default for what is called before a target appears."""


def store(
    df: DataFrame, path: str | Path, type_: Type, before_replace: Callable[[], None] = _do_nothing
) -> None:
    """Write the elements of a collection, or the one row of another value, as Parquet."""
    target, element = Path(path), _element(type_)
    with _parts_folder(target) as folder:
        _check_folder(target)
        _run(df, partial(_store_part, str(folder), element, is_packed(df, element)), target)
        before_replace()
        parts = sorted(folder.glob("part-*"))
        if len(parts) > 1:
            (folder / _MARK).touch()
        _replace(target, parts[0] if len(parts) == 1 else folder)


def dump(
    df: DataFrame, path: str | Path, type_: Type, before_replace: Callable[[], None] = _do_nothing
) -> None:
    """Write the elements of a collection, or the one row of another value, as text.

    A bag is written in canonical order; the rows of a list must be in order already.
    """
    target, element = Path(path), _element(type_)
    ending = "".join(end for end in target.suffixes if end not in _COMPRESSED)
    rows = _sort_rows(df, element) if type_ != element and type_ != list_of(element) else df
    write = partial(_dump_part, element, ending, is_packed(rows, element))
    with _parts_folder(target) as folder:
        if target.is_dir():
            raise write_error(target, "it is a folder, expected a file")
        _run(rows, partial(write, str(folder)), target)
        before_replace()
        header = folder / f"_header{ending}"
        dump_values(header, [], list_of(element))
        header_size = header.stat().st_size
        with replacing(target) as temporary, binary_file(temporary, target.suffix) as file:
            file.write(header.read_bytes())
            for part in sorted(folder.glob("part-*")):
                with part.open("rb") as lines:
                    lines.seek(header_size)
                    shutil.copyfileobj(lines, file)


def _sort_rows(df: DataFrame, element: Type) -> DataFrame:
    """The rows, packed, sorted by their canonical bytes."""
    schema = StructType([StructField(ONE, spark_type(element)), StructField("key", BinaryType())])
    with_keys = df.mapInArrow(partial(_with_key, element, is_packed(df, element)), schema)
    return with_keys.orderBy("key").select(ONE)


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, Collection) else type_


# --- tasks -------------------------------------------------------------------------------

_WriteParts = Callable[[Iterable[Arrow]], Iterator[Arrow]]
_PROBLEM_SCHEMA: Final = "code string, message string, place string, hint string"


def _run(df: DataFrame, write: _WriteParts, target: Path) -> None:
    """Run the tasks; the first problem that one returns as a row is raised."""
    problems = (
        df.mapInArrow(partial(_report_problem, write, str(target)), _PROBLEM_SCHEMA)
        .toArrow()
        .to_pylist()
    )
    for problem in problems[:1]:
        raise DataError(**problem)


def _report_problem(write: _WriteParts, target: str, parts: Iterable[Arrow]) -> Iterator[Arrow]:
    try:
        yield from write(parts)
    except OSError as cause:
        yield _problem(write_error(Path(target), cause.strerror or str(cause)))
    except DataError as error:
        yield _problem(write_error(Path(target), error.message.rpartition("written: ")[2]))


def _problem(error: DataError) -> Arrow:
    fields = {
        "code": error.code, "message": error.message, "place": error.place, "hint": error.hint,
    }  # fmt: skip
    return pa.RecordBatch.from_pylist([fields], pa.schema([(name, pa.string()) for name in fields]))


def _part_name(ending: str, number: int = 0) -> str:
    task = TaskContext.get()
    return f"part-{task.partitionId() if task is not None else 0:05d}-{number:06d}{ending}"


def _store_part(
    folder: str, element: Type, packed: bool, parts: Iterable[Arrow]
) -> Iterator[Arrow]:
    """Write the rows of a partition to one file, which appears when it is complete.

    A partition without rows writes no file, except the first one: the target needs a schema.
    """
    wide = is_wide(element) and not packed
    inner = arrow_type(element)
    fields = list(inner) if wide else [pa.field(ONE, inner)]
    schema = pa.schema(fields, metadata={_TYPE: write_type(element).encode()})
    path = Path(folder) / _part_name(".parquet")
    remaining = iter(parts)
    first = next(remaining, None)
    if first is None and not _is_first():
        return
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for part in chain(() if first is None else (first,), remaining):
            writer.write(_to_file_batch(part, element, schema, packed=packed))
    yield from ()


def _is_first() -> bool:
    task = TaskContext.get()
    return task is None or task.partitionId() == 0


def _to_file_batch(part: Arrow, element: Type, schema: Arrow, *, packed: bool) -> Arrow:
    """A batch from Spark with the columns of the file."""
    if _holds_null(element):  # Arrow has no cast to the type of null
        items = [
            to_arrow(value, element)
            for value in element_reader(part.schema, element, packed=packed)(part)
        ]
        records = [{ONE: item} for item in items] if packed else items
        return pa.Table.from_pylist(records, schema)
    return pa.Table.from_batches([part]).cast(schema)


def _holds_null(type_: Type) -> bool:
    match type_:
        case Nothing():
            return True
        case Record(fields):
            return any(_holds_null(field) for _, field in fields)
        case Tuple(items):
            return any(map(_holds_null, items))
        case Collection(_, element):
            return _holds_null(element)
        case _:
            return False


def _with_key(element: Type, packed: bool, parts: Iterable[Arrow]) -> Iterator[Arrow]:
    """Each row in one column, with its canonical bytes as sort key."""
    for part in parts:
        keys = pa.array(
            map(encode, element_reader(part.schema, element, packed=packed)(part)), pa.binary()
        )
        row = part.column(0) if packed else part.to_struct_array()
        yield pa.record_batch({ONE: row, "key": keys})


def _dump_part(
    element: Type, ending: str, packed: bool, folder: str, parts: Iterable[Arrow]
) -> Iterator[Arrow]:
    """Write the rows of a partition to files whose names sort in the order of the rows."""
    number = 0
    for part in parts:
        rows = element_reader(part.schema, element, packed=packed)(part)
        while chunk := list(islice(rows, _CHUNK)):
            dump_values(Path(folder) / _part_name(ending, number), chunk, list_of(element))
            number += 1
    yield from ()


# --- targets -----------------------------------------------------------------------------


@contextmanager
def _parts_folder(target: Path) -> Iterator[Path]:
    """A directory for parts; removed at the end unless it has become the target."""
    folder = Path(os.path.abspath(target)).parent / f".{target.name}.{uuid.uuid4().hex}.parts"
    try:
        with _explain_write_errors(target):
            folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _explain_write_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise write_error(target, cause.strerror or str(cause)) from cause


def _is_ours(target: Path) -> bool:
    return (target / _MARK).is_file()


def _check_folder(target: Path) -> None:
    if target.is_dir() and not _is_ours(target):
        raise write_error(target, "it is a folder, expected a file")


def _replace(target: Path, new: Path) -> None:
    """Replace the target; the old one is deleted once the new one is in place."""
    with _explain_write_errors(target):
        if not target.is_dir() and not (target.exists() and new.is_dir()):
            new.replace(target)
            return
        old = target.parent / f".{target.name}.{uuid.uuid4().hex}.old"
        target.rename(old)
        try:
            new.rename(target)
        except OSError:
            old.rename(target)
            raise
        with suppress(OSError):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
