"""Source text, places in it, and problems that point at it.

The lowest layer: every module may import this one, and it imports nothing of ours.
A `Diagnostic` is data; `render` is the only place that draws it.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

MOST_REPORTED = 10
"""At most this many problems of a script are printed at once."""

_TAB = 4
_WIDEST_LINE = 160


@dataclass(frozen=True, slots=True)
class SourceText:
    """A named piece of query text."""

    text: str
    name: str = "<query>"
    _starts: list[int] = field(default_factory=list, init=False, compare=False, repr=False)

    def locate(self, offset: int) -> tuple[int, int]:
        """The line and column, both from 1, of a character offset."""
        if not self._starts:
            self._starts.append(0)
            self._starts.extend(i + 1 for i, c in enumerate(self.text) if c == "\n")
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its line end."""
        self.locate(0)
        if number > len(self._starts):
            return ""
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Span:
    """The half-open range `start:end` of a source."""

    source: SourceText
    start: int
    end: int

    def join(self, other: Span) -> Span:
        """The smallest span that covers both."""
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    @property
    def text(self) -> str:
        """The characters that the span covers."""
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        line, column = self.source.locate(self.start)
        return f"{self.source.name}:{line}:{column}"


NOWHERE = Span(SourceText("", "<nowhere>"), 0, 0)
"""The span of a node that has no source text."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem: a stable code, what is wrong, where, and what to try."""

    code: str
    message: str
    span: Span
    label: str = ""
    hint: str = ""
    severity: str = "error"

    def render(self) -> str:
        """The problem as text, with a caret under the characters it is about."""
        line, column = self.span.source.locate(self.span.start)
        text, left, width = _excerpt(self.span, line, column)
        gutter = " " * len(str(line))
        caret = " " * left + "^" * width
        lines = [
            f"{self.severity}[{self.code}]: {self.message}",
            f"{gutter}--> {self.span}",
            f"{gutter} |",
            f"{line} | {text}".rstrip(),
            f"{gutter} | {caret} {self.label}".rstrip(),
        ]
        if self.hint:
            lines.append(f"{gutter} = hint: {self.hint}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """The same fields for a program to read."""
        line, column = self.span.source.locate(self.span.start)
        end_line, end_column = self.span.source.locate(self.span.end)
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "file": self.span.source.name,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
            "label": self.label,
            "hint": self.hint,
        }


def _excerpt(span: Span, line: int, column: int) -> tuple[str, int, int]:
    """The line to print, the number of cells left of the caret, and the width of the caret."""
    text = span.source.line(line)
    start = column - 1
    end = max(start + 1, min(len(text), start + span.end - span.start))
    cut = max(0, start - _WIDEST_LINE // 2) if len(text) > _WIDEST_LINE else 0
    lead = "..." if cut else ""
    excerpt = lead + _printable(text[cut : cut + _WIDEST_LINE])
    excerpt += "..." if len(text) > cut + _WIDEST_LINE else ""
    # The caret is placed in terminal cells, not characters: a wide character takes two.
    left = len(lead) + _cells(_printable(text[cut:start]))
    width = _cells(_printable(text[start : min(end, cut + _WIDEST_LINE)]))
    return excerpt, left, max(1, width)


def _printable(text: str) -> str:
    """`text` with tabs as spaces and control characters as a visible replacement."""
    spaced = text.replace("\t", " " * _TAB)
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in spaced)


def _cells(text: str) -> int:
    """How many terminal cells `text` takes: two for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


class IncmrqlError(Exception):
    """Base class of all errors that incmrql raises for its users."""


class IncmrqlWarning(UserWarning):
    """A problem that does not stop a run but that its user should know about."""


class QueryError(IncmrqlError):
    """The query is at fault.  Carries every problem found, not only the first."""

    def __init__(self, *problems: Diagnostic) -> None:
        self.problems = problems
        super().__init__(*problems)

    def __str__(self) -> str:
        texts = [problem.render() for problem in self.problems[:MOST_REPORTED]]
        if len(self.problems) > MOST_REPORTED:
            texts.append(f"... and {len(self.problems) - MOST_REPORTED} more")
        return "\n\n".join(texts)

    @property
    def code(self) -> str:
        """The stable code of the first problem."""
        return self.problems[0].code

    @property
    def message(self) -> str:
        """What is wrong, in one line."""
        return self.problems[0].message

    @property
    def place(self) -> str:
        """Where, as `file:line:column`."""
        return str(self.problems[0].span)

    @property
    def hint(self) -> str:
        """What to try."""
        return self.problems[0].hint


OUTSIDE: Final = "R104"
"""The code of a path that `--allow-path` does not allow; several layers check paths."""


class DataError(IncmrqlError):
    """The data are at fault: a file, a line or a batch was refused and nothing was changed."""

    def __init__(self, code: str, message: str, *, place: str = "", hint: str = "") -> None:
        self.code, self.message, self.place, self.hint = code, message, place, hint
        lines = [f"error[{code}]: {message}"]
        if place:
            lines.append(f" --> {place}")
        if hint:
            lines.append(f" = hint: {hint}")
        super().__init__("\n".join(lines))


class CheckpointError(IncmrqlError):
    """A checkpoint cannot be used as it is."""


class DifferenceFound(IncmrqlError):
    """An answer that was maintained incrementally differs from the answer over all data.

    `missing` and `extra` are the first rows of which the answer has too few or too many copies,
    each with the number of copies.  `lineage` has some of these rows with the source rows that
    produce them, by the name of the source.
    """

    def __init__(
        self,
        message: str,
        batch: int = -1,
        missing: tuple[tuple[Any, int], ...] = (),
        extra: tuple[tuple[Any, int], ...] = (),
        lineage: tuple[tuple[Any, tuple[tuple[str, Any], ...]], ...] = (),
    ) -> None:
        self.message, self.batch = message, batch
        self.missing, self.extra, self.lineage = missing, extra, lineage
        super().__init__(message)


class InternalError(IncmrqlError):
    """We are at fault: an invariant between stages does not hold."""


def in_text_order(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The problems file by file, in the order of the text, without duplicates.

    A problem inside a macro is found once for each call, always at the same span.
    """
    distinct = list(dict.fromkeys(problems))
    files = list(dict.fromkeys(problem.span.source for problem in distinct))
    return sorted(distinct, key=lambda p: (files.index(p.span.source), p.span.start))


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint that suggests the closest of `names`, or the empty text if none is close."""
    candidates = sorted(set(names))
    close = get_close_matches(name, candidates, n=1, cutoff=0.6)
    folded = [candidate for candidate in candidates if candidate.lower() == name.lower()]
    best = (folded or close)[:1]
    return f'Did you mean "{best[0]}"?' if best else ""
