"""Text files to rows: `source(text, path)`, each line a string."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from incmrql.formats.files import Line
from incmrql.formats.rows import BadRow, Read, Row


def read_text(lines: Iterable[Line], path: str) -> Iterator[Read]:
    """The lines of one file, without their ends; empty ones too."""
    for line in lines:
        if line.problem:
            yield BadRow(path, line.number, line.text, line.problem)
        else:
            yield Row(line.text, line=line.number)
