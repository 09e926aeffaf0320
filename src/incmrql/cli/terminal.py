"""Output of the command line: answers on stdout, everything else on stderr.

On a terminal the answer and a table of the newest batches are redrawn in place.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

if TYPE_CHECKING:
    from incmrql.api.runs import BatchReport, LoopWork


# --- Untrusted text ---
#
# Names of files, fields and modules, bad lines and messages of other programs may contain escape
# sequences, which could control the terminal or forge lines of a log. On stderr, and on stdout if
# it is a terminal, control characters are therefore shown as `\x1b`. Answers in a pipe or file
# stay unchanged: the notation of the language escapes them in strings anyway.


_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters except line feed and tab, line separators, bidi marks, surrogates."""


def visible(text: str) -> str:
    """The text with control characters escaped."""
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def tell(text: str) -> None:
    """Print a message on stderr."""
    click.echo(visible(text), err=True)


def print_answer(text: str) -> None:
    """Print an answer on stdout."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    click.echo(visible(text) if on_terminal else text)


# --- Tables ---


def align_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, its cells in columns that are as wide as their widest cell."""
    cells = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - width_of(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


def width_of(text: str) -> int:
    """The columns of a terminal that a text takes: wide characters take two, accents none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _one_line(cell: str) -> str:
    return visible(cell).replace("\n", "\\n").replace("\t", "\\t")


# --- Batches of a stream ---


_TABLE_ROWS = 8
"""Batches in the table on a terminal."""
_COLUMNS = ("batch", "rows in", "rows out", "changes", "state rows", "ms")
_JSON = ("number", "files", "inserted", "deleted", "changed", "state_rows", "state_bytes")


class Console(Protocol):
    """Prints the batches of a stream."""

    def batch(self, report: BatchReport, answers: Sequence[Any]) -> None:
        """Print a batch, with the answers that go to the console."""

    def answers(self, number: int, answers: Sequence[Any]) -> None:
        """Print the answers of a batch of an earlier run."""

    def say(self, text: str) -> None:
        """Print a message."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A line for each answer on stdout, a line for each batch on stderr."""

    show: Callable[[Any], str]

    def batch(self, report: BatchReport, answers: Sequence[Any]) -> None:
        """Print the answers and a summary line."""
        for answer in answers:
            print_answer(self.show(answer))
        tell(summary(report))

    def answers(self, number: int, answers: Sequence[Any]) -> None:  # noqa: ARG002 - not shown
        """Print the answers."""
        for answer in answers:
            print_answer(self.show(answer))

    def say(self, text: str) -> None:
        """Print a message."""
        tell(text)


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON object for each batch on stdout; `show` formats a value as JSON."""

    show: Callable[[Any], str]
    name: str
    """The key of the answers: "answers" or "changes"."""

    def batch(self, report: BatchReport, answers: Sequence[Any]) -> None:
        """Print a batch as one JSON object."""
        fields = {name: getattr(report, name) for name in _JSON}
        batch = {**fields, "bad": report.bad.bad, "seconds": round(report.seconds, 4)}
        batch["read"] = dict(report.read_by_scope)
        if report.errors is not None:
            first = report.errors.first
            batch["errors"] = report.errors.count
            if first is not None:
                batch["first_error"] = {
                    "expression": first.expression,
                    "place": first.place,
                    "fault": first.fault,
                    "row": json.loads(self.show(first.row)),
                }
        if report.loops:
            batch["loops"] = [asdict(loop) for loop in report.loops]
        self._print(batch, answers)

    def answers(self, number: int, answers: Sequence[Any]) -> None:
        """Print the answers with the number of the batch."""
        self._print({"number": number}, answers)

    def _print(self, fields: dict[str, Any], answers: Sequence[Any]) -> None:
        text = json.dumps(fields)[:-1]
        values = ", ".join(map(self.show, answers))
        print_answer(f'{text}, "{self.name}": [{values}]}}' if answers else f"{text}}}")

    def say(self, text: str) -> None:
        """Print a message."""
        tell(text)


@dataclass(slots=True)
class Live:
    """The answers and a table of the newest batches, redrawn after each batch."""

    show: Callable[[Any], str]
    width: Callable[[], int]
    answers_too: bool
    """Whether stdout is the same terminal, so that answers are redrawn as well."""
    lines: int = 0
    """Lines above the cursor that the next batch redraws."""
    newest: deque[BatchReport] = field(default_factory=lambda: deque(maxlen=_TABLE_ROWS))

    def batch(self, report: BatchReport, answers: Sequence[Any]) -> None:
        """Redraw the answers and the table."""
        width = max(self.width(), 20)
        self.newest.append(report)
        self._clear()
        for answer in answers:
            text = self.show(answer)
            print_answer(text)
            if self.answers_too:
                self.lines += sum(-(-max(len(line), 1) // width) for line in text.split("\n"))
        sys.stdout.flush()
        for line in table(self.newest):
            tell(line[: width - 1])
            self.lines += 1

    def answers(self, number: int, answers: Sequence[Any]) -> None:  # noqa: ARG002 - not shown
        """Print the answers; the next batch does not redraw them."""
        for answer in answers:
            print_answer(self.show(answer))

    def say(self, text: str) -> None:
        """Print a message above what is redrawn."""
        tell(text)
        self.lines = 0

    def _clear(self) -> None:
        if self.lines:
            click.echo(f"\x1b[{self.lines}F\x1b[J", nl=False, err=True)
        self.lines = 0


def summary(report: BatchReport) -> str:
    """One line that describes a batch."""
    bad = f"{report.bad.bad:,} lines left out; " if report.bad.bad else ""
    return (
        f"batch {report.number}: {report.inserted:,} rows in, {report.deleted:,} out; {bad}"
        f"{report.changed:,} changes; {report.state_rows:,} rows of state; {_read(report)}"
        f"{report.seconds * 1000:,.0f} ms{''.join(map(_loop, report.loops))}"
    )


def _read(report: BatchReport) -> str:
    """How many rows were read from whole groups and tables, if any."""
    by = report.read_by_scope
    kinds = [f"{by[scope]:,} of {scope}" for scope in ("groups", "tables") if by[scope]]
    return f"read {' and '.join(kinds)}; " if kinds else ""


def _loop(loop: LoopWork) -> str:
    """How a loop was maintained, for the end of the line."""
    steps = "1 step" if loop.steps == 1 else f"{loop.steps:,} steps"
    error = "" if loop.error is None else f", {loop.error['kind']} {loop.error['figure']:.3g}"
    return f"; loop: {loop.way}, {steps}{error} ({loop.reason})"


def table(reports: Sequence[BatchReport] | deque[BatchReport]) -> list[str]:
    """The lines of a table with one row per batch."""
    rows = [
        (r.number, r.inserted, r.deleted, r.changed, r.state_rows, round(r.seconds * 1000))
        for r in reports
    ]
    shown = [_COLUMNS, *[tuple(f"{value:,}" for value in row) for row in rows]]
    widths = [max(len(row[place]) for row in shown) for place in range(len(_COLUMNS))]
    return [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in shown
    ]
