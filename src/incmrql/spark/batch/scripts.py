"""Runs the items of a script in order on Spark, like the reference evaluator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from incmrql.algebra.scope import SourceScope
from incmrql.algebra.scripts import Emit, annotated_item, run_item
from incmrql.algebra.term import Query, Term
from incmrql.errors import QueryError
from incmrql.io.writers import dump as dump_values
from incmrql.io.writers import store as store_values
from incmrql.lower.context import NARROW, WIDE
from incmrql.reference import Environment, evaluate
from incmrql.reference.environment import World
from incmrql.reference.script import check_target
from incmrql.spark.batch import outputs
from incmrql.spark.batch.queries import QueryCache, QueryContext, QueryRun
from incmrql.spark.clusters import translate_errors
from incmrql.spark.sources.context import Override, SourceContext
from incmrql.types import typed
from incmrql.types.model import PREDEFINED
from incmrql.values import Value


@dataclass(slots=True)
class ScriptRunner:
    """Runs a script: Spark, started by the first query that needs it, and what items share."""

    world: World
    spark: Callable[[], SparkSession]
    fast_sums: bool = False
    open_sources: list[SourceContext] = field(default_factory=list)
    override: Override = lambda _source, _path, _packed: None
    """Replaces the rows of a source; None leaves the source as declared."""
    cache: QueryCache = field(default_factory=QueryCache)

    def run_item(self, item: typed.ScriptItem, emit: Emit) -> None:
        """Run one item: on Spark if it reads a source, else in the driver."""
        self.world.snapshots.clear()
        if item.kind in ("lineage", "debug"):
            self._run_annotated(item, emit)
            return
        query = self.query(item.expr)
        if query is None or self.world.fail_arithmetic:
            run_item(item, self.world, emit)
            return
        match item.kind:
            case "store" | "dump":
                self._write(item, query)
            case "store-value":
                self.world.stored[item.target] = self.value(query)
            case _:
                emit(item, self.value(query))

    def _run_annotated(self, item: typed.ScriptItem, emit: Emit) -> None:
        """Run an item that shows its rows together with the input rows they come from."""
        world = self.world
        with annotated_item(item, world) as annotated:
            query = self.query(annotated.expr)
            if query is not None and not world.fail_arithmetic:
                emit(item, annotated.answer(self.value(query)))
                return
            if SourceScope(world.script).reads(item.expr):
                no_term = "it has no form as terms"
                reason = (
                    "arithmetic without a result is an error" if world.fail_arithmetic else no_term
                )
                sys.stderr.write(f"{item.kind} runs in the driver, not on Spark: {reason}\n")
            emit(item, annotated.answer(evaluate(annotated.expr, Environment(world))))

    def query(self, expr: typed.Expr) -> Query | None:
        """The normal form of an expression; None if it reads no source or has no normal form."""
        try:
            normal_form = self.cache.query(expr, self.world.script)
        except QueryError as problem:
            if problem.code not in ("A001", "A002"):
                raise
            return None
        return normal_form if normal_form.parts else None

    def value(self, query: Query) -> Value:
        """The value of a query, collected in the driver after its sources were checked."""
        with self._query_context() as context, translate_errors(context.spark):
            with context.sources.explain_failures():
                value = context.value(query)
            context.sources.finish()
            context.show_traces(self.world.on_trace)
        return value

    def frame(self, query: Query, *, wide_sums: bool = False) -> DataFrame | None:
        """The rows of a query as a data frame; None if the query is not a collection of rows.

        Its sources are checked, and bad lines reported, before it is returned.
        """
        term = only_term(query)
        if term is None:
            return None
        context = self._query_context()
        self.open_sources.append(context.sources)
        with translate_errors(context.spark):
            rows = QueryRun(context, query, WIDE if wide_sums else NARROW).frame(term)
            context.sources.finish()
        return rows

    def _query_context(self) -> QueryContext:
        world = self.world
        sources = SourceContext(
            data=world.script.data or PREDEFINED,
            parsers=world.script.parsers,
            registered=world.registered,
            quarantine=world.quarantine,
            paths=world.paths,
            on_report=world.on_report,
            override=self.override,
        )
        return QueryContext(self.spark(), world, self.fast_sums, sources, self.cache)

    def _write(self, item: typed.ScriptItem, query: Query) -> None:
        check_target(item, self.world)
        term = only_term(query)
        if term is None:
            value = self.value(query)
            write = store_values if item.kind == "store" else dump_values
            write(item.target, value, item.expr.type)
            return
        with (
            self._query_context() as context,
            translate_errors(context.spark),
            context.sources.explain_failures(),
        ):
            write_rows = outputs.store if item.kind == "store" else outputs.dump
            finish = context.sources.finish
            context.attempt(
                query,
                lambda run: write_rows(run.frame(term), item.target, item.expr.type, finish),
            )


def only_term(query: Query) -> Term | None:
    """The term whose rows are the result of a query; None if the result is computed from terms."""
    for variable, term in query.parts:
        if query.result == typed.Var(variable, type=variable.type):
            return term
    return None
