"""The nodes of a plan: what each does with the changes that reach it, as data.

A plan is a list of nodes; each names the places of those it takes changes from, which stand
before it.  What a node does, in the words of the algebra:

    Input       the change of a source           Constant   all there is, in the first batch
    Linear      f(ΔX)                            Merge      ΔX + ΔY
    Join        ΔX⋈Y + X⋈ΔY + ΔX⋈ΔY              Groups     -old +new, for touched keys
    Ordered     -old +new of the first rows      Repeated   the loop again, -old +new
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

from incmrql.algebra.term import Query, Repeat
from incmrql.plan.monoids import Monoid
from incmrql.types import typed
from incmrql.types.model import Tuple, Type

AccumulatorKind: TypeAlias = Literal[
    "rows",
    "count",
    "sum",
    "squares",
    "true",
    "false",
    "parts",
    "sizes",
    "least",
    "greatest",
    "user",
]
"""What is merged: elements, those that are not null, numbers, their squares, the trues, the
falses, exact parts as often as they count, and the sizes of such parts, all of them added up; the
least and the greatest element, and what a user aggregation makes of an element."""

ReadKind: TypeAlias = Literal["least", "greatest", "between", "first", "at", "slice", "all"]
"""What is read of a table: the value at one end, the two around a rank, the first values, the one
at a place, those from one place to another, and all of them."""

Columns: TypeAlias = tuple[int | str, ...] | None
"""The components or fields of rows that are remembered; None is the whole row."""


@dataclass(frozen=True, slots=True)
class Input:
    """The rows of a source.  One that is not streaming is read once, in the first batch."""

    source: typed.Source
    element: Type
    name: str
    insert_only: bool
    ledger: bool
    """Whether rows are counted, so that deleting one that is not there is noticed."""
    unique: tuple[str, ...] = ()
    """The fields of a declared key, which no two rows may share."""


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

    `kept` are the sides that are remembered, and `columns` what of them.  The partners of a side
    that never changes after the first batch need not be.  `single` are the sides that have at
    most one row of a key, because a key is declared.
    """

    left: int
    right: int
    group: typed.Variable
    body: typed.Expr
    key: Type
    kept: tuple[int, ...]
    columns: tuple[Columns, Columns] = (None, None)
    single: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The elements of `operand` merged by `monoid`; each value of one side brings its own.

    With `distinct`, `operand` is over a group of its own, whose one side are the values of a
    table, each once.
    """

    kind: AccumulatorKind
    side: int
    operand: typed.Expr
    monoid: Monoid
    distinct: Distinct | None = None


@dataclass(frozen=True, slots=True)
class Distinct:
    """The different values of a table as the one side of a group."""

    table: int
    group: typed.Variable


@dataclass(frozen=True, slots=True)
class Table:
    """The elements of `operand` that the values of one side bring, weighted and in order.

    With `order` they are pairs (key tuple, value), by their keys and then by value.  Without,
    they are values that are not null, in canonical order.  Where nothing is ever taken away and
    only the first `most` are read, no others are kept.
    """

    side: int
    operand: typed.Expr
    order: tuple[bool, ...] | None = None
    most: typed.Expr | None = None


@dataclass(frozen=True, slots=True)
class TableRead:
    """What is read of a table, as `arguments` say, which depend on the key at most.

    All of the values are bound to `variable`, for the one argument to say what they come to.
    """

    table: int
    how: ReadKind
    arguments: tuple[typed.Expr, ...] = ()
    variable: typed.Variable | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """An aggregate, `asked`, that the answer asks of one side of a group.

    It comes from accumulators or from a table.  One that has neither goes through the rows of
    its side, and only when these change.
    """

    variable: typed.Variable
    function: str
    accumulators: tuple[int, ...]
    side: int
    expr: typed.Expr
    reading: TableRead | None = None

    @property
    def reads_rows(self) -> bool:
        """Whether rows are gone through."""
        return not self.accumulators and self.reading is None


@dataclass(frozen=True, slots=True)
class Groups:
    """A function of the groups of one side or two: `body` over a group and over `requests`.

    Per key: the multiplicity of each side, the accumulators, the tables, and the rows of the
    sides in `kept`, of which `columns` are remembered.  `used` are the sides whose rows `body`
    itself reads; if it goes through one side row by row, that is `linear`, and rows of that side
    then change the answer row by row as long as the requests keep their values.
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
    tables: tuple[Table, ...] = ()
    columns: tuple[Columns, ...] = (None, None)
    """What of the rows of each side is remembered, where they are."""
    single: tuple[int, ...] = ()
    """The sides that have at most one row of a key, because a key is declared."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """The first pairs (key tuple, value) in order, at most `limit`.

    If nothing is ever taken away, no others need to be remembered.
    """

    input: int
    descending: tuple[bool, ...]
    limit: typed.Expr
    grows: bool = False


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop, run again whenever an input changes; its term finds them as shared rows."""

    inputs: tuple[int, ...]
    variables: tuple[typed.Variable, ...]
    term: Repeat


@dataclass(frozen=True, slots=True)
class LoopParam:
    """Rows that come from outside of a plan: those of an input or of a variable of a loop."""

    element: Type


Node: TypeAlias = Input | Constant | LoopParam | Linear | Merge | Join | Groups | Ordered | Repeated


@dataclass(frozen=True, slots=True)
class Edge:
    """What is known of the changes that a node sends on."""

    constant: bool
    """No source has part in them."""
    invariant: bool
    """There are none after the first batch."""
    insert_only: bool
    """They never take anything away."""
    unique: tuple[str, ...] = ()
    """The fields of a declared key: no two rows have the same ones."""
    single: bool = False
    """The rows are pairs, no two of which have the same key."""


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
    script: typed.Script = field(repr=False, compare=False)


def inputs(node: Node) -> tuple[int, ...]:
    """The places of the nodes that a node takes changes from."""
    match node:
        case Input() | Constant() | LoopParam():
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


# --- What edges are known to carry ---
#
# *Invariant*: there are none after the first batch. *Insert-only*: nothing is ever taken away. A
# node that answers with -old +new takes away even where its inputs only grow, unless its answer
# cannot change while a key is there. *Single*: pairs of which no two have the same key, known from
# the declared key of a source.


CONSTANT = Edge(constant=True, invariant=True, insert_only=True)


def edge(node: Node, before: Sequence[Edge]) -> Edge:
    """The edge that leaves a node, from those of the nodes before it."""
    below = [before[place] for place in inputs(node)]
    constant = all(each.constant for each in below)
    invariant = all(each.invariant for each in below)
    grows = all(each.insert_only for each in below)
    match node:
        case Constant():
            return CONSTANT
        case Input(source=source):
            return Edge(False, not source.streaming, node.insert_only, node.unique)
        case LoopParam():
            return Edge(constant=False, invariant=False, insert_only=False)
        case Linear(steps=steps):
            single = len(steps) == 1 and _is_single(*steps[0], below[0].unique)
            return Edge(constant, invariant, grows, single=single)
        case Merge() | Join():
            return Edge(constant, invariant, grows)
        case Groups():
            return Edge(constant, invariant, invariant or (grows and _only_grows(node, below)))
        case Ordered() | Repeated():
            return Edge(constant, invariant, invariant)
        case _:
            assert_never(node)


def _only_grows(node: Groups, below: Sequence[Edge]) -> bool:
    """Whether more rows never change an answer: keys alone, or rows beside what is invariant."""
    if not node.used and not node.requests:
        return True
    return node.linear is not None and all(below[each.side].invariant for each in node.requests)


def _is_single(row: typed.Variable, body: typed.Expr, unique: tuple[str, ...]) -> bool:
    """Whether a map makes at most one pair of a row, with a key that tells rows apart."""
    match body:
        case typed.If(_, then, typed.MakeCollection(())):
            return _is_single(row, then, unique)
        case typed.Select(head=typed.MakeTuple((key, _)), qualifiers=qualifiers, group=None):
            one = all(isinstance(each, typed.Condition) for each in qualifiers)
            return one and _tells(key, row, unique)
        case typed.MakeCollection((typed.MakeTuple((key, _)),)):
            return _tells(key, row, unique)
        case _:
            return False


def _tells(key: typed.Expr, row: typed.Variable, unique: tuple[str, ...]) -> bool:
    """Whether all fields of a declared key are parts of a key."""
    parts = key.items if isinstance(key, typed.MakeTuple | typed.MakeRecord) else (key,)
    named = {
        part.name
        for part in parts
        if isinstance(part, typed.Field)
        and isinstance(part.subject, typed.Var)
        and part.subject.variable == row
    }
    return bool(unique) and named.issuperset(unique)
