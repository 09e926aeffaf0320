"""What is known of a row while notes are made: what it and its variables were made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from incmrql.algebra.lineage_notes import Note
from incmrql.types import typed

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
