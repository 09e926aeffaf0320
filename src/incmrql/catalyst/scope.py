"""What an expression of a plan may refer to, and what one conversion shares.

Spark's attributes have ids that are unique in a plan, so a name never matters.  A sub-query sees
the columns of the rows around it too: Spark marks these uses as `OuterReference`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from incmrql.algebra.rows import Names
from incmrql.catalyst.nodes import PlanNode, nodes_of
from incmrql.catalyst.refusals import Code, Refusals, Refused
from incmrql.catalyst.relation import Relation, null
from incmrql.catalyst.types import model_type
from incmrql.errors import InternalError
from incmrql.types import typed
from incmrql.types.model import NOTHING

Leaves: TypeAlias = Callable[[PlanNode], typed.Expr]
"""The bag of rows of a leaf of the plan; raises `Refused`."""


@dataclass(slots=True)
class Conversion:
    """What all parts of a conversion share.

    The functions are those of the modules above this one, which would import each other otherwise:
    `plan` converts an operator, `expression` an expression, `subquery` a sub-query as a value.
    """

    leaves: Leaves
    plan: Callable[[PlanNode, ColumnScope], Relation]
    expression: Callable[[PlanNode, ColumnScope], typed.Expr]
    subquery: Callable[[PlanNode, ColumnScope], typed.Expr]
    names: Names = field(default_factory=lambda: Names(0))
    refusals: Refusals = field(default_factory=Refusals)
    settings: Mapping[str, str] = field(default_factory=dict)
    queries: dict[str, typed.Expr] = field(default_factory=dict)
    """The named queries of the script: parts of the plan that are used more than once."""
    views: dict[str, typed.Expr] = field(default_factory=dict)
    """The named query of each view that has one, by its text without ids."""
    repeated: frozenset[str] = frozenset()
    """The texts of the views that occur more than once."""
    notes: list[str] = field(default_factory=list)
    """What the user should know: choices that Spark leaves open, hints that are dropped."""

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def name_query(self, name: str, bag: typed.Expr) -> typed.Expr:
        """Make a bag a named query of the script; the expression that refers to it."""
        key, number = name, 1
        while key in self.queries:
            number += 1
            key = f"{name} {number}"
        self.queries[key] = bag
        return typed.Global(key, type=bag.type)


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A common table expression: its plan, the scope of its definition, and its uses."""

    plan: PlanNode
    scope: ColumnScope
    name: str
    uses: int
    shared: list[typed.Expr] = field(default_factory=list, compare=False)
    """The named query that the first use made of it, if later ones may refer to it."""


@dataclass(frozen=True, slots=True)
class ColumnScope:
    """The columns that an expression may use, by expression id, and the scope around them."""

    conversion: Conversion
    columns: Mapping[int, typed.Expr] = field(default_factory=dict)
    outer: ColumnScope | None = None
    definitions: Mapping[int, CommonTable] = field(default_factory=dict)
    """The common table expressions in scope, by id."""
    bindings: list[typed.Qualifier] | None = None
    """If the operator takes them: names for what sub-queries of its expressions are made of."""

    @property
    def names(self) -> Names:
        """Fresh variables."""
        return self.conversion.names

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of Spark that were captured with the plan."""
        return self.conversion.settings

    def over(self, *relations: Relation) -> ColumnScope:
        """The scope of expressions over the rows of some relations."""
        columns = {key: value for relation in relations for key, value in relation.columns}
        return replace(self, columns=columns, bindings=None)

    def taking_bindings(self) -> ColumnScope:
        """The same scope for an operator that adds `bindings` to its rows."""
        return replace(self, bindings=[])

    def with_columns(self, columns: Mapping[int, typed.Expr]) -> ColumnScope:
        """The scope with more columns, such as the variables of a lambda."""
        return replace(self, columns={**self.columns, **columns}, bindings=None)

    def inside(self) -> ColumnScope:
        """The scope of a sub-query that stands in an expression of this scope."""
        return replace(self, columns={}, outer=self, bindings=None)

    def with_definitions(self, definitions: Mapping[int, CommonTable]) -> ColumnScope:
        """The scope with more common table expressions."""
        return replace(self, definitions={**self.definitions, **definitions})

    def column(self, expr_id: int) -> typed.Expr:
        """The value of a column, of this scope or of the nearest one around that has it."""
        value = self._find(expr_id)
        if value is None:
            raise InternalError(f"no column has the expression id {expr_id}")
        return value

    def _find(self, expr_id: int) -> typed.Expr | None:
        scope: ColumnScope | None = self
        while scope is not None:
            if expr_id in scope.columns:
                return scope.columns[expr_id]
            scope = scope.outer
        return None

    def expression(self, node: PlanNode) -> typed.Expr:
        """The value of an expression; a placeholder if it is refused."""
        scope = self._with_placeholders(node) if self.conversion.refusals.problems else self
        try:
            return self.conversion.expression(node, scope)
        except Refused as refused:
            self.conversion.refusals.add(refused, node)
            return placeholder(node)

    def any_expression(self, node: PlanNode) -> typed.Expr:
        """The value of an expression; a column alone may have a type that is not converted.

        Rows pass such columns on, and what uses one is refused.
        """
        value = self._find(node["exprId"]) if node.name == "AttributeReference" else None
        return self.expression(node) if value is None else value

    def _with_placeholders(self, node: PlanNode) -> ColumnScope:
        """The scope with placeholders for the columns of operators that were refused."""
        missing = {
            part["exprId"]: placeholder(part)
            for part in nodes_of(node)
            if part.name == "AttributeReference" and self._find(part["exprId"]) is None
        }
        return replace(self, columns={**self.columns, **missing}) if missing else self

    def plan(self, node: PlanNode) -> Relation:
        """The relation of an operator; one without columns if it is refused."""
        return self.conversion.plan(node, self)

    def subquery(self, node: PlanNode) -> typed.Expr:
        """The value of a sub-query expression: `ScalarSubquery`, `Exists` or `InSubquery`."""
        return self.conversion.subquery(node, self)

    def refuse(
        self, node: PlanNode, message: str, hint: str = "", code: Code = "C104"
    ) -> typed.Expr:
        """Report that a part is not converted; a placeholder for its value."""
        self.conversion.refusals.add(Refused(code, message, hint), node)
        return placeholder(node)

    def expressions(self, nodes: Iterable[PlanNode]) -> list[typed.Expr]:
        """The values of several expressions."""
        return [self.expression(node) for node in nodes]


def placeholder(node: PlanNode) -> typed.Expr:
    """A value of the type of an expression that is not converted, so that more can be looked at."""
    type_ = node.fields.get("$type")
    try:
        return null(model_type(type_) if isinstance(type_, PlanNode) else NOTHING)
    except Refused:
        return null(NOTHING)
