"""What each node of a plan is, keeps and costs, and what a user should be warned of: as data.

| code | warns that |
|---|---|
| W101 | a cross product keeps its sides whole |
| W102 | a change of a sub-query's value touches every row |
| W103 | a loop is run again from all of its input |
| W104 | all rows are one group, which every change goes through |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from incmrql.incremental.nodes import (
    Accumulator,
    AccumulatorKind,
    Constant,
    Groups,
    Input,
    Join,
    Linear,
    Merge,
    Node,
    Ordered,
    Plan,
    Repeated,
    Request,
    inputs,
    is_unit,
)
from incmrql.types.show import show_expr

Kind: TypeAlias = Literal["source", "linear", "bilinear", "fold", "per key", "loop"]


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that is remembered: rows or an accumulator, and which sub-terms asked for it."""

    what: str
    asked: tuple[str, ...] = ()
    is_rows: bool = True


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning with its stable code."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Shape:
    """The cost of a node: its kind, what is kept, what a batch costs."""

    kind: Kind
    keeps: tuple[Kept, ...]
    cost: str
    warnings: tuple[Warned, ...] = ()

    @property
    def is_incremental(self) -> bool:
        """Whether a batch costs less than all the data."""
        return self.kind != "loop"


def shapes(plan: Plan) -> tuple[Shape, ...]:
    """The shape of every node."""
    return tuple(_shape(node, plan) for node in plan.nodes)


def _shape(node: Node, plan: Plan) -> Shape:
    match node:
        case Input():
            ledger = (Kept("ledger of rows", ("deletions",)),) if node.ledger else ()
            return Shape("source", ledger, "the change" if node.source.streaming else "once")
        case Constant():
            return Shape("source", (), "once")
        case Linear() | Merge():
            return Shape("linear", (), "the change")
        case Join():
            keeps = tuple(Kept(f"{_SIDES[side]} rows by {node.key}") for side in node.kept)
            cost = "the change times its partners"
            return Shape("bilinear", keeps, cost, tuple(_join_warnings(node, plan)))
        case Groups():
            kind: Kind = "fold" if node.is_fold else "per key"
            return Shape(kind, _kept(node), _cost(node), tuple(_group_warnings(node, plan)))
        case Ordered():
            return Shape("per key", (Kept("rows in order"),), "the change and the rows answered")
        case Repeated():
            message = "this loop is run again from all of its input whenever that changes"
            keeps = (Kept("rows of the loop's inputs"), Kept("rows of its last result"))
            return Shape("loop", keeps, "all of its input", (Warned("W103", message),))
        case _:
            assert_never(node)


_SIDES: Final = ("left", "right")

_ADDED: Final[dict[AccumulatorKind, str]] = {
    "rows": "number of rows",
    "count": "count",
    "sum": "exact sum",
    "squares": "exact sum of squares",
    "true": "number of trues",
    "false": "number of falses",
    "parts": "exact sum of parts",
    "sizes": "sum of sizes",
}


def _kept(node: Groups) -> tuple[Kept, ...]:
    if node.is_final:
        return ()
    found = [Kept("multiplicity", is_rows=False)]
    for place, accumulator in enumerate(node.accumulators):
        asked = tuple(
            show_expr(request.asked) for request in node.requests if place in request.accumulators
        )
        found.append(Kept(_added(accumulator), asked, is_rows=False))
    sides = _SIDES if len(node.inputs) == 2 else ("its",)
    rows = [Kept(f"{sides[side]} rows by {node.key}", _readers(node, side)) for side in node.kept]
    return (*found, *rows)


def _added(accumulator: Accumulator) -> str:
    return f"{_ADDED[accumulator.kind]} of {show_expr(accumulator.operand)}"


def _readers(node: Groups, side: int) -> tuple[str, ...]:
    """What reads the rows of a side: aggregates without accumulators, the answer itself."""
    asked = [each.asked for each in _walked(node) if each.side == side]
    exprs = [*asked, node.body] if side in node.used else asked
    return tuple(map(show_expr, exprs))


def _walked(node: Groups) -> list[Request]:
    """The requests that go through rows."""
    return [request for request in node.requests if not request.accumulators]


def _cost(node: Groups) -> str:
    if not node.used and not _walked(node):
        return "the change and the touched keys"
    if node.linear is None:
        return "the groups of the touched keys"
    return "the change, and the groups of keys for which what is asked changes"


def _join_warnings(node: Join, plan: Plan) -> list[Warned]:
    if not is_unit(node.key) or any(_is_one_row(plan, place) for place in inputs(node)):
        return []
    sides = " and the ".join(_SIDES[side] for side in node.kept)
    message = f"a cross product keeps the {sides} side whole, and every row meets all others"
    return [Warned("W101", message)] if node.kept else []


def _group_warnings(node: Groups, plan: Plan) -> list[Warned]:
    whole = [side for side in node.kept if not _is_one_row(plan, node.inputs[side])]
    if not is_unit(node.key) or not whole:
        return []
    if node.linear is None or any(request.side in whole for request in _walked(node)):
        message = "all rows are one group, which is kept whole and gone through at every change"
        return [Warned("W104", message)]
    asked = ", ".join(show_expr(request.asked) for request in node.requests)
    return [Warned("W102", f"a change of {asked} touches every row")]


def _is_one_row(plan: Plan, place: int) -> bool:
    """Whether a node has one row or so: a constant, or totals under the one key ()."""
    node = plan.nodes[place]
    if isinstance(node, Linear):
        return _is_one_row(plan, node.input)
    return plan.edges[place].constant or (
        isinstance(node, Groups) and node.is_fold and is_unit(node.key)
    )
