"""What reading gives: rows, and lines that are none, with a policy for those.

Readers yield `Row` and `BadRow` in the order of the file.  `collect` applies the policy:
`fail` refuses the input at the first bad row, `drop` counts them, `quarantine` counts them and
keeps them with their place and reason, so that they can be mended and read again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, TypeAlias

from incmrql.errors import DataError
from incmrql.storage.files import replacing, write_error
from incmrql.values import Value

Policy: TypeAlias = Literal["fail", "drop", "quarantine"]

MOST_REMEMBERED = 5
"""A report shows at most this many bad rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """An element that was read; the weight is -1 where the input says that it is deleted."""

    value: Value
    weight: int = 1
    beyond: bool = False
    """Whether its line has columns beyond the declared ones, which are ignored."""
    line: int = field(default=0, compare=False)
    """The line on which it, or the document that it is part of, starts; 0 if not on a line."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A part of a file that is not an element: where it starts, its text, and why.

    Lines count from 1; a row that stands on no line of its file has line 0.
    """

    path: str
    line: int
    text: str
    reason: str

    @property
    def place(self) -> str:
        """`file:line`, or the file alone."""
        return f"{self.path}:{self.line}" if self.line else self.path

    @property
    def sentence(self) -> str:
        """`line 7: reason`, or the reason alone."""
        return f"line {self.line}: {self.reason}" if self.line else self.reason


Read: TypeAlias = Row | BadRow


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning about a source that was read."""

    code: str
    message: str
    place: str = ""
    hint: str = ""

    def render(self) -> str:
        """The warning as text."""
        lines = [f"warning[{self.code}]: {self.message}"]
        if self.place:
            lines.append(f" --> {self.place}")
        if self.hint:
            lines.append(f" = hint: {self.hint}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ReadReport:
    """How many rows were read and how many were not, by file, with the first reasons."""

    rows: int
    bad: int
    files: tuple[tuple[str, int], ...] = ()
    first: tuple[BadRow, ...] = ()
    notices: tuple[Notice, ...] = ()
    """What is odd about the source as a whole."""

    def sentences(self, policy: Policy) -> list[str]:
        """`3 lines of sales.csv were quarantined: line 7: ...`, a sentence for each file."""
        what = "quarantined" if policy == "quarantine" else "dropped"
        return [self._sentence(path, count, what) for path, count in self.files]

    def _sentence(self, path: str, count: int, what: str) -> str:
        bad_rows = [bad for bad in self.first if bad.path == path]
        noun = "line" if all(bad.line for bad in bad_rows) else "row"
        start = f"{count} {noun}s of {path} were" if count > 1 else f"1 {noun} of {path} was"
        reasons = [bad.sentence for bad in bad_rows]
        more = "; ..." if 0 < len(reasons) < count else ""
        return f"{start} {what}" + (f": {'; '.join(reasons)}{more}" if reasons else "")


@dataclass(frozen=True, slots=True)
class Collected:
    """The rows that were read and the report about the others."""

    rows: list[Row]
    report: ReadReport

    @property
    def values(self) -> list[Value]:
        """The elements, without their weights."""
        return [row.value for row in self.rows]


@dataclass
class Quarantine:
    """A file for bad rows, `{file, line, reason, text}` a line; it appears when all are in it.

    No bad row, no file: one that an earlier reading left is removed.  The caller names it, so
    that reading a batch again replaces it.
    """

    folder: Path
    name: str = "rows.jsonl"
    _stack: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _file: IO[str] | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Quarantine:
        self._stack = ExitStack()
        return self

    def __exit__(self, *cause: object) -> None:
        mended = self._file is None and cause[0] is None
        self._file = None
        self._stack.__exit__(*cause)  # type: ignore[arg-type]
        if mended:
            self._remove()

    def _remove(self) -> None:
        old = self.folder / self.name
        try:
            old.unlink(missing_ok=True)
        except NotADirectoryError:
            pass
        except OSError as problem:
            raise write_error(old, problem.strerror or str(problem)) from problem

    def add(self, bad: BadRow) -> None:
        """Keep a bad row."""
        if self._file is None:
            temporary = self._stack.enter_context(replacing(self.folder / self.name))
            self._file = self._stack.enter_context(temporary.open("w", encoding="utf-8"))
        self._file.write(quarantine_line(bad, bad.path))


def quarantine_line(bad: BadRow, path: str) -> str:
    """A bad row as a line of a quarantine file; `path` is what its file is called there."""
    record = {"file": path, "line": bad.line or None, "reason": bad.reason, "text": bad.text}
    return json.dumps(record) + "\n"


def collect(
    rows: Iterable[Read], policy: Policy = "quarantine", quarantine: Quarantine | None = None
) -> Collected:
    """All rows, with the policy applied to those that are bad."""
    good: list[Row] = []
    first: list[BadRow] = []
    files: Counter[str] = Counter()
    with ExitStack() as stack:
        quarantined = (
            stack.enter_context(quarantine) if quarantine and policy == "quarantine" else None
        )
        for row in rows:
            if isinstance(row, Row):
                good.append(row)
                continue
            if policy == "fail":
                raise refusal(row)
            files[row.path] += 1
            if len(first) < MOST_REMEMBERED:
                first.append(row)
            if quarantined:
                quarantined.add(row)
    report = ReadReport(len(good), files.total(), tuple(files.items()), tuple(first))
    return Collected(good, report)


def refusal(bad: BadRow) -> DataError:
    """The error for a bad row where the source says `on_error: fail`."""
    hint = "Fix the line, or set on_error to quarantine or drop to continue without such lines."
    return DataError("R110", bad.reason, place=bad.place, hint=hint)
