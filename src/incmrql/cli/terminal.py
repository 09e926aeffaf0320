"""Output of the command line: answers on stdout, everything else on stderr.

`live` has what a terminal shows of a run.
"""

from __future__ import annotations

import json
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
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


def is_terminal(stream: Any) -> bool:
    """Whether an output goes to a terminal; one that is closed does not."""
    return stream is not None and bool(stream.isatty())


@contextmanager
def starting_spark() -> Iterator[None]:
    """Say on a terminal that Spark starts, and how long that took."""
    if not is_terminal(sys.stderr):
        yield
        return
    click.echo("starting Spark ...", nl=False, err=True)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        click.echo("", err=True)
        raise
    click.echo(f" {time.monotonic() - start:.1f} s", err=True)


def tell(text: str) -> None:
    """Print a message on stderr."""
    click.echo(visible(text), err=True)


def print_answer(text: str) -> None:
    """Print an answer on stdout."""
    click.echo(visible(text) if is_terminal(sys.stdout) else text)


# --- Tables ---


def align_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, its cells in columns that are as wide as their widest cell."""
    cells = [[one_line(cell) for cell in row] for row in rows]
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


def one_line(cell: str) -> str:
    """A text on one line, with control characters escaped."""
    return visible(cell).replace("\n", "\\n").replace("\t", "\\t")


# --- Batches of a stream ---


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


def summary(report: BatchReport) -> str:
    """One line that describes a batch."""
    bad = f"{count(report.bad.bad, 'line', 'lines')} left out; " if report.bad.bad else ""
    return (
        f"batch {report.number}: {count(report.inserted, 'row', 'rows')} in, "
        f"{report.deleted:,} out; {bad}{count(report.changed, 'change', 'changes')}; "
        f"{count(report.state_rows, 'row', 'rows')} of state; {read_summary(report)}"
        f"{report.seconds * 1000:,.0f} ms{loop_summary(report)}"
    )


def count(number: int, one: str, several: str) -> str:
    """A number of things: `1 row`, `1,234 rows`."""
    return f"{number:,} {one if number == 1 else several}"


def duration(seconds: float) -> str:
    """A time as people say it: `28 ms`, `3.1 s`, `4 min`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.{1 if seconds < 10 else 0}f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:,.0f} days"


def size_text(size: float) -> str:
    """A number of bytes as people say it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def loop_summary(report: BatchReport) -> str:
    """How loops were maintained, for the end of a line."""
    return "".join(map(_loop, report.loops))


def read_summary(report: BatchReport) -> str:
    """How many rows were read from whole groups and tables, if any."""
    by = report.read_by_scope
    kinds = [f"{by[scope]:,} of {scope}" for scope in ("groups", "tables") if by[scope]]
    return f"read {' and '.join(kinds)}; " if kinds else ""


def _loop(loop: LoopWork) -> str:
    """How a loop was maintained, for the end of the line."""
    steps = count(loop.steps, "step", "steps")
    error = "" if loop.error is None else f", {loop.error['kind']} {loop.error['figure']:.3g}"
    return f"; loop: {loop.way}, {steps}{error} ({loop.reason})"
