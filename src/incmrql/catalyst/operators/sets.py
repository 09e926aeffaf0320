"""Distinct rows, unions, differences and intersections: arithmetic on how often a row is there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from incmrql.algebra import rows as build
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.operators.rowwise import widened
from incmrql.catalyst.relation import Relation, over_bag
from incmrql.catalyst.scope import ColumnScope
from incmrql.catalyst.types import require_no_map
from incmrql.types import typed
from incmrql.types.model import Record, bag


def distinct(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Distinct`: each row once."""
    return distinct_rows(scope.plan(node["child"]), scope, node)


def distinct_rows(relation: Relation, scope: ColumnScope, node: PlanNode) -> Relation:
    """Each row of a relation once."""
    require_no_map(relation.row.type, f"a row of {node.name}", node)
    return over_bag(scope.names, _distinct_bag(relation), relation.ids, "distinct")


def _distinct_bag(relation: Relation) -> typed.Expr:
    row = relation.row
    return typed.Select(True, row, relation.qualifiers, None, None, None, (), None,
                        type=bag(row.type))  # fmt: skip


def deduplicate(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Deduplicate`: one row for each value of the keys: the smallest, as Spark leaves it open."""
    child = scope.plan(node["child"])
    inner = scope.over(child)
    ids = {key["exprId"] for key in node["keys"]}
    if ids >= set(child.ids):
        return distinct_rows(child, scope, node)
    scope.conversion.note("dropDuplicates keeps the smallest row of each key, in canonical order.")
    names = scope.names
    keys = tuple(inner.expressions(node["keys"]))
    require_no_map(build.tuple_of(*keys).type, "a key of Deduplicate", node)
    row = names.variable("row", child.row.type)
    rows = names.variable("rows", bag(row.type))
    partition = names.variable("partition", bag(Record(((row.name, row.type),))))
    patterns = tuple(typed.Bind(names.variable("key", key.type)) for key in keys)
    group = typed.Group(keys, patterns, ((row, rows),), partition, (row,))
    binding = typed.Binding(typed.Bind(row), child.row)
    least = typed.Aggregate("min", build.var(rows), type=row.type)
    select = typed.Select(False, least, (*child.qualifiers, binding), None, group, None, (), None,
                          type=bag(row.type))  # fmt: skip
    return over_bag(names, select, child.ids, "first")


def union(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Union`: the rows of all children, their columns bound by position."""
    children = [scope.plan(child) for child in node["children"]]
    bags = _in_common_types(children)
    whole = reduce(lambda a, b: typed.Combine("union", a, b, type=a.type), bags)
    return over_bag(scope.names, whole, children[0].ids, "union")


def except_(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Except`: the rows of the left side that the right one has not; null equals null."""
    return _combination("except", node, scope)


def intersect(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Intersect`: the rows that both sides have; null equals null."""
    return _combination("intersect", node, scope)


def _combination(op: typed.CombineOp, node: PlanNode, scope: ColumnScope) -> Relation:
    left, right = scope.plan(node["left"]), scope.plan(node["right"])
    if not node["isAll"]:  # one copy of a row on the left is there, or taken away
        left = distinct_rows(left, scope, node)
    require_no_map(left.row.type, f"a row of {node.name}", node)
    first, second = _in_common_types([left, right])
    whole = typed.Combine(op, first, second, type=first.type)
    return over_bag(scope.names, whole, left.ids, op)


def _in_common_types(relations: Sequence[Relation]) -> list[typed.Expr]:
    """The bags of some relations with columns of the same types."""
    types = [
        build.least_type(value.type for value in column)
        for column in zip(*(relation.values for relation in relations), strict=True)
    ]
    return [
        relation.with_columns(
            (expr_id, widened(value, type_))
            for (expr_id, value), type_ in zip(relation.columns, types, strict=True)
        ).bag
        for relation in relations
    ]
