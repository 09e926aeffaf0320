"""Comparisons, logic, tests for null, and choices among values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from incmrql.algebra import rows as build
from incmrql.catalyst.expressions.rules import (
    Convert,
    Rule,
    Rules,
    call,
    compare,
    const,
    either,
    is_null,
    let,
    null,
    require_one_type,
    rule,
    type_of,
    when,
)
from incmrql.catalyst.expressions.values import literal_value
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.types import typed
from incmrql.types.model import BOOL, DOUBLE, FLOAT, LONG


def _comparison(op: typed.CompareOp) -> Rule:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        left, right = scope.expressions((node["left"], node["right"]))
        require_one_type(node, (left, right))
        return compare(op, left, right)

    return rule(convert, "left", "right")


def _equal(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    condition = _membership(node)
    return (
        _comparison("=").convert(node, scope) if condition is None else scope.expression(condition)
    )


def _same(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`<=>`: identity of tuples tells null from other values, and is never null."""
    left, right = scope.expressions((node["left"], node["right"]))
    require_one_type(node, (left, right))
    return compare("=", build.tuple_of(left), build.tuple_of(right))


def _logic(op: str) -> Rule:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        left, right = scope.expressions((node["left"], node["right"]))
        return typed.Logic("or" if op == "or" else "and", left, right, type=BOOL)

    return rule(convert, "left", "right")


def _not(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The opposite; as in Spark, NOT is moved inwards to each `IN (query)`, which is never null."""
    child: PlanNode = node["child"]
    if child.name == "InSubquery":
        return scope.subquery(node)
    if not _has_membership(child):
        return typed.Not(scope.expression(child), type=BOOL)
    if child.name == "Not":
        return scope.expression(child["child"])
    if child.name == "EqualTo":
        return scope.expression(PlanNode("Not", {"child": _membership(child)}, node.place))
    left, right = (
        scope.expression(PlanNode("Not", {"child": child[side]}, node.place))
        for side in ("left", "right")
    )
    return typed.Logic("or" if child.name == "And" else "and", left, right, type=BOOL)


def _has_membership(node: PlanNode) -> bool:
    """Whether a condition has an `IN (query)` below nothing but AND, OR and NOT."""
    match node.name:
        case "And" | "Or":
            return _has_membership(node["left"]) or _has_membership(node["right"])
        case "Not":
            return _has_membership(node["child"])
        case "EqualTo":
            return _membership(node) is not None
        case name:
            return name == "InSubquery"


def _membership(node: PlanNode) -> PlanNode | None:
    """The condition, or its opposite, that an equality with TRUE or FALSE says; if it has `IN`."""
    for constant, condition in ((node["left"], node["right"]), (node["right"], node["left"])):
        is_constant = constant.name == "Literal" and isinstance(constant["value"], bool)
        if is_constant and _has_membership(condition):
            opposite = PlanNode("Not", {"child": condition}, node.place)
            return condition if constant["value"] else opposite
    return None


def _missing(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return is_null(scope.expression(node["child"]))


def _present(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return typed.Not(_missing(node, scope), type=BOOL)


def _in(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """Whether a value equals one of a list; null if it might, because one of them is null."""
    value = scope.expression(node["value"])
    return _among(node, value, scope.expressions(node["list"]), scope)


def _in_set(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`in` a set of constants, which have the form that they have inside of Spark."""
    value = scope.expression(node["child"])
    data_type = node["child"]["$type"]
    constants = [const(literal_value(v, data_type, node), value.type) for v in node["hset"]]
    return _among(node, value, constants, scope)


def _among(
    node: PlanNode, value: typed.Expr, values: Sequence[typed.Expr], scope: ColumnScope
) -> typed.Expr:
    require_one_type(node, (value, *values))
    if not values:
        if scope.settings.get("spark.sql.legacy.nullInEmptyListBehavior", "false") != "false":
            raise Refused("C104", "an empty list, by Spark's old rules for it", node=node)
        return const(False, BOOL)
    return let(scope, value, lambda v: either([compare("=", v, one) for one in values]))


def _if(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    parts = (node["predicate"], node["trueValue"], node["falseValue"])
    condition, then, otherwise = scope.expressions(parts)
    require_one_type(node, (then, otherwise))
    return typed.If(condition, then, otherwise, type=type_of(node))


def _case(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    type_ = type_of(node)
    branches = [scope.expressions(branch) for branch in node["branches"]]
    last = node.fields.get("elseValue")
    otherwise = scope.expression(last) if isinstance(last, PlanNode) else null(type_)
    require_one_type(node, (*[then for _, then in branches], otherwise))
    for condition, then in reversed(branches):
        otherwise = typed.If(condition, then, otherwise, type=type_)
    return otherwise


def _coalesce(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    values, type_ = scope.expressions(node["children"]), type_of(node)
    require_one_type(node, values)
    *first, last = values
    for value in reversed(first):
        last = call("spark.coalesce", [value, last], type_)
    return last


def _extreme(function: str) -> Convert:
    """`greatest` or `least`, which skip nulls."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        values, type_ = scope.expressions(node["children"]), type_of(node)
        require_one_type(node, values)
        return reduce(lambda one, other: call(function, [one, other], type_), values)

    return convert


def _enough(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """Whether at least a number of values are neither null nor NaN."""
    count: typed.Expr = const(0, LONG)
    for value in scope.expressions(node["children"]):
        one = when(_is_value(value), const(1, LONG), const(0, LONG))
        count = typed.Arithmetic("+", count, one, "try", type=LONG)
    return compare(">=", count, const(node["n"], LONG))


def _is_value(value: typed.Expr) -> typed.Expr:
    """True where a value is neither null nor NaN; otherwise false or null."""
    if value.type in (FLOAT, DOUBLE):
        return compare("<>", value, const(float("nan"), value.type))
    return typed.Not(is_null(value), type=BOOL)


CONDITIONS: Final[Rules] = {
    "EqualTo": rule(_equal, "left", "right"),
    "LessThan": _comparison("<"),
    "LessThanOrEqual": _comparison("<="),
    "GreaterThan": _comparison(">"),
    "GreaterThanOrEqual": _comparison(">="),
    "EqualNullSafe": rule(_same, "left", "right"),
    "And": _logic("and"),
    "Or": _logic("or"),
    "Not": rule(_not, "child"),
    "IsNull": rule(_missing, "child"),
    "IsNotNull": rule(_present, "child"),
    "In": rule(_in, "value", "list"),
    "InSet": rule(_in_set, "child", "hset"),
    "If": rule(_if, "predicate", "trueValue", "falseValue"),
    "CaseWhen": rule(_case, "branches", "elseValue"),
    "Coalesce": rule(_coalesce, "children"),
    "Greatest": rule(_extreme("spark.greatest"), "children"),
    "Least": rule(_extreme("spark.least"), "children"),
    "AtLeastNNonNulls": rule(_enough, "n", "children"),
}
"""Classes of conditions and choices."""
