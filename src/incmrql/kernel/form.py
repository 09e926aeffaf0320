"""The form of a state table: what its rows are hashed by, told apart by and sorted by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from incmrql.types.model import Type


@dataclass(frozen=True, slots=True)
class Form:
    """The columns of a table's rows and their order.

    Rows are sorted by the hash of `keys`, then by the key itself where keys share a hash, then by
    `rest`; `keys` and `rest` together tell rows apart.
    """

    keys: tuple[Type, ...]
    """The columns by which rows meet, hashed and bucketed.  Without any, all rows have one key."""
    rest: tuple[Type, ...] = ()
    """Further columns."""
    descending: tuple[bool, ...] | None = None
    """None: the rows of a key are in no order that matters.  Else, for each column of `rest`,
    whether rows of a key fall in it; they are in canonical order, and a falling column is in the
    exact reverse of it."""
    most: int | None = None
    """A key keeps only its first rows, by weight as many as this; weights are then positive."""
    last: bool = False
    """A key keeps its last rows rather than its first."""

    @property
    def ordered(self) -> bool:
        """Whether the rows of a key are in an order that matters."""
        return self.descending is not None


STATE_OF_A_STEP: Final = "what a step of the loop keeps"


@dataclass(frozen=True, slots=True)
class StateTable:
    """A state table: what it holds, in a few words, and the node that it belongs to.

    A table with rows of an answer belongs to that answer, and to no node.
    """

    name: str
    form: Form
    holds: str
    node: int | None
    answer: int | None = None
