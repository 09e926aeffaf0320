"""Sub-queries as values and as conditions.

    (S)                 the one value of S; null if there is none; several are an error
    exists (S)          whether S has a row
    x in (S)            true if a row equals x, else false
    x not in (S)        true if no row equals x, and none might: S is empty, or neither x is null
                        nor a row of S; else false

SQL has null where these are false because of a null.  A filter does not tell the two apart, and as
values Spark computes what stands here: it makes a join of each, after it has moved NOT inwards.

A sub-query over no more than its aggregates is the expression of these: `count` of nothing is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from itertools import product
from typing import Final

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import (
    pattern_bindings,
    pattern_variables,
    qualifier_value,
)
from incmrql.catalyst.classes import check_node
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.operators.sharing import reusable
from incmrql.catalyst.operators.table import SUBQUERIES
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.relation import Relation, null
from incmrql.catalyst.scope import ColumnScope, placeholder
from incmrql.types import typed
from incmrql.types.model import BOOL, LONG, STRING, UNIT, bag
from incmrql.types.walk import conjuncts, with_copies

TRUE, FALSE = (typed.Const(value, type=BOOL) for value in (True, False))


def subquery_value(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The value of a sub-query expression, or of `NOT IN (query)`."""
    if node.name != "Not":
        check_node(node, SUBQUERIES)
    match node.name:
        case "ScalarSubquery":
            return _scalar(node, scope)
        case "Exists":
            return exists(scope.inside().plan(node["plan"]))
        case "InSubquery":
            return _Membership(node, scope).some_match()
        case "Not":
            check_node(node["child"], SUBQUERIES)
            whole = build.conjunction(_Membership(node["child"], scope).no_match())
            assert whole is not None
            return whole
        case _:
            raise Refused("C104", f"{node.name} stands where a value is expected", node=node)


def conditions(node: PlanNode, scope: ColumnScope) -> list[typed.Expr]:
    """Conditions that are all true for the rows for which an expression is."""
    match node.name:
        case "And":
            return [*conditions(node["left"], scope), *conditions(node["right"], scope)]
        case "InSubquery":
            check_node(node, SUBQUERIES)
            return [_Membership(node, scope).some_match()]
        case "Not" if node["child"].name == "InSubquery":
            check_node(node["child"], SUBQUERIES)
            return _Membership(node["child"], scope).no_match()
        case _:
            return conjuncts(scope.expression(node))


def exists(relation: Relation) -> typed.Expr:
    """Whether a relation has a row."""
    if relation.is_single:
        return _inline_value(relation, TRUE, FALSE, copy=None)
    return typed.Exists(relation.bag_of(build.unit()), type=BOOL)


def _negate(condition: typed.Expr) -> typed.Expr:
    return typed.Not(condition, type=BOOL)


def is_null(value: typed.Expr) -> typed.Expr:
    """Whether a value is null."""
    return typed.IsNull(value, type=BOOL)


# --- One value ---


def _scalar(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The value of a sub-query with one column and at most one row."""
    relation = scope.inside().plan(node["plan"])
    if not relation.columns:  # refused
        return placeholder(node)
    value = relation.values[0]
    if relation.is_single and scope.bindings is not None:
        return _bound(relation, value, scope.bindings)
    if relation.is_single:
        return _inline_value(relation, value, null(value.type), scope.names.like)
    if _has_one_row(relation):
        return typed.Aggregate("min", relation.bag_of(value), type=value.type)
    if scope.bindings is not None:
        every = scope.names.variable("every", bag(value.type))
        one = scope.names.variable("one", value.type)
        scope.bindings.append(typed.Binding(typed.Bind(every), relation.bag_of(value)))
        values = build.var(every)
        rows: typed.Expr = typed.MapOver(one, values, build.unit(), False, type=bag(UNIT))
    else:
        relation = reusable(relation, scope, "subquery")
        values = relation.bag_of(relation.values[0])
        rows = relation.with_new_variables(scope.names).bag_of(build.unit())
    count = typed.Aggregate("count", rows, type=LONG)
    several = typed.Compare(">", count, typed.Const(1, type=LONG), type=BOOL)
    only = typed.Aggregate("min", values, type=value.type)
    return typed.If(several, _failure(value, node, scope), only, type=value.type)


def _failure(value: typed.Expr, node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The value of a sub-query with several rows: null, and a failure."""
    message = typed.Const("a scalar sub-query has more than one row", type=STRING)
    span = scope.conversion.refusals.span(node)
    return typed.Builtin("spark.fail", (message,), mode="ansi", type=value.type, span=span)


def _has_one_row(relation: Relation) -> bool:
    """Whether a relation ranges over the first row of another."""
    match relation.qualifiers:
        case (typed.Generator(_, typed.Select(limit=typed.Const(1))),):
            return True
        case _:
            return False


def _bound(relation: Relation, value: typed.Expr, bindings: list[typed.Qualifier]) -> typed.Expr:
    """A value over the only row of a relation, whose variables become names in the rows around."""
    conditions: list[typed.Expr] = []
    for qualifier in relation.qualifiers:
        if isinstance(qualifier, typed.Condition):
            conditions.append(qualifier.condition)
        else:
            bindings.append(qualifier)
    whole = build.conjunction(conditions)
    return value if whole is None else typed.If(whole, value, null(value.type), type=value.type)


def _inline_value(
    relation: Relation,
    value: typed.Expr,
    otherwise: typed.Expr,
    copy: Callable[[typed.Variable], typed.Variable] | None,
) -> typed.Expr:
    """A value over the only row of a relation, without its variables."""
    fresh = copy or (lambda variable: variable)
    for qualifier in reversed(relation.qualifiers):
        if isinstance(qualifier, typed.Condition):
            condition = qualifier.condition
            value = typed.If(condition, value, otherwise, type=value.type)
            continue
        parts = pattern_bindings(qualifier.pattern, qualifier_value(qualifier))
        assert set(parts) == set(pattern_variables(qualifier.pattern)), qualifier
        for variable, bound in parts.items():
            value = with_copies(value, variable, bound, fresh)
    return value


# --- IN ---


_MOST_COLUMNS_BY_PATTERN: Final = 3
"""Columns of `IN` for which each pattern of nulls is a question of its own: 3 ** n of them."""


class _Agreement(Enum):
    """Why a column of a row may equal a value."""

    EQUAL = auto()
    COLUMN_IS_NULL = auto()
    VALUE_IS_NULL = auto()


class _Membership:
    """`x in (S)`, also for several columns: what makes it true, and what makes it null."""

    def __init__(self, node: PlanNode, scope: ColumnScope) -> None:
        self.names, self.bindings = scope.names, scope.bindings
        self.values: Sequence[typed.Expr] = scope.expressions(node["values"])
        query: PlanNode = node["query"]
        check_node(query, SUBQUERIES)
        relation = scope.inside().plan(query["plan"])
        self.relation = reusable(relation, scope, "subquery")

    def some_match(self) -> typed.Expr:
        """Whether a row equals the values."""
        relation = self.relation.with_new_variables(self.names)
        for value, column in zip(self.values, relation.values, strict=False):
            relation = relation.where(typed.Compare("=", value, column, type=BOOL))
        return exists(relation)

    def no_match(self) -> list[typed.Expr]:
        """That no row equals the values, and that none might; none of the conditions is null."""
        return [_negate(condition) for condition in (self.some_match(), *self.unknown())]

    def unknown(self) -> list[typed.Expr]:
        """Whether a row may equal the values, as far as nulls let us know, if none equals them.

        One of the conditions is true then, and none of them is null.
        """
        if len(self.values) == 1:
            return [typed.If(is_null(self.values[0]), *self._some(), type=BOOL)]
        if len(self.values) <= _MOST_COLUMNS_BY_PATTERN:
            patterns = product(_Agreement, repeat=len(self.values))
            return [self._agrees(p) for p in patterns if set(p) != {_Agreement.EQUAL}]
        relation = self.relation.with_new_variables(self.names)
        for value, column in zip(self.values, relation.values, strict=False):
            same = typed.Compare("=", value, column, type=BOOL)
            nulls = typed.Logic("or", is_null(value), is_null(column), type=BOOL)
            relation = relation.where(typed.Logic("or", nulls, same, type=BOOL))
        return [exists(relation)]

    def _agrees(self, pattern: Sequence[_Agreement]) -> typed.Expr:
        """Whether a row agrees with the values column by column, each for a given reason.

        The columns that are equal are the key by which a row finds its partners: as one condition
        over all columns it would be compared with all rows of the sub-query.
        """
        relation = self.relation.with_new_variables(self.names)
        for why, value, column in zip(pattern, self.values, relation.values, strict=False):
            condition: typed.Expr
            match why:
                case _Agreement.EQUAL:
                    condition = typed.Compare("=", value, column, type=BOOL)
                case _Agreement.COLUMN_IS_NULL:
                    condition = is_null(column)
                case _:
                    # An equality of both sides, so that it is part of the key: rows with a value
                    # are no partners.
                    always = typed.Logic("or", is_null(column), _negate(is_null(column)), type=BOOL)
                    condition = typed.Compare("=", is_null(value), always, type=BOOL)
            relation = relation.where(condition)
        return exists(relation)

    def _some(self) -> tuple[typed.Expr, typed.Expr]:
        """Whether there is a row, and whether there is a null."""
        relation = self.relation.with_new_variables(self.names)
        if self.bindings is None:
            others = self.relation.with_new_variables(self.names)
            return exists(others), exists(relation.where(is_null(relation.values[0])))
        value = relation.values[0]
        every = self.names.variable("every", bag(value.type))
        one = self.names.variable("one", value.type)
        self.bindings.append(typed.Binding(typed.Bind(every), relation.bag_of(value)))
        nulls = build.for_each(one, build.var(every), build.unit(),
                               typed.Condition(is_null(build.var(one))))  # fmt: skip
        return typed.Exists(build.var(every), type=BOOL), typed.Exists(nulls, type=BOOL)
