"""Scripts on Spark: items one after the other, as the reference evaluator does them."""

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
from incmrql.spark.batch.queries import Batch, Forms, Work
from incmrql.spark.clusters import told
from incmrql.spark.sources.context import Override, SourceContext
from incmrql.types import typed
from incmrql.types.model import PREDEFINED
from incmrql.values import Value


@dataclass(slots=True)
class Engine:
    """Spark, started when the first query needs it, and what all items of a script share."""

    world: World
    spark: Callable[[], SparkSession]
    fast_sums: bool = False
    kept: list[SourceContext] = field(default_factory=list)
    override: Override = lambda _source, _path, _packed: None
    """Where the rows of a source come from, if not from where it says."""
    forms: Forms = field(default_factory=Forms)

    def run_item(self, item: typed.ScriptItem, emit: Emit) -> None:
        """One item: on Spark if it reads a source, else here."""
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
        """The rows of an answer with what they were made from."""
        world = self.world
        with annotated_item(item, world) as asked:
            query = self.query(asked.expr)
            if query is not None and not world.fail_arithmetic:
                emit(item, asked.answer(self.value(query)))
                return
            if SourceScope(world.script).reads(item.expr):
                no_term = "it has no form as terms"
                why = (
                    "arithmetic without a result is an error" if world.fail_arithmetic else no_term
                )
                sys.stderr.write(f"{item.kind} runs in the driver, not on Spark: {why}\n")
            emit(item, asked.answer(evaluate(asked.expr, Environment(world))))

    def query(self, expr: typed.Expr) -> Query | None:
        """The normal form of what is run on Spark; None for what reads no source, or cannot be."""
        try:
            found = self.forms.query(expr, self.world.script)
        except QueryError as problem:
            if problem.code not in ("A001", "A002"):
                raise
            return None
        return found if found.parts else None

    def value(self, query: Query) -> Value:
        """The value of a query, brought here, once its sources are known to be right."""
        with self._batch() as batch, told(batch.spark):
            with batch.sources.explain_failures():
                value = batch.value(query)
            batch.sources.finish()
            batch.show_traces(self.world.on_trace)
        return value

    def frame(self, query: Query, *, wide_sums: bool = False) -> DataFrame | None:
        """The rows of a query as a data frame; None if the query is not a collection of rows.

        Its sources are checked, and bad lines reported, before it is given away.
        """
        term = whole(query)
        if term is None:
            return None
        batch = self._batch()
        self.kept.append(batch.sources)
        with told(batch.spark):
            found = Work(batch, query, WIDE if wide_sums else NARROW).frame(term)
            batch.sources.finish()
        return found

    def _batch(self) -> Batch:
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
        return Batch(self.spark(), world, self.fast_sums, sources, self.forms)

    def _write(self, item: typed.ScriptItem, query: Query) -> None:
        check_target(item, self.world)
        term = whole(query)
        if term is None:
            value = self.value(query)
            write = store_values if item.kind == "store" else dump_values
            write(item.target, value, item.expr.type)
            return
        with self._batch() as batch, told(batch.spark), batch.sources.explain_failures():
            write_rows = outputs.store if item.kind == "store" else outputs.dump
            finish = batch.sources.finish
            batch.attempt(
                query,
                lambda work: write_rows(work.frame(term), item.target, item.expr.type, finish),
            )


def whole(query: Query) -> Term | None:
    """The term that a query is, if it is no more than that."""
    for variable, term in query.parts:
        if query.result == typed.Var(variable, type=variable.type):
            return term
    return None
