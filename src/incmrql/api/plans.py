"""Queries of Spark's in a session: analysed by Spark, compiled here, and run by Spark again.

Names of the session are views of a copy of the user's Spark session, so that the user's own has
none of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from incmrql.api.named import row_maker
from incmrql.api.streams import FrameStream, FrameTables, PushedStream
from incmrql.catalyst.leaves import leaf_key, leaves_of
from incmrql.compiler.compiled import Compiled
from incmrql.compiler.plans import (
    DATAFRAME,
    PlanInputs,
    PlanQuery,
    PlanScript,
    SessionSource,
    compile_plans,
)
from incmrql.compiler.sql import SqlStatement, split_statements
from incmrql.errors import DataError, Diagnostic, QueryError, SourceText, Span
from incmrql.spark.forms import restore_column
from incmrql.spark.internals import with_functions_by_row
from incmrql.spark.opaque import make_known
from incmrql.spark.plans import SparkPlan, analyze_sql, read_plan, sql_frame
from incmrql.spark.plans.substitution import substituted_frame
from incmrql.spark.sources.registered import registered_frame
from incmrql.spark.sources.spools import reading_session
from incmrql.spark.values import ONE, packed_rows, values
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.values import Bag, OrderedBag, Value

if TYPE_CHECKING:
    from incmrql.api.session import Session
    from incmrql.catalyst.leaves import OnModified


Stream = PushedStream | FrameStream
OnArithmetic = Literal["null", "report", "fail"]
RowsOfSource = Callable[[typed.Source], DataFrame | None]
"""The rows of a source; None leaves a leaf of the plan as it is."""


@dataclass(frozen=True, slots=True)
class InputOptions:
    """What a user says of the inputs of a query."""

    static: Sequence[str | Path | DataFrame] = ()
    """Inputs that do not change: paths, names of tables, or frames that read them."""
    inputs: Mapping[DataFrame, Stream | str] = field(default_factory=dict)
    """Streams that stand for what frames read."""
    on_modified: OnModified = "refuse"

    def __post_init__(self) -> None:
        if self.on_modified not in ("refuse", "replace"):
            message = f'on_modified is "refuse" or "replace", not {self.on_modified!r}'
            raise DataError("R212", message)
        if isinstance(self.static, str | Path | DataFrame):
            raise DataError("R212", "static must be a list", hint="Write static=[...].")


@dataclass(frozen=True, slots=True)
class SparkProgram:
    """Queries of Spark's that are one program, with what Spark has analysed."""

    compiled: Compiled
    plans: tuple[SparkPlan, ...]
    """One for each item that is a query of Spark's."""
    text: str = ""
    """The SQL script that it is of; empty for DataFrames, which have none."""

    def local_rows(self) -> dict[str, FrameTables]:
        """The rows of frames that were built in Python, as data that are registered."""
        assert self.compiled.plans is not None
        return {
            name: FrameTables(packed_rows(self.plans[query].leaf_frame(leaf)))
            for name, (query, leaf) in self.compiled.plans.local_rows.items()
        }

    def frame(self, number: int, rows: RowsOfSource) -> DataFrame:
        """Spark's own plan of an answer, over given rows of its sources."""
        assert self.compiled.plans is not None
        plan = self.plans[number]
        frames = {
            leaf: _as_leaf(frame, plan.leaf_frame(leaf).schema)
            for leaf, source in self.compiled.plans.leaf_sources[number].items()
            if (frame := rows(source)) is not None
        }
        names = [query.name for query in self.compiled.plans.script.queries]
        for leaf, view in self.compiled.plans.leaf_views[number].items():
            if view not in names:
                raise _no_plan(view)
            frame = self.frame(names.index(view), rows)
            frames[leaf] = _as_leaf(frame, plan.leaf_frame(leaf).schema)
        return substituted_frame(plan, frames)

    def current_frame(self, session: Session, number: int) -> DataFrame:
        """Spark's own plan of an answer, over what is there now."""
        assert self.compiled.plans is not None
        local = self.compiled.plans.local_rows

        def rows(source: typed.Source) -> DataFrame | None:
            return None if source.name in local else current_rows(session, source)

        return self.frame(number, rows)

    def rows(self, session: Session, number: int) -> Value:
        """The rows of an answer from what is there now, in the order in which Spark gives them."""
        frame, item = self.current_frame(session, number), self.compiled.items[number].item
        assert isinstance(item.expr.type, Collection)
        element = item.expr.type.element
        rows = values(packed_rows(with_functions_by_row(frame)), element)
        named = map(row_maker(item.columns, element), rows)
        return OrderedBag(named) if item.shown_by else Bag(named)

    def description(self, numbers: Sequence[int]) -> dict[str, Any]:
        """What a checkpoint keeps of some of the answers, to make their program again."""
        assert self.compiled.plans is not None
        script = self.compiled.plans.script.as_json()
        folder = str(Path.cwd())
        return {"plans": script, "items": list(numbers), "text": self.text, "folder": folder}


@dataclass(frozen=True, slots=True)
class SparkAnswers:
    """The answers of a run as Spark has them: the numbers of their plans; None without a plan."""

    program: SparkProgram
    numbers: tuple[int | None, ...]

    def schema(self, number: int) -> StructType | None:
        """The columns of an answer; None if Spark has no plan of it."""
        plan = self.numbers[number]
        return None if plan is None else self.program.plans[plan].frame.schema

    def frame(self, number: int, rows: RowsOfSource) -> DataFrame:
        """Spark's own plan of an answer, over given rows of its sources."""
        plan = self.numbers[number]
        if plan is None:
            raise _no_plan(self.program.compiled.items[number].item.target)
        return with_functions_by_row(self.program.frame(plan, rows))


def _no_plan(name: str) -> DataError:
    """The error for an answer that Spark cannot compute by itself."""
    message = f'Spark has no plan of "{name}", which is a query of MRQL'
    hint = 'The reference evaluator has: verify(against="reference").'
    return DataError("R314", message, hint=hint)


def current_rows(session: Session, source: typed.Source) -> DataFrame:
    """The rows that a source has now."""
    if source.format == "registered":
        data = {source.name: session.data_of(source.name)}
        return registered_frame(session.private_spark(), source, data, packed=False)
    assert source.reader is not None
    spark = reading_session(session.spark, source.reader)
    rows = _read(spark, source.reader, source.reader.paths)
    deletes = dict(source.options).get("deletes")
    if deletes is None or not Path(deletes).exists():
        return rows
    return rows.exceptAll(_read(spark, source.reader, (str(deletes),)))


def _read(spark: SparkSession, reader: typed.SparkReader, paths: Sequence[str]) -> DataFrame:
    """What Spark reads now from some paths, with the columns of a reader."""
    read = spark.read.format(reader.format).options(**dict(reader.options))
    frame = read.schema(StructType.fromJson(json.loads(reader.schema))).load(list(paths))
    return frame.select(*[functions.col(_quote(name)) for name in reader.columns])


def _as_leaf(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows of a source with the types of a leaf's columns, which are found by position."""
    if rows.columns == [ONE]:
        rows = rows.select(f"{ONE}.*")
    # What was computed when a row was inserted is in the last columns.
    rows = rows.select(*[functions.col(_quote(name)) for name in rows.columns[: len(schema)]])
    names = [f"_{place}" for place, _ in enumerate(schema.fields, 1)]
    renamed = rows.toDF(*names)
    columns = [
        restore_column(renamed[own.name], own.dataType, column.dataType)
        for own, column in zip(renamed.schema.fields, schema.fields, strict=True)
    ]
    return renamed.select(*columns)


def of_frames(session: Session, frames: Sequence[DataFrame], options: InputOptions) -> SparkProgram:
    """The program of some DataFrames."""
    plans = [read_plan(frame) for frame in frames]
    return _program(session, [(plan, DATAFRAME, "") for plan in plans], options)


def of_sql(session: Session, source: SourceText, options: InputOptions) -> SparkProgram:
    """The program of a SQL script; its inputs and views are known to later calls too."""
    answers = _answers(session, session.analysis_session(session.sources()), source)
    if not answers:
        span = Span(source, 0, len(source.text))
        hint = "End it with a SELECT, or write CREATE MATERIALIZED VIEW name AS SELECT ..."
        raise QueryError(Diagnostic("C007", "the script has no answer", span, hint=hint))
    return replace(_program(session, answers, options), text=source.text)


def _answers(
    session: Session, spark: SparkSession, source: SourceText
) -> list[tuple[SparkPlan, str, str]]:
    """Execute a script: the plans of its answers, with the names of text and view."""
    answers: list[tuple[SparkPlan, str, str]] = []
    for statement in split_statements(source):
        match statement.kind:
            case "setting" | "input":
                _execute(spark, statement)
            case "query":
                answers.append((analyze_sql(spark, statement.text, source.name), source.name, ""))
            case "view":
                _create_view(spark, statement)
            case "answer":
                # What reads all of the view: so a view and its users share its plan.
                view = read_plan(_create_view(spark, statement))
                answers.append((view, source.name, statement.name))
        if statement.name:
            session.add_view(statement.name, spark.table(_quote(statement.name)))
    return answers


def analyzed_again(session: Session, described: Mapping[str, Any]) -> SparkAnswers:
    """The answers of a SQL script that a checkpoint describes, analysed by Spark again."""
    script = PlanScript.of_json(described["plans"])
    inputs = script.queries[0].inputs
    spark = session.analysis_session(inputs.sources)
    source = SourceText(described["text"], script.queries[0].origin)
    plans = tuple(plan for plan, _, _ in _answers(session, spark, source))
    return SparkAnswers(spark_program(compile_plans(script), plans), tuple(described["items"]))


def _execute(spark: SparkSession, statement: SqlStatement) -> None:
    """Run a statement that sets something, or names an input."""
    from pyspark.errors import PySparkException

    from incmrql.spark.plans.problems import spark_problem

    source = statement.span.source
    try:
        spark.sql(statement.text)
    except PySparkException as problem:
        raise QueryError(spark_problem(problem, statement.text, source.name)) from problem


def _create_view(spark: SparkSession, statement: SqlStatement) -> DataFrame:
    """Create a view; returns the frame that reads all of it.

    Its plan is read with those of the answers that use it: read at each view, the plans of a chain
    of n views would have n * n nodes.
    """
    frame = sql_frame(spark, statement.text, statement.span.source.name)
    if statement.columns and len(statement.columns) != len(frame.columns):
        message = (
            f'the view "{statement.name}" names {len(statement.columns)} columns, and its query '
            f"has {len(frame.columns)}"
        )
        raise QueryError(Diagnostic("C007", message, statement.span))
    named = frame.toDF(*statement.columns) if statement.columns else frame
    named.createOrReplaceTempView(statement.name)
    return spark.table(_quote(statement.name))


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _program(
    session: Session, answers: Sequence[tuple[SparkPlan, str, str]], options: InputOptions
) -> SparkProgram:
    sources = session.sources()
    queries = [
        PlanQuery(plan.analyzed, origin, _inputs(plan, sources, options), name, _own_length(plan))
        for plan, origin, name in answers
    ]
    compiled = compile_plans(PlanScript(tuple(queries)))
    return spark_program(compiled, [plan for plan, _, _ in answers])


def spark_program(compiled: Compiled, plans: Sequence[SparkPlan]) -> SparkProgram:
    """A program with its plans; what Spark has to evaluate for the rows of inputs is remembered."""
    assert compiled.plans is not None
    if compiled.plans.opaque:
        for plan, columns in zip(plans, compiled.plans.opaque, strict=True):
            make_known(plan, columns)
    return SparkProgram(compiled, tuple(plans))


def _own_length(plan: SparkPlan) -> int:
    """The length of a query's own text in that of its plan, or 0 if another text comes first."""
    return len(plan.text) if plan.analyzed.text.startswith(plan.text) else 0


# --- what the user says of inputs ---


def _inputs(
    plan: SparkPlan, sources: Mapping[str, SessionSource], options: InputOptions
) -> PlanInputs:
    """The leaves of a plan that the user speaks of, by number."""
    paths = [str(static) for static in options.static if not isinstance(static, DataFrame)]
    frames = [static for static in options.static if isinstance(static, DataFrame)]
    static = {number for frame in frames for number in _leaves_like(plan, read_plan(frame))}
    replaced: dict[int, str] = {}
    for frame, stream in options.inputs.items():
        name = stream if isinstance(stream, str) else stream.name
        if name not in sources:
            hint = "Make it with session.stream(name, ...)."
            raise DataError("R212", f'there is no stream "{name}" in this session', hint=hint)
        replaced |= dict.fromkeys(_leaves_like(plan, _one_leaf(frame)), name)
    return PlanInputs(
        sources,
        replaced,
        frozenset(static),
        frozenset(path for given in paths for path in (given, os.path.abspath(given))),
        options.on_modified,
    )


def _one_leaf(frame: DataFrame) -> SparkPlan:
    """The plan of a frame that reads one input; others cannot be replaced by a stream."""
    plan = read_plan(frame)
    if len(plan.leaves) != 1:
        message = f"inputs= has a DataFrame that reads {len(plan.leaves)} inputs"
        hint = "Give the DataFrame that reads the one input, before anything is done with it."
        raise DataError("R212", message, hint=hint)
    return plan


def _leaves_like(plan: SparkPlan, other: SparkPlan) -> list[int]:
    """The numbers of the leaves of a plan that read the same as some leaf of another plan."""
    known = {leaf_key(leaf) for leaf in leaves_of(other.analyzed.plan)}
    return [
        leaf["$leaf"]
        for leaf in leaves_of(plan.analyzed.plan)
        if leaf_key(leaf) in known
        and any(plan.leaves[leaf["$leaf"] - 1].sameResult(own) for own in other.leaves)
    ]
