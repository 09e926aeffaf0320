"""What a step of a loop need not ask Spark for again and again.

Aggregates of a side that does not change, met by every row, are computed once and are constants
of the step.  A variable of a few rows that every row meets is written into the text of each
step, as an expert would do with the centroids of k-means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from incmrql.algebra import build
from incmrql.algebra.alpha import fingerprint
from incmrql.algebra.rewrite import normalize
from incmrql.algebra.rows import Names
from incmrql.algebra.rules import cmaps, expressions
from incmrql.algebra.rules.joins import at
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Loop, Query, Term, Values, element, pair
from incmrql.algebra.walk import map_children as map_terms
from incmrql.algebra.walk import terms, variables_of
from incmrql.incremental.judge import Judge
from incmrql.incremental.nodes import is_unit
from incmrql.reference import Environment, evaluate
from incmrql.types import typed
from incmrql.types.model import UNIT, Record, Tuple, Type, bag
from incmrql.types.walk import children as typed_children
from incmrql.types.walk import free, map_children, nodes, substitute
from incmrql.values import Bag, Value

MOST_ROWS: Final = 64
"""How many rows of a variable are written into a text."""

_AGGREGATES = typed.Aggregate | typed.UserAggregate | typed.Exists
Collected = Callable[[Term], list[Value]]


def with_constants(term: Term, collected: Collected, empty: Environment) -> Term:
    """A step in which aggregates of what does not change, and every row meets, are constants."""

    def visit(part: Term) -> Term:
        part = map_terms(visit, part)
        match part:
            case CMap(group, body, CoGroup(left, right)) if (
                is_unit(pair(right)[0]) and is_fixed(right) and not is_fixed(left)
            ):
                found = _answered(group, body, right, collected, empty)
                return part if found is None else _without(group, found, left, right)
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
            return bool(free(body) - {variable})
        case Values(expr):
            return bool(free(expr))
        case _:
            return False


def written(value: Value, type_: Type) -> typed.Expr:
    """A value as an expression, part by part."""
    match type_:
        case Record(fields) if value is not None and fields:
            return build.record_of((name, written(value[name], each)) for name, each in fields)
        case Tuple(items) if value is not None:
            return build.tuple_of(*map(written, value, items))
        case _:
            return typed.Const(value, type=type_)


def _answered(
    group: typed.Variable, body: typed.Expr, right: Term, collected: Collected, empty: Environment
) -> typed.Expr | None:
    """A body with constants for what it asks of the right side; None if it asks for rows."""
    members = at(group, (1, 1))
    found: dict[str, typed.Expr] = {}

    def asked(node: typed.Expr) -> bool:
        is_mine = isinstance(node, _AGGREGATES) and free(node) <= {group}
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
    answers = _values(group, list(found.values()), right, collected, empty)
    constants = dict(zip(found, answers, strict=True))

    def visit(node: typed.Expr) -> typed.Expr:
        if asked(node):
            return typed.Const(constants[fingerprint(group, node)], type=node.type)
        return map_children(visit, node)

    made = visit(body)
    return None if members in nodes(made) else made


def _values(
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
        return at(one, (1,)) if node == members else map_children(visit, node)

    row = build.tuple_of(*map(visit, asked))
    rows = collected(CMap(one, build.bag_of(row), groups))
    if rows:
        return list(rows[0])
    nothing = empty.bind(group, ((), (Bag(), Bag())))
    return [evaluate(each, nothing) for each in asked]


def _without(group: typed.Variable, body: typed.Expr, left: Term, right: Term) -> Term:
    """A map that asks nothing of its right side any more: over the left side, if it may be."""
    if Judge(group, 2).additive(body) != frozenset((0,)):
        return CMap(group, body, CoGroup(left, right))
    names = Names(max(v.number for v in variables_of((group, body, left, right))))
    row = names.variable("row", element(left))
    key, value = (build.item(build.var(row), place) for place in (0, 1))
    sides = build.tuple_of(build.bag_of(value), build.empty(pair(right)[1]))
    alone = CMap(row, substitute(body, {group: build.tuple_of(key, sides)}), left)
    answer = typed.Variable("answer", names.variable("answer", UNIT).number, bag(element(alone)))
    query = Query(((answer, alone),), build.var(answer))
    return normalize(query, (*cmaps.RULES, *expressions.RULES), names)[0].parts[0][1]
