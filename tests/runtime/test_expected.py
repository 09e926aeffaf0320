"""Rows that Spark computes may differ by the rounding of sums, and by nothing else."""

import pytest

from incmrql.runtime.expected import is_near, with_near_rows
from incmrql.values import Value


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        (0.1 + 0.2, 0.3, True),
        (1e300, 1e300 * (1 + 1e-12), True),
        (1.0, 1.000001, False),
        (float("nan"), float("nan"), True),
        (float("inf"), 1e308, False),
        (1, 2, False),
        (1, 1.0, False),
        (("a", 0.30000000000000004), ("a", 0.3), True),
        (("a", 0.3), ("b", 0.3), False),
        ((0.3,), (0.3, None), False),
        (None, 0.0, False),
    ],
)
def test_what_is_near(one: Value, other: Value, near: bool) -> None:
    assert is_near(one, other) is near


def test_rows_that_differ_by_rounding_become_those_of_the_answer() -> None:
    wanted = [("a", 0.3), ("a", 0.3), ("b", 1.0), ("c", 2.0)]
    answer = [("a", 0.30000000000000004), ("a", 0.3), ("b", 1.5)]
    assert with_near_rows(wanted, answer) == [
        ("a", 0.30000000000000004),
        ("a", 0.3),
        ("b", 1.0),
        ("c", 2.0),
    ]


def test_each_row_of_the_answer_is_taken_once() -> None:
    wanted, answer = [(0.1,), (0.1,)], [(0.1 + 1e-12,)]
    assert with_near_rows(wanted, answer) == [(0.1 + 1e-12,), (0.1,)]


def test_a_row_that_has_its_equal_does_not_take_what_is_near() -> None:
    one, other, between = (1.0,), (1.0 + 1e-11,), (1.0 + 5e-12,)
    assert with_near_rows([one, other], [one, between]) == [one, between]
