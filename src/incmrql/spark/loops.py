"""Loops on Spark: each step is one text over the rows of the step before.

The rows of a step are kept as blocks that no plan leads to, so a plan does not grow with the
steps; the blocks of a step are dropped when the next one has its own.  What a step reads but
does not change is computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame

from incmrql.algebra.term import CoGroup, GroupBy, Loop, Repeat, Shared, Term, Values, element
from incmrql.algebra.walk import map_children, terms
from incmrql.diagnostics import DataError
from incmrql.sql import arrays, tree
from incmrql.sql.builder import alike
from incmrql.sql.context import Context
from incmrql.sql.groups import Relation
from incmrql.sql.shapes import Parts, Shape, leaves, split
from incmrql.sql.statements import Form, Statement, statement, view
from incmrql.sql.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import bag

Views = dict[int, Relation]


@dataclass(slots=True)
class Runner:
    """How a loop gets its terms run; `frame` runs a statement that stands inside loops."""

    context: Callable[[], Context]
    frame: Callable[[Statement, Views], DataFrame]
    shared: dict[int, Term]
    limit: Callable[[typed.Expr], int | None]
    max_steps: int
    last: int = 0
    kept: list[DataFrame] = field(default_factory=list)

    def close(self) -> None:
        """Drop all that was kept."""
        for frame in self.kept:
            drop(frame)
        self.kept.clear()


@dataclass(frozen=True, slots=True)
class Held:
    """The rows of a variable, what a row is in their columns, and the blocks they lie in."""

    frame: DataFrame
    row: Shape
    blocks: DataFrame


def run_loop(loop: Repeat, runner: Runner, outer: Views) -> list[Held]:
    """What the variables of a loop hold at its end."""
    views = dict(outer)
    steps = [_hoisted(term, runner, views) for term in loop.step]
    form: Form = "flat"
    held = [_held(_made(term, runner, outer, form), runner, outer) for term in loop.initial]
    _show(loop, held, views)
    made = [_made(term, runner, views, form) for term in steps]
    rows = [_row(each.row, flag) for each, flag in zip(made, loop.flagged, strict=True)]
    if not all(map(alike, [each.row for each in held], rows)):
        form = "packed"
        for each in held:
            drop(each.blocks)
        held = [_held(_made(term, runner, outer, form), runner, outer) for term in loop.initial]
        _show(loop, held, views)
        made = [_made(term, runner, views, form) for term in steps]
    limit = None if loop.limit is None else runner.limit(loop.limit) or 0
    return _stepped(loop, held, made, limit, runner, views)


def _stepped(
    loop: Repeat,
    held: list[Held],
    made: list[Statement],
    limit: int | None,
    runner: Runner,
    views: Views,
) -> list[Held]:
    steps, running = 0, True
    while running and (limit is None or steps < limit):
        if limit is None and steps >= runner.max_steps:
            message = f"the loop still changes after {steps:,} steps"
            raise DataError("R202", message, hint="Give it an end with `limit n`.")
        whole = [_held(each, runner, views) for each in made]
        fresh = [_without_flag(each, flag) for each, flag in zip(whole, loop.flagged, strict=True)]
        running = _goes_on(loop, limit, whole, fresh, held, runner)
        for old in held:
            drop(old.blocks)
        held, steps = fresh, steps + 1
        _show(loop, held, views)
    return held


def _made(term: Term, runner: Runner, views: Views, form: Form) -> Statement:
    return statement(term, runner.context(), runner.shared, views, form)


def _held(made: Statement, runner: Runner, views: Views) -> Held:
    """Run a statement now, and keep its rows and nothing of its plan."""
    frame = runner.frame(made, views).localCheckpoint(eager=True)
    return Held(frame, made.row, frame)


def _show(loop: Repeat, held: list[Held], views: Views) -> None:
    """Put the rows of the variables where the texts of the step find them."""
    for variable, each in zip(loop.variables, held, strict=True):
        name = f"loop_{variable.number}"
        each.frame.createOrReplaceTempView(name)
        views[variable.number] = view(name, each.row)


def drop(frame: DataFrame) -> None:
    """Free the blocks of a frame that was checkpointed."""
    frame._jdf.queryExecution().analyzed().rdd().unpersist(False)


def _row(row: Shape, flagged: bool) -> Shape:
    return split(row).parts[0] if flagged else row


def _without_flag(held: Held, flagged: bool) -> Held:
    """Rows without their flags, in the columns that rows without flags have."""
    if not flagged:
        return held
    row = _row(held.row, flagged)
    if isinstance(held.row, Parts):
        return replace(held, row=row)
    (name,) = held.frame.columns
    (cell,) = leaves(row)
    shown = held.frame.selectExpr(f"{tree.print_tree(cell.tree, Dialect.SPARK)} AS {name}")
    return Held(shown, replace(cell, tree=tree.column(name)), held.blocks)


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
        trees = [arrays.canonical(cell.tree, cell.type, ctx) for cell in leaves(held.row)]
        return [
            f"{tree.print_tree(each, Dialect.SPARK)} AS k{place}"
            for place, each in enumerate(trees)
        ]

    one = a.frame.selectExpr(*canonical(a), "1 AS w")
    other = b.frame.selectExpr(*canonical(b), "-1 AS w")
    keys = [name for name in one.columns if name != "w"]
    sums = one.unionAll(other).groupBy(*keys).sum("w")
    return not sums.where("`sum(w)` <> 0").limit(1).isEmpty()


def _hoisted(term: Term, runner: Runner, views: Views) -> Term:
    """A step whose largest parts that do not depend on the loop are views, computed once."""
    if _is_fixed(term):
        return term if isinstance(term, Values | Shared) else _once(term, runner, views)
    if isinstance(term, CoGroup):
        sides = [
            _once(side, runner, views, by_key=True) if _is_fixed(side) else
            _hoisted(side, runner, views)
            for side in (term.left, term.right)
        ]  # fmt: skip
        return CoGroup(*sides)
    if isinstance(term, Repeat):
        return term
    return map_children(lambda child: _hoisted(child, runner, views), term)


def _is_fixed(term: Term) -> bool:
    return not any(isinstance(each, Loop) for each in terms(term))


def _once(term: Term, runner: Runner, views: Views, *, by_key: bool = False) -> Term:
    """A part that is computed now, as the rows of a variable of its own."""
    if isinstance(term, GroupBy | CoGroup):  # belongs to the map over it
        return term
    runner.last -= 1
    variable = typed.Variable("fixed", runner.last, bag(element(term)))
    made = statement(term, runner.context(), runner.shared, views, "flat", by_key=by_key)
    frame = runner.frame(made, views).localCheckpoint(eager=True)
    runner.kept.append(frame)
    name = f"fixed_{-runner.last}"
    frame.createOrReplaceTempView(name)
    views[variable.number] = view(name, made.row)
    return Loop(variable)
