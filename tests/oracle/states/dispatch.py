"""The state that a node works with."""

from __future__ import annotations

from typing import assert_never

from incmrql.incremental.nodes import (
    Constant,
    Given,
    Groups,
    Input,
    Join,
    Linear,
    Merge,
    Node,
    Ordered,
    Repeated,
)
from incmrql.reference import Environment
from tests.oracle.states.base import JoinState, LinearState, MergeState, RepeatedState, State
from tests.oracle.states.groups import GroupsState
from tests.oracle.states.ordered import OrderedState


def state_of(node: Node, env: Environment) -> State | None:
    """A node at work, a loop by running it again; inputs and constants are fed by others."""
    match node:
        case Input() | Constant() | Given():
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
