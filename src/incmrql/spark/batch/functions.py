"""Expressions of a query that run in Python, as functions that Spark calls with Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any as Arrow
from typing import Final

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from incmrql.engine.columns import pinned
from incmrql.errors import DataError
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.lower.context import PythonExpression
from incmrql.reference import Environment, evaluate, new_world
from incmrql.spark.clusters import EncodedDataError
from incmrql.spark.internals import arrow_function
from incmrql.spark.packing import PickledObject, pack
from incmrql.spark.values import spark_type, value_type
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.types.walk import is_random
from incmrql.values import Value, encode

DEEPEST: Final = 200_000
"""Python frames for the deepest recursion of a script's functions that is allowed."""
MOST_TRACED: Final = 1_000
"""Values of one query that `trace` shows; nobody would read more."""


@dataclass(frozen=True, slots=True)
class PythonContext:
    """What the Python functions of one script share: its declarations, and where traces go."""

    script: PickledObject
    arguments: list[str]
    stored: dict[str, Value]
    traces: Accumulator[list[tuple[str, bytes]]] | None = None


def pack_script(script: typed.Script) -> PickledObject:
    """Pack a script for workers, with the Python functions that it calls."""
    return pack(script, [function.call for function in script.python.values()])


@lru_cache(maxsize=4)
def _load_script(packed: PickledObject) -> typed.Script:
    """The script, in a worker; unpickled once."""
    script: typed.Script = packed.load()
    return script


class TraceParam(AccumulatorParam[list[tuple[str, bytes]]]):
    """Collects the traced values of all tasks, up to the number that is shown."""

    def zero(self, value: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:  # noqa: ARG002
        """No values."""
        return []

    def addInPlace(  # noqa: N802
        self, value1: list[tuple[str, bytes]], value2: list[tuple[str, bytes]]
    ) -> list[tuple[str, bytes]]:
        """The values of both, up to the number that is shown."""
        return (value1 + value2)[:MOST_TRACED]


def register(spark: SparkSession, place: PythonExpression, setting: PythonContext) -> None:
    """Register an expression as a SQL function under its name."""
    parameters = [spark_type(variable.type) for variable in place.parameters]
    function = arrow_function(_function(place, setting), parameters, spark_type(place.body.type))
    if is_random(place.body):
        function = function.asNondeterministic()
    spark.udf.register(place.name, function)


def _function(place: PythonExpression, setting: PythonContext) -> Callable[[list[Arrow]], Arrow]:
    types = [variable.type for variable in place.parameters]
    variables = tuple(typed.Var(variable, type=variable.type) for variable in place.parameters)
    match place.body:
        case typed.Builtin(name, operands) if operands == variables and name != "random":
            return lambda columns: pinned.apply(name, columns, types, place.body.type)
        case typed.Cast(operand, "total") if (operand,) == variables:
            return lambda columns: pinned.apply_cast(columns[0], types[0], place.body.type)
        case _:
            return _row_by_row(place, setting)


def _row_by_row(place: PythonExpression, setting: PythonContext) -> Callable[[list[Arrow]], Arrow]:
    """The function that runs the reference evaluator row by row."""
    traces = setting.traces
    result = value_type(place.body.type)

    def evaluate_rows(columns: list[Arrow]) -> Arrow:
        world = new_world(_load_script(setting.script), arguments=setting.arguments)
        world.stored.update(setting.stored)
        if traces is not None:
            world.on_trace = lambda text, value: traces.add([(text, encode(value))])
        outer = Environment(world)
        readers = [
            value_reader(column.type, variable.type)
            for column, variable in zip(columns, place.parameters, strict=True)
        ]
        plain = [column.cast(plain_type(column.type)).to_pylist() for column in columns]
        results = []
        with deep_recursion(DEEPEST), encode_errors():
            for row in zip(*plain, strict=True):
                env = outer
                for variable, read, value in zip(place.parameters, readers, row, strict=True):
                    env = env.bind(variable, read(value))
                results.append(to_arrow(evaluate(place.body, env), place.body.type))
        return pa.array(results, result)

    return evaluate_rows


@contextmanager
def encode_errors() -> Iterator[None]:
    """Raise data errors inside the block as exceptions that reach the driver complete."""
    try:
        yield
    except DataError as error:
        raise EncodedDataError(error) from None
    except RecursionError:
        hint = "A loop or a function keeps nesting its own result: limit it."
        deep = DataError("R209", "a value is nested too deeply", hint=hint)
        raise EncodedDataError(deep) from None
