"""Blocks of lines that are read all at once: which are, and that they mean what the reader says."""

from __future__ import annotations

import pytest

from incmrql.io.arrow.columns import column_values
from incmrql.io.files import Line
from incmrql.io.line import LineOptions, read_lines
from incmrql.io.rows import Row
from incmrql.io.vectorised.blocks import LineBlock
from incmrql.io.vectorised.line import LineParser, line_columns
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.model import element_type
from incmrql.values import encode

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
def test_plain_lines(lines: str, beyond: int) -> None:
    """They are read at once, with the rows and the counts of the row-by-row reader."""
    assert at_once(lines, ROW, ",") == ([], beyond)


@pytest.mark.parametrize(
    ("lines", "row", "delimiter", "odd"),
    [
        ("1,0.5,x,more\n2,1,y\n", ROW, ",", [2]),  # another number of fields
        ("1,0.5\n", ROW, ",", [1]),
        ('1,0.5,"x"\n', ROW, ",", []),
        ("1 ,0.5,x\n", ROW, ",", [1]),
        ("1234567890,0.5,x\n2100000000,0.5,x\n", ROW, ",", [2]),  # may not fit
        ("1,0.5,x\r\n", ROW, ",", []),
        ("1||0.5||x\n", ROW, "||", None),
        ("-0.0\n", "< a: float >", ",", []),
        ("true\n", "< a: bool >", ",", []),
        ("x\n\ny\n", "< a: string >", ",", []),  # an empty line is no empty field
    ],
)
def test_which_lines_are_odd(lines: str, row: str, delimiter: str, odd: list[int] | None) -> None:
    assert at_once(lines, row, delimiter)[0] == odd


def at_once(lines: str, row: str, delimiter: str) -> tuple[list[int] | None, int]:
    """The numbers of lines that are not read at once, and how many have further columns.

    The rows of the others are compared with those of the row-by-row reader.
    """
    type_, options = type_from_text(row), LineOptions(delimiter)
    columns = line_columns(type_, options, None)
    if columns is None:
        return None, 0
    parser = LineParser("lines.csv", type_, options, columns)
    parsed, numbers, others = parser.split_block(LineBlock(lines.encode(), 1)).parse(parser)
    odd = [line.number for line in others]
    text = [Line(i, line.removesuffix("\r"), "\n") for i, line in enumerate(lines.split("\n"), 1)]
    given = [line for line in text[:-1] if line.number not in odd]
    wanted = list(read_lines(given, "lines.csv", type_, options))
    assert [row.line for row in wanted if isinstance(row, Row)] == numbers.tolist()
    found = [] if parsed is None else column_values(parsed.values, element_type(type_))
    beyond = 0 if parsed is None else parsed.beyond
    assert list(map(encode, found)) == [encode(r.value) for r in wanted if isinstance(r, Row)]
    assert beyond == sum(r.beyond for r in wanted if isinstance(r, Row))
    return odd, beyond
