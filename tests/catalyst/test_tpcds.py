"""The queries of TPC-DS: all are converted and planned."""

from __future__ import annotations

import pytest

from incmrql.algebra.translate.queries import views_of
from incmrql.catalyst.nodes import nodes_of
from incmrql.plan.assembly import watches_of
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.types.walk import nodes
from tests.catalyst.judging import cross_products, plans_of, program_of_script, script_of_plan
from tests.effort import sample

WITH_WINDOWS = (
    "q12", "q20", "q36", "q44", "q47", "q49", "q51", "q53", "q57", "q63", "q67", "q70", "q86",
    "q89", "q98",
)  # fmt: skip


@pytest.mark.slow
def test_every_query_is_converted() -> None:
    plans = plans_of("tpcds")
    assert len(plans) == 99
    with_windows = {
        query
        for query, plan in plans.items()
        if any(node.name == "Window" for node in nodes_of(plan.plan))
    }
    assert with_windows == set(WITH_WINDOWS)
    for query in plans:
        assert script_of_plan(plans[query]).queries


@pytest.mark.slow
def test_tables_are_joined_by_key() -> None:
    """All queries are planned; only q77 has tables that no equality connects, `from cs, cr`."""
    compared = {}
    plans = plans_of("tpcds")
    for query in {*sample(plans, 10), "q77"}:
        program = program_of_script(script_of_plan(plans[query]).script)
        assert program.nodes
        compared[query] = cross_products(program)
    assert {query: joins for query, joins in compared.items() if joins} == {"q77": 1}


@pytest.mark.parametrize("query", ["q61", "q90"])
def test_what_is_watched_reads_no_table_more_often_than_the_query(query: str) -> None:
    """A quotient of two sub-queries fails by both; written out at each use they were 268 reads."""
    script = script_of_plan(plans_of("tpcds")[query]).script
    (item,) = script.items
    with deep_recursion():
        (watches,) = watches_of([item], script, views_of([item.expr], script))
    reads = [sum(isinstance(n, typed.Read) for n in nodes(bag)) for bag in watches.bags]
    own = sum(isinstance(node, typed.Read) for node in nodes(item.expr))
    assert reads
    assert max(reads) <= own
