"""Operators of Spark's plans: the converted query means what the SQL text says, in every batch.

The plans were read from Spark; DuckDB answers the same texts.  `OWN` has what DuckDB does not.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.catalyst.judging import (
    Tables,
    assert_agrees_with_duckdb,
    assert_follows,
    plans_of,
    random_tables,
    script_of_plan,
)
from tests.catalyst.texts import texts

SET = "operators"
QUERIES = tuple(texts(SET))
ROWS: Tables = {
    "r": [(1, 1, 1, "x", None, 1.0), (1, 2, None, "x", None, 2.0), (None, 3, 3, None, None, None)],
    "q": [(1, 2, "x"), (None, 3, None), (3, None, "y")],
}

NOT_IN_DUCKDB = ("scalar_several", "grouping_sets_twice")
"""Texts that are errors there, or mean something else."""


@pytest.mark.slow
@pytest.mark.parametrize("query", [q for q in QUERIES if q not in NOT_IN_DUCKDB])
def test_the_answer_is_duckdbs(query: str) -> None:
    chance = Random(query)
    for _ in range(2):
        assert_agrees_with_duckdb(SET, query, random_tables(SET, chance))


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_every_batch_is_followed(query: str, tmp_path: Path) -> None:
    chance = Random(query)
    script = script_of_plan(plans_of(SET)[query]).script
    assert_follows(script, random_tables(SET, chance), chance, tmp_path)
