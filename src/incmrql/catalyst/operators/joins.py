"""Joins of all kinds, by any condition.

    A left join B on c   =  the rows of A and B for which c holds,
                            and the rows of A without such a row of B, padded with nulls

Both parts follow the changes of A and B: a join is linear in each side, and whether a row has a
partner is a count.  A condition on A alone decides about partners, but is not asked of each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import Final, Literal

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import pattern_variables
from incmrql.catalyst.classes import check_node
from incmrql.catalyst.nodes import PlanNode, nodes_of
from incmrql.catalyst.operators.sharing import reusable
from incmrql.catalyst.operators.subqueries import FALSE, TRUE, conditions, exists
from incmrql.catalyst.operators.table import SUBQUERIES
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.relation import Relation, null, over_bag
from incmrql.catalyst.scope import ColumnScope
from incmrql.types import typed
from incmrql.types.model import BOOL
from incmrql.types.walk import free_variables


def join(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Join`: of any type and on any condition."""
    left, right = scope.plan(node["left"]), scope.plan(node["right"])
    kind = _kind(node)
    _refuse_open_memberships(node, kind, {"left": left.ids, "right": right.ids})
    if kind in ("Inner", "Cross"):
        return _Join(node, scope, lambda _: right).inner(left)
    if kind == "LeftSemi":
        return _Join(node, scope, lambda _: right).with_partner(left)
    left, right = reusable(left, scope, "left"), reusable(right, scope, "right")
    joined = _Join(node, scope, lambda _: right.with_new_variables(scope.names))
    match kind:
        case "LeftAnti":
            return joined.union(joined.without_partner(left))
        case "LeftOuter":
            return joined.union([joined.inner(left), *joined.padded_rows(left)])
        case "RightOuter":
            return joined.union([joined.inner(left), *joined.padding(left, right)])
        case _:
            both = joined.inner(left)
            return joined.union([both, *joined.padded_rows(left), *joined.padding(left, right)])


_FILTERED: Final[dict[str, Sequence[str]]] = {
    "Inner": ("left", "right"),
    "Cross": ("left", "right"),
    "LeftSemi": ("left", "right"),
    "LeftOuter": ("right",),
    "LeftAnti": ("right",),
    "RightOuter": ("left",),
    "FullOuter": (),
}
"""The sides that Spark filters by a condition on one side alone, before it joins."""


def _refuse_open_memberships(node: PlanNode, kind: str, ids: Mapping[str, Collection[int]]) -> None:
    """Refuse `NOT IN (query)` where Spark evaluates it as part of a join: it then forgets nulls.

    As a filter of one side it minds them, so that the answer depends on what Spark optimises.
    """
    condition: PlanNode | None = node["condition"]
    for conjunct in _conjuncts(condition):
        if not _negates_membership(conjunct):
            continue
        used = {part["exprId"] for part in nodes_of(conjunct) if part.name == "AttributeReference"}
        sides = [side for side, own in ids.items() if used.intersection(own)]
        if len(sides) != 1 or sides[0] not in _FILTERED[kind]:
            raise Refused(
                "C103",
                "NOT IN (query) in the condition of a join means one thing or another,"
                " as Spark optimises it",
                "Write NOT EXISTS, or filter the rows of one side before the join.",
                conjunct,
            )


def _conjuncts(condition: PlanNode | None) -> list[PlanNode]:
    if condition is None:
        return []
    if condition.name == "And":
        return [*_conjuncts(condition["left"]), *_conjuncts(condition["right"])]
    return [condition]


def _negates_membership(node: PlanNode) -> bool:
    """Whether a condition has `IN (query)` below NOT, or compared with TRUE or FALSE."""
    return any(
        part.name in ("Not", "EqualTo")
        and any(inner.name == "InSubquery" for inner in nodes_of(part))
        for part in nodes_of(node)
    )


def lateral_join(node: PlanNode, scope: ColumnScope) -> Relation:
    """`LateralJoin`: each row with the rows of a sub-query that may refer to it."""
    left = scope.plan(node["left"])
    subquery: PlanNode = node["right"]
    check_node(subquery, SUBQUERIES)

    def right_of(outer: Relation) -> Relation:
        return scope.over(outer).inside().plan(subquery["plan"])

    joined = _Join(node, scope, right_of)
    kind = _kind(node)
    if kind in ("Inner", "Cross"):
        return joined.inner(left)
    if kind != "LeftOuter":
        raise Refused("C104", f"a lateral join of the type {kind} is not converted", node=node)
    left = reusable(left, scope, "left")
    return joined.union([joined.inner(left), *joined.padded_rows(left)])


_KINDS = ("Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti")


def _kind(node: PlanNode) -> str:
    kind: PlanNode = node["joinType"]
    if kind.name not in _KINDS:
        raise Refused("C101", f"the join type {kind.name} is not known here", node=node)
    return kind.name


class _Join:
    """A join's condition over copies of its sides; `right_of` is the right side for a left one."""

    def __init__(
        self, node: PlanNode, scope: ColumnScope, right_of: Callable[[Relation], Relation]
    ) -> None:
        self.condition: PlanNode | None = node["condition"]
        self.scope, self.right_of = scope, right_of

    def inner(self, left: Relation) -> Relation:
        """The pairs for which the condition holds."""
        right = self.right_of(left)
        both = Relation((*left.qualifiers, *right.qualifiers), (*left.columns, *right.columns))
        for condition in self._conditions(left, right):
            both = both.where(condition)
        return both

    def with_partner(self, left: Relation) -> Relation:
        """The rows of the left side for which there is a row of the right one."""
        own, partner = self._partner(left, self.right_of(left), keep="left")
        for condition in (*own, partner):
            left = left.where(condition)
        return left

    def without_partner(self, left: Relation) -> list[Relation]:
        """The rows of the left side for which there is no row of the right one, in parts."""
        return self._without(lambda: self._sides(left), keep="left")

    def padded_rows(self, left: Relation) -> list[Relation]:
        """The rows of the left side without a partner, with nulls for the columns of the right."""
        _, right = self._sides(left)
        nulls = [(expr_id, null(value.type)) for expr_id, value in right.columns]
        parts = self.without_partner(left)
        return [part.with_columns((*part.columns, *nulls)) for part in parts]

    def padding(self, left: Relation, right: Relation) -> list[Relation]:
        """The rows of the right side without a partner, with nulls for the columns of the left."""
        names = self.scope.names
        parts = self._without(
            lambda: (left.with_new_variables(names), right.with_new_variables(names)), keep="right"
        )
        nulls = [(expr_id, null(value.type)) for expr_id, value in left.columns]
        return [part.with_columns((*nulls, *part.columns)) for part in parts]

    def union(self, parts: list[Relation]) -> Relation:
        """The rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        bags = [part.bag for part in parts]
        whole = reduce(lambda a, b: typed.Combine("union", a, b, type=a.type), bags)
        return over_bag(self.scope.names, whole, parts[0].ids, "joined")

    def _sides(self, left: Relation) -> tuple[Relation, Relation]:
        """A copy of the left side, and the right side for it."""
        left = left.with_new_variables(self.scope.names)
        return left, self.right_of(left)

    def _conditions(self, left: Relation, right: Relation) -> list[typed.Expr]:
        if self.condition is None:
            return []
        return conditions(self.condition, self.scope.over(left, right))

    def _without(
        self, sides: Callable[[], tuple[Relation, Relation]], keep: Literal["left", "right"]
    ) -> list[Relation]:
        """The rows of one side without a partner; `sides` makes new copies of both.

        Where a condition on the side alone is not true, there is none; other rows are asked.
        """
        left, right = sides()
        own, partner = self._partner(left, right, keep)
        alone = left if keep == "left" else right
        for condition in own:
            alone = alone.where(condition)
        asked = alone.where(typed.Not(partner, type=BOOL))
        if not own:
            return [asked]
        left, right = sides()
        own, _ = self._partner(left, right, keep)
        whole = build.conjunction(own)
        assert whole is not None
        never = typed.If(whole, FALSE, TRUE, type=BOOL)  # null is no partner either
        return [asked, (left if keep == "left" else right).where(never)]

    def _partner(
        self, left: Relation, right: Relation, keep: Literal["left", "right"]
    ) -> tuple[list[typed.Expr], typed.Expr]:
        """The conditions on the kept side alone, and whether the other one has a partner."""
        other = right if keep == "left" else left
        inside = {v for q in other.qualifiers for v in _bound_by(q)}
        own: list[typed.Expr] = []
        for condition in self._conditions(left, right):
            if free_variables(condition) & inside:
                other = other.where(condition)
            else:
                own.append(condition)
        return own, exists(other)


def _bound_by(qualifier: typed.Qualifier) -> list[typed.Variable]:
    return [] if isinstance(qualifier, typed.Condition) else pattern_variables(qualifier.pattern)
