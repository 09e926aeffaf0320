"""Where the rows of an answer come from.

lineage: { (row, { (name of a source, its row) }) }        debug: { (row, tree) }

Lists of these where the answer is a list.  A stored value counts as a source.
"""

from __future__ import annotations

from incmrql.reference.derive import Derived, Row, derive
from incmrql.reference.environment import Environment
from incmrql.reference.operators import collection
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.values import Bag, Record, Value


def lineage(expr: typed.Expr, env: Environment) -> list[Value]:
    """Every row of an answer with the rows of sources that contributed to it."""
    return collection(
        expr.type,
        [
            (row.value, Bag([(leaf.source, leaf.value) for leaf in sources_of(row)]))
            for row in _answer(expr, env)
        ],
    )


def debug(expr: typed.Expr, env: Environment) -> list[Value]:
    """Every row of an answer with the tree of values that it was made from."""
    made: dict[int, Record] = {}
    return collection(expr.type, [(row.value, _tree(row, made)) for row in _answer(expr, env)])


def _answer(expr: typed.Expr, env: Environment) -> tuple[Derived, ...]:
    derived = derive(expr, Row(env))
    return derived.elements() if isinstance(expr.type, Collection) else (derived,)


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


def _tree(derived: Derived, made: dict[int, Record]) -> Record:
    """A derivation as a value; what occurs twice in it is made once."""
    if id(derived) not in made:
        below = [_tree(part, made) for part in (*derived.inputs, *(derived.parts or ()))]
        names = ("operator", "value", "inputs")
        made[id(derived)] = Record.of(names, (derived.operator, derived.value, below))
    return made[id(derived)]
