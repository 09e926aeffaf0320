"""Loops in all their forms."""

from __future__ import annotations

import pytest

from incmrql.errors import DataError
from incmrql.types import typed
from incmrql.types.model import BOOL, INT, LONG, Tuple, bag
from incmrql.values import Bag
from tests.reference.running import answer_text, const, of, value

TABLE: list[tuple[str, str]] = [
    ("repeat x = 1 step x * 2 limit 10", "1024"),
    ("repeat x = 1 step x * 2 limit 0", "1"),
    ("repeat x = 1 step x * 2 limit -3", "1"),
    ("repeat x = 1 step x * 2 limit (null as int)", "1"),
    ("repeat x = 100 step x / 2", "0"),
    ("repeat x = {1} step distinct(x union (select y + 1 from y in x where y < 4))",
     "{ 1, 2, 3, 4 }"),
    ("repeat x = {1, 2} step select (y + 1, y + 1 < 5) from y in x", "{ 5, 6 }"),
    ("repeat x = {1, 2} step select (y + 1, y + 1 < 5) from y in x limit 2", "{ 3, 4 }"),
    ("repeat x = {1} step select (y + 1, null = 1) from y in x", "{ 2 }"),
    ("repeat (a, b) = (0, 1) step (b, a + b) limit 10", "(55,89)"),
    ("repeat (a, b) = ({1, 2}, 0) step ((select (x + 1, x < 3) from x in a), b + 1) limit 9",
     "({ 4, 5 },3)"),
    ("repeat x = 0.0 step x / 2.0", "0.0"),
    ("select (repeat n = x step n + 1 limit x) from x in {1, 5}", "{ 2, 10 }"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_loops(text: str, expected: str) -> None:
    assert answer_text(text) == expected


def test_a_loop_that_does_not_end() -> None:
    with pytest.raises(DataError) as error:
        value("repeat x = 1L step if x > 5 then 1 else x + 1", max_steps=50)
    assert error.value.code == "R202"
    assert "50 steps" in error.value.message
    assert "limit" in error.value.hint
    assert error.value.place == "<query>:1:1"


def test_a_limit_may_exceed_the_guard() -> None:
    assert value("repeat x = 0 step x + 1 limit 60", max_steps=50) == 60


def test_nothing_changes_by_identity() -> None:
    """A bag in another order, or NaN again, is no change."""
    assert value("repeat x = {1, 2} step select y from y in reverse(x)") == Bag([1, 2])
    assert answer_text("repeat x = (1.0, {2}) step (NaN, {2})") == "(NaN,{ 2 })"


def test_null_flags_and_null_steps_end_the_loop() -> None:
    x = typed.Variable("x", 1, bag(INT))
    flagged = bag(Tuple((INT, BOOL)))
    step = const(None, flagged)
    loop = typed.Repeat((x,), (const(Bag([1]), bag(INT)),), (step,), (True,), None, type=bag(INT))
    assert of(loop) is None
    step = const(Bag([(5, None)]), flagged)
    loop = typed.Repeat((x,), (const(Bag([1]), bag(INT)),), (step,), (True,), None, type=bag(INT))
    assert of(loop) == Bag([5])


def test_limit_and_flags_both_end_it() -> None:
    x = typed.Variable("x", 1, bag(INT))
    step = const(Bag([(7, True)]), bag(Tuple((INT, BOOL))))
    start = const(Bag([1]), bag(INT))
    loop = typed.Repeat((x,), (start,), (step,), (True,), const(3, LONG), type=bag(INT))
    assert of(loop) == Bag([7])
