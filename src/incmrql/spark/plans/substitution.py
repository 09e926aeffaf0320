"""Runs an analysed plan over other rows: new frames stand in place of its leaves.

The user's own DataFrame cannot be asked again: Spark keeps the plan that it ran, and a leaf keeps
the list of files that there were when it was analysed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from incmrql.spark import internals
from incmrql.spark.plans.reader import SparkPlan

_CLASS: Final = "incmrql.LeafSubstitution"
_COMPILED: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
"""By Spark context, the compiled class."""


def substituted_frame(plan: SparkPlan, frames: Mapping[int, DataFrame]) -> DataFrame:
    """A new frame over the plan in which frames stand for leaves, by their numbers.

    A frame has the columns of its leaf, in the same order and of the same types.
    """
    spark = plan.frame.sparkSession
    new_plans = [
        internals.analyzed_plan(internals.in_session(spark, frames[number]))
        if number in frames
        else None
        for number in range(1, len(plan.leaves) + 1)
    ]
    substitution = _compiled_substitution(spark)
    with internals.active_session(spark):
        rebuilt = substitution.substitute(
            internals.analyzed_plan(plan.frame), list(plan.leaves), new_plans
        )
    return internals.frame_of_plan(spark, rebuilt)


def _compiled_substitution(spark: SparkSession) -> Any:
    context = spark.sparkContext
    if context not in _COMPILED:
        source = resources.files(__package__).joinpath("LeafSubstitution.java").read_text("utf-8")
        _COMPILED[context] = internals.compiled_java(spark, _CLASS, source)
    return _COMPILED[context].newInstance()


__all__ = ["substituted_frame"]
