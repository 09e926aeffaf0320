"""Queries over all data, on Spark: each term one SQL text, the rest a look at small results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from incmrql.algebra.interpret import elements
from incmrql.algebra.term import Query, Repeat, Scan, Sort, Term, element
from incmrql.reference import Environment, evaluate, new_world
from incmrql.spark import functions, sources
from incmrql.spark.loops import Held, Runner, Views, run_loop
from incmrql.spark.sources_context import Context as Sources
from incmrql.spark.values import dataframe, values
from incmrql.sql import tree
from incmrql.sql.context import NARROW, WIDE, Context, Window
from incmrql.sql.expressions import lower
from incmrql.sql.relations import may_hold_null
from incmrql.sql.statements import Statement, statement
from incmrql.sql.sums import OUTSIDE
from incmrql.sql.tree import Dialect
from incmrql.types import typed
from incmrql.types.walk import used
from incmrql.values import Bag, Value


@dataclass(slots=True)
class Batch:
    """Where the queries of a script run: a session, and what the script's items share."""

    spark: SparkSession
    script: typed.Script
    arguments: Sequence[str] = ()
    stored: dict[str, Value] = field(default_factory=dict)
    fast_sums: bool = False
    sources: Sources = field(default_factory=Sources)
    max_steps: int = 10_000

    def value(self, query: Query) -> Value:
        """The value of a query, brought here."""
        env = self._environment()
        wanted = used(query.result)
        for variable, term in query.parts:
            if variable in wanted:
                found = self.collected(query, term)
                ordered = isinstance(term, Sort) and term.ordered
                env = env.bind(variable, found if ordered else Bag(found))
        return evaluate(query.result, env)

    def collected(self, query: Query, term: Term) -> list[Value]:
        """The elements of a part, brought here; a sum that needs more bits is done again."""
        try:
            return self._collected(query, term, NARROW)
        except PySparkException as problem:
            if OUTSIDE not in str(problem):
                raise
            return self._collected(query, term, WIDE)

    def _collected(self, query: Query, term: Term, window: Window) -> list[Value]:
        work = _Work(self, window, {v.number: part for v, part in query.parts})
        try:
            return values(work.frame(term), element(term))
        finally:
            work.runner.close()

    def _environment(self) -> Environment:
        world = new_world(self.script, arguments=list(self.arguments))
        world.stored.update(self.stored)
        return Environment(world)


class _Work:
    """One query on its way: its shared terms, its loops, what it keeps meanwhile."""

    def __init__(self, batch: Batch, window: Window, shared: dict[int, Term]) -> None:
        self.batch, self.window, self.shared = batch, window, shared
        self.done: dict[int, list[Held]] = {}
        self.runner = Runner(
            batch.spark,
            self._context,
            self.run,
            shared,
            lambda limit: evaluate(limit, batch._environment()),
            batch.max_steps,
        )

    def frame(self, term: Term) -> DataFrame:
        """A term as a data frame that has not run yet."""
        return self.run(statement(term, self._context(), self.shared), {})

    def run(self, made: Statement, views: Views) -> DataFrame:
        """A statement as a data frame, once all that it names is there."""
        batch = self.batch
        for name, scan in made.sources:
            self._read(scan).createOrReplaceTempView(name)
        for name, constant in made.constants:
            rows = elements(constant, batch._environment())
            frame = dataframe(batch.spark, rows, element(constant), packed=True)
            frame.createOrReplaceTempView(name)
        for name, loop in made.repeats:
            self._loop(loop, views).createOrReplaceTempView(name)
            self._again(made)
        for place in made.places:
            functions.register(
                batch.spark, place, batch.script, list(batch.arguments), dict(batch.stored)
            )
        return batch.spark.sql(made.text)

    def _again(self, made: Statement) -> None:
        """Sources and constants under their names, after a loop has used the same names."""
        for name, scan in made.sources:
            self._read(scan).createOrReplaceTempView(name)
        for name, constant in made.constants:
            rows = elements(constant, self.batch._environment())
            frame = dataframe(self.batch.spark, rows, element(constant), packed=True)
            frame.createOrReplaceTempView(name)

    def _loop(self, loop: Repeat, views: Views) -> DataFrame:
        """What the chosen variable of a loop holds at its end, packed."""
        held = run_loop(replace(loop, chosen=0), self.runner, views)
        for number, each in enumerate(held):
            if number != loop.chosen:
                self.runner.kept.append(each.frame)
        chosen = held[loop.chosen]
        self.runner.kept.append(chosen.frame)
        whole = tree.print_tree(self._context().whole(chosen.row), Dialect.SPARK)
        return chosen.frame.selectExpr(f"{whole} AS value")

    def _context(self) -> Context:
        batch = self.batch
        return Context(
            lower,
            Dialect.SPARK,
            batch.script,
            batch.stored,
            batch.arguments,
            batch.fast_sums,
            self.window,
        )

    def _read(self, scan: Scan) -> DataFrame:
        source = scan.source
        path = None
        if source.path is not None:
            path = evaluate(source.path, self.batch._environment())
        packed = may_hold_null(source)
        return sources.read(self.batch.spark, source, path, self.batch.sources, packed=packed)
