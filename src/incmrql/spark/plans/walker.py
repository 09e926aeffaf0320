"""Reads an analysed plan in the driver's JVM: by compiled Java code, or object by object."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from incmrql.catalyst import PlanNode, plan_from_json
from incmrql.errors import InternalError
from incmrql.spark import internals
from incmrql.spark.plans import generic
from incmrql.spark.plans.fields import FIELDS, RULES

_CLASS: Final = "incmrql.PlanWalker"
_COMPILED: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()
"""By Spark context, the compiled class."""


@dataclass(frozen=True, slots=True)
class PlanReading:
    """A plan as data, and the texts that its places point into.

    `leaves` and `root` are Spark's objects: the leaves, and the normalised plan that was read.
    """

    plan: PlanNode
    leaves: tuple[Any, ...]
    text: str
    root: Any


def walk_plan(spark: SparkSession, plan: Any, text: str = "") -> PlanReading:
    """The data of a plan; `text` is the SQL text that it was analysed from, if there is one."""
    try:
        return walk_compiled(spark, plan, text)
    except internals.MISSING:
        return walk_generic(spark, plan, text)


def walk_compiled(spark: SparkSession, plan: Any, text: str = "") -> PlanReading:
    """The data of a plan by compiled Java code, in one call."""
    walker = _compiled_walker(spark)
    walker.prepare(_rules(spark), FIELDS, text)
    with internals.active_session(spark):
        node = plan_from_json(str(walker.json(plan)))
    return PlanReading(
        _check_node(node), tuple(walker.leaves()), str(walker.texts()), walker.root()
    )


def walk_generic(spark: SparkSession, plan: Any, text: str = "") -> PlanReading:
    """The same data over py4j, in thousands of calls."""
    walker = generic.GenericWalker(
        lambda name: internals.java_class(spark, name), _rules(spark), text
    )
    with internals.active_session(spark):
        node = walker.read(plan)
    return PlanReading(_check_node(node), tuple(walker.leaves), walker.texts, walker.root)


def command_in(spark: SparkSession, plan: Any) -> str | None:
    """The class of the first operator of a plan that runs something; None in a query."""
    try:
        command = _compiled_walker(spark).command(plan)
        return None if command is None else str(command)
    except internals.MISSING:
        return generic.command_in(lambda name: internals.java_class(spark, name), plan)


def _compiled_walker(spark: SparkSession) -> Any:
    context = spark.sparkContext
    if context not in _COMPILED:
        source = resources.files(__package__).joinpath("PlanWalker.java").read_text("utf-8")
        _COMPILED[context] = internals.compiled_java(spark, _CLASS, source)
    return _COMPILED[context].newInstance()


def _rules(spark: SparkSession) -> list[Any]:
    return [internals.scala_object(spark, name) for name in RULES]


def _check_node(node: object) -> PlanNode:
    if not isinstance(node, PlanNode):
        raise InternalError(f"a plan was read as {type(node).__name__}")
    return node
