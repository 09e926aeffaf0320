"""From a translated query to its normal form: the whole strategy on one screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from incmrql.algebra.normalize.rewrite import Rewriter, RewriteStep, Rule
from incmrql.algebra.normalize.rules import (
    aggregates,
    expressions,
    filters,
    grouping,
    groups,
    selfjoins,
)
from incmrql.algebra.rows import Names
from incmrql.algebra.term import Query
from incmrql.algebra.walk import variables_of, with_views


@dataclass(frozen=True, slots=True)
class Phase:
    """Rules that are used together until none applies."""

    name: str
    rules: tuple[Rule, ...]


SIMPLIFYING: tuple[Rule, ...] = (*expressions.CMAP_RULES, *expressions.RULES)

PHASES = (
    Phase("fuse maps and simplify what they do", SIMPLIFYING),
    Phase("bring along only what is used", (*filters.RULES, *groups.RULES, *SIMPLIFYING)),
    Phase("group once what meets itself", (*selfjoins.RULES, *groups.RULES, *SIMPLIFYING)),
    Phase("join what is left of each side", (*aggregates.RULES, *groups.RULES, *SIMPLIFYING)),
    Phase("count without the rows", (*groups.COUNTING, *groups.RULES, *SIMPLIFYING)),
    Phase("compute once what is used several times", (*grouping.RULES, *expressions.RULES)),
)


new_check: Callable[[], Callable[[Query], None]] | None = None
"""Makes, for one query, a check that is called after every phase; tests set it."""


def normal_form(query: Query, names: Names | None = None) -> tuple[Query, list[RewriteStep]]:
    """The normal form of a query, and how it was reached; `names` supplies new variables.

    The views that it uses have their normal form already: rules see their rows as they see those
    of a source.
    """
    views = [view.normal or view for view in query.views]
    own = Query(query.own_parts, query.result)
    if names is None:
        parts = (query, *(view.parts for view in views))
        names = Names(max((variable.number for variable in variables_of(parts)), default=0))
    engine = Rewriter(names)
    check = None if new_check is None else new_check()
    for phase in PHASES:
        own = engine.run(own, phase.rules)
        if check is not None:
            check(with_views(own, views))
    steps = [step for view in query.views for step in view.steps]
    return with_views(own, views), [*steps, *engine.steps]
