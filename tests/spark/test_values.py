"""Values on Spark and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incmrql.errors import InternalError
from incmrql.spark.values import (
    batch,
    batches,
    dataframe,
    from_arrow,
    is_packed,
    is_wide,
    rows,
    spark_schema,
    value_schema,
    values,
)
from incmrql.types import model as t
from incmrql.types.model import Type
from incmrql.values import Bag, Data, Record, Value, identical
from tests.effort import examples
from tests.io.strategies import typed_rows, types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@st.composite
def tables(draw: st.DrawFn) -> tuple[Type, list[Value]]:
    element = draw(types())
    return element, draw(typed_rows(element))


@given(tables(), st.booleans())
def test_through_arrow(case: tuple[Type, list[Value]], packed: bool) -> None:
    element, given_rows = case
    packed = packed or not is_wide(element) or None in given_rows
    schema = value_schema(element, packed=packed)
    table = pa.Table.from_batches(batches(given_rows, element, packed=packed, size=3), schema)
    decoded = list(from_arrow(table, element, packed=packed))
    assert identical(Bag(decoded), Bag(given_rows))


def test_a_null_row_has_no_columns() -> None:
    element = t.Record((("a", t.INT),))
    with pytest.raises(InternalError):
        batch([None], element, value_schema(element))


@pytest.mark.spark
def test_schemas_are_those_of_arrow() -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    fields: list[tuple[str, Type]] = [(name, t.Basic(name)) for name in t.BASIC_NAMES]
    fields += [("x", t.Decimal(9, 2)), ("y", t.bag(t.Tuple((t.INT, t.JSON)))), ("z", t.UNIT)]
    fields += [("n", t.list_of(t.NOTHING)), ("r", t.Record((("value", t.ANY),)))]
    element = t.Record(tuple(fields))
    for packed in (False, True):
        expected = from_arrow_schema(value_schema(element, packed=packed))
        assert spark_schema(element, packed=packed) == expected
    assert spark_schema(t.INT).simpleString() == "struct<value:int>"


ROW = t.Record((("a", t.INT), ("b", t.bag(t.STRING)), ("c", t.NOTHING), ("d", t.JSON)))
ROWS = [
    Record([("a", 1), ("b", Bag(["x", "a"])), ("c", None), ("d", Data("Jlong", 3, 5))]),
    Record([("a", None), ("b", None), ("c", None), ("d", None)]),
]
CASES: list[tuple[Type, list[Value]]] = [
    (ROW, ROWS),
    (ROW, [*ROWS, None]),
    (ROW, []),
    (t.INT, [None, 1]),
    (t.UNIT, [(), None]),
    (t.DOUBLE, [-0.0, float("nan"), float("inf")]),
    (t.Record((("value", t.INT),)), [Record([("value", 1)])]),
    (t.Record((("value", t.INT),)), [Record([("value", 1)]), None]),
]


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_through_spark(spark: SparkSession, case: tuple[Type, list[Value]]) -> None:
    element, given_rows = case
    df = dataframe(spark, given_rows, element)
    assert is_packed(df, element) == (not is_wide(element) or None in given_rows)
    assert identical(Bag(values(df, element)), Bag(given_rows))
    assert identical(Bag(rows(df.repartition(2), element)), Bag(given_rows))


@pytest.mark.spark
@settings(examples(10), suppress_health_check=list(HealthCheck))
@given(case=tables())
def test_any_type_through_spark(spark: SparkSession, case: tuple[Type, list[Value]]) -> None:
    element, given_rows = case
    df = dataframe(spark, given_rows, element)
    assert identical(Bag(values(df, element)), Bag(given_rows))
