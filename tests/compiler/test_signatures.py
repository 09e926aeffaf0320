"""Signatures of Python that are read from files: types as by importing, and nothing runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from incmrql.compiler.load import python_function, python_parser
from incmrql.compiler.python import module_file, read_function, read_parser
from incmrql.errors import DataError

MODULE = """
from __future__ import annotations
import datetime
import datetime as dt
from datetime import date as day
from decimal import Decimal
from typing import Annotated, Any, List, Optional, Tuple, Union
import typing as t

Point = tuple[float, float]

def plain(a: bool, b: int, c: float, d: str, e: object, f: Any) -> None: ...
def nested(a: list[int], b: List[Tuple[int, str]], c: Point) -> tuple[Point, list[Point]]: ...
def dates(a: day, b: datetime.datetime, c: dt.date, d: Decimal) -> dt.datetime: ...
def missing(a: Optional[int], b: int | None, c: Union[None, str], d: t.Optional[float]) -> None: ...
def quoted(a: "list[int]", b: Annotated[Any, "< A: int, B: {string} >"]) -> "Point": ...
def keyed(a: int, /, b: str, *, c: float) -> int: ...
other = plain
if True:
    def inside(a: int) -> int: ...
class Lines:
    type = "< A: int >"
    def parse(self, text): return []
"""
NAMES = ("plain", "nested", "dates", "missing", "quoted", "keyed", "other", "inside")


@pytest.mark.parametrize("name", NAMES)
def test_types_are_those_of_an_import(tmp_path: Path, name: str) -> None:
    (tmp_path / "shapes.py").write_text(MODULE)
    imported, read = (
        python_function("shapes", name, tmp_path),
        read_function("shapes", name, tmp_path),
    )
    assert (read.parameters, read.result) == (imported.parameters, imported.result)


def test_parsers_too(tmp_path: Path) -> None:
    (tmp_path / "lines.py").write_text(MODULE)
    assert read_parser("lines.Lines", tmp_path)[1] == python_parser("lines.Lines", tmp_path)[1]


def test_parents_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a_pkg", "a_pkg/b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "a_pkg" / "b" / "c.py").write_text("def f(x: int) -> int: raise SystemExit")
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "d.py").write_text("from a_pkg.b.c import f as g")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    assert str(read_function("a_pkg.b.c", "f", Path("/nonexistent")).result) == "long"
    assert str(read_function("space.d", "g", Path("/nonexistent")).result) == "long"
    assert module_file("a_pkg.none", tmp_path) is None
    assert not {name for name in set(sys.modules) - before if name.startswith(("a_pkg", "space"))}


def test_a_relative_import_is_followed(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from .inner import f")
    (tmp_path / "pkg" / "inner.py").write_text("def f(x: int) -> str: ...")
    assert str(read_function("pkg", "f", tmp_path).result) == "string"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(x): ...", "has no annotation for x, return"),
        ("def f(x: set[int]) -> int: ...", "the annotation set[int] has no type of the language"),
        ("def f(x: int | str) -> int: ...", "the annotation int | str has no type"),
        ("f = lambda x: x", 'is not defined as a function'),
        ("def g(x: int) -> int: ...", 'has no function "f" that can be read'),
        ("f = f", 'has no function "f" that can be read'),
        ("def f(x: 'int[') -> int: ...", "has no type of the language"),
        ("X = list['X']\ndef f(x: X) -> int: ...", "has no type of the language"),
        ("def f(x: int -> int: ...", "cannot be read"),
        ("\x00", "cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "odd.py").write_text(text)
    with pytest.raises(DataError, match="T606") as caught:
        read_function("odd", "f", tmp_path)
    assert message in caught.value.message


def test_a_function_that_was_read_cannot_be_called(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text("def f(x: int) -> int: return x")
    with pytest.raises(DataError, match=r"R243.*is not imported"):
        read_function("some", "f", tmp_path).call(1)
