"""What Spark is asked to run, for people: the texts, where Python runs and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from incmrql.algebra.show import show_term
from incmrql.algebra.term import Query, Repeat, Term, element
from incmrql.sql.context import Context
from incmrql.sql.expressions import lower
from incmrql.sql.groups import Relation
from incmrql.sql.relations import is_packed
from incmrql.sql.rounding import OURS
from incmrql.sql.shapes import Cell
from incmrql.sql.statements import Statement, statement
from incmrql.sql.tree import Dialect, column
from incmrql.types import typed
from incmrql.types.show import show_expr
from incmrql.types.walk import used


def show_statements(query: Query, script: typed.Script, *, fast_sums: bool = False) -> str:
    """All texts of a query, in the order in which they run."""

    def context() -> Context:
        return Context(lower, Dialect.SPARK, script, fast_sums=fast_sums)

    shared = {variable.number: term for variable, term in query.parts}
    shown: list[str] = []
    for variable, term in query.parts:
        if variable in used(query.result):
            made = statement(term, context(), shared)
            shown += [*_loops(made, context, shared), _shown(made)]
    result = show_expr(query.result)
    is_plain = isinstance(query.result, typed.Var)
    if fast_sums:
        shown.insert(0, "-- sums of doubles are Spark's own: their last bits depend on the order")
    return "\n".join([*shown, *([] if is_plain else [f"-- then, here: {result}"])])


def _loops(
    made: Statement, context: Callable[[], Context], shared: dict[int, Term]
) -> Iterator[str]:
    for name, loop in made.repeats:
        yield f"-- {name}: a loop, inside one task while its inputs are small and its rows are few;"
        yield "-- else each step is one text over the rows of the step before"
        views = {v.number: _view(v) for v in loop.variables}
        for variable, term in zip(loop.variables, loop.step, strict=True):
            step = statement(term, context(), shared, views, "packed")
            yield f"-- step of {variable.name}\n{_shown(step)}"


def _view(variable: typed.Variable) -> Relation:
    row = element(Repeat((variable,), (), (), (), None, 0))
    return Relation(f"loop_{variable.number}", Cell(column("value"), row))


def _shown(made: Statement) -> str:
    views = [
        f"-- {name}: {show_term(scan)}{' (whole rows, some may be null)' if packed else ''}"
        for name, scan in made.sources
        for packed in (is_packed(scan),)
    ]
    picks = [
        f"-- {name}.{field} is picked where rows are parsed: {show_expr(expr)}"
        for name, scan in made.sources
        if scan.picks is not None
        for field, expr in scan.picks.fields
    ]
    places = [
        f"-- {place.name} runs in Python ({place.reason}): {show_expr(place.body)}"
        for place in made.places
    ]
    ours = [name for name in OURS if f"{name}(" in made.text]
    called = [f"-- {', '.join(ours)}: exact, rounded once"] if ours else []
    return "\n".join([*views, *picks, *places, *called, made.text])
