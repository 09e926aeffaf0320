"""The queries of TPC-DS: all without windows are converted and planned."""

from __future__ import annotations

import pytest

from incmrql.catalyst.nodes import nodes_of
from tests.catalyst.judging import converted, plans_of, program_of_script


def without_windows() -> list[str]:
    return [
        query
        for query, plan in plans_of("tpcds").items()
        if not any(node.name == "Window" for node in nodes_of(plan.plan))
    ]


@pytest.mark.slow
def test_every_query_without_windows_is_converted() -> None:
    queries = without_windows()
    assert len(queries) == 84
    for query in queries:
        assert converted(plans_of("tpcds")[query]).queries


@pytest.mark.slow
@pytest.mark.parametrize("query", ["q14", "q18", "q23", "q64", "q66", "q72", "q75", "q78", "q95"])
def test_large_queries_are_planned(query: str) -> None:
    """With many joins, columns or sub-queries, or outer joins of outer joins."""
    program = program_of_script(converted(plans_of("tpcds")[query]).script)
    assert len(program.nodes) > 10
