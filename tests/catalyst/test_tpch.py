"""All queries of TPC-H: converted, planned, right in every batch, and what DuckDB answers."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from incmrql.plan.explain.nodes import program_shapes
from tests.catalyst.judging import (
    assert_agrees_with_duckdb,
    assert_follows,
    plans_of,
    program_of_script,
    script_of_plan,
)
from tests.catalyst.texts import texts
from tests.catalyst.toys import toy_tables

QUERIES = tuple(texts("tpch"))

DUE = {
    "q02": {"W105"},  # the lowest cost of a part
    "q11": {"W102"},  # the value of all parts
    "q15": {"W102"},  # the largest revenue
    "q16": {"W102"},  # NOT IN: whether any supplier has complaints
    "q17": {"W105"},  # the average quantity of a part
    "q20": {"W105"},  # the sum of what was shipped of a part
    "q22": {"W102"},  # the average balance
}
"""Warnings that say what the query asks for: one value that many rows are compared with."""


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_the_answer_is_duckdbs(query: str) -> None:
    chance = Random(query)
    for _ in range(2):
        assert_agrees_with_duckdb("tpch", query, toy_tables(chance))


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_every_batch_is_followed(query: str, tmp_path: Path) -> None:
    chance = Random(query)
    script = script_of_plan(plans_of("tpch")[query]).script
    assert_follows(script, toy_tables(chance), chance, tmp_path)


@pytest.mark.parametrize("query", QUERIES)
def test_no_query_is_warned_of_without_a_reason(query: str) -> None:
    program = program_of_script(script_of_plan(plans_of("tpch")[query]).script)
    warnings = {warning.code for shape in program_shapes(program) for warning in shape.warnings}
    assert warnings == DUE.get(query, set())
