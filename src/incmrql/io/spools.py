"""Spool files: rows with weights that were pushed, kept in files until a batch ingests them.

A spool file is an Arrow file with a column `value`, the element in the Arrow form of its type, and
a column `_weight`; each of its batches carries a checksum.  It is whole and on disk when the
function that writes it returns, and is read batch by batch through a memory map.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from incmrql.errors import DataError
from incmrql.io.arrow.columns import WEIGHT
from incmrql.io.arrow.tables import element_array
from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.io.files import damaged_error, unreadable
from incmrql.io.scalars import Unparsable
from incmrql.storage.files import replacing, write_error
from incmrql.types.model import Type
from incmrql.values import Value

VALUE: Final = "value"
_CHECKSUM: Final = b"checksum"
BATCH: Final = 1 << 16
"""Rows that are written and read together."""


class SpoolWriter:
    """A spool file that is being written."""

    def __init__(self, writer: Any, element: Type) -> None:
        self._writer, self._element = writer, element
        self.count = 0

    def rows(self, rows: Iterable[tuple[Value, int]]) -> None:
        """Add values with their weights."""
        remaining = iter(rows)
        while chunk := list(islice(remaining, BATCH)):
            self.batch(spool_batch(self._element, chunk))

    def table(self, table: Any, weights: Any = None) -> None:
        """Add the rows of an Arrow table, each once where no weights are given.

        The table has the columns of the element, or one column `value`; numbers are widened to the
        types of the element, columns that it does not have are left out.
        """
        all_weights = _ones(table.num_rows) if weights is None else pa.array(weights, pa.int64())
        offset = 0
        for batch in table.to_batches(max_chunksize=BATCH):
            values = element_array(batch, self._element)
            batch_weights = all_weights.slice(offset, batch.num_rows)
            offset += batch.num_rows
            self.batch(pa.record_batch([values, batch_weights], schema=spool_schema(self._element)))

    def batch(self, batch: Any) -> None:
        """Add what `spool_batch` made."""
        if batch.num_rows:
            whole = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
            self._writer.write_batch(whole, {_CHECKSUM: str(_checksum(whole))})
            self.count += batch.num_rows


@contextmanager
def spooling(path: Path, element: Type) -> Iterator[SpoolWriter]:
    """A spool file to add rows to, which appears, on disk, when all are in it."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with replacing(path) as temporary:
        try:
            with (
                pa.OSFile(str(temporary), "wb") as sink,
                pa.ipc.new_file(sink, spool_schema(element), options=options) as writer,
            ):
                yield SpoolWriter(writer, element)
        except (UnicodeEncodeError, Unparsable, pa.ArrowInvalid) as problem:
            raise write_error(path, f"a row is not of type {element}: {problem}") from None


def write_spool(path: Path, element: Type, rows: Iterable[tuple[Value, int]]) -> None:
    """Values and their weights as a spool file."""
    with spooling(path, element) as spool:
        spool.rows(rows)


def read_spool(path: Path, element: Type) -> Iterator[Any]:
    """The rows of a spool file as record batches of `value` and `_weight`."""
    try:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as file:
            if not file.schema.equals(spool_schema(element)):
                raise _type_mismatch(path, file.schema, element)
            for number in range(file.num_record_batches):
                batch, metadata = file.get_batch_with_custom_metadata(number)
                batch.validate(full=True)
                if metadata is None or metadata.get(_CHECKSUM) != str(_checksum(batch)).encode():
                    raise damaged_error(path, "its checksum differs")
                yield batch
    except OSError as cause:
        if cause.errno is None:
            raise damaged_error(path, str(cause)) from cause
        raise unreadable(path, cause) from cause
    except (pa.ArrowException, UnicodeDecodeError) as cause:
        raise damaged_error(path, str(cause)) from cause


def spool_rows(path: Path, element: Type) -> Iterator[tuple[Value, int]]:
    """The rows of a spool file as values, with their weights."""
    for batch in read_spool(path, element):
        column = batch.column(0)
        read = value_reader(column.type, element)
        values = column.cast(plain_type(column.type)).to_pylist()
        yield from zip(map(read, values), batch.column(1).to_pylist(), strict=True)


def spool_schema(element: Type) -> Any:
    """The columns of a spool file."""
    return pa.schema([pa.field(VALUE, arrow_type(element)), pa.field(WEIGHT, pa.int64())])


def spool_batch(element: Type, rows: list[tuple[Value, int]]) -> Any:
    """Values and their weights as a record batch."""
    values = pa.array([to_arrow(value, element) for value, _ in rows], arrow_type(element))
    weights = pa.array([weight for _, weight in rows], pa.int64())
    return pa.record_batch([values, weights], schema=spool_schema(element))


def _checksum(batch: Any) -> int:
    """The checksum of a batch that was in a file; one that never was may be laid out otherwise."""
    return zlib.crc32(batch.serialize())


def _ones(count: int) -> Any:
    return pa.repeat(pa.scalar(1, pa.int64()), count)


def _type_mismatch(path: Path, columns: Any, element: Type) -> DataError:
    listing = ", ".join(f"{field.name}: {field.type}" for field in columns)
    return DataError(
        "R307", f'"{path.name}" has columns {listing}, and its rows should be of type {element}',
        place=str(path), hint="It was written for another query; use a new checkpoint.",
    )  # fmt: skip
