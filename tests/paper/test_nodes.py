"""The judgments behind the nodes of plans."""

from __future__ import annotations

from hypothesis import given

from incmrql.errors import QueryError
from incmrql.plan.monoids import BAG
from incmrql.plan.nodes import Groups, Join
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shape_queries
from tests.effort import fewer
from tests.paper.nodes import node_judgments
from tests.plan.stepping import query_plan


def monoids(text: str) -> list[list[str]]:
    """The monoids of each node that has some."""
    by_node = [
        [str(judgment.monoid) for judgment in node] for node in node_judgments(query_plan(text))
    ]
    return [node for node in by_node if node]


def test_groups_show_what_is_kept() -> None:
    text = "select (k, avg(x.C), max(x.B)) from x in R group by k: x.A"
    assert monoids(text) == [["+ of doubles", "count", "max"]]


def test_a_median_keeps_the_bag() -> None:
    assert monoids("select (k, median(x.C)) from x in R group by k: x.A") == [["⊎"]]


def test_maps_and_inputs_have_none() -> None:
    assert monoids("select x.A from x in R") == []


@fewer
@given(text=shape_queries())
def test_a_join_is_a_homomorphism_of_each_side(text: str) -> None:
    """So the two ways to judge agree: `judge.py` made the node, this inference confirms it."""
    try:
        plan = query_plan(text)
    except QueryError as error:
        reject_if_refused(error)
    for node, judgments in zip(plan.nodes, node_judgments(plan), strict=True):
        if isinstance(node, Join):
            assert [judgment.monoid for judgment in judgments] == [BAG, BAG]
        elif not isinstance(node, Groups):
            assert judgments == ()
