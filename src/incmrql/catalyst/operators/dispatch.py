"""From the class of an operator to the function that converts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from incmrql.catalyst.classes import check_node
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.operators import (
    aggregation,
    joins,
    rowwise,
    sets,
    sharing,
    sorting,
    windows,
)
from incmrql.catalyst.operators.table import LEAVES, STRUCTURAL
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.relation import Relation, over_bag
from incmrql.catalyst.scope import ColumnScope

_NOTHING: Final = Relation((), ())
"""In the place of an operator that is refused."""


def convert_plan(node: PlanNode, scope: ColumnScope) -> Relation:
    """The relation of an operator; if it is refused, that is noted, and it has no columns."""
    refusals = scope.conversion.refusals
    try:
        if node.name in LEAVES:
            return _leaf(node, scope)
        check_node(node, STRUCTURAL)
        return _OPERATORS[node.name](node, scope)
    except Refused as refused:
        refusals.add(refused, node)
    except Exception:
        # Over a placeholder an operator may not find what it needs; it is looked at only to find
        # the other reasons why the query is refused.
        if not refusals.problems:
            raise
    return _NOTHING


def _leaf(node: PlanNode, scope: ColumnScope) -> Relation:
    """The rows of an input or a constant."""
    if node.name == "OneRowRelation":
        return Relation((), ())
    ids = [attribute["exprId"] for attribute in node["output"]]
    return over_bag(scope.names, scope.conversion.leaves(node), ids, "row")


_OPERATORS: Final[dict[str, Callable[[PlanNode, ColumnScope], Relation]]] = {
    "Project": rowwise.project,
    "Filter": rowwise.filter_rows,
    "Expand": rowwise.expand,
    "Generate": rowwise.generate,
    "Join": joins.join,
    "LateralJoin": joins.lateral_join,
    "Aggregate": aggregation.aggregate,
    "Distinct": sets.distinct,
    "Deduplicate": sets.deduplicate,
    "Union": sets.union,
    "Except": sets.except_,
    "Intersect": sets.intersect,
    "Sort": sorting.sort,
    "GlobalLimit": sorting.limit,
    "LocalLimit": sorting.local_limit,
    "Offset": sorting.offset,
    "Window": windows.window,
    "View": sharing.view,
    "WithCTE": sharing.with_definitions,
    "CTERelationRef": sharing.reference,
    **dict.fromkeys(
        (
            "SubqueryAlias",
            "ResolvedHint",
            "Repartition",
            "RepartitionByExpression",
            "RebalancePartitions",
            "CollectMetrics",
            "PipeOperator",
            "SQLFunctionNode",
        ),
        rowwise.child_itself,
    ),
}
