"""From a translated query to its normal form: the whole strategy on one screen."""

from __future__ import annotations

from dataclasses import dataclass

from incmrql.algebra.rewrite import Rule, Step, normalize
from incmrql.algebra.rows import Names
from incmrql.algebra.rules import cmaps, expressions, groups
from incmrql.algebra.term import Query
from incmrql.algebra.walk import variables_of


@dataclass(frozen=True, slots=True)
class Phase:
    """Rules that are used together until none applies."""

    name: str
    rules: tuple[Rule, ...]


PHASES = (
    Phase("fuse maps and simplify what they do", (*cmaps.RULES, *expressions.RULES)),
    Phase("bring along only what is used", (*groups.RULES, *cmaps.RULES, *expressions.RULES)),
)


def normal_form(query: Query) -> tuple[Query, list[Step]]:
    """The normal form of a query, and how it was reached."""
    names = Names(max((variable.number for variable in variables_of(query)), default=0))
    steps: list[Step] = []
    for phase in PHASES:
        query, taken = normalize(query, phase.rules, names)
        steps += taken
    return query, steps
