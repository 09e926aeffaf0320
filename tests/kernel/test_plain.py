"""Blocks of lines that are read all at once: which are, and that they mean what the reader says."""

from __future__ import annotations

from pathlib import Path

import pytest

from incmrql.formats import Row, read
from incmrql.kernel.layouts import of_rows
from incmrql.kernel.plain import plain_lines
from incmrql.kernel.rows import from_table, to_values
from incmrql.types.columns import element_type
from incmrql.types.texts import type_from_text
from incmrql.values import Bag, identical

ROW = "< a: int, b: double, c: string >"


@pytest.mark.parametrize(
    ("lines", "beyond"),
    [
        ("1,0.5,x\n2,-0.0,y\n", 0),
        ("1,0.5,x,\n2,1e3,y,\n", 0),  # a delimiter at the end is no column
        ("1,0.5,x,more\n2,,,\n", 1),
        ("1,0.5,x,p,q\n2,1,y,,\n", 2),
        ("\n1,0.5,x,\n", 0),
        (",,\n", 0),
    ],
)
def test_plain_lines(tmp_path: Path, lines: str, beyond: int) -> None:
    """They are read at once, with the rows and the counts of the shared reader."""
    row = type_from_text(ROW)
    made = plain_lines(lines.encode(), row, ",")
    assert made is not None
    table, wider = made
    assert wider == beyond
    file = tmp_path / "lines.csv"
    file.write_text(lines)
    element = element_type(row)
    wanted = [found.value for found in read("line", file, row) if isinstance(found, Row)]
    given = [value for value, _ in to_values(from_table(table), of_rows(element, packed=False))]
    assert identical(Bag(given), Bag(wanted))


@pytest.mark.parametrize(
    ("lines", "row", "delimiter"),
    [
        ("1,0.5,x,more\n2,1,y\n", ROW, ","),  # another number of fields
        ("1,0.5\n", ROW, ","),
        ('1,0.5,"x"\n', ROW, ","),
        ("1 ,0.5,x\n", ROW, ","),
        ("1234567890,0.5,x\n", ROW, ","),  # may not fit
        ("1,0.5,x\r\n", ROW, ","),
        ("1||0.5||x\n", ROW, "||"),
        ("-0.0\n", "< a: float >", ","),
        ("true\n", "< a: bool >", ","),
        ("x\n\ny\n", "< a: string >", ","),  # an empty line, or an empty field?
    ],
)
def test_lines_that_are_not_plain(lines: str, row: str, delimiter: str) -> None:
    assert plain_lines(lines.encode(), type_from_text(row), delimiter) is None
