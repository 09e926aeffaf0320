"""The program of changes of a script: all its streaming items, over the sources they share.

    sources -> nodes -> parts -> one output for each item

Items that read the same source share its input, so that all of them take in the same batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from incmrql.algebra.failures.sites import Site
from incmrql.errors import Span
from incmrql.io.spark_files import local_paths
from incmrql.plan.nodes import Edge, Node, ResultPart, inputs
from incmrql.types import typed
from incmrql.types.model import Collection, Record, Tuple, Type
from incmrql.values import Value

if TYPE_CHECKING:
    from incmrql.plan.identity import ProgramIdentity

LoopMode: TypeAlias = Literal["default", "exact", "recompute", "diffuse"]
"""How a loop follows changes, as given by `--iterate`."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A source of a program, with the place of its input among the nodes.

    `path` and `deletes` are folders, files or patterns; rows that are pushed, come by a socket or
    are registered have none.  One that is not streaming is read once, in the first batch.
    """

    place: int
    name: str
    source: typed.Source
    element: Type
    streaming: bool
    ledger: bool
    path: str | None = None
    deletes: str | None = None
    socket: tuple[str, int] | None = None

    @property
    def packed(self) -> bool:
        """Whether a row may be null itself, and so is in one column."""
        return self.source.format in ("json", "python")

    @property
    def watched(self) -> tuple[str, ...]:
        """The files, directories and patterns that it reads; none of a socket."""
        if self.socket is not None:
            return ()
        reader = self.source.reader
        own = (self.path,) if reader is None else local_paths(reader)
        return tuple(path for path in (*own, self.deletes) if path is not None)


@dataclass(frozen=True, slots=True)
class Output:
    """What an item answers with: `result` over the values of its parts."""

    kind: typed.ItemKind
    target: str
    parts: tuple[ResultPart, ...]
    result: typed.Expr
    text: str = field(compare=False)
    """The normal form that it came from, to be shown."""
    item: typed.ScriptItem = field(compare=False, repr=False)
    """The item of the script that it answers."""

    @property
    def part(self) -> ResultPart | None:
        """The one part that the answer is, if it is a collection that changes row by row."""
        match self.result:
            case typed.Var(variable):
                return next(part for part in self.parts if part.variable == variable)
            case _:
                return None

    @property
    def is_list(self) -> bool:
        """Whether it changes row by row and its rows are in order: a change says where a row is."""
        return self.part is not None and self.part.order is not None

    @property
    def element(self) -> Type:
        """The type of a row of the answer; an answer that is no part is one row."""
        type_ = self.result.type
        if self.part is not None:
            assert isinstance(type_, Collection)
            return type_.element
        return type_

    @property
    def row(self) -> Type:
        """The type of a row in a file: a record if the item names the columns."""
        match self.element:
            case Tuple(items) if self.item.columns:
                return Record(tuple(zip(self.item.columns, items, strict=True)))
            case element:
                return element


@dataclass(frozen=True, slots=True)
class WatchOutput:
    """An output of pairs (site, row): the rows for which arithmetic of an item fails."""

    output: Output
    sites: tuple[Site, ...]
    item: int
    """Which of the program's outputs it belongs to."""


# --- Loops ---


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How loops follow changes, and when a diffused loop is run again from its input.

    That is when its error figure exceeds `tolerance` times the sum of the absolute values of its
    result, and after `resync` batches.
    """

    mode: LoopMode = "default"
    tolerance: float | None = None
    resync: int | None = None


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """The nodes of a loop's body; the other fields are indices of nodes.

    `inputs` and `variables` are `LoopParam` nodes, in the order of the loop's own.  `initial` has
    the rows of the variables before the first step, and `step` those after a step.  `flags` has a
    row for each true flag, which keeps the loop going (None for a variable without flags).
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    inputs: tuple[int, ...]
    variables: tuple[int, ...]
    initial: tuple[int, ...]
    step: tuple[int, ...]
    flags: tuple[int | None, ...]

    @property
    def varying(self) -> frozenset[int]:
        """The variables, and all nodes whose rows depend on them."""
        varying = set(self.variables)
        for index, node in enumerate(self.nodes):
            if varying.intersection(inputs(node)):
                varying.add(index)
        return frozenset(varying)

    @property
    def step_nodes(self) -> tuple[int, ...]:
        """The nodes that run again in each step of the loop."""
        return tuple(sorted(self.varying.difference(self.variables)))

    @property
    def constant_nodes(self) -> tuple[int, ...]:
        """The nodes whose rows are the same in all steps."""
        varying = self.varying
        return tuple(index for index in range(len(self.nodes)) if index not in varying)


# --- The program ---


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes that take changes from those before them, and what is answered."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    streams: tuple[Stream, ...]
    outputs: tuple[Output, ...]
    script: typed.Script = field(repr=False, compare=False)
    arguments: tuple[str, ...] = ()
    stored: tuple[tuple[str, Value], ...] = field(default=(), repr=False)
    """The values that items before have stored, by name."""
    iteration: LoopSettings = field(default_factory=LoopSettings)
    """How loops are kept."""
    watches: tuple[WatchOutput, ...] = ()
    """What is watched for arithmetic that fails; none if nothing is to be."""
    unwatched: tuple[Span, ...] = field(default=(), compare=False)
    """Loops and recursive functions whose arithmetic may fail and is not watched."""

    @property
    def all_outputs(self) -> tuple[Output, ...]:
        """All outputs that the engine keeps: those of the items, then those of the watches."""
        return (*self.outputs, *(watch.output for watch in self.watches))

    @property
    def identity(self) -> str:
        """Changes whenever the program's state or answers may change."""
        return self._identity().whole

    @property
    def identities(self) -> tuple[str, ...]:
        """The same for each node: what it does, and the nodes it takes changes from."""
        return self._identity().nodes

    def _identity(self) -> ProgramIdentity:
        from incmrql.plan.identity import program_identity  # the driver's: workers do without

        return program_identity(self)
