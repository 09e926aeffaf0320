"""Where the statements of a script run in Python, found without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from incmrql.algebra.term import Repeat, Term, element
from incmrql.api import load
from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.lower.context import Context, PythonExpression
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.builder import LoweredRelation
from incmrql.lower.relations.statements import Statement, statement
from incmrql.lower.shapes import Cell
from incmrql.lower.tree import Dialect, column
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.depth import deep_recursion


def statements(script: str | Path, arguments: Sequence[str] = ()) -> list[Statement]:
    """All SQL texts of a script; none for what reads no source."""
    with deep_recursion():
        source = load(script)
        script_forms = compile_script(source, catalog_for(source, list(arguments)), read_include)
        compiled = script_forms.typed
        world = new_world(compiled, arguments=list(arguments))
        lowered: list[Statement] = []
        for form in script_forms.items:
            item, (query, _) = form.item, form.answer_item.normalized
            ctx = Context(lower, Dialect.SPARK, compiled, world.stored, arguments)
            shared = {variable.number: term for variable, term in query.parts}
            for _, term in query.parts:
                lowered += _with_loops(statement(term, ctx, shared), ctx, shared)
            if item.kind == "store-value":
                world.stored[item.target] = evaluate(item.expr, Environment(world))
        return lowered


def _with_loops(outer: Statement, ctx: Context, shared: dict[int, Term]) -> Iterator[Statement]:
    yield outer
    for _, loop in outer.repeats:
        views = {
            variable.number: _view(loop, place) for place, variable in enumerate(loop.variables)
        }
        for term in loop.initial:
            yield from _with_loops(statement(term, ctx, shared), ctx, shared)
        for term in loop.step:
            yield statement(term, ctx, shared, views, "packed")


def _view(loop: Repeat, place: int) -> LoweredRelation:
    row = element(Repeat((loop.variables[place],), (), (), (), None, 0))
    return LoweredRelation(f"loop_{loop.variables[place].number}", Cell(column("value"), row))


def python_calls(script: str | Path, arguments: Sequence[str] = ()) -> list[PythonExpression]:
    """What runs in Python, each expression once."""
    calls = [place for lowered in statements(script, arguments) for place in lowered.python_calls]
    return [p for n, p in enumerate(calls) if p.body not in [other.body for other in calls[:n]]]
