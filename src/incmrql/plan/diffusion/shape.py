"""Recognises loops that can be diffused: approximated, with a stated error after each batch.

The approximated value is X_n, the loop's own result over all data so far.  A batch moves the stored
result by the differences that it causes, and reads only the rows that they reach.  The cases are:

    Affine      X → A X + b: a bound of the error is stated while the norm of A is less than 1
    Centroids   groups by the nearest row of X, averaged: new points join their nearest row
    Residual    any other loop over doubles: differences flow through it, without a bound
    NotDiffused rows may keep each other alive, or there is no double to diffuse

Differences do not remove rows that support each other:

    edges r → a, a → b, b → a; reached from r: {r, a, b}.  Delete r → a: a is still reached from b
    and b from a, so the differences are empty, while the loop over the remaining data gives {r}.

The error is stated as

    bound            at least |X^ - X_n|, the sum of the absolute differences of all values (so it
                     bounds each single value too); a missing row counts as 0
    residual         an indication, not a bound: how far one more step would move the result, or how
                     far centroids have moved
    resynchronised   the loop was run again: the result is exact
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from incmrql.algebra.term import CMap, CoGroup, Loop, Sort, Term, Union
from incmrql.algebra.walk import terms
from incmrql.errors import NOWHERE, Diagnostic, QueryError, Span
from incmrql.plan.additivity import Additivity
from incmrql.plan.diffusion.matrix import matrix
from incmrql.plan.diffusion.slopes import doubles, leaves
from incmrql.plan.diffusion.ways import Affine, Centroids, NotDiffused, Residual
from incmrql.plan.loops.program import step_program
from incmrql.plan.nodes import Edge, Groups, Join, Repeated, inputs
from incmrql.plan.program import LoopProgram
from incmrql.types import typed
from incmrql.types.model import Collection, is_float
from incmrql.types.walk import children, nodes, used_variables

_ADDED_UP: Final = frozenset(
    ("sum", "avg", "count", "variance", "stddev", "sum#part", "sum#total", "avg#total")
)
_AVERAGED: Final = frozenset(("avg", "sum", "count"))

_COUNTEREXAMPLE: Final = (
    "Edges r -> a, a -> b, b -> a: after r -> a is deleted, a is still there because of b and b "
    "because of a, and differences would keep both.  Leave out `diffuse`: exact is right."
)


Diffusion: TypeAlias = Affine | Centroids | Residual | NotDiffused


def require_diffusion(
    node: Repeated, script: typed.Script, edges: Sequence[Edge] | None = None
) -> Diffusion:
    """How a loop is diffused; raises `QueryError` if it is not."""
    diffusion = plan_diffusion(node, script, edges)
    if isinstance(diffusion, NotDiffused):
        raise QueryError(
            Diagnostic(diffusion.code, diffusion.message, _span(script), hint=diffusion.hint)
        )
    return diffusion


def _span(script: typed.Script) -> Span:
    """The place of the first loop of a script."""
    loops = (
        node for item in script.items for node in nodes(item.expr) if isinstance(node, typed.Repeat)
    )
    return next((loop.span for loop in loops), NOWHERE)


def plan_diffusion(
    node: Repeated, script: typed.Script, edges: Sequence[Edge] | None = None
) -> Diffusion:
    """How a loop is diffused.  Without the `edges` of its plan, any row may be deleted."""
    if len(node.term.variables) != 1:
        hint = "Give the loop one variable, or leave out `diffuse`."
        return NotDiffused("a loop over several variables is not diffused", hint)
    type_ = node.term.variables[0].type
    assert isinstance(type_, Collection)
    row = type_.element
    program = step_program(node, script)
    centroids = _centroids(program)
    if centroids is not None:
        return centroids
    paths = tuple(doubles(row))
    grows = edges is not None and all(edges[index].insert_only for index in node.inputs)
    may_self_support = not grows and not _is_grounded(node.term.step[0])
    if not paths:
        if may_self_support:
            return _self_supporting()
        hint = (
            "Differences of doubles flow; {1, 2} is the same set or another one.  Exact is the way."
        )
        return NotDiffused("the rows of this loop have no doubles", hint)
    affine = matrix(node)
    if not isinstance(affine, str) and not affine.steady and node.term.limit is None:
        affine = "constants depend on which rows are there, and the number of steps is not known"
    if not isinstance(affine, str):
        return Affine(program, step_program(affine.entries, script), (affine.path,), affine.steady)
    if len(paths) == len(list(leaves(row))):
        hint = "Give rows a component that is no double and tells them apart."
        return NotDiffused("the rows of this loop have nothing but doubles", hint)
    return _self_supporting() if may_self_support else Residual(program, paths, affine)


def _self_supporting() -> NotDiffused:
    return NotDiffused("the result of this loop supports itself, and rows may go", _COUNTEREXAMPLE)


# --- loops that support themselves ---------------------------------------------------------------


def _is_grounded(term: Term) -> bool:
    """Whether a step makes the same rows, up to their values, whatever the variable holds."""
    if not any(isinstance(part, Loop) for part in terms(term)):
        return True
    match term:
        case Union(parts):
            return all(map(_is_grounded, parts))
        case CMap(group, body, CoGroup(left, right)):
            free = [side for side, part in enumerate((left, right)) if _is_loop_free(part)]
            additivity = Additivity(group, 2)
            return any(_is_outer(body, additivity, side) for side in free)
        case CMap(_, typed.MakeCollection((_,)), source):
            return _is_grounded(source)
        case _:
            return False


def _is_loop_free(term: Term) -> bool:
    return not any(isinstance(part, Loop | Sort) for part in terms(term))


def _is_outer(body: typed.Expr, additivity: Additivity, side: int) -> bool:
    """Whether a body makes a row for each row of a side, and only aggregates the other side."""
    other = frozenset((1 - side,))
    match body:
        case typed.Select(False, head, qualifiers, where, None, None, (), None):
            domains = [q.domain for q in qualifiers if isinstance(q, typed.Generator)]
            rest = [q.value for q in qualifiers if isinstance(q, typed.Binding)]
            rest += [q.condition for q in qualifiers if isinstance(q, typed.Condition)]
            rest += [] if where is None else [where]
            return (
                not any(additivity.sides_read(expr) & other for expr in (*domains, *rest))
                and any(additivity.side(expr) == side for expr in domains)
                and _only_aggregates(head, additivity, other)
            )
        case _:
            return False


def _only_aggregates(expr: typed.Expr, additivity: Additivity, sides: frozenset[int]) -> bool:
    match expr:
        case typed.Aggregate(function) if function in _ADDED_UP:
            return all(
                not (isinstance(part, typed.Aggregate) and part.function not in _ADDED_UP)
                and not isinstance(part, typed.UserAggregate | typed.Exists | typed.At)
                for part in nodes(expr)
            )
        case _ if not additivity.sides_read(expr) & sides:
            return True
        case _ if additivity.side(expr) is not None:
            return False
        case typed.Aggregate() | typed.UserAggregate() | typed.Exists() | typed.Select():
            return False
        case _:
            return all(_only_aggregates(part, additivity, sides) for part in children(expr))


# --- centroids -----------------------------------------------------------------------------------


def _centroids(program: LoopProgram) -> Centroids | None:
    """The nodes of a step that averages points by their first row in an order; else None."""
    (step,), (variable,) = program.step, program.variables
    averaged = program.nodes[step]
    if not isinstance(averaged, Groups) or len(averaged.inputs) != 1 or averaged.used:
        return None
    is_averaged = all(
        request.function in _AVERAGED and request.accumulators for request in averaged.requests
    )
    if not averaged.requests or not is_averaged or averaged.tables:
        return None
    if not any(is_float(request.variable.type) for request in averaged.requests):
        return None
    index = averaged.inputs[0]
    assigned = program.nodes[index]
    if not isinstance(assigned, Groups) or len(assigned.inputs) != 2 or assigned.linear is None:
        return None
    points, pairs = (assigned.inputs[side] for side in (assigned.linear, 1 - assigned.linear))
    reading = [request.reading for request in assigned.requests]
    if len(reading) != 1 or reading[0] is None or reading[0].how not in ("at", "first"):
        return None
    if _reads(program, points, variable) or not _is_ranking(program, pairs, variable):
        return None
    fed, ranked = _input_numbers(program, points), _input_numbers(program, pairs)
    if len(fed) != 1 or len(ranked) != 1:
        return None
    return Centroids(program, step, index, points, pairs, fed[0], ranked[0])


def _is_ranking(program: LoopProgram, index: int, variable: int) -> bool:
    """Whether a node pairs points with rows of the variable, keyed by points only."""
    join = program.nodes[index]
    if not isinstance(join, Join):
        return False
    sides = [side for side in (0, 1) if _reads(program, inputs(join)[side], variable)]
    if len(sides) != 1:
        return False
    additivity, body = Additivity(join.group, 2), join.body
    if not isinstance(body, typed.Select) or not isinstance(body.head, typed.MakeTuple):
        return False
    moving = additivity.row_variables([body], sides[0])
    return moving is not None and not used_variables(body.head.items[0]) & moving


def _reads(program: LoopProgram, index: int, target: int) -> bool:
    """Whether a node depends on another node, or is that node."""
    return index == target or any(
        _reads(program, below, target) for below in inputs(program.nodes[index])
    )


def _input_numbers(program: LoopProgram, node: int) -> tuple[int, ...]:
    """The numbers of the loop inputs that a node depends on."""
    numbers: set[int] = set()
    if node in program.inputs:
        numbers.add(program.inputs.index(node))
    for below in inputs(program.nodes[node]):
        numbers.update(_input_numbers(program, below))
    return tuple(sorted(numbers))
