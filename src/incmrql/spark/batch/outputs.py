"""Data frames to files: `store` writes Parquet, `dump` writes text, as `io.writers` does.

    store(df, "out.parquet", type)      dump(df, "out.csv", type)

Tasks write parts into a folder beside the target whose name starts with a dot, so that no reader
sees them.  When all are there and `before` has nothing against it (a source's `finish`, say), the
target appears: a text is put together into one file; of Parquet a single part becomes the file,
and several become a folder, which reads as the file would.  If anything goes wrong, the target is
as it was and no part remains.
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
from incmrql.spark.values import ONE, is_packed, is_wide, maker, spark_type
from incmrql.storage.files import replacing, write_error
from incmrql.types.model import Collection, Nothing, Record, Tuple, Type, list_of
from incmrql.values import encode

_TYPE: Final = b"incmrql.type"
_MARK: Final = "_incmrql"
"""The file in a folder that says that `store` wrote it and may replace it."""
_CHUNK: Final = 1 << 14
_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst")


def _nothing() -> None:
    """What is called before a target appears, if nobody cares."""


def store(
    df: DataFrame, path: str | Path, type_: Type, before: Callable[[], None] = _nothing
) -> None:
    """Write the elements of a collection, or the one row of another value, as Parquet."""
    target, element = Path(path), _element(type_)
    with _parts_beside(target) as folder:
        _check_folder(target)
        _run(df, partial(_store_part, str(folder), element, is_packed(df, element)), target)
        before()
        parts = sorted(folder.glob("part-*"))
        if len(parts) > 1:
            (folder / _MARK).touch()
        _replace(target, parts[0] if len(parts) == 1 else folder)


def dump(
    df: DataFrame, path: str | Path, type_: Type, before: Callable[[], None] = _nothing
) -> None:
    """Write the elements of a collection, or the one row of another value, as text.

    A bag is written in canonical order; the rows of a list must be in order already.
    """
    target, element = Path(path), _element(type_)
    ending = "".join(end for end in target.suffixes if end not in _COMPRESSED)
    rows = _ordered(df, element) if type_ != element and type_ != list_of(element) else df
    write = partial(_dump_part, element, ending, is_packed(rows, element))
    with _parts_beside(target) as folder:
        if target.is_dir():
            raise write_error(target, "it is a folder, expected a file")
        _run(rows, partial(write, str(folder)), target)
        before()
        header = folder / f"_header{ending}"
        dump_values(header, [], list_of(element))
        skipped = header.stat().st_size
        with replacing(target) as temporary, binary_file(temporary, target.suffix) as file:
            file.write(header.read_bytes())
            for part in sorted(folder.glob("part-*")):
                with part.open("rb") as lines:
                    lines.seek(skipped)
                    shutil.copyfileobj(lines, file)


def _ordered(df: DataFrame, element: Type) -> DataFrame:
    """The rows in canonical order, packed: that of their canonical bytes."""
    schema = StructType([StructField(ONE, spark_type(element)), StructField("key", BinaryType())])
    keyed = df.mapInArrow(partial(_keyed, element, is_packed(df, element)), schema)
    return keyed.orderBy("key").select(ONE)


def _element(type_: Type) -> Type:
    return type_.element if isinstance(type_, Collection) else type_


# --- tasks -------------------------------------------------------------------------------

_Write = Callable[[Iterable[Arrow]], Iterator[Arrow]]
_DONE: Final = "code string, message string, place string, hint string"


def _run(df: DataFrame, write: _Write, target: Path) -> None:
    """Let tasks write; what went wrong in one of them comes back as a row."""
    problems = df.mapInArrow(partial(_told, write, str(target)), _DONE).toArrow().to_pylist()
    for problem in problems[:1]:
        raise DataError(**problem)


def _told(write: _Write, target: str, parts: Iterable[Arrow]) -> Iterator[Arrow]:
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
    """The rows of a partition as one file, which is there when it is whole.

    Without rows there is none, but of the first partition, so that there is a file at all.
    """
    wide = is_wide(element) and not packed
    inner = arrow_type(element)
    fields = list(inner) if wide else [pa.field(ONE, inner)]
    schema = pa.schema(fields, metadata={_TYPE: write_type(element).encode()})
    path = Path(folder) / _part_name(".parquet")
    left = iter(parts)
    ahead = next(left, None)
    if ahead is None and not _is_first():
        return
    with replacing(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for part in chain(() if ahead is None else (ahead,), left):
            writer.write(_restored(part, element, schema, packed=packed))
    yield from ()


def _is_first() -> bool:
    task = TaskContext.get()
    return task is None or task.partitionId() == 0


def _restored(part: Arrow, element: Type, schema: Arrow, *, packed: bool) -> Arrow:
    """A batch of Spark's with the columns of the file."""
    if _holds_null(element):  # Arrow has no cast to the type of null
        items = [
            to_arrow(value, element) for value in maker(part.schema, element, packed=packed)(part)
        ]
        objects = [{ONE: item} for item in items] if packed else items
        return pa.Table.from_pylist(objects, schema)
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


def _keyed(element: Type, packed: bool, parts: Iterable[Arrow]) -> Iterator[Arrow]:
    """Each row in one column, and its canonical bytes."""
    for part in parts:
        keys = pa.array(map(encode, maker(part.schema, element, packed=packed)(part)), pa.binary())
        row = part.column(0) if packed else part.to_struct_array()
        yield pa.record_batch({ONE: row, "key": keys})


def _dump_part(
    element: Type, ending: str, packed: bool, folder: str, parts: Iterable[Arrow]
) -> Iterator[Arrow]:
    """The rows of a partition, in files that sort as they follow each other."""
    number = 0
    for part in parts:
        rows = maker(part.schema, element, packed=packed)(part)
        while chunk := list(islice(rows, _CHUNK)):
            dump_values(Path(folder) / _part_name(ending, number), chunk, list_of(element))
            number += 1
    yield from ()


# --- targets -----------------------------------------------------------------------------


@contextmanager
def _parts_beside(target: Path) -> Iterator[Path]:
    """A folder for parts, which is gone in the end unless it has become the target."""
    folder = Path(os.path.abspath(target)).parent / f".{target.name}.{uuid.uuid4().hex}.parts"
    try:
        with _unwritable(target):
            folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _unwritable(target: Path) -> Iterator[None]:
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
    """Put something in the place of the target; what was there goes when the new is there."""
    with _unwritable(target):
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
