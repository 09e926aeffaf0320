"""The relations that one query is made of, the sides of its groups, and how rows become columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from incmrql.algebra.term import Repeat, Scan, Term, Values
from incmrql.errors import InternalError
from incmrql.lower import tree
from incmrql.lower.context import Context
from incmrql.lower.expressions import arrays
from incmrql.lower.shapes import Cell, Env, GroupBag, Hidden, Parts, Shape, leaves, map_leaves
from incmrql.lower.tree import Dialect
from incmrql.types import typed
from incmrql.types.model import EXACT_SUM, Record, Type

# --- Relations and sides ---


@dataclass(frozen=True, slots=True)
class LoweredRelation:
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
class GroupSide:
    """One side of a group: pairs of key and value, and the aggregates that are wanted of it.

    An iterated side gives the rows themselves; its aggregates are then beside each row, by
    windows, and else beside each key.
    """

    relation: LoweredRelation
    key: Shape
    value: Shape
    group: typed.Variable
    iterated: bool
    aggregates: dict[str, tuple[str, exp.Expression]] = field(default_factory=dict)
    prepared: list[tuple[str, exp.Expression]] = field(default_factory=list)
    """Columns that aggregates share, made of those of the relation and of earlier ones."""
    derived: list[list[tuple[str, exp.Expression]]] = field(default_factory=list)
    """Columns made of the aggregates, step by step, each of those of the steps before."""
    test: Literal["", "semi", "anti"] = ""
    """Whether only the presence of a partner is asked for."""

    def aggregate_column(
        self, aggregate: exp.Expression, hint: str, ctx: Context
    ) -> exp.Expression:
        """The column that holds an aggregate of the group's rows."""
        key = tree.print_tree(aggregate, Dialect.SPARK)
        if key not in self.aggregates:
            self.aggregates[key] = ctx.fresh(hint), aggregate
        return tree.column(self.aggregates[key][0])

    def prepare(self, value: exp.Expression, hint: str, ctx: Context) -> exp.Expression:
        """The column that holds an expression of each row, for several aggregates."""
        for name, existing in self.prepared:
            if existing == value:
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

    def collect(self, many: GroupBag, ctx: Context) -> exp.Expression:
        """The elements of a bag of the group as an array."""
        whole, head = ctx.whole(many.head), many.head
        nullable = not isinstance(head, Parts) and not (isinstance(head, Cell) and head.present)
        if nullable:  # collect_list leaves nulls out
            whole = tree.call("named_struct", tree.text("v"), whole)
        condition = tree.conjunction(many.tests)
        filtered = whole if condition is None else tree.case([(condition, whole)], None)
        array = self.aggregate_column(tree.call("collect_list", filtered), "bag", ctx)
        if nullable:
            array = arrays.transform(array, lambda item: tree.get(item, "v"), ctx)
        return tree.call("coalesce", array, arrays.empty(head.type, ctx))

    def inner_env(self) -> Env:
        """What an aggregate of the rows can see: the key, and nothing else of the group."""
        type_ = self.group.type
        hidden = tree.parts_of(type_)[1][1]
        return Env({self.group: Parts((self.key, Hidden(hidden)), type_)})


# --- The builder ---


@dataclass(slots=True)
class RelationBuilder:
    """The relations of one query, in order, and the views that they start from.

    `relation` is the lowering of terms itself, for the modules that it is built from.
    """

    ctx: Context
    relation: Callable[[Term, RelationBuilder], LoweredRelation]
    relations: list[tuple[str, exp.Expression]] = field(default_factory=list)
    sources: list[tuple[str, Scan]] = field(default_factory=list)
    constants: list[tuple[str, Values]] = field(default_factory=list)
    loops: Mapping[int, LoweredRelation] = field(default_factory=dict)
    """The views that hold the variables of loops, by their numbers."""
    repeats: list[tuple[str, Repeat]] = field(default_factory=list)
    shared: Mapping[int, Term] = field(default_factory=dict)
    """Terms that several places name, by the numbers of their variables."""
    shared_relations: dict[int, LoweredRelation] = field(default_factory=dict)

    def define(self, select: exp.Expression, hint: str = "t") -> str:
        """A name for a relation."""
        name = self.ctx.fresh(hint)
        self.relations.append((name, select))
        return name


def columns_of(type_: Type) -> tuple[tuple[str, Type], ...]:
    """The columns of a view of rows of a type: its fields, or one `value`."""
    return type_.fields if isinstance(type_, Record) and type_.fields else (("value", type_),)


def view(
    name: str, type_: Type, b: RelationBuilder, *, packed: bool = False, size: int | None = None
) -> LoweredRelation:
    """A view under columns of its own."""
    columns = (("value", type_),) if packed else columns_of(type_)
    names = [(b.ctx.fresh(column), column, part) for column, part in columns]
    columns_ = [exp.alias_(tree.column(column), own) for own, column, _ in names]
    relation = b.define(exp.select(*columns_).from_(exp.to_table(name)))
    cells = tuple(Cell(tree.column(own), part) for own, _, part in names)
    is_row = not packed and isinstance(type_, Record) and type_.fields
    return LoweredRelation(relation, Parts(cells, type_) if is_row else cells[0], size=size)


def copy_relation(source: LoweredRelation, b: RelationBuilder) -> LoweredRelation:
    """A relation under other columns."""
    names = [column_name(cell) for cell in leaves(source.row)]
    fresh = {name: b.ctx.fresh(name) for name in names}
    columns = [exp.alias_(tree.column(name), own) for name, own in fresh.items()]
    name = b.define(exp.select(*columns or [tree.boolean(True)]).from_(source.name))
    row = map_leaves(
        lambda cell: replace(cell, tree=tree.column(fresh[column_name(cell)])), source.row
    )
    present = frozenset(fresh[column_] for column_ in source.present)
    return replace(source, name=name, row=row, present=present)


def column_name(cell: Cell) -> str:
    """The column that a part of a relation's row is."""
    if not isinstance(cell.tree, exp.Column):
        raise InternalError("a relation's row is made of columns")
    return cell.tree.name


def same_structure(left: Shape, right: Shape) -> bool:
    """Whether two shapes are known by the same parts."""
    if isinstance(left, Parts) and isinstance(right, Parts):
        return all(map(same_structure, left.parts, right.parts))
    return isinstance(left, Cell) and isinstance(right, Cell)


def as_columns(
    head: Shape, b: RelationBuilder, never_null: AbstractSet[str] = frozenset()
) -> tuple[Shape, list[exp.Expr], frozenset[str]]:
    """A shape as columns with names of their own."""
    columns: list[exp.Expr] = []
    never_null_columns: set[str] = set()

    def name_leaves(shape: Shape, hint: str) -> Shape:
        match shape:
            case Parts(parts, type_) if type_ == EXACT_SUM:
                return Parts(tuple(name_leaves(part, "sum") for part in parts), type_)
            case Parts(parts, type_):
                names = [name for name, _ in tree.parts_of(type_)]
                pairs = zip(parts, names, strict=True)
                return Parts(
                    tuple(name_leaves(p, n if n[0] != "_" else hint) for p, n in pairs), type_
                )
            case Cell(expression, type_, present_, narrow):
                column = b.ctx.fresh(
                    expression.name if isinstance(expression, exp.Column) else hint
                )
                columns.append(exp.alias_(expression, column))
                text = tree.print_tree(expression, b.ctx.dialect)
                if present_ or text in never_null:
                    never_null_columns.add(column)
                return Cell(tree.column(column), type_, present_, narrow)
            case _:
                return name_leaves(Cell(b.ctx.whole(shape), shape.type, present=True), hint)

    row = name_leaves(head, "c")
    if not columns:
        columns.append(exp.alias_(tree.boolean(True), b.ctx.fresh("unit")))
    return row, columns, frozenset(never_null_columns)
