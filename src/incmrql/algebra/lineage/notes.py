"""Notes: what stands beside a value to say what it was made from, and what a row knows of them.

    lineage   bags of leaves (name of the source, its row, which copy of the row, which source)
    debug     one tree < operator, value, inputs >

Notes are expressions, so that a query with notes is a query like any other.  Rows of a source
that are identical are told apart by numbers: which of them has which does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from incmrql.algebra import rows
from incmrql.algebra.rows import Names
from incmrql.types import typed
from incmrql.types.model import ANY, LONG, STRING, Collection, Tuple, Type, bag, list_of
from incmrql.types.walk import map_children, rename_binders

Note: TypeAlias = tuple[typed.Expr, ...]
"""Bags of leaves, all of which count; or one tree."""

LEAF = Tuple((STRING, ANY, LONG, LONG))
TREES = list_of(ANY)


Parts: TypeAlias = Callable[[], typed.Expr | None]
"""Elements with their notes, made when they are asked for; None if they are not known."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a variable was made from, and its elements with their notes."""

    note: Note
    parts: Parts = lambda: None


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the origins of its variables and what it was made from.

    `told` are notes that whatever is made of the row gets anyway.  Of a `deep` row the elements
    of what is made of it go ways of their own, so nothing is told for them.
    """

    origins: Mapping[int, Origin] = field(default_factory=dict)
    inputs: tuple[Note, ...] = ()
    told: Note = ()
    deep: bool = False

    def bind(self, origins: Mapping[int, Origin]) -> Row:
        """The row with more variables."""
        return replace(self, origins={**self.origins, **origins})

    def use(self, note: Note) -> Row:
        """The row, made from something more."""
        told = () if self.deep else (*self.told, *note)
        return replace(self, inputs=(*self.inputs, note), told=told)

    def inside(self, *, deep: bool) -> Row:
        """The row as the start of a query inside it, whose elements may go ways of their own."""
        if self.deep:
            return replace(self, deep=deep)
        told = (*self.told, *[atom for note in self.inputs for atom in note])
        return Row(self.origins, (), told, deep)

    def untold(self, note: Note) -> Note:
        """What a note says that is not told anyway."""
        return tuple([atom for atom in note if atom not in self.told])


class Notes(Protocol):
    """How notes are made."""

    names: Names
    type: Type
    all_told: bool
    """Whether a note tells again what the notes around it tell."""

    def leaf(
        self, operator: str, name: str, value: typed.Expr, copy: typed.Expr, number: int
    ) -> Note:
        """The note of a row of a source."""

    def whole(self, operator: str, value: typed.Expr, parts: typed.Expr) -> Note:
        """The note of a collection whose elements, the parts, have notes of their own."""

    def over(
        self,
        operator: str,
        value: typed.Expr,
        inputs: Sequence[Note],
        parts: typed.Expr | None = None,
    ) -> Note:
        """The note of a value whose inputs have all that its parts have."""

    def grouped(self, partition: typed.Expr, members: typed.Expr) -> Note:
        """The note of a group, from the bag of the notes of its members."""

    def written(self, note: Note) -> typed.Expr:
        """A note as a value."""


class Leaves:
    """Lineage: leaves, each once."""

    type: Type = bag(LEAF)
    all_told = False

    def __init__(self, names: Names) -> None:
        self.names = names

    def leaf(
        self, operator: str, name: str, value: typed.Expr, copy: typed.Expr, number: int
    ) -> Note:
        """A row of a source."""
        del operator
        made = rows.tuple_of(
            typed.Const(name, type=STRING), as_any(value), copy, typed.Const(number, type=LONG)
        )
        return (rows.bag_of(made),)

    def whole(self, operator: str, value: typed.Expr, parts: typed.Expr) -> Note:
        """The leaves of all elements."""
        del operator, value
        part = self.names.variable("part", element_of(parts))
        leaf = self.names.variable("leaf", LEAF)
        of_part = typed.Generator(typed.Bind(leaf), rows.item(rows.var(part), 1))
        return (rows.for_each(part, parts, rows.var(leaf), of_part),)

    def over(
        self,
        operator: str,
        value: typed.Expr,
        inputs: Sequence[Note],
        parts: typed.Expr | None = None,
    ) -> Note:
        """The leaves of all inputs."""
        del operator, value, parts
        return once(atom for note in inputs for atom in note)

    def grouped(self, partition: typed.Expr, members: typed.Expr) -> Note:
        """The leaves of all members of a group."""
        del partition
        return (typed.Builtin("flatten", (members,), type=self.type),)

    def written(self, note: Note) -> typed.Expr:
        """The note as a value: each leaf once."""
        if not note:
            return rows.empty(LEAF)
        together = note[0]
        for atom in note[1:]:
            together = typed.Combine("union", together, atom, type=self.type)
        if isinstance(together, typed.Var | typed.MakeCollection):
            return together
        return untraced(typed.Builtin("distinct", (together,), type=self.type), self.names)


class Trees:
    """Debug: the tree of operators and values."""

    type: Type = ANY
    all_told = True

    def __init__(self, names: Names) -> None:
        self.names = names

    def leaf(
        self, operator: str, name: str, value: typed.Expr, copy: typed.Expr, number: int
    ) -> Note:
        """A row of a source."""
        del name, copy, number
        return self.over(operator, value, ())

    def whole(self, operator: str, value: typed.Expr, parts: typed.Expr) -> Note:
        """A node over the elements of a collection."""
        return self.over(operator, value, (), parts)

    def over(
        self,
        operator: str,
        value: typed.Expr,
        inputs: Sequence[Note],
        parts: typed.Expr | None = None,
    ) -> Note:
        """A node; parts of a bag stand in the canonical order of their trees."""
        below: typed.Expr = typed.MakeCollection(
            tuple([atom for note in inputs for atom in note]), type=TREES
        )
        if parts is not None:
            below = typed.Concat((below, self._shown(parts)), type=TREES)
        fields = (
            ("operator", typed.Const(operator, type=STRING)),
            ("value", as_any(untraced(value, self.names))),
            ("inputs", below),
        )
        return (as_any(rows.record_of(fields)),)

    def grouped(self, partition: typed.Expr, members: typed.Expr) -> Note:
        """A node over the members of a group."""
        below = typed.Builtin("sort", (members,), type=TREES)
        fields = (
            ("operator", typed.Const("group", type=STRING)),
            ("value", as_any(partition)),
            ("inputs", below),
        )
        return (as_any(rows.record_of(fields)),)

    def written(self, note: Note) -> typed.Expr:
        """The note as a value."""
        return untraced(note[0], self.names)

    def _shown(self, parts: typed.Expr) -> typed.Expr:
        part = self.names.variable("part", element_of(parts))
        kind = parts.type
        assert isinstance(kind, Collection)
        trees = typed.MapOver(
            part, parts, rows.item(rows.var(part), 1), False, type=Collection(kind.kind, ANY)
        )
        in_line = kind.kind == "list"
        return trees if in_line else typed.Builtin("sort", (trees,), type=TREES)


def once(atoms: Iterable[typed.Expr]) -> Note:
    """Expressions without repetitions."""
    kept: list[typed.Expr] = []
    for atom in atoms:
        if atom not in kept:
            kept.append(atom)
    return tuple(kept)


def as_any(expr: typed.Expr) -> typed.Expr:
    """A value of which nothing is known."""
    return expr if expr.type == ANY else typed.Widen(expr, type=ANY)


def element_of(collection: typed.Expr) -> Type:
    """The type of the elements of an expression."""
    assert isinstance(collection.type, Collection), collection.type
    return collection.type.element


def untraced(expr: typed.Expr, names: Names) -> typed.Expr:
    """A copy of an expression with variables of its own, that prints nothing."""

    def silent(node: typed.Expr) -> typed.Expr:
        while isinstance(node, typed.Trace):
            node = node.operand
        return map_children(silent, node)

    return rename_binders(silent(expr), names.like)
