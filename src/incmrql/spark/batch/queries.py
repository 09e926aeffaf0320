"""Batch queries on Spark: each term is one SQL text; the rest runs in the driver."""

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
from incmrql.lower.context import NARROW, WIDE, Context, SumWindow
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.statements import Statement, statement
from incmrql.lower.relations.terms import may_hold_null
from incmrql.lower.sums.rounding import OUTSIDE
from incmrql.lower.tree import Dialect
from incmrql.reference import Environment, evaluate
from incmrql.reference.environment import World
from incmrql.reference.sources import null_path_error
from incmrql.spark.batch.functions import PythonContext, TraceParam, pack_script, register
from incmrql.spark.clusters import translate_errors
from incmrql.spark.internals import sql_over
from incmrql.spark.loops.parts import LoopCache
from incmrql.spark.loops.placement import end_of_loop
from incmrql.spark.loops.steps import Runner, Views
from incmrql.spark.session import broadcast_limit, create_functions
from incmrql.spark.sources import frames as sources
from incmrql.spark.sources.context import SourceContext
from incmrql.spark.values import dataframe, values
from incmrql.types import typed
from incmrql.types.model import PREDEFINED
from incmrql.types.walk import used_variables
from incmrql.values import Bag, Value, decode

if TYPE_CHECKING:
    from incmrql.compiler.compiled import CompiledItem


# --- Cached texts ---
#
# A normal form depends on the script alone. The text of a term also depends on a few settings and
# on the sizes of its sources: the settings are the cache key, and the sizes are compared at each
# use. A text for which anything else was evaluated, such as a stored value, is not cached.


MOST_TEXTS: Final = 32
"""Texts cached for one script: more than it has terms, unless its sources often grow."""

_Key: TypeAlias = tuple[int, bool, SumWindow, int]
_Sizes: TypeAlias = tuple[tuple[Scan, int | None], ...]


@dataclass(slots=True)
class QueryCache:
    """The SQL texts of one script, run with the same arguments each time.

    Keys are identities of expressions and terms.  The cache refers to these objects, so that no
    identity is freed and reused.
    """

    items: Sequence[CompiledItem] = ()
    """The items of the script, whose normal forms are cached."""
    loops: LoopCache = field(default_factory=LoopCache)
    _queries: dict[int, Query] = field(default_factory=dict)
    """Normal forms of items, by the identity of their expressions."""
    _texts: dict[_Key, tuple[Query, Statement, _Sizes]] = field(default_factory=dict)

    def query(self, expr: typed.Expr, script: typed.Script) -> Query:
        """The normal form of an expression; cached if it is that of an item."""
        for compiled in self.items:
            if compiled.item.expr is expr:
                return self._queries.setdefault(id(expr), compiled.normalized[0])
        return normal_form(translate(expr, script))[0]

    def statement(self, term: Term, query: Query, ctx: Context) -> Statement:
        """The SQL text of a term of a query."""
        shared = {variable.number: part for variable, part in query.parts}
        key = id(term), ctx.fast_sums, ctx.window, ctx.broadcast
        entry = self._texts.get(key)
        if entry is not None and not ctx.stored and _are_same(entry[2], ctx.size_of):
            return entry[1]
        sizes: list[tuple[Scan, int | None]] = []
        size_of = ctx.size_of

        def record_size(scan: Scan) -> int | None:
            size = size_of(scan)
            sizes.append((scan, size))
            return size

        ctx.size_of = record_size
        result = statement(term, ctx, shared)
        if self._is_cached(query) and not ctx.stored and not ctx.embeds_values:
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            self._texts[key] = query, result, tuple(sizes)
        return result

    def _is_cached(self, query: Query) -> bool:
        return any(query is item_query for item_query in self._queries.values())


def _are_same(sizes: _Sizes, size_of: Callable[[Scan], int | None]) -> bool:
    return all(size_of(scan) == size for scan, size in sizes)


# --- Queries ---


T = TypeVar("T")


@dataclass(slots=True)
class QueryContext:
    """What runs one item of a script: a session, its sources, and the cache of the script."""

    spark: SparkSession
    world: World
    fast_sums: bool
    sources: SourceContext
    cache: QueryCache = field(default_factory=QueryCache)
    broadcast: int = field(init=False)
    """The bytes up to which a side of a join is broadcast."""
    traces: Accumulator[list[tuple[str, bytes]]] = field(init=False)

    def __post_init__(self) -> None:
        self.broadcast = broadcast_limit(self.spark)
        self.traces = self.spark.sparkContext.accumulator([], TraceParam())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.sources.close()

    def value(self, query: Query) -> Value:
        """The value of a query, collected in the driver."""
        env = Environment(self.world)
        used = used_variables(query.result)
        for variable, term in query.parts:
            if variable in used:
                rows = self.attempt(query, partial(QueryRun.collect, term=term))
                ordered = isinstance(term, Sort) and term.ordered
                env = env.bind(variable, rows if ordered else Bag(rows))
        return evaluate(query.result, env)

    def attempt(self, query: Query, action: Callable[[QueryRun], T]) -> T:
        """Run an action on a query; repeat it with wide sums if a sum needs more bits."""
        for window in (NARROW, WIDE):
            run = QueryRun(self, query, window)
            try:
                return action(run)
            except PySparkException as problem:
                if window is WIDE or OUTSIDE not in str(problem):
                    raise
            finally:
                run.runner.close()
        raise AssertionError("the wide window holds every double")

    def show_traces(self, on_trace: Callable[[str, Value], None]) -> None:
        """Show the values that tasks traced."""
        for text, value in self.traces.value:
            on_trace(text, decode(value))
        self.traces.value.clear()


def with_runner(
    spark: SparkSession, world: World, query: Query, action: Callable[[Runner], T]
) -> T:
    """Run an action with the loop runner of a query."""
    sources = SourceContext(data=world.script.data or PREDEFINED, parsers=world.script.parsers)
    with (
        QueryContext(spark, world, fast_sums=False, sources=sources) as context,
        translate_errors(spark),
    ):
        result = context.attempt(query, lambda run: action(run.runner))
        context.show_traces(world.on_trace)
        return result


class QueryRun:
    """One execution of a query: its shared terms, its loops, and the frames that it caches."""

    def __init__(self, context: QueryContext, query: Query, window: SumWindow = NARROW) -> None:
        self.context, self.query, self.window = context, query, window
        self.shared = {variable.number: term for variable, term in query.parts}
        self.env = Environment(context.world)
        self.runner = Runner(
            context.spark,
            self._context,
            self.run,
            self.shared,
            lambda limit: evaluate(limit, self.env),
            context.world.max_steps,
            self.env,
            context.cache.loops,
        )

    def collect(self, term: Term) -> list[Value]:
        """The elements of a term, collected in the driver."""
        return values(self.frame(term), element(term))

    def frame(self, term: Term) -> DataFrame:
        """A term as a lazy data frame; its loops run now."""
        return self.run(self.statement(term), {})

    def statement(self, term: Term) -> Statement:
        """The statement of a term."""
        return self.context.cache.statement(term, self.query, self._context())

    def run(self, statement: Statement, views: Views) -> DataFrame:
        """A statement as a data frame; its loops run and its sources are opened first."""
        frames = [(name, self._loop(loop, views)) for name, loop in statement.repeats]
        frames += [(name, self._read(scan)) for name, scan in statement.sources]
        spark, world = self.context.spark, self.context.world
        for name, constant in statement.constants:
            rows = elements(constant, self.env)
            frames.append((name, dataframe(spark, rows, element(constant), packed=True)))
        if statement.python_calls:
            script = pack_script(world.script)
            traces = self.context.traces
            setting = PythonContext(script, list(world.arguments), dict(world.stored), traces)
            for place in statement.python_calls:
                register(spark, place, setting)
        create_functions(spark, statement.text)
        return sql_over(spark, statement.text, frames)

    def _loop(self, loop: Repeat, views: Views) -> DataFrame:
        """The rows of the chosen variable of a loop at its end, packed."""
        rows = end_of_loop(loop, self.runner, views)
        text = tree.print_tree(self._context().whole(rows.row), Dialect.SPARK)
        return rows.frame.selectExpr(f"{text} AS value")

    def _context(self) -> Context:
        world = self.context.world
        return Context(
            lower,
            Dialect.SPARK,
            world.script,
            world.stored,
            world.arguments,
            self.context.fast_sums,
            self.window,
            self._size_of,
            self.context.broadcast,
        )

    def _read(self, scan: Scan) -> DataFrame:
        source, path = scan.source, self._path(scan.source)
        packed, used = may_hold_null(source), scan.picks or used_type(self.query, scan)
        spark, source_context = self.context.spark, self.context.sources
        return sources.read(spark, source, path, source_context, packed=packed, wanted=used)

    def _size_of(self, scan: Scan) -> int | None:
        """The size of a source, which is read for it; reading it again gives the same frame."""
        source, path = scan.source, self._path(scan.source)
        if scan.picks is None:
            self._read(scan)
        else:
            sources.start_scan(self.context.spark, source, path, self.context.sources)
        return sources.estimated_size(
            source, path, self.context.sources, packed=may_hold_null(source)
        )

    def _path(self, source: typed.Source) -> str | None:
        if source.path is None:
            return None
        path: str | None = evaluate(source.path, self.env)
        if path is None:
            raise null_path_error(source, self.env)
        return path
