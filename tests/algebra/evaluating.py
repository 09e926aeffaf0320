"""The value of a whole query, part by part."""

from __future__ import annotations

from incmrql.algebra.interpret import elements
from incmrql.algebra.term import Query, Sort
from incmrql.reference import Environment, evaluate
from incmrql.values import Bag, Value


def evaluate_query(query: Query, env: Environment) -> Value:
    """The value of a query."""
    for variable, term in query.parts:
        rows = elements(term, env)
        ordered = isinstance(term, Sort) and term.ordered
        env = env.bind(variable, rows if ordered else Bag(rows))
    return evaluate(query.result, env)
