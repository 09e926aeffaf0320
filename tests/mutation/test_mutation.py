"""The tool that breaks code: its edits compile and change something, and its draw is stable."""

from __future__ import annotations

import ast

import pytest

from tests.mutation.draw import PACKAGE, SHARES, Mutant, all_mutants, draw_mutants
from tests.mutation.edits import Edit, edits

TEXT = '''
LIMIT = 3


def first(rows: list[int], most: int = 5) -> list[int]:
    """The first 2 rows."""
    found = []
    for row, _ in zip(rows, rows, strict=True):
        if row > 0 and not row % 2:
            found.append(row + 1)
    if not found:
        raise ValueError(f"none of {1 + 1}")
    return found[:most]
'''


def test_every_kind_of_edit_is_made_and_words_are_left_alone() -> None:
    changes = {(edit.old, edit.new) for edit in edits(TEXT)}
    assert changes == {
        ("zip(rows, rows, strict=True)", "list(zip(rows, rows, strict=True))[1:]"),
        ("row > 0 and not row % 2", "True"),
        ("row > 0 and not row % 2", "False"),
        ("row > 0 and not row % 2", "(row > 0 or not row % 2)"),
        ("row > 0", "row >= 0"),
        ("0", "1"),
        ("not row % 2", "row % 2"),
        ("row % 2", "row // 2"),
        ("2", "3"),
        ("found.append(row + 1)", "pass"),
        ("row + 1", "row - 1"),
        ("1", "2"),
        ("not found", "True"),
        ("not found", "False"),
        ("not found", "found"),
        ('raise ValueError(f"none of {1 + 1}")', "pass"),
    }


def test_an_edit_replaces_one_piece() -> None:
    text = "def f(ä, b):\n    return ä < b\n"
    (edit,) = edits(text)
    assert edit == Edit(2, 24, 29, "ä < b", "ä <= b")
    assert edit.apply_to(text) == "def f(ä, b):\n    return ä <= b\n"


@pytest.mark.slow
@pytest.mark.parametrize("part", SHARES)
def test_all_edits_compile_and_change_the_module(part: str) -> None:
    mutants = all_mutants(part)
    assert len(mutants) > 1_000
    for mutant in mutants[::17]:
        text = (PACKAGE / mutant.module).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(mutant.edit.apply_to(text))) != ast.dump(ast.parse(text))


def test_a_draw_has_its_shares_and_is_the_same_each_time() -> None:
    names = [mutant.name for mutant in draw_mutants(23)]
    assert len(set(names)) == len(names) == sum(SHARES.values()) >= 150
    assert names == [mutant.name for mutant in draw_mutants(23)]
    assert names != [mutant.name for mutant in draw_mutants(24)]


def test_the_name_of_a_mutant_does_not_depend_on_its_line() -> None:
    one, two = (
        Mutant("m.py", edits(text)[0], 1)
        for text in ("def f(a):\n    return a + 1\n", "\n\ndef f(a):\n    return a + 1\n")
    )
    assert one.name == two.name == "m.py #1: a + 1 -> a - 1"
    assert one.edit != two.edit
