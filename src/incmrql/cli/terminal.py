"""What is printed: answers on stdout, everything else on stderr.

On a terminal the answer and a table of the newest batches are drawn again in their place.
"""

from __future__ import annotations

import json
import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

if TYPE_CHECKING:
    from incmrql.api.runs import BatchReport, LoopWork


# --- Text of others ---
#
# Text of others must not steer the terminal, nor forge lines of a log.
#
# Names of files, fields and modules, bad lines and messages of other programs may hold escape
# sequences. On stderr, and on stdout if it is a terminal, control characters are shown as `\x1b`.
# Answers in a pipe or file stay as they are: in strings of the notation these are escaped anyway.


_STEERING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but line feed and tab, line separators, marks of direction, surrogates."""


def visible(text: str) -> str:
    """A text in which nothing steers a terminal."""
    return _STEERING.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def tell(text: str) -> None:
    """Print something about the run on stderr."""
    click.echo(visible(text), err=True)


def print_answer(text: str) -> None:
    """Print an answer on stdout."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    click.echo(visible(text) if on_terminal else text)


# --- Batches of a stream ---


_NEWEST = 8
"""Batches that the table on a terminal shows."""
_COLUMNS = ("batch", "rows in", "rows out", "changes", "state rows", "ms")
_JSON = ("number", "files", "inserted", "deleted", "changed", "state_rows", "state_bytes")


class Console(Protocol):
    """Where the batches of a stream are told."""

    def batch(self, report: BatchReport, answers: Sequence[Any]) -> None:
        """Tell of a batch, with the value of each answer that is printed."""

    def answers(self, number: int, answers: Sequence[Any]) -> None:
        """Tell the answers after a batch that was told before."""

    def say(self, text: str) -> None:
        """Tell anything else."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A line for each answer on stdout, a line for each batch on stderr."""

    show: Callable[[Any], str]

    def batch(self, report: BatchReport, answers: Sequence[Any]) -> None:
        """Print the answers, and a summary."""
        for answer in answers:
            print_answer(self.show(answer))
        tell(summary(report))

    def answers(self, number: int, answers: Sequence[Any]) -> None:  # noqa: ARG002 - not shown
        """Print the answers."""
        for answer in answers:
            print_answer(self.show(answer))

    def say(self, text: str) -> None:
        """Print a text."""
        tell(text)


@dataclass(frozen=True, slots=True)
class Json:
    """An object for each batch on stdout.  `show` gives a value as JSON."""

    show: Callable[[Any], str]
    name: str
    """What the values of the answers are called: answers, or changes."""

    def batch(self, report: BatchReport, answers: Sequence[Any]) -> None:
        """Print the object."""
        fields = {name: getattr(report, name) for name in _JSON}
        found = {**fields, "bad": report.bad.bad, "seconds": round(report.seconds, 4)}
        found["read"] = dict(report.read_by_scope)
        if report.errors is not None:
            first = report.errors.first
            found["errors"] = report.errors.count
            if first is not None:
                found["first_error"] = {
                    "expression": first.expression,
                    "place": first.place,
                    "fault": first.fault,
                    "row": json.loads(self.show(first.row)),
                }
        if report.loops:
            found["loops"] = [asdict(loop) for loop in report.loops]
        self._print(found, answers)

    def answers(self, number: int, answers: Sequence[Any]) -> None:
        """Print an object with the number of the batch."""
        self._print({"number": number}, answers)

    def _print(self, fields: dict[str, Any], answers: Sequence[Any]) -> None:
        text = json.dumps(fields)[:-1]
        values = ", ".join(map(self.show, answers))
        print_answer(f'{text}, "{self.name}": [{values}]}}' if answers else f"{text}}}")

    def say(self, text: str) -> None:
        """Print a text."""
        tell(text)


@dataclass(slots=True)
class Live:
    """The answers and a table of the newest batches, drawn again after each batch."""

    show: Callable[[Any], str]
    width: Callable[[], int]
    answers_too: bool
    """Whether stdout is the same terminal, so that answers are drawn again as well."""
    lines: int = 0
    """How many lines above the cursor are drawn again."""
    newest: deque[BatchReport] = field(default_factory=lambda: deque(maxlen=_NEWEST))

    def batch(self, report: BatchReport, answers: Sequence[Any]) -> None:
        """Draw everything again."""
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
        """Print the answers, which stay until the next batch."""
        for answer in answers:
            print_answer(self.show(answer))

    def say(self, text: str) -> None:
        """Print a text, which stays."""
        tell(text)
        self.lines = 0

    def _clear(self) -> None:
        if self.lines:
            click.echo(f"\x1b[{self.lines}F\x1b[J", nl=False, err=True)
        self.lines = 0


def summary(report: BatchReport) -> str:
    """A batch in a line."""
    bad = f"{report.bad.bad:,} lines left out; " if report.bad.bad else ""
    return (
        f"batch {report.number}: {report.inserted:,} rows in, {report.deleted:,} out; {bad}"
        f"{report.changed:,} changes; {report.state_rows:,} rows of state; {_read(report)}"
        f"{report.seconds * 1000:,.0f} ms{''.join(map(_loop, report.loops))}"
    )


def _read(report: BatchReport) -> str:
    """How many rows were read of whole groups and tables, if any were."""
    by = report.read_by_scope
    kinds = [f"{by[scope]:,} of {scope}" for scope in ("groups", "tables") if by[scope]]
    return f"read {' and '.join(kinds)}; " if kinds else ""


def _loop(loop: LoopWork) -> str:
    """How a loop was kept, at the end of a line."""
    steps = "1 step" if loop.steps == 1 else f"{loop.steps:,} steps"
    error = "" if loop.error is None else f", {loop.error['kind']} {loop.error['figure']:.3g}"
    return f"; loop: {loop.way}, {steps}{error} ({loop.reason})"


def table(reports: Sequence[BatchReport] | deque[BatchReport]) -> list[str]:
    """Batches as lines of a table."""
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
