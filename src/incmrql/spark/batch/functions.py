"""The places of a query that run in Python, as functions that Spark calls with Arrow columns."""

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
from incmrql.lower.context import PythonPlace
from incmrql.reference import Environment, evaluate, new_world
from incmrql.spark.clusters import Carried
from incmrql.spark.internals import arrow_function
from incmrql.spark.packing import Packed, packed
from incmrql.spark.values import spark_type, value_type
from incmrql.syntax.depth import room
from incmrql.types import typed
from incmrql.types.walk import is_random
from incmrql.values import Value, encode

DEEPEST: Final = 200_000
"""Python frames for the deepest recursion of a script's functions that is allowed."""
MOST_TRACED: Final = 1_000
"""Values that `trace` shows of one query; more would not be read."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What places of one script share: its declarations, packed, and where traces go."""

    script: Packed
    arguments: list[str]
    stored: dict[str, Value]
    traces: Accumulator[list[tuple[str, bytes]]] | None = None


def packed_script(script: typed.Script) -> Packed:
    """A script as workers load it, with the Python functions that it calls."""
    return packed(script, [function.call for function in script.python.values()])


@lru_cache(maxsize=4)
def _script(given: Packed) -> typed.Script:
    """The script in a worker, loaded once."""
    script: typed.Script = given.unpacked()
    return script


class TraceParam(AccumulatorParam[list[tuple[str, bytes]]]):
    """Traced values of all tasks, as far as they are shown."""

    def zero(self, value: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:  # noqa: ARG002
        """Nothing."""
        return []

    def addInPlace(  # noqa: N802
        self, value1: list[tuple[str, bytes]], value2: list[tuple[str, bytes]]
    ) -> list[tuple[str, bytes]]:
        """What both have, up to the most that is shown."""
        return (value1 + value2)[:MOST_TRACED]


def register(spark: SparkSession, place: PythonPlace, setting: Setting) -> None:
    """Make a place callable by its name."""
    parameters = [spark_type(variable.type) for variable in place.parameters]
    function = arrow_function(_function(place, setting), parameters, spark_type(place.body.type))
    if is_random(place.body):
        function = function.asNondeterministic()
    spark.udf.register(place.name, function)


def _function(place: PythonPlace, setting: Setting) -> Callable[[list[Arrow]], Arrow]:
    types = [variable.type for variable in place.parameters]
    given = tuple(typed.Var(variable, type=variable.type) for variable in place.parameters)
    match place.body:
        case typed.Builtin(name, operands) if operands == given and name != "random":
            return lambda columns: pinned.apply(name, columns, types, place.body.type)
        case typed.Cast(operand) if (operand,) == given:
            return lambda columns: pinned.apply_cast(columns[0], types[0], place.body.type)
        case _:
            return _evaluated(place, setting)


def _evaluated(place: PythonPlace, setting: Setting) -> Callable[[list[Arrow]], Arrow]:
    """The reference evaluator, row by row."""
    traces = setting.traces
    result = value_type(place.body.type)

    def called(columns: list[Arrow]) -> Arrow:
        world = new_world(_script(setting.script), arguments=setting.arguments)
        world.stored.update(setting.stored)
        if traces is not None:
            world.on_trace = lambda text, value: traces.add([(text, encode(value))])
        outer = Environment(world)
        readers = [
            value_reader(column.type, variable.type)
            for column, variable in zip(columns, place.parameters, strict=True)
        ]
        plain = [column.cast(plain_type(column.type)).to_pylist() for column in columns]
        found = []
        with room(DEEPEST), carried_errors():
            for row in zip(*plain, strict=True):
                env = outer
                for variable, read, value in zip(place.parameters, readers, row, strict=True):
                    env = env.bind(variable, read(value))
                found.append(to_arrow(evaluate(place.body, env), place.body.type))
        return pa.array(found, result)

    return called


@contextmanager
def carried_errors() -> Iterator[None]:
    """Problems with the data as exceptions that survive the way to the driver."""
    try:
        yield
    except DataError as error:
        raise Carried(error) from None
    except RecursionError:
        hint = "A loop or a function makes a value that holds itself over and over: limit it."
        deep = DataError("R209", "a value is nested too deep to be handled", hint=hint)
        raise Carried(deep) from None
