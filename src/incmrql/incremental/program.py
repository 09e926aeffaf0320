"""The program of changes as data: sources, linear segments, nodes, the answer.

    change of a stream -> linear segment -> (key, values, weight) -> node -> answer

A node keeps per key its multiplicity (how many rows the group has) and its accumulators, all of
which form groups: what a deletion adds is the inverse of what the insertion added.  The answer
of a key is a function of the key and of the aggregates, which come from the accumulators.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from incmrql.types import typed
from incmrql.types.model import Type

Kind: TypeAlias = Literal["count", "floats", "integers", "decimals"]
"""What an accumulator adds up: values that are not null, or exact sums of numbers."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A watched folder, and the one that says which rows are deleted."""

    source: typed.Source
    element: Type
    path: str
    deletes: str | None = None
    ledger: bool = False
    """Whether the rows are counted, so that deleting one that is not there is noticed."""


@dataclass(frozen=True, slots=True)
class Linear:
    """What is done to each row on its own: `body` gives pairs (key, value) for a row.

    Every pair then gives one row of columns: the parts of its key, and `columns`, which are
    expressions over the value.
    """

    row: typed.Variable
    body: typed.Expr
    value: typed.Variable
    columns: tuple[typed.Expr, ...]


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A sum over the values that a column of the segment has for a key.

    Decimals are added up in units of 10**-scale.
    """

    kind: Kind
    column: int
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What the answer asks of a group, from the accumulators at the given places.

    `count` has one accumulator, `sum` has one, `avg` has a sum and a count.
    """

    function: Literal["count", "sum", "avg"]
    accumulators: tuple[int, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Fold:
    """A node: per key the multiplicity and the accumulators, merged by adding."""

    name: str
    keys: tuple[Type, ...]
    accumulators: tuple[Accumulator, ...]
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The elements of the answer that a key has: `body` over its parts and its aggregates."""

    keys: tuple[typed.Variable, ...]
    aggregates: tuple[typed.Variable, ...]
    body: typed.Expr
    element: Type


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program: one stream, one node.  `text` is the normal form it came from."""

    stream: Stream
    linear: Linear
    fold: Fold
    answer: Answer
    text: str
    script: typed.Script = field(repr=False, compare=False)

    @property
    def identity(self) -> str:
        """A text that is another one for a program that keeps another state."""
        whole = f"{self.text}\n{self.stream.source!r}\n{self.stream.path}\n{self.stream.deletes}"
        return hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()
