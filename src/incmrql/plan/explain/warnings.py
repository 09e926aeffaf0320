"""What a user should be warned of: nodes that may read more than the change and its partners.

`nodes.py` has the codes, `plan.access` how nodes over groups read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from incmrql.plan.access import (
    Scope,
    answer_mode,
    hidden_requests,
    hidden_sides,
    reads_totals_only,
    whole_requests,
    whole_sides,
)
from incmrql.plan.nodes import (
    Edge,
    Groups,
    Join,
    Linear,
    Node,
    Ordered,
    WindowRead,
    inputs,
    is_unit,
)
from incmrql.plan.program import LoopProgram
from incmrql.plan.windows import reads_partitions
from incmrql.types import typed
from incmrql.types.model import Tuple
from incmrql.types.show import show_expr, show_window_function

SIDES: Final = ("left", "right")


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning with its stable code."""

    code: str
    message: str

    @property
    def scope(self) -> Scope:
        """What it says that a batch may read."""
        return "groups" if self.code == "W105" else "tables"


class Nodes(Protocol):
    """The nodes of a plan, a program or a loop, and what is known of their changes."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, inputs before what reads them."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """What is known of the changes of each node."""


def join_warnings(node: Join, plan: Nodes) -> list[Warned]:
    """W101 for a cross product of many rows with many, W102 for one with a row that changes."""
    if not is_unit(node.key):
        return []
    one_row = [side for side, place in enumerate(inputs(node)) if _is_one_row(plan, place)]
    read = [side for side in node.kept if side not in one_row]
    if not read:
        return []
    if one_row:
        return [Warned("W102", f"a change of the {SIDES[one_row[0]]} side touches every row")]
    sides = " and the ".join(SIDES[side] for side in node.kept)
    message = f"a cross product keeps the {sides} side whole, and every row meets all others"
    return [Warned("W101", message)]


def group_warnings(node: Groups, plan: Nodes) -> list[Warned]:
    """W102 or W104 where all rows are one group, W105 where whole groups are read."""
    if node.is_final:
        return []
    if node.window is not None:
        return _window_warnings(node, node.window)
    few = few_rows(node, plan)
    if is_unit(node.key):
        sides = whole_sides(node, few)
        if whole_requests(node, few) or (sides and answer_mode(node) == "whole"):
            message = "all rows are one group, which is kept whole and gone through at every change"
            return [Warned("W104", message)]
        asked = ", ".join(show_expr(request.expr) for request in node.requests)
        return [Warned("W102", f"a change of {asked} touches every row")] if sides else []
    requests, sides = hidden_requests(node, few), hidden_sides(node, few)
    if requests or (sides and answer_mode(node) == "whole"):
        readers = [*(request.expr for request in requests), *([node.body] if sides else [])]
        asked = ", ".join(map(show_expr, readers))
        message = f"every change of a group reads all of it, for {asked}"
    elif sides:
        asked = ", ".join(show_expr(request.expr) for request in node.requests)
        message = f"when {asked} changes, all rows of the group are read, also those that stay"
    else:
        return []
    return [Warned("W105", message)]


def _window_warnings(node: Groups, read: WindowRead) -> list[Warned]:
    """W104 or W105 where whole partitions are read."""
    functions = reads_partitions(read)
    if not functions:
        return []
    asked = ", ".join(dict.fromkeys(map(show_window_function, functions)))
    if is_unit(node.key):
        message = f"the window is over all rows, and every change reads all of them, for {asked}"
        return [Warned("W104", message)]
    message = f"every change of a partition reads all of it, for {asked}"
    return [Warned("W105", message)]


def few_rows(node: Groups, plan: Nodes) -> Callable[[int], bool]:
    """Says for a side whether each key has no more than a row or so."""

    def few(side: int) -> bool:
        return side in node.single or _is_one_row(plan, node.inputs[side])

    return few


def is_small(plan: Nodes, place: int) -> bool:
    """Whether a node has no more rows than the query says."""
    return isinstance(plan.nodes[place], Ordered) or _is_one_row(plan, place)


def _is_one_row(plan: Nodes, place: int) -> bool:
    """Whether a node has one row or so: a constant, or totals under the one key ()."""
    node = plan.nodes[place]
    if plan.edges[place].constant:
        return True
    if isinstance(node, Linear):
        return all(_makes_one(body) for _, body in node.steps) and _is_one_row(plan, node.input)
    if isinstance(node, Groups) and is_unit(node.key):
        return all(plan.edges[node.inputs[side]].constant for side in node.used)
    return False


def _makes_one(body: typed.Expr) -> bool:
    """Whether a map makes one row or so of each, and takes no collection in it apart."""
    match body:
        case typed.MakeCollection():
            return True
        case typed.If(_, then, otherwise):
            return _makes_one(then) and _makes_one(otherwise)
        case typed.Widen(operand):
            return _makes_one(operand)
        case _:
            return False


def loop_warnings(inner: LoopProgram) -> list[Warned]:
    """What a loop that is kept from step to step reads more than what changes."""
    by_code: dict[str, Warned] = {}
    for node in inner.nodes:
        if isinstance(node, Join):
            warned = join_warnings(node, inner)
        elif isinstance(node, Groups) and not reads_totals_only(node, few_rows(node, inner)):
            assert isinstance(node.key, Tuple)
            code = "W104" if is_unit(node.key.items[1]) else "W105"
            message = "in each step that is reached the whole group of a touched key is read"
            warned = [Warned(code, message)]
        else:
            warned = []
        by_code |= {warning.code: warning for warning in warned}
    return list(by_code.values())
