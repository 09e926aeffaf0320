"""The judgments that the nodes of a plan rest on.

join        its body, one side growing at a time: twice ⊎
groups      what the answer asks of a group, as far as it is a homomorphism of it
"""

from __future__ import annotations

from incmrql.algebra.rows import Names
from incmrql.paper.construct import split
from incmrql.paper.inference import Growth, Judgment, judge
from incmrql.plan.monoids import BAG, INVARIANT, Monoid, product
from incmrql.plan.nodes import Groups, Join, Plan
from incmrql.types import typed


def node_judgments(plan: Plan) -> tuple[tuple[Judgment, ...], ...]:
    """For each node of a plan, in its order, the judgments it rests on; most have none."""
    return tuple(_judgments(plan, place) for place in range(len(plan.nodes)))


def _judgments(plan: Plan, place: int) -> tuple[Judgment, ...]:
    match plan.nodes[place]:
        case Join(group=group, body=body):
            one_at_a_time = ((BAG, INVARIANT), (INVARIANT, BAG))
            judgments_by_side = [judge(body, _growth(group, sides)) for sides in one_at_a_time]
            return tuple(judgment for judgment in judgments_by_side if judgment is not None)
        case Groups(inputs=places, group=group, requests=requests):
            sides = tuple(INVARIANT if plan.edges[at].invariant else BAG for at in places)
            growth = _growth(group, sides)
            kept = [split(request.expr, growth, Names(0)).kept for request in requests]
            judgments = [part.judgment for parts in kept for part in parts]
            return tuple(dict.fromkeys(judgments))
        case _:
            return ()


def _growth(group: typed.Variable, sides: tuple[Monoid, ...]) -> Growth:
    value = sides[0] if len(sides) == 1 else product(*sides)
    return {group: product(INVARIANT, value)}
