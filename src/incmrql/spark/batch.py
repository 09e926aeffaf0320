"""Queries over all data, on Spark: each term one SQL text, the rest a look at small results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from incmrql.algebra.interpret import elements
from incmrql.algebra.term import Query, Scan, Sort, Term
from incmrql.diagnostics import InternalError
from incmrql.reference import Environment, evaluate, new_world
from incmrql.spark import functions, sources
from incmrql.spark.sources_context import Context as Sources
from incmrql.spark.values import dataframe, values
from incmrql.sql.context import NARROW, WIDE, Context, Window
from incmrql.sql.expressions import lower
from incmrql.sql.relations import may_hold_null
from incmrql.sql.statements import Statement, statement
from incmrql.sql.sums import OUTSIDE
from incmrql.sql.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import PREDEFINED
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
    shared: dict[int, Term] = field(default_factory=dict)

    def value(self, query: Query) -> Value:
        """The value of a query, brought here."""
        env = self._environment()
        self.shared = {variable.number: term for variable, term in query.parts}
        wanted = used(query.result)
        for variable, term in query.parts:
            if variable not in wanted:
                continue
            found = self.collected(term)
            ordered = isinstance(term, Sort) and term.ordered
            env = env.bind(variable, found if ordered else Bag(found))
        return evaluate(query.result, env)

    def collected(self, term: Term) -> list[Value]:
        """The elements of a term, brought here; a sum that needs more bits is done again."""
        try:
            frame, made = self.frame(term)
            found = values(frame, made.element)
        except PySparkException as problem:
            if OUTSIDE not in str(problem):
                raise
            frame, made = self.frame(term, WIDE)
            found = values(frame, made.element)
        return found

    def frame(self, term: Term, window: Window = NARROW) -> tuple[DataFrame, Statement]:
        """A term as a data frame that has not run yet."""
        made = statement(term, self._context(window), self.shared)
        return self._run(made), made

    def _context(self, window: Window) -> Context:
        return Context(
            lower,
            Dialect.SPARK,
            self.script,
            self.stored,
            self.arguments,
            self.fast_sums,
            window,
        )

    def _environment(self) -> Environment:
        world = new_world(self.script, arguments=list(self.arguments))
        world.stored.update(self.stored)
        return Environment(world)

    def _run(self, made: Statement) -> DataFrame:
        for name, scan in made.sources:
            self._read(scan).createOrReplaceTempView(name)
        for name, constant in made.constants:
            rows = elements(constant, self._environment())
            dataframe(self.spark, rows, made_of(constant), packed=True).createOrReplaceTempView(name)
        for place in made.places:
            functions.register(
                self.spark, place, self.script, list(self.arguments), dict(self.stored)
            )
        if made.repeats:
            raise InternalError("loops are not there yet")
        return self.spark.sql(made.text)

    def _read(self, scan: Scan) -> DataFrame:
        source = scan.source
        path = None if source.path is None else evaluate(source.path, self._environment())
        packed = may_hold_null(source)
        return sources.read(self.spark, source, path, self.sources, packed=packed)


def made_of(term: Term) -> typed.Type:  # type: ignore[name-defined]
    """The type of a term's elements."""
    from incmrql.algebra.term import element

    return element(term)


def sources_of(script: typed.Script) -> Sources:
    """What the sources of a script share."""
    return Sources(data=script.data or PREDEFINED, parsers=script.parsers)
