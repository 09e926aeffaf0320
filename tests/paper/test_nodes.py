"""The judgments behind the nodes of plans."""

from __future__ import annotations

from hypothesis import given

from incmrql.errors import QueryError
from incmrql.plan.monoids import BAG
from incmrql.plan.nodes import Groups, Join
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shaped
from tests.effort import fewer
from tests.paper.nodes import node_judgments
from tests.plan.stepping import planned


def monoids(text: str) -> list[list[str]]:
    """The monoids of each node that has some."""
    found = [[str(each.monoid) for each in node] for node in node_judgments(planned(text))]
    return [node for node in found if node]


def test_groups_show_what_is_kept() -> None:
    text = "select (k, avg(x.C), max(x.B)) from x in R group by k: x.A"
    assert monoids(text) == [["+ of doubles", "count", "max"]]


def test_a_median_keeps_the_bag() -> None:
    assert monoids("select (k, median(x.C)) from x in R group by k: x.A") == [["⊎"]]


def test_maps_and_inputs_have_none() -> None:
    assert monoids("select x.A from x in R") == []


@fewer
@given(text=shaped())
def test_a_join_is_a_homomorphism_of_each_side(text: str) -> None:
    """So the two ways to judge agree: `judge.py` made the node, this inference confirms it."""
    try:
        plan = planned(text)
    except QueryError as error:
        reject_if_refused(error)
    for node, found in zip(plan.nodes, node_judgments(plan), strict=True):
        if isinstance(node, Join):
            assert [each.monoid for each in found] == [BAG, BAG]
        elif not isinstance(node, Groups):
            assert found == ()
