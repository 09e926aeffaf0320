"""The state that a node works with, and the walk through all nodes of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import (
    Constant,
    Groups,
    Input,
    Join,
    Linear,
    LoopParam,
    Merge,
    Node,
    Ordered,
    Repeated,
    inputs,
)
from incmrql.reference import Environment
from tests.oracle.states.base import JoinState, LinearState, MergeState, RepeatedState, State, Work
from tests.oracle.states.groups import GroupsState
from tests.oracle.states.ordered import OrderedState


def state_of(node: Node, env: Environment) -> State | None:
    """A node at work, a loop by running it again; inputs and constants are fed by others."""
    match node:
        case Input() | Constant() | LoopParam():
            return None
        case Linear():
            return LinearState(node, env)
        case Merge():
            return MergeState()
        case Join():
            return JoinState(node, env)
        case Groups():
            return GroupsState(node, env)
        case Ordered():
            return OrderedState(node, env)
        case Repeated():
            return RepeatedState(node, env)
        case _:
            assert_never(node)


def node_changes(
    nodes: Sequence[Node], states: Sequence[State | None], outside: Callable[[int], Weighted]
) -> tuple[list[Weighted], list[Work]]:
    """The change of every node, and its work; `outside` has those of nodes without a state."""
    changes: list[Weighted] = []
    work: list[Work] = []
    for place, (node, state) in enumerate(zip(nodes, states, strict=True)):
        below = [changes[source] for source in inputs(node)]
        if state is None:
            change = outside(place)
            done = Work(taken=len(change))
        else:
            done = state.work = Work(taken=sum(map(len, below)))
            change = state.advance(below)
        done.sent = len(change)
        work.append(done)
        changes.append(change)
    return changes, work
