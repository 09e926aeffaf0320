"""The generator of random queries reaches every construct, so that no property is vacuous."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings

from incmrql.syntax import ast
from tests.generators.features import FEATURES, SCRIPT_FEATURES, features
from tests.generators.queries import query_trees, script_trees
from tests.generators.tables import TABLES, tables
from tests.types.inhabits import inhabits

seeded = settings(max_examples=500, derandomize=True, database=None, phases=[Phase.generate])


@pytest.mark.slow
def test_500_random_queries_show_every_construct() -> None:
    seen: set[str] = set()

    @seeded
    @given(query_trees())
    def collect(tree: ast.Expr) -> None:
        seen.update(features(tree))

    collect()
    assert FEATURES - seen == set()


@pytest.mark.slow
def test_250_random_scripts_use_every_declaration() -> None:
    seen: set[str] = set()

    @settings(seeded, max_examples=250)
    @given(script_trees())
    def collect(tree: ast.Script) -> None:
        seen.update(features(tree))

    collect()
    assert SCRIPT_FEATURES - seen == set()


def test_random_tables_hold_odd_values() -> None:
    seen: set[str] = set()

    @settings(seeded, max_examples=150)
    @given(tables())
    def collect(rows: dict[str, list[object]]) -> None:
        for bag in rows.values():
            seen.add(f"{len(bag)} rows")
            seen.update(repr(value) for row in bag for value in _values(row))
            seen.update("twice" for row in bag if bag.count(row) > 1)

    collect()
    wanted = {"0 rows", "4 rows", "None", "nan", "-0.0", "inf", "''", "2147483647", "twice"}
    assert wanted - seen == set()


def _values(row: object) -> list[object]:
    values = getattr(row, "values_", ())
    return list(values)


@given(tables())
def test_random_tables_have_the_types_they_say(rows: dict[str, list[object]]) -> None:
    for name, bag in rows.items():
        for row in bag:
            fields = getattr(row, "names_", ())
            assert fields == TABLES[name].names
            if "-0.0" not in repr(row):
                assert inhabits(row, TABLES[name])
