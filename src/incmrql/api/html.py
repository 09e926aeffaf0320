"""Answers, queries and runs as HTML, for notebooks: a few rows, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from incmrql.api.saved_answers import AnswerColumns
    from incmrql.runtime.report import Batch
    from incmrql.values import Value


MOST_ROWS: Final = 20
"""Rows that a table shows."""
_LONGEST: Final = 200
"""Characters of a cell that are shown."""


def answer_html(columns: AnswerColumns, rows: Sequence[Value], caption: str) -> str:
    """The first rows of an answer as a table, and how many there are."""
    cells = columns.cells(rows[:MOST_ROWS])
    return _table(columns.header, cells, columns.numeric, _with_count(caption, len(rows)))


def changes_html(columns: AnswerColumns, changes: Sequence[tuple[Value, int]], caption: str) -> str:
    """The first changes of a batch as a table; the first column has their weights."""
    shown = changes[:MOST_ROWS]
    cells = [
        (f"{weight:+}", *parts)
        for (_, weight), parts in zip(shown, columns.cells(row for row, _ in shown), strict=True)
    ]
    header, numeric = ("", *columns.header), (True, *columns.numeric)
    return _table(header, cells, numeric, _with_count(caption, len(changes)))


def batch_html(columns: AnswerColumns, batch: Batch) -> str:
    """The first changes of a batch, with its numbers."""
    report = batch.report
    caption = (
        f"batch {report.number}: rows inserted {report.inserted:,}, deleted {report.deleted:,}; "
        f"rows of the answer changed {report.changed:,}; {report.seconds:.3f} s"
    )
    return changes_html(columns, batch.changes(), caption)


def facts_html(caption: str, facts: Iterable[tuple[str, str]]) -> str:
    """Names and values, one pair on each line."""
    return _table((), facts, (False, False), caption)


def _with_count(caption: str, rows: int) -> str:
    return f"{caption}; the first {MOST_ROWS} are shown" if rows > MOST_ROWS else caption


def _table(
    header: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool], caption: str
) -> str:
    parts = [f"<table><caption>{escape(caption)}</caption>"]
    if header:
        names = "".join(f'<th scope="col">{_cell(name)}</th>' for name in header)
        parts.append(f"<thead><tr>{names}</tr></thead>")
    parts.append("<tbody>")
    for row in rows:
        cells = "".join(
            f'<td style="text-align:{"right" if is_number else "left"}">{_cell(text)}</td>'
            for text, is_number in zip(row, numeric, strict=True)
        )
        parts.append(f"<tr>{cells}</tr>")
    return "".join([*parts, "</tbody></table>"])


def _cell(text: str) -> str:
    return escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


__all__ = ["MOST_ROWS", "answer_html", "batch_html", "changes_html", "facts_html"]
