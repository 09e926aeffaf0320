"""Opaque columns on Spark: the very nodes of a plan, evaluated over the rows of new files.

The nodes live in the driver's JVM and are known by the text of their column, which is the same in
every run: whoever analyses a query that has the column makes it known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions
from pyspark.sql import types as spark_types

from incmrql.catalyst.computed import ComputedAlias, OpaqueColumn, Path
from incmrql.errors import DataError, Diagnostic, QueryError, SourceText, Span
from incmrql.spark import forms, internals
from incmrql.spark.plans.reader import SparkPlan
from incmrql.spark.values import ONE
from incmrql.types.typed import ComputedColumn, SparkReader

_KNOWN: Final[dict[str, _Nodes]] = {}
"""By the text of a column, the nodes that compute it."""
_MOST_ROWS: Final = 50_000
"""Rows among which the one is looked for that a function fails for."""
_FAILURES: Final = (PySparkException, Py4JJavaError)


@dataclass(frozen=True, slots=True)
class _Nodes:
    """An expression of a plan and the aliases it uses, over the columns of a leaf."""

    leaf: Any
    definitions: tuple[Any, ...]
    expression: Any


def make_known(plan: SparkPlan, columns: Sequence[OpaqueColumn]) -> None:
    """Remember the nodes of opaque columns; raises `QueryError` if one is not deterministic."""
    for column in columns:
        expression = _node_at(plan.root, column.path)
        if not expression.deterministic():
            message = f"{column.shown} is not deterministic, as Spark says"
            span = Span(SourceText(column.shown, "<DataFrame>"), 0, len(column.shown))
            hint = "Compute its value before the rows are stored, and query the stored column."
            raise QueryError(Diagnostic("C103", message, span, "not converted", hint))
        build = internals.PlanBuilder(plan.frame.sparkSession)
        definitions = tuple(_alias(plan.root, one, build) for one in column.definitions)
        _KNOWN[column.text] = _Nodes(plan.leaves[column.leaf - 1], definitions, expression)


def _alias(root: Any, definition: ComputedAlias, build: internals.PlanBuilder) -> Any:
    """The alias that defines a column."""
    node = _node_at(root, definition.path)
    if definition.place is None:
        return node
    column = build.output(_node_at(root, definition.of))[definition.place]
    return build.alias_with_id(column, build.output(node)[definition.place])


def _node_at(root: Any, path: Path) -> Any:
    node = root
    for name, places in path:
        names = [str(node.productElementName(n)) for n in range(node.productArity())]
        node = node.productElement(names.index(name))
        if node.getClass().getName() == "scala.Some":
            node = node.get()
        for place in places:
            node = node.apply(place)
    return node


def with_computed(rows: DataFrame, width: int, columns: Sequence[ComputedColumn]) -> DataFrame:
    """Rows with computed columns after the first `width` ones, which are those of the leaf."""
    missing = [column.shown for column in columns if column.text not in _KNOWN]
    if missing:
        message = f"the function {missing[0]} is not known in this process"
        hint = "Start the query by its DataFrame or its SQL text, so that Spark analyses it again."
        raise DataError("R328", message, hint=hint)
    names = rows.columns
    for number, column in enumerate(columns):
        rows = _with_column(rows, _KNOWN[column.text], f"computed {number}")
    computed = [f"computed {number}" for number in range(len(columns))]
    ordered = [*names[:width], *computed, *names[width:]]
    return rows.select(*[f"`{name}`" for name in ordered])


def _with_column(rows: DataFrame, nodes: _Nodes, name: str) -> DataFrame:
    spark = rows.sparkSession
    build = internals.PlanBuilder(spark)
    plan = internals.analyzed_plan(rows)
    outer = build.output(plan)
    of_leaf = [
        build.alias_with_id(column, attribute)
        for column, attribute in zip(outer, build.output(nodes.leaf), strict=False)
    ]
    inner = build.project([*outer, *of_leaf], plan)
    for definition in nodes.definitions:
        inner = build.project([*build.output(inner), definition], inner)
    whole = build.project([*outer, build.alias(nodes.expression, name)], inner)
    return internals.frame_of_plan(spark, whole)


# --- Failures ---


def failure_of(
    problem: Exception, rows: DataFrame, width: int, columns: Sequence[ComputedColumn], place: str
) -> DataError | None:
    """The error that names the function that failed, and the row; None if all succeed now."""
    some = rows.limit(_MOST_ROWS).collect()
    for column in columns:
        first, last = 0, len(some)
        if not _fails(rows, some, width, column):
            continue
        while last - first > 1:
            middle = (first + last) // 2
            if _fails(rows, some[first:middle], width, column):
                last = middle
            else:
                first = middle
        shown = tuple(some[first])[:width]
        message = f"{column.shown} failed for the row {shown}: {_reason(problem)}"
        hint = "Nothing of the batch was ingested. Correct the function, or the row."
        return DataError("R327", message, place=place, hint=hint)
    return None


def _fails(rows: DataFrame, some: Sequence[Any], width: int, column: ComputedColumn) -> bool:
    few = rows.sparkSession.createDataFrame(list(some), rows.schema)
    try:
        with_computed(few, width, [column]).collect()
    except _FAILURES:
        return True
    return False


def _reason(problem: Exception) -> str:
    """The last line that a function of Python said, or what Spark says."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    said = [
        line
        for line in lines
        if line.partition(":")[0].replace(".", "").replace("_", "").isalnum()
        and line.partition(":")[0].endswith(("Error", "Exception", "Warning"))
    ]
    return (said[0] if said else lines[0] if lines else type(problem).__name__)[:400]


# --- Functions that answer differently ---


def _as_read(rows: DataFrame, reader: SparkReader) -> DataFrame:
    """Rows that are kept, with the columns of their leaf as Spark has read them."""
    schema = spark_types.StructType.fromJson(json.loads(reader.schema))
    types = {field.name.lower(): field.dataType for field in schema.fields}
    wanted = [types[name.lower()] for name in reader.columns]
    own = rows.schema.fields
    columns = [
        forms.restore_column(rows[have.name], have.dataType, type_).alias(have.name)
        for have, type_ in zip(own, wanted, strict=False)
    ]
    return rows.select(*columns, *[rows[field.name] for field in own[len(wanted) :]])


@dataclass(frozen=True, slots=True)
class DifferentAnswer:
    """A column whose kept value is not the one that is computed now, for one row."""

    shown: str
    row: tuple[Any, ...]
    kept: Any
    now: Any


def different_answers(rows: DataFrame, reader: SparkReader) -> Iterator[DifferentAnswer]:
    """For each computed column a row for which it differs now, if there is one.

    The rows have the kept values in their last columns.
    """
    if rows.columns == [ONE]:
        rows = rows.select(f"{ONE}.*")
    width, columns = len(reader.columns), reader.computed
    names = [f"_{place}" for place in range(1, len(rows.columns) + 1)]
    again = with_computed(_as_read(rows.toDF(*names), reader), width, columns)
    again = again.select(*forms.kept_columns(again))
    for number, column in enumerate(columns):
        kept, now = again.columns[width + len(columns) + number], again.columns[width + number]
        is_same = functions.col(f"`{kept}`").eqNullSafe(functions.col(f"`{now}`"))
        for row in again.where(~is_same).limit(1).collect():
            values = row.asDict()
            yield DifferentAnswer(column.shown, tuple(row)[:width], values[kept], values[now])
