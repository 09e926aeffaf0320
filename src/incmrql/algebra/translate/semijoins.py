"""Membership and quantifiers over a query as `exists`, so that an equality in them is a join key.

    member(e, X)                    =  exists (select y from y in X where y = e)
    some(select p from qs where c)  =  exists (select () from qs where c and p)
    all(select p from qs where c)   =  not exists (select () from qs where c and not p)

All of them hold with nulls: null is a member of nothing, `some` and `all` skip it, and a condition
that is null is not true. `not` goes inwards, where it turns `<>` into an equality.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import is_plain, qualifier_value
from incmrql.algebra.scope import Translator
from incmrql.types import typed
from incmrql.types.model import BOOL, Collection, bag
from incmrql.types.walk import bound_variables, conjuncts, is_random

_OPPOSITE: Final[dict[typed.CompareOp, typed.CompareOp]] = {
    "=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
}  # fmt: skip


def as_existence(t: Translator, expr: typed.Expr) -> typed.Expr:
    """Membership in a query, or a quantifier over one, as `exists` if that gives a join key."""
    match expr:
        case typed.Not(operand):
            positive = as_existence(t, operand)
            return expr if positive is operand else _negation(positive)
        case typed.Builtin("member", (value, values)):
            select = _select_equal(t, value, values)
            return expr if select is None else typed.Exists(select, type=BOOL, span=expr.span)
        case typed.Aggregate("some" | "all" as function, typed.Select() as query):
            if not is_plain(query) or is_random(query):
                return expr
            head = query.head if function == "some" else _negation(query.head)
            if not _has_key(t, query, head):
                return expr
            where = build.conjunction([*conjuncts(query.where), head])
            type_ = bag(build.unit().type)
            select = replace(query, head=build.unit(), where=where, type=type_)
            exists = typed.Exists(select, type=BOOL, span=expr.span)
            return exists if function == "some" else typed.Not(exists, type=BOOL, span=expr.span)
        case _:
            return expr


def _select_equal(t: Translator, value: typed.Expr, values: typed.Expr) -> typed.Select | None:
    """The elements of a query that equal a value of the row."""
    if not isinstance(values.type, Collection) or values.type.element != value.type:
        return None
    if t.scope.reads(value) or is_random(value) or not t.scope.row_variables(value):
        return None
    if not t.scope.reads(values) or t.scope.row_variables(values) or is_random(values):
        return None
    one = t.names.variable("member", value.type)
    is_equal = typed.Compare("=", build.var(one), value, type=BOOL)
    select = build.for_each(one, values, build.var(one))
    assert isinstance(select, typed.Select)
    return replace(select, where=is_equal)


def _has_key(t: Translator, query: typed.Select, condition: typed.Expr) -> bool:
    """Whether a part of a condition equates what the rows around a query have to what it binds."""
    if not any(t.scope.reads(qualifier_value(qualifier)) for qualifier in query.qualifiers):
        return False
    inside = bound_variables(query.qualifiers)
    for part in conjuncts(condition):
        if not isinstance(part, typed.Compare) or part.op != "=" or t.scope.reads(part):
            continue
        left, right = (t.scope.row_variables(side) for side in (part.left, part.right))
        for own, outer in ((left, right), (right, left)):
            if own and outer and own <= inside and outer.isdisjoint(inside):
                return True
    return False


def _negation(condition: typed.Expr) -> typed.Expr:
    """A condition that is true where another is false, and null where that is null."""
    match condition:
        case typed.Not(operand):
            return operand  # `not not c` is c, null too
        case typed.Compare(op, left, right):
            return typed.Compare(_OPPOSITE[op], left, right, type=BOOL, span=condition.span)
        case typed.Logic(op, left, right):
            sides = _negation(left), _negation(right)
            return typed.Logic("or" if op == "and" else "and", *sides, type=BOOL)
        case _:
            return typed.Not(condition, type=BOOL)
