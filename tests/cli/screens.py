"""A terminal that is small enough to be understood: what is on its screen after some output."""

from __future__ import annotations

import re

from rich.cells import cell_len

_PIECE = re.compile(r"\x1b\[(?P<number>\d*)(?P<kind>[A-Za-z])|\x1b\[[?\d;]*[A-Za-z]|.", re.DOTALL)


def screen(written: str) -> list[str]:
    """The lines that a terminal shows, without spaces at their ends and empty lines at the end.

    It knows the end of a line, the start of a line, going up, and clearing a line; colours and
    the like change nothing.  Lines are not wrapped: nothing may be wider than the terminal.
    """
    lines, row, column = [""], 0, 0
    for match in _PIECE.finditer(written):
        match match["kind"], match[0]:
            case "A", _:
                row -= int(match["number"] or 1)
            case "K", _:
                lines[row] = ""
            case None, "\n":
                row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
            case None, "\r":
                column = 0
            case None, text if not text.startswith("\x1b"):
                line = lines[row].ljust(column)
                lines[row] = line[:column] + text + line[column + len(text) :]
                column += len(text)
            case _:
                pass
    assert row >= 0
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.rstrip() for line in lines]


def widest(lines: list[str]) -> int:
    """The cells of the widest line."""
    return max(map(cell_len, lines))
