"""The nodes of a plan: what each does with the changes that reach it, as data.

A plan is a list of nodes; each names the places of those it takes changes from, which stand
before it.  What a node does, in the words of the algebra:

    Input       the change of a source           Constant   all there is, in the first batch
    Linear      f(ΔX)                            Merge      ΔX + ΔY
    Join        ΔX⋈Y + X⋈ΔY + ΔX⋈ΔY              Groups     -old +new, for touched keys
    Ordered     -old +new of the first rows      Repeated   the loop again, -old +new
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

from incmrql.algebra.term import Query, Repeat
from incmrql.types import typed
from incmrql.types.model import Tuple, Type

AccumulatorKind: TypeAlias = Literal[
    "rows", "count", "sum", "squares", "true", "false", "parts", "sizes"
]
"""What is added up: elements, those that are not null, numbers, their squares, the trues, the
falses, exact parts as often as they count, and the sizes of such parts."""


@dataclass(frozen=True, slots=True)
class Input:
    """The rows of a source.  One that is not streaming is read once, in the first batch."""

    source: typed.Source
    element: Type
    name: str
    insert_only: bool
    ledger: bool
    """Whether rows are counted, so that deleting one that is not there is noticed."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The elements of a collection that no source has part in."""

    expr: typed.Expr


@dataclass(frozen=True, slots=True)
class Linear:
    """What maps, one after the other, make of each row on its own."""

    input: int
    steps: tuple[tuple[typed.Variable, typed.Expr], ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """All rows of several inputs."""

    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows that agree on a key: `body` over (key, ({left}, {right})) for each.

    `kept` are the sides that are remembered.  The partners of a side that never changes after
    the first batch need not be.
    """

    left: int
    right: int
    group: typed.Variable
    body: typed.Expr
    key: Type
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A sum over the elements of `operand`, which each value of one side adds its own to."""

    kind: AccumulatorKind
    side: int
    operand: typed.Expr


@dataclass(frozen=True, slots=True)
class Request:
    """An aggregate, `asked`, that the answer asks of one side of a group.

    It comes from accumulators.  One that has none goes through the rows of its side, and only
    when these change.
    """

    variable: typed.Variable
    function: str
    accumulators: tuple[int, ...]
    side: int
    asked: typed.Expr


@dataclass(frozen=True, slots=True)
class Groups:
    """A function of the groups of one side or two: `body` over a group and over `requests`.

    Per key: the multiplicity of each side, the accumulators, and the rows of the sides in
    `kept`.  `used` are the sides whose rows `body` itself reads; if it goes through one side row by
    row, that is `linear`, and rows of that side then change the answer row by row as long as
    the requests keep their values.
    """

    inputs: tuple[int, ...]
    group: typed.Variable
    body: typed.Expr
    key: Type
    accumulators: tuple[Accumulator, ...]
    requests: tuple[Request, ...]
    used: tuple[int, ...]
    kept: tuple[int, ...]
    linear: int | None
    is_fold: bool
    """Whether nothing is kept but accumulators, and rows that no source has part in."""
    is_final: bool
    """Whether no change comes after the first batch, so that nothing need be remembered."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """The first pairs (key tuple, value) in order, at most `limit`."""

    input: int
    descending: tuple[bool, ...]
    limit: typed.Expr


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop, run again whenever an input changes; its term finds them as shared rows."""

    inputs: tuple[int, ...]
    variables: tuple[typed.Variable, ...]
    term: Repeat


Node: TypeAlias = Input | Constant | Linear | Merge | Join | Groups | Ordered | Repeated


@dataclass(frozen=True, slots=True)
class Edge:
    """What is known of the changes that a node sends on."""

    constant: bool
    """No source has part in them."""
    invariant: bool
    """There are none after the first batch."""
    insert_only: bool
    """They never take anything away."""


@dataclass(frozen=True, slots=True)
class Part:
    """A collection that the answer is made of: the rows of a node.

    With `order` they are pairs (key tuple, value), and the part is the list of the values.
    """

    variable: typed.Variable
    place: int
    order: tuple[bool, ...] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A program of changes for a whole query: `result` over the values of the parts."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    parts: tuple[Part, ...]
    result: typed.Expr
    query: Query = field(repr=False, compare=False)


def inputs(node: Node) -> tuple[int, ...]:
    """The places of the nodes that a node takes changes from."""
    match node:
        case Input() | Constant():
            return ()
        case Linear(input=place) | Ordered(input=place):
            return (place,)
        case Merge(parts):
            return parts
        case Join(left, right):
            return (left, right)
        case Groups(inputs=places) | Repeated(inputs=places):
            return places
        case _:
            assert_never(node)


def is_unit(key: Type) -> bool:
    """Whether all rows have one key, `()`."""
    return key == Tuple(()) or (isinstance(key, Tuple) and all(map(is_unit, key.items)))
