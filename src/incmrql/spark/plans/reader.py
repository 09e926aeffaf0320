"""From a SQL text or a DataFrame to its analysed plan as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from incmrql.catalyst import AnalyzedPlan
from incmrql.errors import QueryError
from incmrql.spark import internals
from incmrql.spark.plans.functions import with_fingerprints
from incmrql.spark.plans.problems import (
    command_problem,
    connect_problem,
    no_plan_problem,
    spark_problem,
    streaming_problem,
)
from incmrql.spark.plans.settings import captured_settings
from incmrql.spark.plans.walker import command_in, walk_plan


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """The analysed plan of a query as data, and the objects of Spark that it was read from.

    `leaves` are the operators without children, by their field `$leaf` (counted from 1), and `root`
    is the plan in the form that was read.
    """

    analyzed: AnalyzedPlan
    frame: DataFrame
    leaves: tuple[Any, ...]
    root: Any = None
    text: str = ""
    """The SQL text of the query itself, without those of the views that it reads."""

    def leaf_frame(self, number: int) -> DataFrame:
        """The rows of a leaf, as a frame of its own: local rows, ranges, checkpointed frames."""
        return internals.frame_of_plan(self.frame.sparkSession, self.leaves[number - 1])


def analyze_sql(spark: SparkSession, text: str, name: str = "<query>") -> SparkPlan:
    """The analysed plan of a SQL query; `name` is the file that it stands in, for errors.

    A command (`INSERT`, `CREATE`, `SET`) is refused before it runs.
    """
    return _read(sql_frame(spark, text, name), text, name)


def sql_frame(spark: SparkSession, text: str, name: str = "<query>") -> DataFrame:
    """The DataFrame of a SQL query, whose plan is analysed and not read; refused like the query."""
    if not internals.is_classic(spark):
        raise QueryError(connect_problem(spark))
    try:
        parsed = internals.parsed_plan(spark, text)
        command = command_in(spark, parsed)
        if command is not None:
            raise QueryError(command_problem(command, text, name))
        return internals.frame_of_plan(spark, parsed)
    except PySparkException as problem:
        raise QueryError(spark_problem(problem, text, name)) from problem
    except internals.MISSING as problem:
        raise QueryError(no_plan_problem(problem, text, name)) from problem


def read_plan(frame: DataFrame) -> SparkPlan:
    """The analysed plan of a DataFrame; nothing runs."""
    if not internals.is_classic(frame):
        raise QueryError(connect_problem(frame))
    return _read(frame, "", "<DataFrame>")


def _read(frame: DataFrame, text: str, name: str) -> SparkPlan:
    spark = frame.sparkSession
    try:
        plan = internals.analyzed_plan(frame)
        if plan.isStreaming():
            raise QueryError(streaming_problem(text, name))
        command = command_in(spark, plan)
        if command is not None:
            raise QueryError(command_problem(command, text, name, has_run=True))
        reading = walk_plan(spark, plan, text)
        schema = walk_plan(spark, plan.schema())
        plan_data = with_fingerprints(reading.plan)
        analyzed = AnalyzedPlan(plan_data, schema.plan, captured_settings(spark), reading.text)
        return SparkPlan(analyzed, frame, reading.leaves, reading.root, text)
    except PySparkException as problem:
        raise QueryError(spark_problem(problem, text, name)) from problem
    except internals.MISSING as problem:
        raise QueryError(no_plan_problem(problem, text, name)) from problem
