"""Every private Spark API that we use, each with a fallback on the public API.

Private classes and functions change between versions and between vendors' builds.  So each is used
in this module only, behind a function that falls back on the public API if the private call fails:
with the same result, perhaps slower, as its docstring says.  `tests/spark/test_internals.py`
compares both.  Analysed plans have no public API: what reads them raises one of `MISSING`, which
`plans.reader` reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import signature
from threading import Lock
from typing import Any, Final, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as spark_types
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.pandas import functions as column_functions
from pyspark.sql.pandas.types import to_arrow_type

T = TypeVar("T")
MISSING: Final = (AttributeError, TypeError, Py4JError)
"""Raised by a private API that does not exist.  Errors of a query are `PySparkException`s."""
UNKNOWN_SIZE: Final = 1 << 62
"""The size if it cannot be measured: too large to be broadcast."""


def _first_that_works(private: Callable[[], T], public: Callable[[], T]) -> T:
    try:
        return private()
    except MISSING:
        return public()


# --- texts over frames ---------------------------------------------------------------------


def sql_over(spark: SparkSession, text: str, frames: Sequence[tuple[str, DataFrame]]) -> DataFrame:
    """The frame of a SQL text that reads other frames by name.

    Creating a temporary view takes Spark about as long as analysing the query that reads it,
    because it is a command of its own.  Here the frames become common table expressions, as if the
    text began with `WITH name AS (the frame)`: the catalog does not change, and queries cannot
    clash over a name.  The fallback creates temporary views and drops them after the analysis.
    """
    if not frames:
        return spark.sql(text)
    return _first_that_works(
        lambda: _with_frames(spark, text, frames), lambda: _with_views(spark, text, frames)
    )


def _with_frames(
    spark: SparkSession, text: str, frames: Sequence[tuple[str, DataFrame]]
) -> DataFrame:
    catalyst = _catalyst(spark)
    expressions = [catalyst.table_expression(name, frame._jdf) for name, frame in frames]
    with catalyst.active():
        parsed = catalyst.parser.parsePlan(text)
    plan = catalyst.with_(parsed, catalyst.sequence(expressions), False)
    return DataFrame(catalyst.rows(catalyst.session, plan), spark)


_VIEWS: Final = Lock()
"""Held while temporary views exist: all threads of a session share their names."""


def _with_views(
    spark: SparkSession, text: str, frames: Sequence[tuple[str, DataFrame]]
) -> DataFrame:
    with _VIEWS:
        try:
            for name, frame in frames:
                frame.createOrReplaceTempView(name)
            return spark.sql(text)
        finally:
            for name, _ in frames:
                spark.catalog.dropTempView(name)


@dataclass(frozen=True, slots=True)
class _Catalyst:
    """Classes and functions of Catalyst, looked up once per session: a lookup is a call to Java."""

    session: Any
    sessions: Any
    parser: Any
    rows: Any
    sequence: Any
    with_: Any
    alias: Any
    identifier: Any
    part: Callable[[str, Any], Any]

    def table_expression(self, name: str, frame: Any) -> Any:
        """A frame as a common table expression of a WITH clause."""
        analyzed = frame.queryExecution().analyzed()
        return self.part(name, self.alias(self.identifier(name), analyzed))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the active session of Java inside the block: the parser reads its settings."""
        before = self.sessions.getActiveSession()
        self.sessions.setActiveSession(self.session)
        try:
            yield
        finally:
            if before.isDefined():
                self.sessions.setActiveSession(before.get())
            else:
                self.sessions.clearActiveSession()


_CATALYSTS: WeakKeyDictionary[SparkSession, _Catalyst] = WeakKeyDictionary()
"""By session, what was looked up for it."""


def _catalyst(spark: SparkSession) -> _Catalyst:
    catalyst = _CATALYSTS.get(spark)
    if catalyst is None:
        jvm: Any = spark._jvm
        session = spark._jsparkSession
        sql, plans = "org.apache.spark.sql", "org.apache.spark.sql.catalyst.plans.logical"
        catalyst = _CATALYSTS[spark] = _Catalyst(
            session=session,
            sessions=getattr(jvm, f"{sql}.classic.SparkSession"),
            parser=session.sessionState().sqlParser(),
            rows=getattr(jvm, f"{sql}.classic.Dataset").ofRows,
            sequence=getattr(jvm, "org.apache.spark.api.python.PythonUtils").toSeq,
            with_=getattr(jvm, f"{plans}.UnresolvedWith"),
            alias=getattr(jvm, f"{plans}.SubqueryAlias"),
            identifier=getattr(jvm, f"{sql}.catalyst.AliasIdentifier"),
            part=_table_expression_class(jvm),
        )
    return catalyst


def _table_expression_class(jvm: Any) -> Callable[[str, Any], Any]:
    """The constructor of a common table expression; since 4.1 it has a recursion limit too."""
    if pyspark.__version__.startswith("4.0."):
        pair: Callable[[str, Any], Any] = jvm.scala.Tuple2
        return pair
    triple, none = jvm.scala.Tuple3, jvm.scala.Option.empty()
    return lambda name, alias: triple(name, alias, none)


def copied_session(spark: SparkSession) -> SparkSession:
    """A session with the settings, temporary views and functions that another one has now.

    The fallback has the settings, and none of the views.
    """
    return _first_that_works(
        lambda: SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession()),
        lambda: _with_settings(spark),
    )


def _with_settings(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    for row in spark.sql("SET").collect():
        if row.key.startswith("spark.sql.") and session.conf.isModifiable(row.key):
            session.conf.set(row.key, row.value)
    return session


FUNCTIONS_BY_ROW: Final = {"spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false"}
"""The setting by which functions of Python get rows, and not the columns of a Parquet file.

Spark 4.2 may wait for ever for a function that gets columns: the task waits for the worker's first
batch, and the worker for its input.  Values are the same, and other versions have no such setting.
"""


def with_functions_by_row(df: DataFrame) -> DataFrame:
    """The frame in a copy of its session in which no function of Python can make Spark wait."""
    session = copied_session(df.sparkSession)
    for name, value in FUNCTIONS_BY_ROW.items():
        session.conf.set(name, value)
    return in_session(session, df)


def in_session(spark: SparkSession, df: DataFrame) -> DataFrame:
    """A data frame of a different session, moved to ours, so that our settings apply to it.

    The fallback leaves a global temporary view behind, which must live as long as the frame.
    """
    if df.sparkSession is spark:
        return df
    return _first_that_works(lambda: _by_plan(spark, df), lambda: _by_global_view(spark, df))


def _by_plan(spark: SparkSession, df: DataFrame) -> DataFrame:
    jvm: Any = spark._jvm
    plan = df._jdf.queryExecution().analyzed()
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(rows, spark)


def _by_global_view(spark: SparkSession, df: DataFrame) -> DataFrame:
    name = f"incmrql_{uuid4().hex}"
    df.createGlobalTempView(name)
    return spark.table(f"global_temp.{name}")


# --- plans ---------------------------------------------------------------------------------


def is_classic(value: object) -> bool:
    """True if a session or frame is one of classic Spark: Spark Connect has no analysed plans."""
    return isinstance(value, SparkSession | ClassicDataFrame)


def active_session(spark: SparkSession) -> AbstractContextManager[None]:
    """Make a session the active one of Java inside a block: Spark's rules read its settings."""
    return _catalyst(spark).active()


def parsed_plan(spark: SparkSession, text: str) -> Any:
    """The plan of a SQL text before its names are resolved; nothing runs."""
    catalyst = _catalyst(spark)
    with catalyst.active():
        return catalyst.parser.parsePlan(text)


def analyzed_plan(frame: DataFrame) -> Any:
    """The analysed plan of a frame."""
    return frame._jdf.queryExecution().analyzed()


def frame_of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """A new frame over a plan, which Spark analyses; a command runs at once."""
    catalyst = _catalyst(spark)
    return DataFrame(catalyst.rows(catalyst.session, plan), spark)


def java_class(spark: SparkSession, name: str) -> Any:
    """A class of Spark or Java by its full name."""
    loader = spark._jsparkSession.getClass().getClassLoader()
    jvm: Any = spark._jvm
    return jvm.java.lang.Class.forName(name, False, loader)


def scala_object(spark: SparkSession, name: str) -> Any:
    """A singleton of Scala by its full name."""
    return getattr(getattr(spark._jvm, f"{name}$"), "MODULE$")


def compiled_java(spark: SparkSession, name: str, source: str) -> Any:
    """A Java class, compiled in the driver's JVM by the compiler that Spark uses for queries."""
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(spark._jsparkSession.getClass().getClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name)


class PlanBuilder:
    """Makes projections of Spark's plans of expressions that Spark has analysed."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._catalyst = _catalyst(spark)
        name = "org.apache.spark.sql.catalyst"
        self._alias = getattr(jvm, f"{name}.expressions.Alias")
        self._names = scala_object(spark, f"{name}.expressions.NamedExpression")
        self._project = getattr(jvm, f"{name}.plans.logical.Project")
        self._none = jvm.scala.Option.empty()

    def output(self, plan: Any) -> list[Any]:
        """The columns of a plan."""
        columns = plan.output()
        return [columns.apply(place) for place in range(columns.size())]

    def alias(self, expression: Any, name: str) -> Any:
        """An expression with a name, as a new column."""
        return self._with_name(expression, name, self._names.newExprId())

    def alias_with_id(self, expression: Any, column: Any) -> Any:
        """An expression in the place of a column, for what refers to the column."""
        return self._with_name(expression, column.name(), column.exprId())

    def project(self, columns: Sequence[Any], plan: Any) -> Any:
        """A plan with other columns over the same rows."""
        return self._project(self._catalyst.sequence(list(columns)), plan)

    def _with_name(self, expression: Any, name: str, expr_id: Any) -> Any:
        nothing = self._catalyst.sequence([])
        return self._alias(expression, name, expr_id, nothing, self._none, nothing)


# --- sizes and counts ------------------------------------------------------------------------


def estimated_size(frame: DataFrame) -> int | None:
    """The bytes that Spark's optimiser estimates for a frame; None if it has no estimate."""

    def private() -> int | None:
        return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))

    return _first_that_works(private, lambda: None)


def blocks_size(frame: DataFrame) -> int:
    """The bytes of the blocks of a checkpointed frame; `UNKNOWN_SIZE` if Spark does not say."""

    def private() -> int:
        number = _blocks(frame).id()
        infos = frame.sparkSession.sparkContext._jsc.sc().getRDDStorageInfo()
        return sum(info.memSize() + info.diskSize() for info in infos if info.id() == number)

    return _first_that_works(private, lambda: UNKNOWN_SIZE)


def free_blocks(frame: DataFrame) -> None:
    """Free the blocks of a checkpointed frame now; the fallback leaves it to garbage collection."""

    def private() -> None:
        _blocks(frame).unpersist(False)

    _first_that_works(private, lambda: None)


def _blocks(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed().rdd()


def job_counts(context: SparkContext, group: str) -> tuple[int, int, int]:
    """The numbers of jobs, stages and tasks of a job group; the private API takes fewer calls."""
    return _first_that_works(
        lambda: _counts(context._jsc.statusTracker(), group, "stageIds"),
        lambda: _counts(context.statusTracker(), group, ""),
    )


def _counts(tracker: Any, group: str, ids: str) -> tuple[int, int, int]:
    jobs = tracker.getJobIdsForGroup(group)
    infos = [info for info in map(tracker.getJobInfo, jobs) if info is not None]
    numbers = [
        stage for info in infos for stage in (getattr(info, ids)() if ids else info.stageIds)
    ]
    stages = [stage for stage in map(tracker.getStageInfo, numbers) if stage is not None]
    tasks = sum(stage.numTasks() if ids else stage.numTasks for stage in stages)
    return len(jobs), len(numbers), tasks


def executor_count(context: SparkContext) -> int:
    """The number of executors besides the driver; 1 if Spark does not say."""

    def private() -> int:
        return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1

    return _first_that_works(private, lambda: 1)


def driver_memory(context: SparkContext) -> int:
    """The bytes of the driver's heap; the fallback reads them from the configuration."""

    def private() -> int:
        jvm: Any = context._jvm
        return int(jvm.Runtime.getRuntime().maxMemory())

    configured = context.getConf().get("spark.driver.memory", "1g")
    return _first_that_works(private, lambda: byte_size(str(configured)))


_UNITS: Final = {"": 20, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


def byte_size(text: str) -> int:
    """The bytes of a setting of memory such as `512m`; a bare number is in MiB."""
    parts = re.fullmatch(r"(\d+)\s*([bkmgtp]?)b?", text.strip().lower())
    return 1 << 30 if parts is None else int(parts[1]) << _UNITS[parts[2]]


# --- types and functions -----------------------------------------------------------------------


def arrow_type_of(type_: spark_types.DataType) -> Any:
    """The Arrow type in which Spark sends values of a type; timestamps are in UTC."""
    zoned = "timezone" in signature(to_arrow_type).parameters
    return to_arrow_type(type_, timezone="UTC") if zoned else to_arrow_type(type_)


def arrow_function(
    function: Callable[[list[Any]], Any],
    parameters: Sequence[spark_types.DataType],
    result: spark_types.DataType,
) -> Any:
    """A function of Arrow columns as a function that Spark SQL can call.

    Spark 4.0 has no Arrow functions: there it is called row by row, which is 50 times slower.
    """
    arrow_udf: Any = getattr(column_functions, "arrow_udf", None)
    if arrow_udf is None:
        return row_function(function, parameters, result)

    def call_with_columns(*columns: pa.Array) -> pa.Array:
        return function(list(columns))

    return arrow_udf(call_with_columns, returnType=result)


def row_function(
    function: Callable[[list[Any]], Any],
    parameters: Sequence[spark_types.DataType],
    result: spark_types.DataType,
) -> Any:
    """The fallback of `arrow_function`: Spark calls it with one row at a time."""
    from pyspark.sql.functions import udf

    arrow_types = [arrow_type_of(type_) for type_ in parameters]

    def call_with_row(*values: Any) -> Any:
        columns = [
            pa.array([_to_arrow(value)], type_)
            for value, type_ in zip(values, arrow_types, strict=True)
        ]
        return _from_arrow(function(columns)[0].as_py(), result)

    # Not by Arrow, which would lose the `fold` of a timestamp.
    return udf(call_with_row, returnType=result, useArrow=False)


def _to_arrow(value: Any) -> Any:
    """Convert an argument of a Spark function for Arrow."""
    match value:
        case Row():
            return {name: _to_arrow(item) for name, item in value.asDict().items()}
        case list():
            return [_to_arrow(item) for item in value]
        case dict():
            return [(_to_arrow(key), _to_arrow(item)) for key, item in value.items()]
        case datetime() if value.tzinfo is None:
            # Spark passes local time. When clocks go back, only `fold` separates the two hours.
            return value.astimezone(UTC)
        case _:
            return value


def _from_arrow(value: Any, type_: spark_types.DataType) -> Any:
    """Convert a value from Arrow to what a Spark function may return."""
    match type_:
        case _ if value is None:
            return None
        case spark_types.StructType():
            return tuple(_from_arrow(value[field.name], field.dataType) for field in type_.fields)
        case spark_types.ArrayType():
            return [_from_arrow(item, type_.elementType) for item in value]
        case spark_types.MapType():
            return {
                _from_arrow(key, type_.keyType): _from_arrow(item, type_.valueType)
                for key, item in value
            }
        case spark_types.TimestampType() if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        case _:
            return value
