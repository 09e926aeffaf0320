"""Rows of state that a batch reads: those of the change, its partners and its answer rows.

Counted after two histories, one eight times as long as the other: the counts are the same.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from incmrql.engine.compile.program import compile_program
from incmrql.plan.changes import Weighted
from incmrql.syntax.depth import deep_recursion
from tests.catalyst.judging import program_of_script, script_of_plan
from tests.catalyst.trap_answers import trap_answers
from tests.effort import mostly_slow
from tests.engine.kernels import KernelRun

SIZES: Final = (100, 800)
KEY: Final = 3
"""The key that changes are about: it has two rows in r and three in s."""
MOST_READS: Final = 3
"""State tables and looks, for each row of the change and of the answer's, and each partner."""
PARTNERS: Final = 5

QUERIES: Final = (
    "t6_4_condition_on_one_side", "t6_4_left_with_residual", "t6_4_right_with_residual",
    "t6_4_full_with_residual", "t6_2_using_full", "t6_5_not_in", "t6_5_not_in_correlated",
    "t6_6_in_as_a_value", "t6_6_in_under_or", "t6_8_count_bug", "t4_4_grouping_sets",
    "t7_2_except_all",
)  # fmt: skip


def r(a: int | None, b: int | None, c: str | None, *, h: bool = True) -> tuple[Any, ...]:
    """A row of r."""
    return (a, b, c, Decimal("1.00"), 0.5, None, h)


def s(a: int | None, b: int | None, c: str | None) -> tuple[Any, ...]:
    """A row of s."""
    return (a, b, c, Decimal("2.00"))


def history(size: int) -> dict[str, list[tuple[Any, int]]]:
    """Many keys with a row in each table, and the one that changes are about."""
    others = range(1_000, 1_000 + size)
    rs = [r(i, i, f"c{i}") for i in others] + [r(KEY, 1, "own"), r(KEY, 2, "own", h=False)]
    ss = [s(i, i + 10**6, f"c{i}") for i in others] + [s(KEY, b, "own") for b in (0, 2, 5)]
    return {"r": [(row, 1) for row in rs], "s": [(row, 1) for row in ss]}


def changes() -> list[dict[str, list[tuple[Any, int]]]]:
    """Rows with and without partners come and go, of either side; the last ones of a key too."""
    rows: list[tuple[str, tuple[Any, ...]]] = [
        ("r", r(KEY, 4, "own")), ("s", s(KEY, 3, "own")), ("r", r(7, 7, "new")),
        ("s", s(8, 8, "new")), ("r", r(1_001, 0, "c1001")), ("s", s(1_002, 1_003, "c1002")),
        ("r", r(None, None, None)),
    ]  # fmt: skip
    there = [("r", r(KEY, 1, "own")), ("s", s(KEY, 5, "own")), ("s", s(1_005, 1_001_005, "c1005"))]
    inserted = [{name: [(row, sign)]} for name, row in rows for sign in (1, -1)]
    return inserted + [{name: [(row, sign)]} for name, row in there for sign in (-1, 1)]


@cache
def work(query: str, size: int, directory: Path) -> list[tuple[int, int]]:
    """For each change, the rows of state that were read and the rows of the answer that changed."""
    with deep_recursion():
        program = program_of_script(script_of_plan(trap_answers()[query].plan).script)
        kernel = KernelRun(program, directory, 2, compile_program(program))
        kernel.step(history(size))
        counts = []
        for change in changes():
            (answer,) = kernel.step(change)
            counts.append((sum(kernel.worked.read), _size(answer)))
        return counts


def _size(change: Weighted) -> int:
    return sum(abs(weight) for _, weight in change)


@pytest.mark.parametrize("query", mostly_slow(QUERIES, 6))
def test_reads_follow_the_change_whatever_the_history(query: str, tmp_path: Path) -> None:
    small, large = (work(query, size, tmp_path / str(size)) for size in SIZES)
    assert [answer for _, answer in small] == [answer for _, answer in large]
    for change, (read, answer), (later, _) in zip(changes(), small, large, strict=True):
        assert later <= read + 2, change
        assert later <= MOST_READS * (1 + PARTNERS + answer), change


def test_a_null_among_what_is_not_to_be_in_reads_what_it_takes_away(tmp_path: Path) -> None:
    """NOT IN over a null is never true: every row of the answer goes, and nothing else is read."""
    with deep_recursion():
        program = program_of_script(script_of_plan(trap_answers()["t6_5_not_in"].plan).script)
        kernel = KernelRun(program, tmp_path, 2, compile_program(program))
        kernel.step(history(100))
        before = _size(Weighted([(row, 1) for row in kernel.answer()]))
        # the first null takes all away, others nothing; the last one to go brings all back
        for sign, changed in ((1, before), (1, 0), (-1, 0), (-1, before)):
            (answer,) = kernel.step({"s": [(s(1, None, "x"), sign)]})
            assert _size(answer) == changed
            assert sum(kernel.worked.read) <= MOST_READS * (1 + changed)
