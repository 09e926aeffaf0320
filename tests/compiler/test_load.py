"""Python modules, functions and parsers that a script refers to."""

from __future__ import annotations

from pathlib import Path

import pytest

from incmrql.compiler.load import python_function, python_parser
from incmrql.errors import DataError
from incmrql.types.model import INT


def test_a_parser_whose_class_needs_arguments(tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text(
        "class P:\n"
        "  type = 'int'\n"
        "  def __init__(self, size): pass\n"
        "  def parse(self, text): return []\n"
    )
    with pytest.raises(DataError) as error:
        python_parser("needy.P", tmp_path)
    assert error.value.code == "T606"
    assert 'class "needy.P" raised TypeError' in error.value.message
    assert "without arguments" in error.value.hint


def test_a_parser_is_made(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "class P:\n  type = 'int'\n  def parse(self, text): return [1]\n"
    )
    parser, row = python_parser("plain.P", tmp_path)
    assert (type(parser).__name__, row) == ("P", INT)


def test_a_module_that_exits(tmp_path: Path) -> None:
    (tmp_path / "leaver.py").write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(DataError, match=r"T606.*failed: SystemExit: 3"):
        python_function("leaver", "f", tmp_path)


def test_a_module_that_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loud.py").write_text("print('hello')\ndef f(x: int) -> int: return x\n")
    python_function("loud", "f", tmp_path)
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize("annotation", ["[int]", "'3 +'", "'1 / 0'", "Annotated[int, []]"])
def test_annotations_that_are_no_types(tmp_path: Path, annotation: str) -> None:
    text = f"from typing import Annotated\ndef f(x: {annotation}) -> int: return x\n"
    (tmp_path / "odd.py").write_text(text)
    with pytest.raises(DataError, match="T606"):
        python_function("odd", "f", tmp_path)
