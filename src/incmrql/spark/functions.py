"""The places of a query that run in Python, as functions that Spark calls with Arrow columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any as Arrow

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from incmrql.formats.arrow_values import plain_type, reader, stored
from incmrql.kernel import pinned
from incmrql.reference import Environment, evaluate, new_world
from incmrql.spark.values import spark_type, value_type
from incmrql.sql.context import PythonPlace
from incmrql.types import typed
from incmrql.types.walk import is_random
from incmrql.values import Value


def register(
    spark: SparkSession,
    place: PythonPlace,
    script: typed.Script,
    arguments: list[str],
    stored_values: dict[str, Value],
) -> None:
    """Make a place callable by its name."""
    called = _function(place, script, arguments, stored_values)

    def whole_columns(*columns: pa.Array) -> pa.Array:
        return called(list(columns))

    result: Arrow = spark_type(place.body.type)
    called_by_spark: Arrow = whole_columns
    function: Arrow = arrow_udf(called_by_spark, returnType=result)
    if is_random(place.body):
        function = function.asNondeterministic()
    spark.udf.register(place.name, function)


def _function(
    place: PythonPlace, script: typed.Script, arguments: list[str], stored_values: dict[str, Value]
) -> Callable[[list[Arrow]], Arrow]:
    types = [variable.type for variable in place.parameters]
    given = tuple(typed.Var(variable, type=variable.type) for variable in place.parameters)
    match place.body:
        case typed.Builtin(name, operands) if operands == given and name != "random":
            return lambda columns: pinned.apply(name, columns, types, place.body.type)
        case typed.Cast(operand) if (operand,) == given:
            return lambda columns: pinned.apply_cast(columns[0], types[0], place.body.type)
        case _:
            return _evaluated(place, script, arguments, stored_values)


def _evaluated(
    place: PythonPlace, script: typed.Script, arguments: list[str], stored_values: dict[str, Value]
) -> Callable[[list[Arrow]], Arrow]:
    """The reference evaluator, row by row."""
    result = value_type(place.body.type)

    def called(columns: list[Arrow]) -> Arrow:
        world = new_world(script, arguments=arguments)
        world.stored.update(stored_values)
        outer = Environment(world)
        readers = [
            reader(column.type, variable.type)
            for column, variable in zip(columns, place.parameters, strict=True)
        ]
        plain = [column.cast(plain_type(column.type)).to_pylist() for column in columns]
        found = []
        for row in zip(*plain, strict=True):
            env = outer
            for variable, read, value in zip(place.parameters, readers, row, strict=True):
                env = env.bind(variable, read(value))
            found.append(stored(evaluate(place.body, env), place.body.type))
        return pa.array(found, result)

    return called
