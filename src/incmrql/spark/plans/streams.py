"""DataFrames that stand for streams and data of a session in queries of Spark.

Their columns carry the name as metadata, which analysis keeps: so the leaf of a plan is recognised.
Spark cannot run them, since only a run of ours knows the rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from incmrql.catalyst.leaves import STREAM_KEY
from incmrql.spark.values import spark_schema
from incmrql.types.model import Type


def stream_frame(spark: SparkSession, name: str, row: Type) -> DataFrame:
    """The DataFrame that stands for rows of a type that a session knows by a name."""
    columns = [
        spark_types.StructField(field.name, field.dataType, True, {STREAM_KEY: name})
        for field in spark_schema(row).fields
    ]
    rows = spark.sparkContext.parallelize([0], 1).map(partial(_refuse, name))
    return spark.createDataFrame(rows, spark_types.StructType(columns))


def _refuse(name: str, _row: Any) -> Any:
    message = (
        f'"{name}" is a stream of incmrql, whose rows Spark does not have. Give the DataFrame to '
        "session.query(df), and start it."
    )
    raise RuntimeError(message)
