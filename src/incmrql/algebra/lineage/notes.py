"""Notes: a note stands beside a value and says what it was made from.

    lineage   bags of leaves (name of the source, its row, which copy of the row, which source)
    debug     one tree < operator, value, inputs >

Notes are expressions, so that a query with notes is a query like any other.  Copies of a row of a
source are numbered; which of them has which number does not matter.
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
"""Bags of leaves, of which the union counts; or one tree."""

LEAF = Tuple((STRING, ANY, LONG, LONG))
TREES = list_of(ANY)


Parts: TypeAlias = Callable[[], typed.Expr | None]
"""Computes the elements with their notes; None if the notes of single elements are not known."""


@dataclass(frozen=True, slots=True)
class VariableOrigin:
    """What a variable was made from, and its elements with their notes."""

    note: Note
    parts: Parts = lambda: None


@dataclass(frozen=True, slots=True)
class RowLineage:
    """A row: the origins of its variables and what it was made from.

    `implied` are notes that everything made of the row gets in any case, so that they need not be
    repeated.  What a `deep` row makes may be taken apart, and its elements used one by one;
    nothing is implied for them.
    """

    origins: Mapping[int, VariableOrigin] = field(default_factory=dict)
    inputs: tuple[Note, ...] = ()
    implied: Note = ()
    deep: bool = False

    def bind(self, origins: Mapping[int, VariableOrigin]) -> RowLineage:
        """The row with more variables."""
        return replace(self, origins={**self.origins, **origins})

    def use(self, note: Note) -> RowLineage:
        """The row, made from one more input."""
        implied = () if self.deep else (*self.implied, *note)
        return replace(self, inputs=(*self.inputs, note), implied=implied)

    def inside(self, *, deep: bool) -> RowLineage:
        """The row as the start of a query inside it."""
        if self.deep:
            return replace(self, deep=deep)
        implied = (*self.implied, *[atom for note in self.inputs for atom in note])
        return RowLineage(self.origins, (), implied, deep)

    def without_implied(self, note: Note) -> Note:
        """What a note says beyond what is implied."""
        return tuple([atom for atom in note if atom not in self.implied])


class Notes(Protocol):
    """Makes notes of one kind."""

    names: Names
    type: Type
    is_tree: bool
    """Whether a note is a tree, which repeats what the notes around it say."""

    def leaf_note(
        self, operator: str, name: str, value: typed.Expr, copy: typed.Expr, number: int
    ) -> Note:
        """The note of a row of a source."""

    def collection_note(self, operator: str, value: typed.Expr, parts: typed.Expr) -> Note:
        """The note of a collection whose elements, the parts, have notes of their own."""

    def value_note(
        self,
        operator: str,
        value: typed.Expr,
        inputs: Sequence[Note],
        parts: typed.Expr | None = None,
    ) -> Note:
        """The note of a value that is made from inputs; a tree also shows its parts."""

    def group_note(self, partition: typed.Expr, members: typed.Expr) -> Note:
        """The note of a group, from the bag of the notes of its members."""

    def as_expr(self, note: Note) -> typed.Expr:
        """A note as one expression."""


class LeafLineage:
    """Lineage: leaves, each once."""

    type: Type = bag(LEAF)
    is_tree = False

    def __init__(self, names: Names) -> None:
        self.names = names

    def leaf_note(
        self, operator: str, name: str, value: typed.Expr, copy: typed.Expr, number: int
    ) -> Note:
        """A row of a source."""
        del operator
        source, which = typed.Const(name, type=STRING), typed.Const(number, type=LONG)
        return (rows.bag_of(rows.tuple_of(source, as_any(value), copy, which)),)

    def collection_note(self, operator: str, value: typed.Expr, parts: typed.Expr) -> Note:
        """The leaves of all elements."""
        del operator, value
        part = self.names.variable("part", element_of(parts))
        leaf = self.names.variable("leaf", LEAF)
        of_part = typed.Generator(typed.Bind(leaf), rows.item(rows.var(part), 1))
        return (rows.for_each(part, parts, rows.var(leaf), of_part),)

    def value_note(
        self,
        operator: str,
        value: typed.Expr,
        inputs: Sequence[Note],
        parts: typed.Expr | None = None,
    ) -> Note:
        """The leaves of all inputs."""
        del operator, value, parts
        return distinct_atoms(atom for note in inputs for atom in note)

    def group_note(self, partition: typed.Expr, members: typed.Expr) -> Note:
        """The leaves of all members of a group."""
        del partition
        return (typed.Builtin("flatten", (members,), type=self.type),)

    def as_expr(self, note: Note) -> typed.Expr:
        """The note as one expression: each leaf once."""
        if not note:
            return rows.empty(LEAF)
        together = note[0]
        for atom in note[1:]:
            together = typed.Combine("union", together, atom, type=self.type)
        if isinstance(together, typed.Var | typed.MakeCollection):
            return together
        return without_traces(typed.Builtin("distinct", (together,), type=self.type), self.names)


class Trees:
    """Debug: the tree of operators and values."""

    type: Type = ANY
    is_tree = True

    def __init__(self, names: Names) -> None:
        self.names = names

    def leaf_note(
        self, operator: str, name: str, value: typed.Expr, copy: typed.Expr, number: int
    ) -> Note:
        """A row of a source."""
        del name, copy, number
        return self.value_note(operator, value, ())

    def collection_note(self, operator: str, value: typed.Expr, parts: typed.Expr) -> Note:
        """A node over the elements of a collection."""
        return self.value_note(operator, value, (), parts)

    def value_note(
        self,
        operator: str,
        value: typed.Expr,
        inputs: Sequence[Note],
        parts: typed.Expr | None = None,
    ) -> Note:
        """A node; the parts of a bag are in the canonical order of their trees."""
        below: typed.Expr = typed.MakeCollection(
            tuple([atom for note in inputs for atom in note]), type=TREES
        )
        if parts is not None:
            below = typed.Concat((below, self._trees_of(parts)), type=TREES)
        return _tree(operator, without_traces(value, self.names), below)

    def group_note(self, partition: typed.Expr, members: typed.Expr) -> Note:
        """A node over the members of a group."""
        return _tree("group", partition, typed.Builtin("sort", (members,), type=TREES))

    def as_expr(self, note: Note) -> typed.Expr:
        """The note as one expression."""
        return without_traces(note[0], self.names)

    def _trees_of(self, parts: typed.Expr) -> typed.Expr:
        part = self.names.variable("part", element_of(parts))
        kind = parts.type
        assert isinstance(kind, Collection)
        trees = typed.MapOver(
            part, parts, rows.item(rows.var(part), 1), False, type=Collection(kind.kind, ANY)
        )
        return trees if kind.kind == "list" else typed.Builtin("sort", (trees,), type=TREES)


def _tree(operator: str, value: typed.Expr, inputs: typed.Expr) -> Note:
    fields = (
        ("operator", typed.Const(operator, type=STRING)),
        ("value", as_any(value)),
        ("inputs", inputs),
    )
    return (as_any(rows.record_of(fields)),)


def distinct_atoms(atoms: Iterable[typed.Expr]) -> Note:
    """Atoms without repetitions, in order."""
    distinct: list[typed.Expr] = []
    for atom in atoms:
        if atom not in distinct:
            distinct.append(atom)
    return tuple(distinct)


def as_any(expr: typed.Expr) -> typed.Expr:
    """An expression as a value of type any."""
    return expr if expr.type == ANY else typed.Widen(expr, type=ANY)


def element_of(collection: typed.Expr) -> Type:
    """The type of the elements of an expression."""
    assert isinstance(collection.type, Collection), collection.type
    return collection.type.element


def without_traces(expr: typed.Expr, names: Names) -> typed.Expr:
    """A copy of an expression, with variables of its own, that prints no traces."""

    def silence(node: typed.Expr) -> typed.Expr:
        while isinstance(node, typed.Trace):
            node = node.operand
        return map_children(silence, node)

    return rename_binders(silence(expr), names.like)
