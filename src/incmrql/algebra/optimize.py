"""From a translated query to its normal form: the whole strategy on one screen."""

from __future__ import annotations

from dataclasses import dataclass

from incmrql.algebra.check import Checker
from incmrql.algebra.rewrite import Engine, Rule, Step
from incmrql.algebra.rows import Names
from incmrql.algebra.rules import (
    aggregates,
    cmaps,
    expressions,
    filters,
    groups,
    selfjoins,
    sharing,
)
from incmrql.algebra.term import Query
from incmrql.algebra.walk import variables_of


@dataclass(frozen=True, slots=True)
class Phase:
    """Rules that are used together until none applies."""

    name: str
    rules: tuple[Rule, ...]


SIMPLIFYING: tuple[Rule, ...] = (*cmaps.RULES, *expressions.RULES)

PHASES = (
    Phase("fuse maps and simplify what they do", SIMPLIFYING),
    Phase("bring along only what is used", (*filters.RULES, *groups.RULES, *SIMPLIFYING)),
    Phase("group once what meets itself", (*selfjoins.RULES, *groups.RULES, *SIMPLIFYING)),
    Phase("join what is left of each side", (*aggregates.RULES, *groups.RULES, *SIMPLIFYING)),
    Phase("count without the rows", (*groups.COUNTING, *groups.RULES, *SIMPLIFYING)),
    Phase("compute once what is used several times", (*sharing.RULES, *expressions.RULES)),
)


def normal_form(query: Query) -> tuple[Query, list[Step]]:
    """The normal form of a query, and how it was reached; well typed after every phase."""
    names = Names(max((variable.number for variable in variables_of(query)), default=0))
    engine, checker = Engine(names), Checker()
    for phase in PHASES:
        query = engine.run(query, phase.rules)
        checker.query(query)
    return query, engine.steps
