"""Queries over all data, on Spark: each term is one SQL text, the rest runs over small results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias, TypeVar

from pyspark.accumulators import Accumulator
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from incmrql.algebra.interpret import elements
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.term import Query, Repeat, Scan, Sort, Term, element
from incmrql.algebra.translate.queries import translate
from incmrql.algebra.walk import used_type
from incmrql.lower import tree
from incmrql.lower.context import NARROW, WIDE, Context, Window
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.statements import Statement, statement
from incmrql.lower.relations.terms import may_hold_null
from incmrql.lower.sums.rounding import OUTSIDE
from incmrql.lower.tree import Dialect
from incmrql.reference import Environment, evaluate
from incmrql.reference.environment import World
from incmrql.reference.sources import no_path
from incmrql.spark.batch.functions import Setting, TraceParam, packed_script, register
from incmrql.spark.clusters import told
from incmrql.spark.internals import sql_over
from incmrql.spark.loops.placement import end_of_loop
from incmrql.spark.loops.steps import Runner, Views
from incmrql.spark.session import most_broadcast, provide
from incmrql.spark.sources import frames as sources
from incmrql.spark.sources.context import SourceContext
from incmrql.spark.values import dataframe, values
from incmrql.types import typed
from incmrql.types.model import PREDEFINED
from incmrql.types.walk import used_variables
from incmrql.values import Bag, Value, decode

if TYPE_CHECKING:
    from incmrql.compiler.compiled import CompiledItem


# --- Kept texts ---
#
# A normal form depends on the script alone. The text of a term depends on a few settings too, and
# on the sizes of its sources, which are asked again each time: it is kept by all of them. A text
# for which anything else was evaluated, a stored value or a Python function say, is not kept.


MOST_TEXTS: Final = 32
"""Texts of one script that are kept: more than it has terms, unless its sources often grow."""

_Setting: TypeAlias = tuple[int, bool, Window, int]
_Sizes: TypeAlias = tuple[tuple[Scan, int | None], ...]


@dataclass(slots=True)
class Forms:
    """The SQL texts of one script, run with the same arguments each time.

    Expressions and terms are known by their identity; they are kept, so that it stays theirs.
    """

    items: Sequence[CompiledItem] = ()
    """The items of the script: their normal forms are made only once."""
    _queries: dict[int, Query] = field(default_factory=dict)
    """Normal forms of items, by the identity of their expressions."""
    _texts: dict[_Setting, tuple[Query, Statement, _Sizes]] = field(default_factory=dict)

    def query(self, expr: typed.Expr, script: typed.Script) -> Query:
        """The normal form of an expression; that of an item is kept."""
        for each in self.items:
            if each.item.expr is expr:
                return self._queries.setdefault(id(expr), each.normalized[0])
        return normal_form(translate(expr, script))[0]

    def statement(self, term: Term, query: Query, ctx: Context) -> Statement:
        """The text of a term of a query."""
        shared = {variable.number: part for variable, part in query.parts}
        setting = id(term), ctx.fast_sums, ctx.window, ctx.broadcast
        known = self._texts.get(setting)
        if known is not None and not ctx.stored and _are_as_before(known[2], ctx.size_of):
            return known[1]
        sizes: list[tuple[Scan, int | None]] = []
        size_of = ctx.size_of

        def noted(scan: Scan) -> int | None:
            size = size_of(scan)
            sizes.append((scan, size))
            return size

        ctx.size_of = noted
        made = statement(term, ctx, shared)
        if self._keeps(query) and not ctx.stored and not ctx.has_evaluated:
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            self._texts[setting] = query, made, tuple(sizes)
        return made

    def _keeps(self, query: Query) -> bool:
        return any(query is known for known in self._queries.values())


def _are_as_before(sizes: _Sizes, size_of: Callable[[Scan], int | None]) -> bool:
    return all(size_of(scan) == size for scan, size in sizes)


# --- Queries ---


T = TypeVar("T")


@dataclass(slots=True)
class Batch:
    """Where one item of a script runs: a session, and what it reads."""

    spark: SparkSession
    world: World
    fast_sums: bool
    sources: SourceContext
    forms: Forms = field(default_factory=Forms)
    broadcast: int = field(init=False)
    """How many bytes a side of a join may have that is sent to all tasks."""
    traces: Accumulator[list[tuple[str, bytes]]] = field(init=False)

    def __post_init__(self) -> None:
        self.broadcast = most_broadcast(self.spark)
        self.traces = self.spark.sparkContext.accumulator([], TraceParam())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.sources.close()

    def value(self, query: Query) -> Value:
        """The value of a query, brought here."""
        env = Environment(self.world)
        wanted = used_variables(query.result)
        for variable, term in query.parts:
            if variable in wanted:
                found = self.attempt(query, partial(Work.collected, term=term))
                ordered = isinstance(term, Sort) and term.ordered
                env = env.bind(variable, found if ordered else Bag(found))
        return evaluate(query.result, env)

    def attempt(self, query: Query, action: Callable[[Work], T]) -> T:
        """Run something; a sum of doubles that needs more bits is done again with all of them."""
        for window in (NARROW, WIDE):
            work = Work(self, query, window)
            try:
                return action(work)
            except PySparkException as problem:
                if window is WIDE or OUTSIDE not in str(problem):
                    raise
            finally:
                work.runner.close()
        raise AssertionError("the wide window holds every double")

    def show_traces(self, on_trace: Callable[[str, Value], None]) -> None:
        """Show the values that tasks traced."""
        for text, value in self.traces.value:
            on_trace(text, decode(value))
        self.traces.value.clear()


def with_runner(
    spark: SparkSession, world: World, query: Query, action: Callable[[Runner], T]
) -> T:
    """Run something with the runner of loops of a query."""
    sources = SourceContext(data=world.script.data or PREDEFINED, parsers=world.script.parsers)
    with Batch(spark, world, fast_sums=False, sources=sources) as batch, told(spark):
        found = batch.attempt(query, lambda work: action(work.runner))
        batch.show_traces(world.on_trace)
        return found


class Work:
    """One query on its way: its shared terms, its loops, and what it keeps meanwhile."""

    def __init__(self, batch: Batch, query: Query, window: Window = NARROW) -> None:
        self.batch, self.query, self.window = batch, query, window
        self.shared = {variable.number: term for variable, term in query.parts}
        self.env = Environment(batch.world)
        self.runner = Runner(
            batch.spark,
            self._context,
            self.run,
            self.shared,
            lambda limit: evaluate(limit, self.env),
            batch.world.max_steps,
            self.env,
        )

    def collected(self, term: Term) -> list[Value]:
        """The elements of a term, brought here."""
        return values(self.frame(term), element(term))

    def frame(self, term: Term) -> DataFrame:
        """A term as a data frame that has not run yet; its loops have."""
        return self.run(self.statement(term), {})

    def statement(self, term: Term) -> Statement:
        """The text of a term."""
        return self.batch.forms.statement(term, self.query, self._context())

    def run(self, made: Statement, views: Views) -> DataFrame:
        """A statement as a data frame, once all that it names is there."""
        named = [(name, self._loop(loop, views)) for name, loop in made.repeats]
        named += [(name, self._read(scan)) for name, scan in made.sources]
        spark, world = self.batch.spark, self.batch.world
        for name, constant in made.constants:
            rows = elements(constant, self.env)
            named.append((name, dataframe(spark, rows, element(constant), packed=True)))
        if made.places:
            script = packed_script(world.script)
            traces = self.batch.traces
            setting = Setting(script, list(world.arguments), dict(world.stored), traces)
            for each in made.places:
                register(spark, each, setting)
        provide(spark, made.text)
        return sql_over(spark, made.text, named)

    def _loop(self, loop: Repeat, views: Views) -> DataFrame:
        """What the chosen variable of a loop holds at its end, packed."""
        held = end_of_loop(loop, self.runner, views)
        whole = tree.print_tree(self._context().whole(held.row), Dialect.SPARK)
        return held.frame.selectExpr(f"{whole} AS value")

    def _context(self) -> Context:
        world = self.batch.world
        return Context(
            lower,
            Dialect.SPARK,
            world.script,
            world.stored,
            world.arguments,
            self.batch.fast_sums,
            self.window,
            self._size_of,
            self.batch.broadcast,
        )

    def _read(self, scan: Scan) -> DataFrame:
        source, path = scan.source, self._path(scan.source)
        packed, wanted = may_hold_null(source), scan.picks or used_type(self.query, scan)
        spark, context = self.batch.spark, self.batch.sources
        return sources.read(spark, source, path, context, packed=packed, wanted=wanted)

    def _size_of(self, scan: Scan) -> int | None:
        """The size of a source, which is read for it; reading it again gives the same frame."""
        source, path = scan.source, self._path(scan.source)
        if scan.picks is None:
            self._read(scan)
        else:
            sources.start_scan(self.batch.spark, source, path, self.batch.sources)
        return sources.estimated_size(
            source, path, self.batch.sources, packed=may_hold_null(source)
        )

    def _path(self, source: typed.Source) -> str | None:
        if source.path is None:
            return None
        path: str | None = evaluate(source.path, self.env)
        if path is None:
            raise no_path(source, self.env)
        return path
