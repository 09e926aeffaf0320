"""Parquet files to rows, where the columns are as they should be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import normalize_floats
from incmrql.types.model import DOUBLE, INTEGERS, STRING, Type

_ROWS: Final = 1 << 18
"""Rows that are read together."""
_PLAIN: Final = frozenset(map(arrow_type, (*INTEGERS, DOUBLE, STRING)))


def parquet_arrays(path: Path, element: Type) -> Iterator[Arrow | None]:
    """The rows of a file; None where it and what follows is left to the row-by-row reader.

    That is so where the columns are not just those of the element, and from the first text on
    that is not UTF-8, which Parquet does not promise.
    """
    element_array_type = arrow_type(element)
    file = _plain_file(path, element_array_type) if pa.types.is_struct(element_array_type) else None
    if file is None:
        yield None
        return
    for batch in file.iter_batches(_ROWS):
        columns = [
            normalize_floats(column) if pa.types.is_floating(column.type) else column
            for column in batch.columns
        ]
        array = pa.StructArray.from_arrays(columns, fields=list(element_array_type))
        if not _is_text(array):
            yield None
            return
        yield array


def _plain_file(path: Path, expected: Arrow) -> Arrow | None:
    """The file, if it has just these columns."""
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException):
        return None
    columns = [(field.name, field.type) for field in file.schema_arrow]
    same = columns == [(field.name, field.type) for field in expected]
    return file if same and all(type_ in _PLAIN for _, type_ in columns) else None


def _is_text(array: Arrow) -> bool:
    """Whether all texts are UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
