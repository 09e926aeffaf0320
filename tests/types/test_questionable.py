"""Warnings about what has a meaning, but hardly the one that was meant."""

from __future__ import annotations

import pytest

from incmrql import api

STREAM = 'stream(line, "in", ",", type(< A: int, B: int >))'

CODES = [
    ("select x from x in {1, 2} order by 2;", ["W301"]),
    ("select x from x in {1, 2} order by x, -1 desc;", ["W301"]),
    ("select x from x in {1, 2} order by x;", []),
    ("select count(x) from x in {1, 2} group by 1;", ["W301"]),
    ("select count(x) from x in {1, 2} group by x, 'a';", ["W301"]),
    ("select (k, count(x)) from x in {1, 2} group by k: 1;", []),
    ("select x from x in {1, 2} where x = null;", ["W302"]),
    ("select x from x in {1, 2} where null <> x;", ["W302"]),
    ("select x from x in {1, 2} where x < (null as int);", ["W302"]),
    ("select (case x { null: true | *: false }) from x in {1, 2};", []),
    ("function f(x: int): bool { x = null }; f(1);", ["W302"]),
    ("q = select x from x in {1} order by 1; count(q);", ["W301"]),
    (f"select x.A from x in {STREAM};", ["W303"]),
    (f"incr select x.A from x in {STREAM};", []),
    (f'dump "out.csv" from select x.A from x in {STREAM};', ["W303"]),
    (f'dump "out.csv" from incr select x.A from x in {STREAM};', []),
    (f"lineage select x.A from x in {STREAM};", []),
    (f"store n := count({STREAM}); n;", []),
]


@pytest.mark.parametrize(("text", "codes"), CODES)
def test_check_warns(text: str, codes: list[str]) -> None:
    problems = api.check(text)
    assert [problem.code for problem in problems] == codes
    assert all(problem.severity in ("warning", "note") for problem in problems)
    assert [p.severity for p in problems if p.code == "W303"] == ["note"] * codes.count("W303")


def test_a_note_is_no_error_when_that_is_asked_for() -> None:
    assert [p.severity for p in api.check(f"count({STREAM});", strict=True)] == ["note"]


def test_the_place_is_that_of_the_constant() -> None:
    (problem,) = api.check("select x from x in {1, 2} order by 2;")
    assert problem.span.text == "2"
