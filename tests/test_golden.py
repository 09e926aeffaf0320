"""The reader and writer of golden files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import golden

FILE = """\
# Letters get large.
upper
one

two
----
ONE

TWO


repeat times=2
ab
----
abab
"""


def upper(text: str, _args: Mapping[str, str]) -> str:
    return text.upper()


def repeat(text: str, args: Mapping[str, str]) -> str:
    return text * int(args["times"])


HANDLERS: Mapping[str, golden.Handler] = {"upper": upper, "repeat": repeat}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "words.golden"
    path.write_text(FILE)
    return path


def test_read(path: Path) -> None:
    first, second = golden.read(path)
    assert (first.comments, first.input, first.answer) == (
        ("# Letters get large.",),
        "one\n\ntwo",
        "ONE\n\nTWO",
    )
    assert (second.line, second.command, second.args) == (12, "repeat", {"times": "2"})


def test_right_answers_pass_and_are_rewritten_unchanged(path: Path) -> None:
    golden.check(path, HANDLERS, update=False)
    golden.check(path, HANDLERS, update=True)
    assert path.read_text() == FILE


def test_a_wrong_answer_is_shown_with_its_place(path: Path) -> None:
    path.write_text(FILE.replace("abab", "abba"))
    with pytest.raises(AssertionError, match=r"words\.golden:12: repeat(.|\n)*-abba\n\+abab"):
        golden.check(path, HANDLERS, update=False)


def test_update_repairs_wrong_and_missing_answers(path: Path) -> None:
    path.write_text(FILE.replace("TWO", "too").replace("----\nabab\n", ""))
    with pytest.raises(AssertionError):
        golden.check(path, HANDLERS, update=False)
    golden.check(path, HANDLERS, update=True)
    assert path.read_text() == FILE


def test_an_unknown_command_is_an_error(path: Path) -> None:
    with pytest.raises(AssertionError, match=r"words\.golden:12: no command 'repeat'"):
        golden.check(path, {"upper": upper}, update=True)
