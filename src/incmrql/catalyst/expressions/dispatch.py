"""From an expression of a plan to a typed expression, by the exact name of its class."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from incmrql.catalyst.classes import BELOW_HINT, ONLY_BELOW, Support, check_node
from incmrql.catalyst.expressions.arithmetic import ARITHMETIC
from incmrql.catalyst.expressions.collections import COLLECTIONS
from incmrql.catalyst.expressions.conditions import CONDITIONS
from incmrql.catalyst.expressions.conversions import CONVERSIONS
from incmrql.catalyst.expressions.maps import MAPS
from incmrql.catalyst.expressions.refused import REFUSED
from incmrql.catalyst.expressions.rules import Rules, fold_constant
from incmrql.catalyst.expressions.spans import SPANS
from incmrql.catalyst.expressions.strings import STRINGS
from incmrql.catalyst.expressions.times import TIMES
from incmrql.catalyst.expressions.values import VALUES
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.errors import NOWHERE
from incmrql.types import typed

_SUBQUERIES: Final = ("ScalarSubquery", "Exists", "InSubquery")

RULES: Final[Rules] = {
    **VALUES,
    **CONDITIONS,
    **ARITHMETIC,
    **CONVERSIONS,
    **STRINGS,
    **TIMES,
    **COLLECTIONS,
    **MAPS,
    **SPANS,
}
"""How each class of scalar expressions is converted."""

SCALARS: Final[dict[str, Support]] = {
    **{name: rule.support for name, rule in RULES.items()},
    **REFUSED,
}
"""What is done with each class of scalar expressions."""


def is_deterministic(node: PlanNode) -> bool:
    """Whether a function of a user's says that it answers the same for the same arguments."""
    flags = (node.fields.get(name) for name in ("udfDeterministic", "isDeterministic"))
    return False not in flags


def convert_expression(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The typed expression of a node; raises `Refused` if it is not converted."""
    if node.name in _SUBQUERIES:
        return scope.subquery(node)
    if node.name not in SCALARS:
        message = f"{node.name} of Spark is not known here; {ONLY_BELOW}"
        raise Refused("C101", message, BELOW_HINT, node)
    if not is_deterministic(node):
        name = node.fields.get("name")
        shown = name if isinstance(name, str) else node.name
        message = f'the function "{shown}" is not deterministic'
        hint = "Compute its value before the rows are stored, and query the stored column."
        raise Refused("C103", f"{message}, as it says of itself", hint, node)
    check_node(node, SCALARS)
    expr = fold_constant(RULES[node.name].convert(node, scope))
    if expr.span == NOWHERE and node.place is not None:
        return replace(expr, span=scope.conversion.refusals.span(node))
    return expr
