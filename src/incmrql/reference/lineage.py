"""Where the rows of an answer come from.

lineage: { (row, { (name of a source, its row) }) }        debug: { (row, tree) }

Lists of these where the answer is a list.  A stored value counts as a source.  Nothing depends on
the order of the elements of a bag: in a tree they stand in the canonical order of their trees,
and rows that an order by leaves alike go by what is beside them.
"""

from __future__ import annotations

from typing import TypeAlias

from incmrql.reference.derive import Derived, Rank, Row, derive
from incmrql.reference.environment import Environment
from incmrql.reference.operators import collection
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.values import Bag, Record, Value, encode, ordered

Made: TypeAlias = dict[int, tuple[Derived, Record]]
"""Trees by the identity of what they are of, which is kept so that nothing else gets it."""


def lineage(expr: typed.Expr, env: Environment) -> list[Value]:
    """Every row of an answer with the rows of sources that contributed to it."""
    return collection(
        expr.type,
        [
            (row.value, Bag([(leaf.source, leaf.value) for leaf in sources_of(row)]))
            for row in _answer(expr, env, _by_sources)
        ],
    )


def debug(expr: typed.Expr, env: Environment) -> list[Value]:
    """Every row of an answer with the tree of values that it was made from."""
    made: Made = {}
    answer = _answer(expr, env, lambda row: encode(_tree(row, made)))
    return collection(expr.type, [(row.value, _tree(row, made)) for row in answer])


def _answer(expr: typed.Expr, env: Environment, rank: Rank) -> tuple[Derived, ...]:
    derived = derive(expr, Row(env, rank=rank))
    return derived.elements() if isinstance(expr.type, Collection) else (derived,)


def _by_sources(derived: Derived) -> bytes:
    leaves = sources_of(derived)
    return encode(Bag([(leaf.source, leaf.value, leaf.copy) for leaf in leaves]))


def sources_of(derived: Derived) -> list[Derived]:
    """The rows of sources below a value, each once."""
    found, pending, seen = [], [derived], set()
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            pending.extend((*node.inputs, *(node.parts or ())))
            if node.source:
                found.append(node)
    return found


def _tree(derived: Derived, made: Made) -> Record:
    """A derivation as a value; what occurs twice in it is made once."""
    if id(derived) not in made:
        below = [_tree(part, made) for part in derived.inputs]
        parts = [_tree(part, made) for part in derived.parts or ()]
        below += ordered(parts) if isinstance(derived.value, Bag) else parts
        names = ("operator", "value", "inputs")
        made[id(derived)] = derived, Record.of(names, (derived.operator, derived.value, below))
    return made[id(derived)][1]
