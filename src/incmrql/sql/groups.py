"""The sides of a group: what is wanted of them beside the key, and how they are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from incmrql.sql import arrays, tree
from incmrql.sql.context import Context
from incmrql.sql.shapes import Cell, Env, Hidden, Many, Parts, Shape
from incmrql.sql.tree import Dialect
from incmrql.types import typed


@dataclass(frozen=True, slots=True)
class Relation:
    """A named relation, and what a row of it is, in columns that no other relation has."""

    name: str
    row: Shape
    present: frozenset[str] = frozenset()
    """The columns that are never null."""
    size: int | None = None
    """How many bytes the rows were made of, where that is known."""
    grouped: bool = False
    """Whether there is one row for each key of some rows: maybe far less than these."""


@dataclass(slots=True)
class Side:
    """One side of a group: pairs of key and value, and the aggregates that are wanted of it.

    An iterated side gives the rows themselves; its aggregates are then beside each row, by
    windows, and else beside each key.
    """

    relation: Relation
    key: Shape
    value: Shape
    group: typed.Variable
    iterated: bool
    wanted: dict[str, tuple[str, exp.Expression]] = field(default_factory=dict)
    prepared: list[tuple[str, exp.Expression]] = field(default_factory=list)
    """Columns that aggregates share, made of those of the relation and of earlier ones."""
    derived: list[list[tuple[str, exp.Expression]]] = field(default_factory=list)
    """Columns made of the aggregates, step by step, each of those of the steps before."""
    test: Literal["", "semi", "anti"] = ""
    """Whether only the presence of a partner is asked for."""

    def want(self, aggregated: exp.Expression, hint: str, ctx: Context) -> exp.Expression:
        """The column that holds an aggregate of the group's rows."""
        text = tree.print_tree(aggregated, Dialect.SPARK)
        if text not in self.wanted:
            self.wanted[text] = ctx.fresh(hint), aggregated
        return tree.column(self.wanted[text][0])

    def prepare(self, value: exp.Expression, hint: str, ctx: Context) -> exp.Expression:
        """The column that holds an expression of each row, for several aggregates."""
        for name, known in self.prepared:
            if known == value:
                return tree.column(name)
        self.prepared.append((ctx.fresh(hint), value))
        return tree.column(self.prepared[-1][0])

    def derive(
        self, values: Sequence[exp.Expression], hint: str, ctx: Context
    ) -> list[exp.Expression]:
        """Columns that hold expressions over the aggregates and over columns derived before."""
        for step in self.derived:
            if [value for _, value in step] == list(values):
                return [tree.column(name) for name, _ in step]
        self.derived.append([(ctx.fresh(hint), value) for value in values])
        return [tree.column(name) for name, _ in self.derived[-1]]

    def collected(self, many: Many, ctx: Context) -> exp.Expression:
        """The elements of a bag of the group as an array."""
        whole, head = ctx.whole(many.head), many.head
        nullable = not isinstance(head, Parts) and not (isinstance(head, Cell) and head.present)
        if nullable:  # collect_list leaves nulls out
            whole = tree.call("named_struct", tree.text("v"), whole)
        condition = tree.conjunction(many.tests)
        kept = whole if condition is None else tree.case([(condition, whole)], None)
        listed = self.want(tree.call("collect_list", kept), "bag", ctx)
        if nullable:
            listed = arrays.transform(listed, lambda item: tree.get(item, "v"), ctx)
        return tree.call("coalesce", listed, arrays.empty(head.type, ctx))

    def inner_env(self) -> Env:
        """What an aggregate of the rows can see: the key, and nothing else of the group."""
        type_ = self.group.type
        hidden = tree.parts_of(type_)[1][1]
        return Env({self.group: Parts((self.key, Hidden(hidden)), type_)})
