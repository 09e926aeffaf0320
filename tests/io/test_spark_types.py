"""Tables with columns of types that only plans of Spark have."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from incmrql.errors import DataError
from incmrql.io.arrow.columns import column_values
from incmrql.io.arrow.tables import column_array
from incmrql.types.model import (
    BINARY,
    DAY_TO_SECOND,
    INT,
    STRING,
    TIMESTAMP_NTZ,
    YEAR_TO_MONTH,
    Record,
    Type,
    list_of,
    map_of,
)
from incmrql.values import LocalTime, Months, Value
from incmrql.values import Record as RecordValue

ENTRY = pa.struct([("key", pa.string()), ("value", pa.int32())])
MAP = map_of(STRING, INT)


@pytest.mark.parametrize(
    ("array", "type_", "values"),
    [
        (pa.array([b"a\xff", None]), BINARY, [b"a\xff", None]),
        (pa.array([b"a"], pa.large_binary()), BINARY, [b"a"]),
        (pa.array([datetime(2024, 1, 1)], pa.timestamp("us")), TIMESTAMP_NTZ,
         [LocalTime(2024, 1, 1)]),
        (pa.array([14, None], pa.int32()), YEAR_TO_MONTH, [Months(14), None]),
        (pa.array([-1], pa.int64()), DAY_TO_SECOND, [timedelta(microseconds=-1)]),
        (pa.array([[{"key": "a", "value": 1}], []], pa.list_(ENTRY)), MAP,
         [[RecordValue({"key": "a", "value": 1})], []]),
        (pa.array([[b"a"], None]), list_of(BINARY), [[b"a"], None]),
        (pa.array([{"b": b"a"}]), Record((("b", BINARY),)), [RecordValue({"b": b"a"})]),
    ],
)  # fmt: skip
def test_columns_of_tables(array: pa.Array, type_: Type, values: list[Value]) -> None:
    assert column_values(column_array(array, type_), type_) == values


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array(["a"]), BINARY),
        (pa.array([1], pa.int64()), YEAR_TO_MONTH),
        (pa.array([1], pa.int32()), DAY_TO_SECOND),
        (pa.array([0], pa.timestamp("us", "UTC")), TIMESTAMP_NTZ),
        (pa.array([2**62], pa.timestamp("us")), TIMESTAMP_NTZ),
        (pa.array([[1]], pa.list_(pa.int32())), MAP),
    ],
)
def test_columns_of_other_types_are_refused(array: pa.Array, type_: Type) -> None:
    with pytest.raises(DataError, match=r"R306|outside the years"):
        column_array(array, type_)
