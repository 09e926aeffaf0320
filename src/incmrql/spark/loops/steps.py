"""Loops as steps on Spark: each step is one SQL text over the rows of the previous step.

The rows of a step are checkpointed as blocks without a plan, so that plans do not grow with the
steps; the blocks of a step are freed once the next step has its own.  Loop-invariant parts of a
step are computed once.  An aggregate of an invariant side that is combined with every row becomes
a constant.  A variable of a few rows that is combined with every row is written into the text of
each step as a literal, as an expert would do with the centroids of k-means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession

from incmrql.algebra import rows as build
from incmrql.algebra.normalize.rewrite import normalize
from incmrql.algebra.normalize.rules import expressions
from incmrql.algebra.normalize.rules.inrow import in_row, with_values
from incmrql.algebra.normalize.rules.joins import at
from incmrql.algebra.rows import Names
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Query,
    Repeat,
    Shared,
    Term,
    Values,
    element,
    pair,
)
from incmrql.algebra.walk import fingerprint, map_children, terms, variables_of
from incmrql.lower import tree
from incmrql.lower.context import Context
from incmrql.lower.expressions import arrays
from incmrql.lower.relations.builder import LoweredRelation, same_structure
from incmrql.lower.relations.statements import RowFormat, Statement, statement, view
from incmrql.lower.shapes import Cell, Parts, Shape, leaves, split
from incmrql.lower.tree import Dialect
from incmrql.plan.additivity import Additivity
from incmrql.plan.nodes import is_unit
from incmrql.reference import Environment, evaluate
from incmrql.reference.queries import endless_loop_error
from incmrql.spark.internals import blocks_size, free_blocks
from incmrql.spark.values import values
from incmrql.types import typed
from incmrql.types.model import Collection, Record, Tuple, Type, bag
from incmrql.types.walk import children as typed_children
from incmrql.types.walk import free_variables, nodes, substitute
from incmrql.types.walk import map_children as map_typed
from incmrql.values import Bag, Value

if TYPE_CHECKING:
    from incmrql.spark.loops.parts import LoopCache

Views = dict[int, LoweredRelation]


@dataclass(slots=True)
class Runner:
    """What a loop needs to run its terms; `frame` runs a statement that reads loop variables."""

    spark: SparkSession
    context: Callable[[], Context]
    frame: Callable[[Statement, Views], DataFrame]
    shared: dict[int, Term]
    limit: Callable[[typed.Expr], int | None]
    max_steps: int
    empty: Environment
    loops: LoopCache
    last: int = 0
    steps: int = 0
    """The number of steps of the loop that ended last."""
    cached_frames: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Free the blocks of all cached frames."""
        for frame in self.cached_frames:
            free_blocks(frame)
        self.cached_frames.clear()


@dataclass(frozen=True, slots=True)
class CachedRows:
    """The rows of a variable, the shape of a row, and the blocks that hold them."""

    frame: DataFrame
    row: Shape
    blocks: DataFrame
    size: int


def run_loop(loop: Repeat, runner: Runner, outer: Views) -> CachedRows:
    """The rows of the chosen variable of a loop at its end."""
    views = dict(outer)
    form: RowFormat = "flat"
    current = _initial_rows(loop, runner, outer, form)
    _update_views(loop, current, views)
    steps = _StepTexts(loop, runner, views, form)
    row_shapes = [
        _row_without_flag(rows.row, flag)
        for rows, flag in zip(steps.texts(current), loop.flagged, strict=True)
    ]
    if not all(map(same_structure, [rows.row for rows in current], row_shapes)):
        steps.form = form = "packed"
        for rows in current:
            free_blocks(rows.blocks)
        current = _initial_rows(loop, runner, outer, form)
        _update_views(loop, current, views)
    limit = None if loop.limit is None else runner.limit(loop.limit) or 0
    current = _run_steps(loop, current, steps, limit)
    runner.cached_frames += [rows.blocks for rows in current]
    return current[loop.chosen]


def _initial_rows(loop: Repeat, runner: Runner, views: Views, form: RowFormat) -> list[CachedRows]:
    """The rows of the variables before the first step."""
    return [
        _run_and_cache(_statement_of(term, runner, views, form), runner, views)
        for term in loop.initial
    ]


@dataclass(slots=True)
class _StepTexts:
    """The SQL texts of a step, reused while the columns of the variables stay the same.

    `inlined_step` is a form of the step that takes the rows of its variable as a literal; None if
    there is no such form.
    """

    loop: Repeat
    runner: Runner
    views: Views
    form: RowFormat
    inlined_step: Term | None = None
    _terms: list[Term] | None = None
    _texts: tuple[object, list[Statement]] | None = None

    def __post_init__(self) -> None:
        terms = self.loop.step
        if len(terms) == 1 and not is_invariant(terms[0]):
            inlined = in_row(terms[0], self.loop.variables[0])
            self.inlined_step = None if inlined is None else self._hoist(inlined)

    def texts(self, current: list[CachedRows]) -> list[Statement]:
        """The texts for the current rows of the variables."""
        few_rows = (
            _few_rows_as_expression(current[0], self.loop.variables[0], self.runner)
            if self.inlined_step is not None
            else None
        )
        if few_rows is not None:
            assert self.inlined_step is not None
            term = with_values(self.inlined_step, self.loop.variables[0], few_rows)
            return [_statement_of(term, self.runner, self.views, self.form)]
        limit = self.runner.context().broadcast
        key = self.form, [(rows.size <= limit, _columns_of(rows.row)) for rows in current]
        if self._texts is None or self._texts[0] != key:
            if self._terms is None:
                self._terms = list(map(self._hoist, self.loop.step))
            texts = [
                _statement_of(term, self.runner, self.views, self.form) for term in self._terms
            ]
            self._texts = key, texts
        return self._texts[1]

    def _hoist(self, term: Term) -> Term:
        """A step with its loop-invariant parts computed now."""
        runner, views = self.runner, self.views
        collect_rows = partial(_collect, runner=runner, views=views)
        return _hoist(with_constants(term, collect_rows, runner.empty), runner, views)


def _columns_of(row: Shape) -> object:
    """The columns that hold the parts of a row, as nested lists."""
    if isinstance(row, Parts):
        return [_columns_of(part) for part in row.parts]
    return [tree.print_tree(cell.tree, Dialect.SPARK) for cell in leaves(row)]


def _collect(term: Term, runner: Runner, views: Views) -> list[Value]:
    sql_text = statement(term, runner.context(), runner.shared, views)
    return values(runner.frame(sql_text, views), element(term))


def _few_rows_as_expression(
    rows: CachedRows, variable: typed.Variable, runner: Runner
) -> typed.Expr | None:
    """The rows of a variable as an expression; None if they are many."""
    if rows.size > _FEW_BYTES:
        return None
    assert isinstance(variable.type, Collection)
    row = variable.type.element
    text = tree.print_tree(runner.context().whole(rows.row), Dialect.SPARK)
    constants = values(rows.frame.selectExpr(f"{text} AS value"), row)
    if len(constants) > FEW_ROWS:
        return None
    return typed.MakeCollection(
        tuple(literal(value, row) for value in constants), type=variable.type
    )


_FEW_BYTES: Final = 1 << 20


def _run_steps(
    loop: Repeat, current: list[CachedRows], step_texts: _StepTexts, limit: int | None
) -> list[CachedRows]:
    steps, running, runner, views = 0, True, step_texts.runner, step_texts.views
    while running and (limit is None or steps < limit):
        if limit is None and steps >= runner.max_steps:
            raise endless_loop_error(steps)
        with_flags = [_run_and_cache(rows, runner, views) for rows in step_texts.texts(current)]
        after = [
            _without_flag(rows, flag) for rows, flag in zip(with_flags, loop.flagged, strict=True)
        ]
        running = _needs_another_step(loop, limit, with_flags, after, current, runner)
        # Only now: the comparison above still reads the blocks of the previous step.
        for old in current:
            free_blocks(old.blocks)
        current, steps = after, steps + 1
        _update_views(loop, current, views)
    runner.steps = steps
    return current


def _statement_of(term: Term, runner: Runner, views: Views, form: RowFormat) -> Statement:
    return statement(term, runner.context(), runner.shared, views, form)


def _run_and_cache(statement: Statement, runner: Runner, views: Views) -> CachedRows:
    """Run a statement now, and keep its rows without its plan."""
    # A local checkpoint cuts the plan; a cached frame would carry the plans of all steps before it.
    frame = runner.frame(statement, views).localCheckpoint(eager=True)
    return CachedRows(frame, statement.row, frame, blocks_size(frame))


def _update_views(loop: Repeat, current: list[CachedRows], views: Views) -> None:
    """Point the views that the texts of the step read to the current rows."""
    for variable, rows in zip(loop.variables, current, strict=True):
        views[variable.number] = temporary_view(f"loop_{variable.number}", rows)


def temporary_view(name: str, rows: CachedRows) -> LoweredRelation:
    """A temporary view of rows, as a relation that texts can read."""
    rows.frame.createOrReplaceTempView(name)
    return view(name, rows.row, rows.size)


def _row_without_flag(row: Shape, flagged: bool) -> Shape:
    return split(row).parts[0] if flagged else row


def _without_flag(held: CachedRows, flagged: bool) -> CachedRows:
    """Rows without their flags, in the columns that the next step expects."""
    if not flagged:
        return held
    row = _row_without_flag(held.row, flagged)
    if isinstance(held.row, Parts):
        return replace(held, row=row)
    (name,) = held.frame.columns
    (cell,) = leaves(row)
    rows = held.frame.selectExpr(f"{tree.print_tree(cell.tree, Dialect.SPARK)} AS {name}")
    return CachedRows(rows, replace(cell, tree=tree.column(name)), held.blocks, held.size)


def _needs_another_step(
    loop: Repeat,
    limit: int | None,
    with_flags: list[CachedRows],
    after: list[CachedRows],
    before: list[CachedRows],
    runner: Runner,
) -> bool:
    if any(loop.flagged):
        pairs = [rows for rows, flag in zip(with_flags, loop.flagged, strict=True) if flag]
        return any(_has_flag(rows) for rows in pairs)
    if limit is not None:
        return True
    return any(_differs(a, b, runner) for a, b in zip(after, before, strict=True))


def _has_flag(rows: CachedRows) -> bool:
    flag = split(rows.row).parts[1]
    (cell,) = leaves(flag)
    text = tree.print_tree(cell.tree, Dialect.SPARK)
    return bool(rows.frame.selectExpr(f"bool_or({text}) AS any").first()["any"])  # type: ignore[index]


def _differs(a: CachedRows, b: CachedRows, runner: Runner) -> bool:
    """True if two bags differ: some row does not occur equally often in both."""
    ctx = runner.context()

    def canonical(rows: CachedRows) -> list[str]:
        cells = enumerate(leaves(rows.row))
        return [f"{canonical_text(cell, ctx)} AS k{number}" for number, cell in cells]

    plus = a.frame.selectExpr(*canonical(a), "1 AS w")
    minus = b.frame.selectExpr(*canonical(b), "-1 AS w")
    keys = [name for name in plus.columns if name != "w"]
    sums = plus.unionAll(minus).groupBy(*keys).sum("w")
    return not sums.where("`sum(w)` <> 0").limit(1).isEmpty()


def canonical_text(cell: Cell, ctx: Context) -> str:
    """The text of a column in which equal values have equal bytes."""
    return tree.print_tree(arrays.canonical(cell.tree, cell.type, ctx), Dialect.SPARK)


def _hoist(term: Term, runner: Runner, views: Views) -> Term:
    """A step whose largest loop-invariant parts are replaced by views, computed once."""
    if is_invariant(term):
        return term if isinstance(term, Values | Shared) else _compute_once(term, runner, views)
    if isinstance(term, CoGroup):
        sides = [
            _compute_once(side, runner, views, by_key=True) if is_invariant(side) else
            _hoist(side, runner, views)
            for side in (term.left, term.right)
        ]  # fmt: skip
        return CoGroup(*sides)
    if isinstance(term, Repeat):
        return term
    return map_children(lambda child: _hoist(child, runner, views), term)


def _compute_once(term: Term, runner: Runner, views: Views, *, by_key: bool = False) -> Term:
    """Compute a part now; returns a variable that stands for its rows."""
    if isinstance(term, GroupBy | CoGroup):  # belongs to the map over it
        return term
    runner.last -= 1  # numbers below zero: those of the program's variables are above
    variable = typed.Variable("fixed", runner.last, bag(element(term)))
    text = statement(term, runner.context(), runner.shared, views, "flat", by_key=by_key)
    rows = _run_and_cache(text, runner, views)
    runner.cached_frames.append(rows.blocks)
    views[variable.number] = temporary_view(f"fixed_{-runner.last}", rows)
    return Loop(variable)


# --- constants of a step ----------------------------------------------------------------------


FEW_ROWS: Final = 64
"""The most rows of a variable that are written into a text."""

_AGGREGATES = typed.Aggregate | typed.UserAggregate | typed.Exists
Collect = Callable[[Term], list[Value]]


def with_constants(term: Term, collect_rows: Collect, empty: Environment) -> Term:
    """A step in which aggregates over an invariant side without a key are constants."""

    def visit(part: Term) -> Term:
        part = map_children(visit, part)
        match part:
            case CMap(group, body, CoGroup(left, right)) if (
                is_unit(pair(right)[0]) and is_invariant(right) and not is_invariant(left)
            ):
                new_body = _inline_answers(group, body, right, collect_rows, empty)
                return (
                    part if new_body is None else _without_right_side(group, new_body, left, right)
                )
            case _:
                return part

    return visit(term)


def is_invariant(term: Term) -> bool:
    """True if a term, with the expressions in it, does not depend on the variables of a loop."""
    return not any(isinstance(part, Loop) or has_free(part) for part in terms(term))


def has_free(term: Term) -> bool:
    """True if an expression of a term uses variables besides its own row."""
    match term:
        case CMap(variable, body):
            return bool(free_variables(body) - {variable})
        case Values(expr):
            return bool(free_variables(expr))
        case _:
            return False


def literal(value: Value, type_: Type) -> typed.Expr:
    """A value as an expression, part by part."""
    match type_:
        case Record(fields) if value is not None and fields:
            return build.record_of(
                (name, literal(value[name], type_of_part)) for name, type_of_part in fields
            )
        case Tuple(items) if value is not None:
            return build.tuple_of(*map(literal, value, items))
        case _:
            return typed.Const(value, type=type_)


def _inline_answers(
    group: typed.Variable, body: typed.Expr, right: Term, collect_rows: Collect, empty: Environment
) -> typed.Expr | None:
    """A body with aggregates of the right side as constants; None if it also uses its rows."""
    members = at(group, (1, 1))
    aggregates: dict[str, typed.Expr] = {}

    def is_answer(node: typed.Expr) -> bool:
        is_mine = isinstance(node, _AGGREGATES) and free_variables(node) <= {group}
        elsewhere = [at(group, (1, 0)), at(group, (0,))]
        return is_mine and members in nodes(node) and not any(o in nodes(node) for o in elsewhere)

    def collect(node: typed.Expr) -> None:
        if is_answer(node):
            aggregates.setdefault(fingerprint(group, node), node)
            return
        for child in typed_children(node):
            collect(child)

    collect(body)
    if not aggregates:
        return None
    answers = _collect_answers(group, list(aggregates.values()), right, collect_rows, empty)
    constants = dict(zip(aggregates, answers, strict=True))

    def visit(node: typed.Expr) -> typed.Expr:
        if is_answer(node):
            return typed.Const(constants[fingerprint(group, node)], type=node.type)
        return map_typed(visit, node)

    rewritten = visit(body)
    return None if members in nodes(rewritten) else rewritten


def _collect_answers(
    group: typed.Variable,
    aggregates: list[typed.Expr],
    right: Term,
    collect_rows: Collect,
    empty: Environment,
) -> list[Value]:
    """The values of aggregates over all rows of a side; a side without rows has no group."""
    groups = GroupBy(right)
    one_group = typed.Variable(group.name, group.number, element(groups))
    members = at(group, (1, 1))

    def visit(node: typed.Expr) -> typed.Expr:
        return at(one_group, (1,)) if node == members else map_typed(visit, node)

    row = build.tuple_of(*map(visit, aggregates))
    rows = collect_rows(CMap(one_group, build.bag_of(row), groups))
    if rows:
        return list(rows[0])
    nothing = empty.bind(group, ((), (Bag(), Bag())))
    return [evaluate(aggregate, nothing) for aggregate in aggregates]


def _without_right_side(
    group: typed.Variable, body: typed.Expr, left_side: Term, right: Term
) -> Term:
    """A map that no longer uses its right side: over the left side alone, if it is additive."""
    if Additivity(group, 2).additive(body) != frozenset((0,)):
        return CMap(group, body, CoGroup(left_side, right))
    names = Names(max(v.number for v in variables_of((group, body, left_side, right))))
    row = names.variable("row", element(left_side))
    key, value = (build.item(build.var(row), index) for index in (0, 1))
    sides = build.tuple_of(build.bag_of(value), build.empty(pair(right)[1]))
    over_left = CMap(row, substitute(body, {group: build.tuple_of(key, sides)}), left_side)
    return with_fused_maps(over_left, names)


def with_fused_maps(term: Term, names: Names) -> Term:
    """A term with maps of maps fused into one map."""
    answer = names.variable("answer", bag(element(term)))
    query = Query(((answer, term),), build.var(answer))
    ((_, fused),) = normalize(query, (*expressions.CMAP_RULES, *expressions.RULES), names)[0].parts
    return fused
