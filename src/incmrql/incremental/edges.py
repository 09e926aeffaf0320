"""What is known of a node's changes before any data are there.

*Invariant*: there are none after the first batch.  *Insert-only*: nothing is ever taken away.
A node that answers with -old +new takes away even where its inputs only grow, unless its answer
cannot change while a key is there.  *Single*: pairs of which no two have the same key, known from
the declared key of a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from incmrql.incremental.nodes import (
    Constant,
    Edge,
    Given,
    Groups,
    Input,
    Join,
    Linear,
    Merge,
    Node,
    Ordered,
    Repeated,
    inputs,
)
from incmrql.types import typed

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
        case Given():
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
