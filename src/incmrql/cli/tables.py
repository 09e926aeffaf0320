"""Tables on a terminal: aligned, and cut to its width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from incmrql.cli.terminal import one_line

if TYPE_CHECKING:
    from incmrql.api.saved_answers import AnswerColumns
    from incmrql.values import Value


_GAP: Final = 2
"""Spaces between two columns."""
_NARROW: Final = 8
"""A column is cut to this width before columns to the right of it are left out."""


def answer_table(columns: AnswerColumns, rows: Sequence[Value], width: int) -> list[Table | Text]:
    """Rows of an answer as a table of at most `width` characters, and what is left out of it."""
    return table(columns.header, columns.cells(rows), columns.numeric, width)


def print_table(columns: AnswerColumns, rows: Sequence[Value]) -> None:
    """Print rows on the terminal that stdout is."""
    console = Console(markup=False, highlight=False, emoji=False)
    for part in answer_table(columns, rows, console.width):
        console.print(part)


def change_table(
    columns: AnswerColumns, changes: Sequence[tuple[Value, int]], width: int
) -> list[Table | Text]:
    """Changes of an answer: rows that came with `+`, rows that went with `-`."""
    cells = columns.cells([row for row, _ in changes])
    signed = [(_sign(weight), *parts) for (_, weight), parts in zip(changes, cells, strict=True)]
    styles = ["green" if weight > 0 else "red" for _, weight in changes]
    return table(("", *columns.header), signed, (False, *columns.numeric), width, styles)


def _sign(weight: int) -> str:
    """`+` or `-`; with a number for several equal rows."""
    return f"{weight:+,}" if abs(weight) > 1 else f"{weight:+}"[0]


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    width: int,
    styles: Sequence[str] = (),
) -> list[Table | Text]:
    """A table of at most `width` characters; columns that do not fit are counted below it."""
    cells = [[one_line(cell) for cell in row] for row in (header, *rows)]
    natural = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    shown = max(_columns_that_fit(natural, width), 1)
    result = Table(
        *_columns(cells[0][:shown], numeric, _widths(natural[:shown], width)),
        box=None,
        padding=(0, _GAP, 0, 0),
        pad_edge=False,
        header_style="bold",
    )
    for number, row in enumerate(cells[1:]):
        style = styles[number] if styles else None
        result.add_row(*map(Text, row[:shown]), style=style)
    left_out = len(header) - shown
    if not left_out:
        return [result]
    noun = "column" if left_out == 1 else "columns"
    return [result, Text(f"and {left_out} more {noun}: {', '.join(cells[0][shown:])}", "dim")]


def _columns(
    names: Sequence[str], numeric: Sequence[bool], widths: Sequence[int]
) -> Iterator[Column]:
    for name, is_number, width in zip(names, numeric, widths, strict=False):
        yield Column(
            Text(name),
            justify="right" if is_number else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )


def _columns_that_fit(natural: Sequence[int], width: int) -> int:
    """The number of columns that fit if each is cut to `_NARROW` characters."""
    used = 0
    for number, size in enumerate(natural):
        used += min(size, _NARROW) + (_GAP if number else 0)
        if used > width:
            return number
    return len(natural)


def _widths(natural: Sequence[int], width: int) -> list[int]:
    """The widths of columns that fit: the widest ones are cut to what the others leave."""
    room = width - _GAP * (len(natural) - 1)
    most = max(natural, default=0)
    while sum(min(size, most) for size in natural) > room and most > 1:
        most -= 1
    return [max(min(size, most), 1) for size in natural]
