"""Columns of types that only Spark has: stepper and engine follow them, deletions included."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from incmrql.api.named import with_dicts
from incmrql.io.arrow.values import to_arrow
from incmrql.types.model import INT, STRING, list_of, map_of
from incmrql.values import LocalTime, Months, Record, identical, show
from tests.catalyst.judging import (
    assert_follows,
    plans_of,
    random_tables,
    reference_answer,
    script_of_plan,
)
from tests.catalyst.test_traps import problems, with_fields
from tests.catalyst.texts import texts
from tests.effort import mostly_slow, scale

NAMES = sorted(set(texts("types")) - {"map_errors", "map_group"})


def entries(*pairs: tuple[str, int | None]) -> list[Record]:
    return [Record({"key": key, "value": value}) for key, value in pairs]


DAY = timedelta(days=1)
ROWS = [
    (1, b"a\x00", LocalTime(2024, 1, 1, 10, 20, 30), entries(("b", 1), ("a", 2)), Months(14), DAY),
    (2, b"a", LocalTime(2024, 1, 1), entries(("a", 2), ("b", 1)), Months(-7), -DAY / 3),
    (2, None, None, None, None, None),
]


def answer(query: str, rows: list[Any] = ROWS) -> list[Any]:
    """The answer of a query of the set `types` by the reference evaluator."""
    return list(reference_answer(script_of_plan(plans_of("types")[query]).script, {"t": rows}))


@pytest.mark.parametrize("query", mostly_slow(NAMES, 6))
def test_streams_with_deletions(query: str, tmp_path: Path) -> None:
    script = script_of_plan(plans_of("types")[query]).script
    for seed in range(scale(2, 3)):
        chance = Random(f"{query} {seed}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert_follows(script, random_tables("types", chance), chance, folder)


def test_values_of_a_row() -> None:
    assert show(answer("all_columns", ROWS[:1])[0]) == (
        '(1,binary("6100"),timestamp_ntz("2024-01-01T10:20:30"),'
        '[ < key: "b", value: 1 >, < key: "a", value: 2 > ],interval("1-2"),'
        'interval("1 00:00:00"))'
    )


def test_bytes_are_grouped_by_all_of_their_bytes() -> None:
    assert sorted(answer("binary_groups"), key=repr) == [
        (None, 1, 2), (b"a", 1, 2), (b"a\x00", 1, 1),
    ]  # fmt: skip


def test_a_map_keeps_the_order_of_its_entries() -> None:
    (first,), (second,), (none,) = (answer("map_values", [row]) for row in ROWS)
    assert [row[4] for row in (first, second, none)] == [["b", "a"], ["a", "b"], None]
    assert [row[1] for row in (first, second, none)] == [2, 2, None]
    assert [row[7] for row in (first, second, none)] == [True, True, None]


def test_intervals_are_added_and_averaged() -> None:
    by_key = {row[0]: row for row in answer("span_sums")}
    assert by_key[1][1:5] == (Months(14), Months(14), DAY, DAY)
    assert by_key[2][1:5] == (Months(-7), Months(-7), -DAY / 3, -DAY / 3)
    assert by_key[2][7] == 1
    assert {row[0] for row in by_key.values()} == {1, 2}


def test_a_map_as_users_see_it_is_the_same_value() -> None:
    kept = entries(("b", 1), ("a", None))
    shown = with_dicts(kept, map_of(STRING, INT))
    assert shown == {"b": 1, "a": None}
    assert identical(shown, kept)
    assert show(shown) == 'map{ "b": 1, "a": null }'
    assert to_arrow(shown, map_of(STRING, INT)) == to_arrow(kept, map_of(STRING, INT))
    of_lists = map_of(list_of(INT), INT)
    pairs = [Record({"key": [1], "value": 2})]
    assert with_dicts(pairs, of_lists) == pairs


def test_keys_of_a_map_must_differ() -> None:
    """Rows with k = 1 have no map, which is an error in Spark."""
    assert [row[0] for row in answer("map_errors", ROWS[:1])] == [None]
    assert answer("map_errors", ROWS[1:2])[0][0] == [
        Record({"key": 2, "value": "x"}), Record({"key": 1, "value": "y"}),
    ]  # fmt: skip


def test_the_last_value_of_a_key_counts_if_the_session_says_so() -> None:
    plan = plans_of("types")["map_errors"]
    policy = {**plan.settings, "spark.sql.mapKeyDedupPolicy": "LAST_WIN"}
    script = script_of_plan(replace(plan, settings=policy)).script
    (row,) = reference_answer(script, {"t": ROWS[:1]})
    assert row == ([Record({"key": 1, "value": "y"})],)


def test_a_local_time_has_no_zone_to_be_refused() -> None:
    """Parts and arithmetic of times without a zone do not depend on that of the session."""
    plan = plans_of("types")["local_arithmetic"]
    unknown = with_fields(plan.plan, {"TimestampAddYMInterval": {"timeZoneId": "Europe/Atlantis"}})
    script = script_of_plan(replace(plan, plan=unknown)).script
    assert len(reference_answer(script, {"t": ROWS})) == len(ROWS)
    plan = plans_of("types")["local_parts"]
    unknown = with_fields(plan.plan, {"Hour": {"timeZoneId": "Europe/Atlantis"}})
    assert script_of_plan(replace(plan, plan=unknown)).queries
    unknown = with_fields(plan.plan, {"Cast": {"timeZoneId": "Europe/Atlantis"}})
    message = "Cast computes in the time zone Europe/Atlantis, which is not known here"
    assert problems(replace(plan, plan=unknown)) == [("C104", message)]


def test_maps_are_no_keys() -> None:
    assert problems(plans_of("types")["map_group"]) == [
        ("C105", "a key of GROUP BY has a map, and maps are not compared")
    ]
