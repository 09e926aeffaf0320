"""A loop kept by diffusion: an approximation, with what is known of its error after each batch.

What is approximated is X_n, the loop's own result over all the data so far.  The result that is
kept moves by the differences that a batch makes; what it does not touch is not looked at.  How a
loop takes differences, or why it does not:

    Affine      X → A X + b: a bound of the error is stated while the norm of A is less than 1
    Centroids   groups by the nearest row of X, averaged: new points go to their nearest
    Residual    anything else with doubles that differences can flow through: without a bound
    Refused     rows that are there because they were there, and nothing to diffuse

A result that supports itself does not notice a deletion:

    edges r → a, a → b, b → a; reached from r: {r, a, b}.  Delete r → a: a is reached from b, and
    b from a, so that differences change nothing, while the loop over the data left finds {r}.

The error is stated as

    bound            not less than |X^ - X_n|, the sum of the sizes of all differences of values
                     (so no single value is further off either); a row that is not there is a 0
    residual         a figure without a promise: how far one more step would move the result, or
                     how far centroids have moved
    resynchronised   the loop was run again: the result is its own
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
from incmrql.plan.diffusion.ways import Affine, Centroids, Refused, Residual
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


Diffusion: TypeAlias = Affine | Centroids | Residual | Refused


def require_diffusion(
    node: Repeated, script: typed.Script, edges: Sequence[Edge] | None = None
) -> Diffusion:
    """How a loop is diffused; raises `QueryError` if it is not."""
    found = plan_diffusion(node, script, edges)
    if isinstance(found, Refused):
        raise QueryError(Diagnostic(found.code, found.message, _span(script), hint=found.hint))
    return found


def _span(script: typed.Script) -> Span:
    """The place of the first loop of a script."""
    every = (each for item in script.items for each in nodes(item.expr))
    return next((each.span for each in every if isinstance(each, typed.Repeat)), NOWHERE)


def plan_diffusion(
    node: Repeated, script: typed.Script, edges: Sequence[Edge] | None = None
) -> Diffusion:
    """How a loop is diffused.  `edges` are those of its plan; without, anything may be deleted."""
    if len(node.term.variables) != 1:
        hint = "Give the loop one variable, or leave out `diffuse`."
        return Refused("a loop over several variables is not diffused", hint)
    type_ = node.term.variables[0].type
    assert isinstance(type_, Collection)
    row = type_.element
    program = step_program(node, script)
    found = _centroids(program)
    if found is not None:
        return found
    paths = tuple(doubles(row))
    grows = edges is not None and all(edges[place].insert_only for place in node.inputs)
    supported = not grows and not _stands_alone(node.term.step[0])
    if not paths:
        if supported:
            return _self_supporting()
        hint = (
            "Differences of doubles flow; {1, 2} is the same set or another one.  Exact is the way."
        )
        return Refused("the rows of this loop have no doubles", hint)
    affine = matrix(node)
    if not isinstance(affine, str) and not affine.steady and node.term.limit is None:
        affine = "constants depend on which rows are there, and the number of steps is not known"
    if not isinstance(affine, str):
        return Affine(program, step_program(affine.entries, script), (affine.path,), affine.steady)
    if len(paths) == len(list(leaves(row))):
        hint = "Give rows a component that is no double and tells them apart."
        return Refused("the rows of this loop have nothing but doubles", hint)
    return _self_supporting() if supported else Residual(program, paths, affine)


def _self_supporting() -> Refused:
    return Refused("the result of this loop supports itself, and rows may go", _COUNTEREXAMPLE)


# --- loops that support themselves ---------------------------------------------------------------


def _stands_alone(term: Term) -> bool:
    """Whether the rows that a step makes are there whatever the variable holds."""
    if not any(isinstance(each, Loop) for each in terms(term)):
        return True
    match term:
        case Union(parts):
            return all(map(_stands_alone, parts))
        case CMap(group, body, CoGroup(left, right)):
            free = [side for side, each in enumerate((left, right)) if _is_free(each)]
            judge = Additivity(group, 2)
            return any(_is_outer(body, judge, side) for side in free)
        case CMap(_, typed.MakeCollection((_,)), source):
            return _stands_alone(source)
        case _:
            return False


def _is_free(term: Term) -> bool:
    return not any(isinstance(each, Loop | Sort) for each in terms(term))


def _is_outer(body: typed.Expr, judge: Additivity, side: int) -> bool:
    """Whether a body has a row for each of one side, and only adds up those of the other."""
    other = frozenset((1 - side,))
    match body:
        case typed.Select(False, head, qualifiers, where, None, None, (), None):
            domains = [q.domain for q in qualifiers if isinstance(q, typed.Generator)]
            rest = [q.value for q in qualifiers if isinstance(q, typed.Binding)]
            rest += [q.condition for q in qualifiers if isinstance(q, typed.Condition)]
            rest += [] if where is None else [where]
            return (
                not any(judge.read(each) & other for each in (*domains, *rest))
                and any(judge.side(each) == side for each in domains)
                and _only_added_up(head, judge, other)
            )
        case _:
            return False


def _only_added_up(expr: typed.Expr, judge: Additivity, sides: frozenset[int]) -> bool:
    match expr:
        case typed.Aggregate(function) if function in _ADDED_UP:
            return all(
                not (isinstance(each, typed.Aggregate) and each.function not in _ADDED_UP)
                and not isinstance(each, typed.UserAggregate | typed.Exists | typed.At)
                for each in nodes(expr)
            )
        case _ if not judge.read(expr) & sides:
            return True
        case _ if judge.side(expr) is not None:
            return False
        case typed.Aggregate() | typed.UserAggregate() | typed.Exists() | typed.Select():
            return False
        case _:
            return all(_only_added_up(each, judge, sides) for each in children(expr))


# --- centroids -----------------------------------------------------------------------------------


def _centroids(program: LoopProgram) -> Centroids | None:
    """Averages over groups of points by the first row of the variable in some order."""
    (step,), (variable,) = program.step, program.variables
    averaged = program.nodes[step]
    if not isinstance(averaged, Groups) or len(averaged.inputs) != 1 or averaged.used:
        return None
    is_averaged = all(
        request.function in _AVERAGED and request.accumulators for request in averaged.requests
    )
    if not averaged.requests or not is_averaged or averaged.tables:
        return None
    if not any(is_float(each.variable.type) for each in averaged.requests):
        return None
    place = averaged.inputs[0]
    assigned = program.nodes[place]
    if not isinstance(assigned, Groups) or len(assigned.inputs) != 2 or assigned.linear is None:
        return None
    points, pairs = (assigned.inputs[side] for side in (assigned.linear, 1 - assigned.linear))
    reading = [each.reading for each in assigned.requests]
    if len(reading) != 1 or reading[0] is None or reading[0].how not in ("at", "first"):
        return None
    if _reads(program, points, variable) or not _is_ranking(program, pairs, variable):
        return None
    fed, ranked = _feeding(program, points), _feeding(program, pairs)
    if len(fed) != 1 or len(ranked) != 1:
        return None
    return Centroids(program, step, place, points, pairs, fed[0], ranked[0])


def _is_ranking(program: LoopProgram, place: int, variable: int) -> bool:
    """Whether pairs of points and rows of the variable go by keys that only points have part in."""
    join = program.nodes[place]
    if not isinstance(join, Join):
        return False
    sides = [side for side in (0, 1) if _reads(program, inputs(join)[side], variable)]
    if len(sides) != 1:
        return False
    judge, body = Additivity(join.group, 2), join.body
    if not isinstance(body, typed.Select) or not isinstance(body.head, typed.MakeTuple):
        return False
    moving = judge.loops([body], sides[0])
    return moving is not None and not used_variables(body.head.items[0]) & moving


def _reads(program: LoopProgram, place: int, other: int) -> bool:
    """Whether a node has part in another."""
    return place == other or any(
        _reads(program, each, other) for each in inputs(program.nodes[place])
    )


def _feeding(program: LoopProgram, place: int) -> tuple[int, ...]:
    """The numbers of the inputs that a node is made of."""
    found: set[int] = set()
    if place in program.inputs:
        found.add(program.inputs.index(place))
    for each in inputs(program.nodes[place]):
        found.update(_feeding(program, each))
    return tuple(sorted(found))
