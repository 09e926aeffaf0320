"""Several queries of a session as one program: texts of MRQL, SQL and DataFrames together.

A *view* is a query that later queries of the session read by its name, whatever language they are
in.  A program has the queries that it answers and the views that these read: one checkpoint, one
job for each batch, and what several queries read is kept once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incmrql.algebra.scope import SourceScope
from incmrql.api.streams import NamedStream
from incmrql.compiler.combined import CombinedQueries, TextQuery, compile_combined
from incmrql.compiler.compiled import Compiled
from incmrql.compiler.load import Imports
from incmrql.compiler.plans import PlanQuery, PlanScript, SessionSource
from incmrql.errors import DataError
from incmrql.types import typed
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.model import Collection, Record, Tuple, Type
from incmrql.types.walk import with_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from incmrql.api.plans import OnArithmetic, SparkAnswers
    from incmrql.api.results import Result
    from incmrql.api.session import Session


class SessionView(NamedStream):
    """A query that later queries of its session read by a name."""

    def __init__(self, name: str, result: Result) -> None:
        self.name, self.result = name, result
        self.row = _row_of(name, result)

    @property
    def source(self) -> SessionSource:
        """The view as queries see it that are compiled on their own."""
        return SessionSource(self.row, self.result.compiled_item.reads_streams)

    def rows(self) -> DataFrame:
        """The rows that the query has now."""
        return self.result.to_df()


def _row_of(name: str, result: Result) -> Type:
    """The type of the rows of a view: a record."""
    whole = result.type
    if not isinstance(whole, Collection) or whole.kind != "bag":
        message = f'the view "{name}" is of type {whole}, and views are bags of rows'
        hint = "Leave out order by, and give one value a row of its own: {< n: count(x) >}."
        raise DataError("R212", message, hint=hint)
    row, columns = whole.element, result.item.columns
    if isinstance(row, Tuple) and columns:
        row = Record(tuple(zip(columns, row.items, strict=True)))
    if not isinstance(row, Record) or len(set(row.names)) < len(row.names):
        message = f'the rows of the view "{name}" are of type {row}: their columns need names'
        hint = "Name each column, by another name: select < city: o.city, n: count(o) > from ..."
        raise DataError("R212", message, hint=hint)
    for column, type_ in row.fields:
        one = Record(((column, type_),))
        try:
            is_known = type_from_text(str(one)) == one
        except DataError:
            is_known = False
        if not is_known:
            message = f'the column "{column}" of the view "{name}" is of type {type_}'
            hint = "MRQL has no such name or type: rename the column or cast it, or leave it out."
            raise DataError("R212", message, hint=hint)
    return row


@dataclass(frozen=True, slots=True)
class CombinedProgram:
    """The program of some queries of a session."""

    queries: CombinedQueries
    compiled: Compiled
    answers: SparkAnswers | None
    """The answers as Spark has them, if there are some."""
    on_arithmetic: OnArithmetic | None
    """What happens if arithmetic fails, unless `start` gets `on_arithmetic`."""

    def description(self) -> dict[str, Any]:
        """What a checkpoint keeps, so that the program can be recompiled."""
        named = zip(self.queries.answers, self.compiled.items, strict=True)
        shown = [f"-- {name}\n{item.item.span.text}" for name, item in named]
        queries = self.queries.as_json()
        return {"queries": queries, "text": "\n\n".join(shown), "folder": str(Path.cwd())}


def combine(session: Session, answers: Mapping[str, Result]) -> CombinedProgram:
    """The program that answers some queries, with the views that they read; may be refused."""
    results = dict(answers)
    pending = list(results)
    while pending:
        for name in views_read(session, results[pending.pop()]):
            view = session.views[name].result
            if results.setdefault(name, view) is not view:
                message = f'the name "{name}" is that of a view, and of another query'
                raise DataError("R212", message, hint="Give the query another name.")
            if name not in answers and name not in pending:
                pending.append(name)
    foreign = next((name for name, one in results.items() if one.session is not session), None)
    if foreign is not None:
        hint = "Make all queries of a program with one session."
        raise DataError("R212", f'the query "{foreign}" is of another session', hint=hint)
    texts = [_text(session, name, one) for name, one in results.items() if one.plans is None]
    of_spark = {name: one for name, one in results.items() if one.plans is not None}
    plans = PlanScript(tuple(_plan(session, name, one) for name, one in of_spark.items()))
    queries = CombinedQueries(tuple(texts), plans, tuple(answers))
    compiled = compile_combined(queries, Imports(paths=session.paths), session.functions)
    return CombinedProgram(
        queries, compiled, _spark_answers(compiled, of_spark, answers), _on_arithmetic(results)
    )


def _on_arithmetic(results: Mapping[str, Result]) -> OnArithmetic | None:
    given = {one.on_arithmetic for one in results.values() if one.on_arithmetic is not None}
    if len(given) > 1:
        message = f"on_arithmetic is {' and '.join(sorted(given))} for queries of one program"
        raise DataError("R212", message, hint="Give it to start, which is for all of them.")
    return next(iter(given), None)


def _spark_answers(
    compiled: Compiled, of_spark: Mapping[str, Result], answers: Mapping[str, Result]
) -> SparkAnswers | None:
    if not of_spark:
        return None
    from incmrql.api.plans import SparkAnswers, spark_program

    plans = [one.plans.plans[one.number] for one in of_spark.values() if one.plans is not None]
    names = list(of_spark)
    numbers = tuple(names.index(name) if name in of_spark else None for name in answers)
    return SparkAnswers(spark_program(compiled, plans), numbers)


# --- the queries of a program ---------------------------------------------------------------


def views_read(session: Session, result: Result) -> list[str]:
    """The views that a query reads, by name."""
    return [name for name in _names_read(result) if name in session.views]


def _names_read(result: Result) -> list[str]:
    """The streams, data and views of the session that a query reads, by name."""
    names: dict[str, None] = {}

    def note(source: typed.Source) -> typed.Source:
        if source.format == "registered":
            names[source.name] = None
        return source

    script = result.compiled.typed
    if result.plans is None:  # all of the text is compiled, so all that it names has to be there
        with_sources(script, note)
    else:
        for node in SourceScope(script).reachable(result.item.expr):
            if isinstance(node, typed.Read):
                note(node.source)
    return list(names)


def _sources(session: Session, result: Result) -> dict[str, SessionSource]:
    """The streams, data and views that a query reads; views are queries of the program."""
    known, names = session.sources(), _names_read(result)
    return {
        name: replace(known[name], is_view=name in session.views) for name in names if name in known
    }


def _text(session: Session, name: str, result: Result) -> TextQuery:
    source = result.item.span.source
    return TextQuery(
        name,
        source.text,
        result.compiled.typed.items.index(result.item),
        result.arguments,
        _sources(session, result),
        source.name,
    )


def _plan(session: Session, name: str, result: Result) -> PlanQuery:
    assert result.plans is not None
    compiled = result.plans.compiled.plans
    assert compiled is not None
    query = compiled.script.queries[result.number]
    inputs = replace(query.inputs, sources=_sources(session, result))
    return replace(query, name=name, inputs=inputs)


__all__ = ["CombinedProgram", "SessionView", "combine", "views_read"]
