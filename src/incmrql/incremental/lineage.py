"""Lineage θ: the tree of the keys that lead to a value, as in the paper's Algorithm 1.

    θ  =  ()                  a row of a source
       |  (k, θ)              grouped by k
       |  (k, (θ, θ'))        two sides that meet by k

Two forms the paper does not have: rows of a union come by one of several ways, and a loop mixes
all it reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

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
    Plan,
    Repeated,
    is_unit,
)

LONGEST = 80
"""A text longer than this is named by its node where another one holds it."""


@dataclass(frozen=True, slots=True)
class Empty:
    """No key yet: `()`."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A key, and what led to the one side or the two that it groups."""

    key: str
    below: tuple[Lineage, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several ways."""

    ways: tuple[Lineage, ...]


@dataclass(frozen=True, slots=True)
class Looped:
    """Any of what a loop reads."""

    read: tuple[Lineage, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """The lineage of another node, which stands for itself."""

    name: str


Lineage: TypeAlias = Empty | Keyed | Either | Looped | Named


def show_lineage(lineage: Lineage) -> str:
    """A tree of keys on one line."""
    match lineage:
        case Empty():
            return "()"
        case Named(name):
            return name
        case Keyed(key, (below,)):
            return f"({key}, {show_lineage(below)})"
        case Keyed(key, below):
            return f"({key}, ({_several(below, ', ')}))"
        case Either(ways):
            return _several(ways, " | ")
        case Looped(read):
            return f"loop({_several(read, ', ')})"
        case _:
            assert_never(lineage)


def _several(lineages: tuple[Lineage, ...], gap: str) -> str:
    return gap.join(map(show_lineage, lineages))


def lineage_of(plan: Plan) -> tuple[str, ...]:
    """For each node of a plan, in its order, the lineage of the rows it sends on, as text.

    `k7` is the key that node 7 groups by, `()` a key that all rows share.  Where the text of an
    input would be too long, `θ7` names the lineage of node 7 in its place.
    """
    found: list[Lineage] = []
    texts: list[str] = []
    for place, node in enumerate(plan.nodes):
        below = [
            Named(f"θ{at}") if len(text) > LONGEST else lineage
            for at, (lineage, text) in enumerate(zip(found, texts, strict=True))
        ]
        found.append(_of_node(node, place, below))
        texts.append(show_lineage(found[-1]))
    return tuple(texts)


def _of_node(node: Node, place: int, below: list[Lineage]) -> Lineage:
    match node:
        case Input() | Constant() | Given():
            return Empty()
        case Linear(input=at):
            return below[at]
        case Merge(parts):
            ways = tuple(dict.fromkeys(below[at] for at in parts))
            return ways[0] if len(ways) == 1 else Either(ways)
        case Join(left, right, key=key):
            return Keyed("()" if is_unit(key) else f"k{place}", (below[left], below[right]))
        case Groups(inputs=places, key=key):
            name = "()" if is_unit(key) else f"k{place}"
            return Keyed(name, tuple(below[at] for at in places))
        case Ordered(input=at):
            return Keyed(f"k{place}", (below[at],))
        case Repeated(inputs=places):
            return Looped(tuple(below[at] for at in places))
        case _:
            assert_never(node)
