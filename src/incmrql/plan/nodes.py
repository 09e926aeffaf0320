"""The nodes of a plan: what each does with the changes that reach it, as data.

A plan is a list of nodes.  Each node names its inputs by their indices in this list, and inputs
come first.  What the nodes do, in the words of the algebra:

    Input       the change of a source           Constant   all there is, in the first batch
    Linear      f(ΔX)                            Merge      ΔX + ΔY
    Join        ΔX⋈Y + X⋈ΔY + ΔX⋈ΔY              Groups     -old +new, for affected keys
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
"""What an accumulator merges.  Added up: the number of elements, of elements that are not null, of
trues and of falses; elements, their squares, exact partial sums and the sizes of such sums.  Else:
the least element, the greatest one, or the values that a user aggregation makes of elements."""

ReadKind: TypeAlias = Literal["least", "greatest", "between", "first", "at", "slice", "all"]
"""Which values of a table are read: the first or the last one, the two around a rank, the first
few, the one at an index, those from one index to another, or all."""

Columns: TypeAlias = tuple[int | str, ...] | None
"""The components or fields of rows that are kept; None keeps whole rows."""


@dataclass(frozen=True, slots=True)
class Input:
    """The rows of a source.  One that is not streaming is read once, in the first batch."""

    source: typed.Source
    element: Type
    name: str
    insert_only: bool
    ledger: bool
    """Whether rows are counted, so that deleting a row that does not exist is an error."""
    unique: tuple[str, ...] = ()
    """The fields of a declared key, which no two rows may share."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The elements of a collection that depends on no source."""

    expr: typed.Expr


@dataclass(frozen=True, slots=True)
class Linear:
    """Maps and filters that look at one row at a time, applied one after the other."""

    input: int
    steps: tuple[tuple[typed.Variable, typed.Expr], ...]


@dataclass(frozen=True, slots=True)
class Merge:
    """All rows of several inputs."""

    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows that agree on a key: `body` over (key, ({left}, {right})) for each.

    `kept` are the sides whose rows are stored, and `columns` says which columns of them.  A side is
    not stored if the other one never changes after the first batch: no later row would look it up.
    `single` are the sides with at most one row per key, known from a declared key.
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
    """The elements of `operand` merged by `monoid`; each row of one side contributes its own.

    With `distinct`, `operand` is over a separate group, whose one side has each value of a table
    once.
    """

    kind: AccumulatorKind
    side: int
    operand: typed.Expr
    monoid: Monoid
    distinct: Distinct | None = None


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct values of a table, as the one side of a group."""

    table: int
    group: typed.Variable


@dataclass(frozen=True, slots=True)
class Table:
    """The elements of `operand` over the rows of one side, with weights and in order.

    With `order` they are pairs (key tuple, value), by their keys and then by value.  Without,
    they are values that are not null, in canonical order.  If nothing is ever deleted and only the
    first `most` values are read, no others are kept.
    """

    side: int
    operand: typed.Expr
    order: tuple[bool, ...] | None = None
    most: typed.Expr | None = None


@dataclass(frozen=True, slots=True)
class TableRead:
    """Which values of a table a request reads; `arguments` may depend on the key of the group.

    If `how` is "all", the values are bound to `variable` and the only argument is evaluated.
    """

    table: int
    how: ReadKind
    arguments: tuple[typed.Expr, ...] = ()
    variable: typed.Variable | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """An aggregate over one side of a group, whose value the answer uses as `variable`.

    The value comes from accumulators or from a table.  A request with neither scans the rows of
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
        """Whether the request scans rows."""
        return not self.accumulators and self.reading is None


@dataclass(frozen=True, slots=True)
class WindowRead:
    """How the rows of a window over the only side of a group are found: by rank, in a table.

    The answer is `body` over a group with the key and the rows of `window`, one by one.  The first
    table of the node has the window's rows in order.  For each function, `before` has the
    variables of requests over all rows: less those from a row on, they are those before it.
    """

    window: typed.Window
    group: typed.Variable
    body: typed.Expr
    before: tuple[tuple[typed.Variable, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Groups:
    """A function of the groups of one or two inputs: `body` over a group and over `requests`.

    The state has, per key: the multiplicity of each side, the accumulators, the tables, and the
    `columns` of the rows of the sides in `kept`.  `used` are the sides whose rows `body` itself
    reads.  If `body` maps one side row by row, that side is `linear`: a changed row of it then
    changes the answer row by row, as long as the requests keep their values.
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
    """Whether only accumulators are kept, and rows that depend on no source."""
    is_final: bool
    """Whether no change comes after the first batch, so that no state is needed."""
    tables: tuple[Table, ...] = ()
    columns: tuple[Columns, ...] = (None, None)
    """Which columns of each kept side are stored."""
    single: tuple[int, ...] = ()
    """The sides with at most one row per key, known from a declared key."""
    window: WindowRead | None = None
    """The window that `body` is about; its rows are then kept in order, and not by key alone."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """The first pairs (key tuple, value) in order, at most `limit`.

    If nothing is ever deleted (`grows`), no other pairs are kept.
    """

    input: int
    descending: tuple[bool, ...]
    limit: typed.Expr
    grows: bool = False


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop over inputs, which `term` reads as the shared rows of `variables`."""

    inputs: tuple[int, ...]
    variables: tuple[typed.Variable, ...]
    term: Repeat


@dataclass(frozen=True, slots=True)
class LoopParam:
    """Rows from outside of a plan: those of an input or of a variable of a loop."""

    element: Type


Node: TypeAlias = Input | Constant | LoopParam | Linear | Merge | Join | Groups | Ordered | Repeated


@dataclass(frozen=True, slots=True)
class Edge:
    """What is known about the changes that a node emits."""

    constant: bool
    """They depend on no source."""
    invariant: bool
    """There are none after the first batch."""
    insert_only: bool
    """They never delete anything."""
    unique: tuple[str, ...] = ()
    """The fields of a declared key: no two rows have the same ones."""
    single: bool = False
    """The rows are pairs with different keys."""


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A collection that the result of a plan uses: the rows of the node at index `place`.

    With `order` the rows are pairs (key tuple, value), and the part is the list of the values.
    """

    variable: typed.Variable
    place: int
    order: tuple[bool, ...] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A program of changes for a whole query: `result` over the values of the parts.

    `views` are the named queries that it shares with others, with the index of the node of each.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    parts: tuple[ResultPart, ...]
    result: typed.Expr
    query: Query = field(repr=False, compare=False)
    script: typed.Script = field(repr=False, compare=False)
    views: tuple[tuple[str, int], ...] = field(default=(), compare=False)


def inputs(node: Node) -> tuple[int, ...]:
    """The indices of the nodes whose changes a node reads."""
    match node:
        case Input() | Constant() | LoopParam():
            return ()
        case Linear(input=index) | Ordered(input=index):
            return (index,)
        case Merge(parts):
            return parts
        case Join(left, right):
            return (left, right)
        case Groups(inputs=indices) | Repeated(inputs=indices):
            return indices
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


def edge_of(node: Node, before: Sequence[Edge]) -> Edge:
    """What is known about the changes of a node, from the edges of the nodes before it."""
    below = [before[index] for index in inputs(node)]
    constant = all(edge.constant for edge in below)
    invariant = all(edge.invariant for edge in below)
    grows = all(edge.insert_only for edge in below)
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
    """Whether more input rows never change an existing output row.

    True if the output has keys alone, or rows whose requests never change.
    """
    if not node.used and not node.requests:
        return True
    return node.linear is not None and all(
        below[request.side].invariant for request in node.requests
    )


def _is_single(row: typed.Variable, body: typed.Expr, unique: tuple[str, ...]) -> bool:
    """Whether a map makes at most one pair of each row, with a different key for each row."""
    match body:
        case typed.If(_, then, typed.MakeCollection(())):
            return _is_single(row, then, unique)
        case typed.Select(head=typed.MakeTuple((key, _)), qualifiers=qualifiers, group=None):
            is_one_row = all(isinstance(qualifier, typed.Condition) for qualifier in qualifiers)
            return is_one_row and _holds_key(key, row, unique)
        case typed.MakeCollection((typed.MakeTuple((key, _)),)):
            return _holds_key(key, row, unique)
        case _:
            return False


def _holds_key(key: typed.Expr, row: typed.Variable, unique: tuple[str, ...]) -> bool:
    """Whether a key has all fields of the declared key among its parts."""
    parts = key.items if isinstance(key, typed.MakeTuple | typed.MakeRecord) else (key,)
    columns = {
        part.name
        for part in parts
        if isinstance(part, typed.Field)
        and isinstance(part.subject, typed.Var)
        and part.subject.variable == row
    }
    return bool(unique) and columns.issuperset(unique)
