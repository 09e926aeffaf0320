"""Order, limits and offsets.

An order only matters to the limit above it.  Rows that are equal in all sort keys, and the rows of
a limit without an order, are taken in canonical order, which Spark leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from incmrql.algebra import rows as build
from incmrql.catalyst.classes import check_node
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.operators.sharing import reusable
from incmrql.catalyst.operators.subqueries import is_null
from incmrql.catalyst.operators.table import STRUCTURAL
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.relation import Relation, components
from incmrql.catalyst.scope import ColumnScope
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, bag, list_of


def sort(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Sort`: the same rows, with an order; one within partitions is none."""
    child = scope.plan(node["child"])
    if not node["global"]:
        return child
    return replace(child, order=sort_keys(node["order"], scope.over(child)))


def sort_keys(orders: Sequence[PlanNode], scope: ColumnScope) -> tuple[typed.Order, ...]:
    """The keys of some `SortOrder`s; nulls are the smallest, or a key of their own says where."""
    keys: list[typed.Order] = []
    for order in orders:
        check_node(order, STRUCTURAL)
        value = scope.expression(order["child"])
        descending = order["direction"].name == "Descending"
        nulls_first = order["nullOrdering"].name == "NullsFirst"
        if nulls_first == descending:
            keys.append(typed.Order(is_null(value), nulls_first))
        keys.append(typed.Order(value, descending))
    return tuple(keys)


def limit(node: PlanNode, scope: ColumnScope) -> Relation:
    """`GlobalLimit`: the first rows, maybe after some that are skipped."""
    below: PlanNode = node["child"]
    if below.name == "LocalLimit":
        check_node(below, STRUCTURAL)
        below = below["child"]
    count = _count(node["limitExpr"], scope)
    if below.name != "Offset":
        return first_rows(scope.plan(below), count, scope)
    check_node(below, STRUCTURAL)
    skipped = _count(below["offsetExpr"], scope)
    child = reusable(scope.plan(below["child"]), scope, "sorted")
    return _without_first(first_rows(child, count + skipped, scope), child, skipped, scope)


def local_limit(node: PlanNode, _scope: ColumnScope) -> Relation:
    """`LocalLimit` without a limit above it."""
    raise Refused("C103", "LocalLimit: a limit in each partition", "Use limit().", node)


def offset(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Offset`: all rows but the first ones."""
    child = reusable(scope.plan(node["child"]), scope, "sorted")
    head, places = _head(child)
    every = _over(child.bag_of(head), child, places, scope)
    return _without_first(every, child, _count(node["offsetExpr"], scope), scope)


def first_rows(relation: Relation, count: int, scope: ColumnScope) -> Relation:
    """The first rows of a relation, in its order."""
    if not relation.order:
        scope.conversion.note("A limit without an order takes the first rows in canonical order.")
    head, places = _head(relation)
    kind = list_of(head.type) if relation.order else bag(head.type)
    most = typed.Const(count, type=LONG)
    rows = typed.Select(False, head, relation.qualifiers, None, None, None, relation.order, most,
                        type=kind)  # fmt: skip
    return _over(rows, relation, places, scope)


def _without_first(rows: Relation, child: Relation, skipped: int, scope: ColumnScope) -> Relation:
    """Some rows of a child, of which the first ones of all are left out."""
    if skipped <= 0:
        return rows
    first = first_rows(child.with_new_variables(scope.names), skipped, scope)
    some, few = _elements(rows), _elements(first)
    rest = typed.Combine("except", some, few, type=some.type)
    return _over(rest, child, _head(child)[1], scope)


def _elements(rows: Relation) -> typed.Expr:
    """The bag that a relation ranges over."""
    (generator,) = rows.qualifiers
    assert isinstance(generator, typed.Generator)
    assert isinstance(generator.pattern, typed.Bind)
    return build.select(build.var(generator.pattern.variable), rows.qualifiers)


def _head(relation: Relation) -> tuple[typed.Expr, list[int]]:
    """The tuple of the columns and of the sort keys that are no columns; where the keys stand."""
    values = list(relation.values)
    places: list[int] = []
    for key in relation.order:
        if key.expr not in values:
            values.append(key.expr)
        places.append(values.index(key.expr))
    return build.tuple_of(*values), places


def _over(
    rows: typed.Expr, relation: Relation, places: Sequence[int], scope: ColumnScope
) -> Relation:
    """The relation over a collection of the tuples that `_head` makes of a relation."""
    assert isinstance(rows.type, Collection)
    one = scope.names.variable("first", rows.type.element)
    parts = components(build.var(one))
    columns = tuple(zip(relation.ids, parts, strict=False))
    order = tuple(
        typed.Order(parts[place], key.descending)
        for place, key in zip(places, relation.order, strict=True)
    )
    return Relation((typed.Generator(typed.Bind(one), rows),), columns, order)


def _count(node: PlanNode, scope: ColumnScope) -> int:
    """The number that a limit is: a literal, or an expression of literals."""
    value = evaluate(scope.expression(node), Environment(new_world(EMPTY_SCRIPT)))
    return max(int(value or 0), 0)
