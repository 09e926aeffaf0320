"""Loops on Spark: each step is one text over the rows of the step before.

The rows of a step are kept as blocks that no plan leads to, so a plan does not grow with the
steps; the blocks of a step are dropped when the next one has its own.  What a step reads but
does not change is computed once.  Aggregates of a side that does not change, met by every row, are
constants of the step.  A variable of a few rows that every row meets is written into the text of
each step, as an expert would do with the centroids of k-means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

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
from incmrql.lower.relations.builder import Relation, alike
from incmrql.lower.relations.statements import Form, Statement, statement, view
from incmrql.lower.shapes import Cell, Parts, Shape, leaves, split
from incmrql.lower.tree import Dialect
from incmrql.plan.additivity import Additivity
from incmrql.plan.nodes import is_unit
from incmrql.reference import Environment, evaluate
from incmrql.reference.queries import too_long
from incmrql.spark.internals import blocks_size, free_blocks
from incmrql.spark.values import values
from incmrql.types import typed
from incmrql.types.model import Collection, Record, Tuple, Type, bag
from incmrql.types.walk import children as typed_children
from incmrql.types.walk import free_variables, nodes, substitute
from incmrql.types.walk import map_children as map_typed
from incmrql.values import Bag, Value

Views = dict[int, Relation]


@dataclass(slots=True)
class Runner:
    """How a loop gets its terms run; `frame` runs a statement that stands inside loops."""

    spark: SparkSession
    context: Callable[[], Context]
    frame: Callable[[Statement, Views], DataFrame]
    shared: dict[int, Term]
    limit: Callable[[typed.Expr], int | None]
    max_steps: int
    empty: Environment
    last: int = 0
    steps: int = 0
    """Of the loop that ended last."""
    kept: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Drop all that was kept."""
        for frame in self.kept:
            free_blocks(frame)
        self.kept.clear()


@dataclass(frozen=True, slots=True)
class Held:
    """The rows of a variable, what a row is in their columns, and the blocks they lie in."""

    frame: DataFrame
    row: Shape
    blocks: DataFrame
    size: int


def run_loop(loop: Repeat, runner: Runner, outer: Views) -> Held:
    """What the chosen variable of a loop holds at its end."""
    views = dict(outer)
    form: Form = "flat"
    held = _initial(loop, runner, outer, form)
    _show(loop, held, views)
    steps = _Steps(loop, runner, views, form)
    rows = [
        _row_without_flag(each.row, flag)
        for each, flag in zip(steps.texts(held), loop.flagged, strict=True)
    ]
    if not all(map(alike, [each.row for each in held], rows)):
        steps.form = form = "packed"
        for each in held:
            free_blocks(each.blocks)
        held = _initial(loop, runner, outer, form)
        _show(loop, held, views)
    limit = None if loop.limit is None else runner.limit(loop.limit) or 0
    held = _run_steps(loop, held, steps, limit)
    runner.kept += [each.blocks for each in held]
    return held[loop.chosen]


def _initial(loop: Repeat, runner: Runner, views: Views, form: Form) -> list[Held]:
    """What the variables hold before the first step."""
    return [
        _run_and_keep(_statement_of(term, runner, views, form), runner, views)
        for term in loop.initial
    ]


@dataclass(slots=True)
class _Steps:
    """The texts of a step: the same ones as long as what the variables hold stays alike.

    `inner` is the step with a variable of few rows written into it, if it has such a form.
    """

    loop: Repeat
    runner: Runner
    views: Views
    form: Form
    inner: Term | None = None
    _terms: list[Term] | None = None
    _known: tuple[object, list[Statement]] | None = None

    def __post_init__(self) -> None:
        given = self.loop.step
        if len(given) == 1 and not is_fixed(given[0]):
            found = in_row(given[0], self.loop.variables[0])
            self.inner = None if found is None else self._hoist(found)

    def texts(self, held: list[Held]) -> list[Statement]:
        """The texts for what the variables hold now."""
        rows = (
            _few(held[0], self.loop.variables[0], self.runner) if self.inner is not None else None
        )
        if rows is not None:
            assert self.inner is not None
            term = with_values(self.inner, self.loop.variables[0], rows)
            return [_statement_of(term, self.runner, self.views, self.form)]
        most = self.runner.context().broadcast
        wanted = self.form, [(each.size <= most, _layout(each.row)) for each in held]
        if self._known is None or self._known[0] != wanted:
            if self._terms is None:
                self._terms = list(map(self._hoist, self.loop.step))
            texts = [
                _statement_of(term, self.runner, self.views, self.form) for term in self._terms
            ]
            self._known = wanted, texts
        return self._known[1]

    def _hoist(self, term: Term) -> Term:
        """A step whose parts that do not depend on the loop are computed now."""
        runner, views = self.runner, self.views
        collected = partial(_collect, runner=runner, views=views)
        return _hoist(with_constants(term, collected, runner.empty), runner, views)


def _layout(row: Shape) -> object:
    """Which columns hold the parts of a row."""
    if isinstance(row, Parts):
        return [_layout(part) for part in row.parts]
    return [tree.print_tree(cell.tree, Dialect.SPARK) for cell in leaves(row)]


def _collect(term: Term, runner: Runner, views: Views) -> list[Value]:
    made = statement(term, runner.context(), runner.shared, views)
    return values(runner.frame(made, views), element(term))


def _few(held: Held, variable: typed.Variable, runner: Runner) -> typed.Expr | None:
    """The rows of a variable as an expression, if they are few."""
    if held.size > _FEW_BYTES:
        return None
    assert isinstance(variable.type, Collection)
    row = variable.type.element
    whole = tree.print_tree(runner.context().whole(held.row), Dialect.SPARK)
    rows = values(held.frame.selectExpr(f"{whole} AS value"), row)
    if len(rows) > FEW_ROWS:
        return None
    return typed.MakeCollection(tuple(literal(each, row) for each in rows), type=variable.type)


_FEW_BYTES: Final = 1 << 20


def _run_steps(loop: Repeat, held: list[Held], made: _Steps, limit: int | None) -> list[Held]:
    steps, running, runner, views = 0, True, made.runner, made.views
    while running and (limit is None or steps < limit):
        if limit is None and steps >= runner.max_steps:
            raise too_long(steps)
        whole = [_run_and_keep(each, runner, views) for each in made.texts(held)]
        fresh = [_without_flag(each, flag) for each, flag in zip(whole, loop.flagged, strict=True)]
        running = _goes_on(loop, limit, whole, fresh, held, runner)
        for old in held:
            free_blocks(old.blocks)
        held, steps = fresh, steps + 1
        _show(loop, held, views)
    runner.steps = steps
    return held


def _statement_of(term: Term, runner: Runner, views: Views, form: Form) -> Statement:
    return statement(term, runner.context(), runner.shared, views, form)


def _run_and_keep(made: Statement, runner: Runner, views: Views) -> Held:
    """Run a statement now, and keep its rows and nothing of its plan."""
    frame = runner.frame(made, views).localCheckpoint(eager=True)
    return Held(frame, made.row, frame, blocks_size(frame))


def _show(loop: Repeat, held: list[Held], views: Views) -> None:
    """Put the rows of the variables where the texts of the step find them."""
    for variable, each in zip(loop.variables, held, strict=True):
        views[variable.number] = temporary_view(f"loop_{variable.number}", each)


def temporary_view(name: str, held: Held) -> Relation:
    """Rows where texts find them by a name."""
    held.frame.createOrReplaceTempView(name)
    return view(name, held.row, held.size)


def _row_without_flag(row: Shape, flagged: bool) -> Shape:
    return split(row).parts[0] if flagged else row


def _without_flag(held: Held, flagged: bool) -> Held:
    """Rows without their flags, in the columns that rows without flags have."""
    if not flagged:
        return held
    row = _row_without_flag(held.row, flagged)
    if isinstance(held.row, Parts):
        return replace(held, row=row)
    (name,) = held.frame.columns
    (cell,) = leaves(row)
    shown = held.frame.selectExpr(f"{tree.print_tree(cell.tree, Dialect.SPARK)} AS {name}")
    return Held(shown, replace(cell, tree=tree.column(name)), held.blocks, held.size)


def _goes_on(
    loop: Repeat,
    limit: int | None,
    whole: list[Held],
    fresh: list[Held],
    before: list[Held],
    runner: Runner,
) -> bool:
    if any(loop.flagged):
        pairs = [each for each, flag in zip(whole, loop.flagged, strict=True) if flag]
        return any(_has_flag(each) for each in pairs)
    if limit is not None:
        return True
    return any(_differs(a, b, runner) for a, b in zip(fresh, before, strict=True))


def _has_flag(held: Held) -> bool:
    flag = split(held.row).parts[1]
    (cell,) = leaves(flag)
    text = tree.print_tree(cell.tree, Dialect.SPARK)
    return bool(held.frame.selectExpr(f"bool_or({text}) AS any").first()["any"])  # type: ignore[index]


def _differs(a: Held, b: Held, runner: Runner) -> bool:
    """Whether two bags are not the same: some row is not there as often in both."""
    ctx = runner.context()

    def canonical(held: Held) -> list[str]:
        cells = enumerate(leaves(held.row))
        return [f"{canonical_text(cell, ctx)} AS k{place}" for place, cell in cells]

    one = a.frame.selectExpr(*canonical(a), "1 AS w")
    other = b.frame.selectExpr(*canonical(b), "-1 AS w")
    keys = [name for name in one.columns if name != "w"]
    sums = one.unionAll(other).groupBy(*keys).sum("w")
    return not sums.where("`sum(w)` <> 0").limit(1).isEmpty()


def canonical_text(cell: Cell, ctx: Context) -> str:
    """The text of a column in which equal values have one form."""
    return tree.print_tree(arrays.canonical(cell.tree, cell.type, ctx), Dialect.SPARK)


def _hoist(term: Term, runner: Runner, views: Views) -> Term:
    """A step whose largest parts that do not depend on the loop are views, computed once."""
    if is_fixed(term):
        return term if isinstance(term, Values | Shared) else _compute_once(term, runner, views)
    if isinstance(term, CoGroup):
        sides = [
            _compute_once(side, runner, views, by_key=True) if is_fixed(side) else
            _hoist(side, runner, views)
            for side in (term.left, term.right)
        ]  # fmt: skip
        return CoGroup(*sides)
    if isinstance(term, Repeat):
        return term
    return map_children(lambda child: _hoist(child, runner, views), term)


def _compute_once(term: Term, runner: Runner, views: Views, *, by_key: bool = False) -> Term:
    """A part that is computed now, as the rows of a variable of its own."""
    if isinstance(term, GroupBy | CoGroup):  # belongs to the map over it
        return term
    runner.last -= 1
    variable = typed.Variable("fixed", runner.last, bag(element(term)))
    made = statement(term, runner.context(), runner.shared, views, "flat", by_key=by_key)
    held = _run_and_keep(made, runner, views)
    runner.kept.append(held.blocks)
    views[variable.number] = temporary_view(f"fixed_{-runner.last}", held)
    return Loop(variable)


# --- constants of a step ----------------------------------------------------------------------


FEW_ROWS: Final = 64
"""How many rows of a variable are written into a text."""

_AGGREGATES = typed.Aggregate | typed.UserAggregate | typed.Exists
Collected = Callable[[Term], list[Value]]


def with_constants(term: Term, collected: Collected, empty: Environment) -> Term:
    """A step in which aggregates of what does not change, and every row meets, are constants."""

    def visit(part: Term) -> Term:
        part = map_children(visit, part)
        match part:
            case CMap(group, body, CoGroup(left, right)) if (
                is_unit(pair(right)[0]) and is_fixed(right) and not is_fixed(left)
            ):
                found = _with_answers(group, body, right, collected, empty)
                return part if found is None else _without_right_side(group, found, left, right)
            case _:
                return part

    return visit(term)


def is_fixed(term: Term) -> bool:
    """Whether a term does not depend on the variables of a loop, nor a body of it."""
    return not any(isinstance(each, Loop) or has_free(each) for each in terms(term))


def has_free(term: Term) -> bool:
    """Whether a function of a term uses more than the row that it is given."""
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
            return build.record_of((name, literal(value[name], each)) for name, each in fields)
        case Tuple(items) if value is not None:
            return build.tuple_of(*map(literal, value, items))
        case _:
            return typed.Const(value, type=type_)


def _with_answers(
    group: typed.Variable, body: typed.Expr, right: Term, collected: Collected, empty: Environment
) -> typed.Expr | None:
    """A body with constants for what it asks of the right side; None if it asks for rows."""
    members = at(group, (1, 1))
    found: dict[str, typed.Expr] = {}

    def asked(node: typed.Expr) -> bool:
        is_mine = isinstance(node, _AGGREGATES) and free_variables(node) <= {group}
        others = [at(group, (1, 0)), at(group, (0,))]
        return is_mine and members in nodes(node) and not any(o in nodes(node) for o in others)

    def collect(node: typed.Expr) -> None:
        if asked(node):
            found.setdefault(fingerprint(group, node), node)
            return
        for child in typed_children(node):
            collect(child)

    collect(body)
    if not found:
        return None
    answers = _collect_answers(group, list(found.values()), right, collected, empty)
    constants = dict(zip(found, answers, strict=True))

    def visit(node: typed.Expr) -> typed.Expr:
        if asked(node):
            return typed.Const(constants[fingerprint(group, node)], type=node.type)
        return map_typed(visit, node)

    made = visit(body)
    return None if members in nodes(made) else made


def _collect_answers(
    group: typed.Variable,
    asked: list[typed.Expr],
    right: Term,
    collected: Collected,
    empty: Environment,
) -> list[Value]:
    """What is asked of all rows of a side; there is no group where there are none."""
    groups = GroupBy(right)
    one = typed.Variable(group.name, group.number, element(groups))
    members = at(group, (1, 1))

    def visit(node: typed.Expr) -> typed.Expr:
        return at(one, (1,)) if node == members else map_typed(visit, node)

    row = build.tuple_of(*map(visit, asked))
    rows = collected(CMap(one, build.bag_of(row), groups))
    if rows:
        return list(rows[0])
    nothing = empty.bind(group, ((), (Bag(), Bag())))
    return [evaluate(each, nothing) for each in asked]


def _without_right_side(group: typed.Variable, body: typed.Expr, left: Term, right: Term) -> Term:
    """A map that asks nothing of its right side any more: over the left side, if it may be."""
    if Additivity(group, 2).additive(body) != frozenset((0,)):
        return CMap(group, body, CoGroup(left, right))
    names = Names(max(v.number for v in variables_of((group, body, left, right))))
    row = names.variable("row", element(left))
    key, value = (build.item(build.var(row), place) for place in (0, 1))
    sides = build.tuple_of(build.bag_of(value), build.empty(pair(right)[1]))
    alone = CMap(row, substitute(body, {group: build.tuple_of(key, sides)}), left)
    return with_fused_maps(alone, names)


def with_fused_maps(term: Term, names: Names) -> Term:
    """A term whose maps of maps are one map."""
    answer = names.variable("answer", bag(element(term)))
    query = Query(((answer, term),), build.var(answer))
    ((_, fused),) = normalize(query, (*expressions.CMAP_RULES, *expressions.RULES), names)[0].parts
    return fused
