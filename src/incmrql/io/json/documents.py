"""Lines to JSON documents, in time that is linear in the text and memory that is bounded.

A document that spans lines is parsed again each time its text has doubled, until it is complete.
Where it turns out to be broken, reading goes on at the next line that starts a document at the same
indentation.  That line may be a part of the broken document that is still open where it breaks: it
then breaks at the same place, and is refused without being parsed (`_doomed`).  Otherwise a file of
opening brackets would be parsed once for each of its lines.

A document that is nested too deep or has more than `longest` characters takes all lines that were
read for it along.  An array of rows may be larger: its items then come one by one, and if it
breaks, those before the place are rows and the rest is one bad row.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from incmrql.io.files import Line
from incmrql.io.json.values import DEEPEST, SPACE, Broken, Raw, place_of, raw_json, skip_space
from incmrql.io.rows import BadRow
from incmrql.io.scalars import Unparsable

_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')
_ITEMS: Final = 1 << 20
"""Characters of an array that are read at once while it is read item by item."""
_LONGEST_SHOWN: Final = 1 << 20
"""Characters that are kept of a document with too many of them."""
_NO_END: Final = "the document that starts here has no end"

_Verdict: TypeAlias = tuple[int, int, str]
"""Where a document is not JSON: line, column and what is wrong there."""
Document: TypeAlias = tuple[int, Raw, str]
"""The line on which a document starts, the document, and its text if it spans lines."""


@dataclass(slots=True)
class _Block:
    """Lines that hold one document, or several that share lines."""

    first: int
    """The number of the first line."""
    texts: list[str]
    size: int = 0
    """Characters of all lines, with their ends."""
    depth: int | None = None
    """How many brackets are open at the end of the block; unknown before the first growth."""
    is_deep: bool = False

    def text(self) -> str:
        """All of it, without white space at its end."""
        return "\n".join(self.texts).rstrip(SPACE)

    def add(self, line: Line) -> None:
        """Append a line."""
        self.texts.append(line.text)
        self.size += len(line.text) + 1
        net, highest = _depths(line.text)
        self.is_deep = self.is_deep or (self.depth or 0) + highest > DEEPEST
        self.depth = (self.depth or 0) + net

    def drop(self, number: int) -> int:
        """Forget the lines before a number; how many characters these are."""
        count = number - self.first
        dropped = sum(len(text) + 1 for text in self.texts[:count])
        del self.texts[:count]
        self.first, self.size = number, self.size - dropped
        return dropped

    def lines(self, number: int) -> Iterator[Line]:
        """The lines from a number on."""
        for index in range(number - self.first, len(self.texts)):
            yield Line(self.first + index, self.texts[index], "\n")


@dataclass(slots=True)
class _BadText:
    """The text of a bad document, of which no more is kept than can be shown."""

    parts: list[str] = field(default_factory=list)
    remaining: int = _LONGEST_SHOWN

    def add(self, text: str) -> None:
        """Append a line."""
        if self.remaining > 0:
            self.parts.append(
                text if len(text) <= self.remaining else f"{text[: self.remaining]}..."
            )
            self.remaining -= len(text) + 1

    def __str__(self) -> str:
        return "\n".join(self.parts)


class Documents:
    """The documents of the lines of one file, and what is none.

    With `split_arrays` the items of an array that has more than `longest` characters come as
    documents with one item each.
    """

    def __init__(
        self, lines: Iterable[Line], path: str, longest: int, *, split_arrays: bool
    ) -> None:
        self._source, self._ahead = iter(lines), deque[Line]()
        self._path, self._longest, self._split_arrays = path, longest, split_arrays
        self._doomed: dict[int, _Verdict | None] = {}
        """Lines whose document is known to break; None: it has no end."""

    def __iter__(self) -> Iterator[Document | BadRow]:
        while (line := self._next()) is not None:
            if line.problem:
                yield BadRow(self._path, line.number, line.text, line.problem)
            elif line.text.strip(SPACE):
                block = _Block(line.number, [line.text], len(line.text) + 1)
                if line.number in self._doomed:
                    yield self._doomed_document(block)
                else:
                    yield from self._documents(block)

    def _next(self) -> Line | None:
        return self._ahead.popleft() if self._ahead else next(self._source, None)

    def _documents(self, block: _Block) -> Iterator[Document | BadRow]:
        at, number, text = 0, block.first, block.text()
        while at < len(text):
            start = skip_space(text, at)
            number += text.count("\n", at, start)
            try:
                raw, at = raw_json(text, start)
            except Unparsable as problem:
                missing = isinstance(problem, Broken) and problem.position >= len(text)
                if missing:
                    start -= block.drop(number)
                    is_large = block.size > self._longest
                    if not (block.is_deep or is_large) and self._grow(block):
                        at, text = start, block.text()
                        continue
                    text = block.text()
                    if is_large and self._split_arrays and text[start] == "[":
                        yield from self._items(block, text, start, number)
                        return
                    if block.is_deep or is_large:
                        yield self._oversized_document(block, number, self._limit(block))
                        return
                elif block.is_deep and not isinstance(problem, Broken):
                    yield self._oversized_document(block, number, problem.reason)
                    return
                yield self._broken_document(block, text, start, number, problem, missing=missing)
                return
            height = text.count("\n", start, at)
            yield number, raw, text[start:at] if height else ""
            number += height

    def _grow(self, block: _Block) -> bool:
        """Take lines until brackets match, or as many as there are: each is parsed twice at most.

        A line that is not text ends the block.
        """
        before, size = len(block.texts), 2 * block.size
        if block.depth is None:
            block.depth = sum(_depths(text)[0] for text in block.texts)
        while block.size < size and not block.is_deep:
            line = self._next()
            if line is None:
                break
            if line.problem:
                self._ahead.appendleft(line)
                break
            block.add(line)
            if block.depth <= 0:
                break
        return len(block.texts) > before

    # --- arrays that are too large to be parsed as a whole ---------------------------------

    def _items(
        self, block: _Block, text: str, start: int, number: int
    ) -> Iterator[Document | BadRow]:
        """The items of the array that starts at a place, one by one."""
        at, expected = start + 1, ""
        indent = _indentation(text[text.rfind("\n", 0, start) + 1 :])
        while True:
            begin = skip_space(text, at)
            number += text.count("\n", at, begin)
            at = begin
            problem: Unparsable | None = None
            if at < len(text) and expected:
                if text[at] == "]":
                    break
                if text[at] != ",":
                    problem = Unparsable(f"expected {expected} after an item of an array")
                else:
                    at, expected = at + 1, ""
                    continue
            elif at < len(text):
                try:
                    raw, end = raw_json(text, at)
                except Unparsable as failure:
                    problem = failure
                    if isinstance(failure, Broken) and failure.position >= len(text):
                        problem = None
                else:
                    yield number, [raw], ""
                    number += text.count("\n", at, end)
                    at, expected = end, "a comma or a bracket"
                    continue
            if problem is None:
                at -= block.drop(number)
                if block.size <= self._longest + _ITEMS and self._lengthen(block):
                    text = block.text()
                    continue
                is_large = block.size > self._longest
                problem = Unparsable(self._limit(block) if is_large else _NO_END)
            yield self._oversized_document(block, number, problem.reason, indent)
            return
        yield from self._after_array(block, text, at + 1, number)

    def _lengthen(self, block: _Block) -> bool:
        before = len(block.texts)
        size = block.size + max(block.size, _ITEMS)
        while block.size < size and (line := self._next()) is not None:
            if line.problem:
                self._ahead.appendleft(line)
                break
            block.texts.append(line.text)
            block.size += len(line.text) + 1
        return len(block.texts) > before

    def _after_array(
        self, block: _Block, text: str, at: int, number: int
    ) -> Iterator[Document | BadRow]:
        """What stands behind an array that was read item by item."""
        lines = list(block.lines(number + 1))
        self._ahead.extendleft(reversed(lines))
        line_end = text.find("\n", at)
        rest = text[at : line_end if line_end >= 0 else len(text)]
        if rest.strip(SPACE):
            yield from self._documents(_Block(number, [rest], len(rest) + 1))

    # --- documents that are none -----------------------------------------------------------

    def _limit(self, block: _Block) -> str:
        if block.is_deep:
            return f"nested deeper than {DEEPEST} levels"
        return f"the document is longer than max_line ({self._longest} bytes)"

    def _oversized_document(
        self, block: _Block, number: int, reason: str, indent: int | None = None
    ) -> BadRow:
        """A document that takes all lines along that were read for it."""
        bad = _BadText()
        lines = block.lines(number)
        first = next(lines)
        bad.add(first.text)
        for line in lines:
            bad.add(line.text)
        self._skip(bad, _indentation(first.text) if indent is None else indent)
        return BadRow(self._path, number, str(bad), reason)

    def _broken_document(
        self,
        block: _Block,
        text: str,
        start: int,
        number: int,
        problem: Unparsable,
        *,
        missing: bool,
    ) -> BadRow:
        """A document that is not JSON; the lines after its first one come again."""
        reason = _NO_END if missing else problem.reason
        if isinstance(problem, Broken):
            end = len(text) if missing else problem.position
            line, column = _line_and_column(text, start, end)
            if not missing:
                reason = f"not JSON at {place_of(line, column)}: {problem.what}"
            verdict = None if missing else (number + line, column, problem.what)
            self._doom(text, start, end, number, verdict)
        return self._bad(block, number, text[start], reason)

    def _doomed_document(self, block: _Block) -> BadRow:
        """A document that breaks where one around it has broken."""
        number, text = block.first, block.text()
        verdict = self._doomed.pop(number)
        reason = _NO_END
        if verdict is not None:
            line, column, what = verdict
            reason = f"not JSON at {place_of(line - number, column)}: {what}"
        return self._bad(block, number, text[skip_space(text, 0)], reason)

    def _bad(self, block: _Block, number: int, opening: str, reason: str) -> BadRow:
        self._ahead.extendleft(reversed(list(block.lines(number + 1))))
        first = next(block.lines(number)).text
        bad = _BadText([first], _LONGEST_SHOWN)
        if opening in "{[":
            self._skip(bad, _indentation(first))
        return BadRow(self._path, number, str(bad), reason)

    def _skip(self, bad: _BadText, indent: int) -> None:
        """Read to the next line that starts a document at an indentation."""
        while (line := self._next()) is not None:
            if _opens(line.text, indent):
                self._ahead.appendleft(line)
                return
            self._doomed.pop(line.number, None)
            bad.add(line.text)

    def _doom(self, text: str, start: int, end: int, number: int, verdict: _Verdict | None) -> None:
        """Note the lines inside a broken document whose own document is open where it breaks."""
        self._doomed = {n: verdict_ for n, verdict_ in self._doomed.items() if n > number}
        open_positions: list[int] = []
        for bracket in _BRACKETS.finditer(text, start, end):
            if bracket[0] in "[{":
                open_positions.append(bracket.start())
            elif bracket[0] in "]}" and open_positions:
                open_positions.pop()
        at = start
        for position in open_positions[1:]:
            number += text.count("\n", at, position)
            at = position
            if not text[text.rfind("\n", 0, position) + 1 : position].strip(SPACE):
                self._doomed[number] = verdict


def _line_and_column(text: str, start: int, position: int) -> tuple[int, int]:
    """A place in a text: the line, from 0 where `start` is, and the column, from 1."""
    return text.count("\n", start, position), position - text.rfind("\n", 0, position)


def _depths(text: str) -> tuple[int, int]:
    """How many brackets a line leaves open, and how many are open on it at once."""
    depth = highest = 0
    for bracket in _BRACKETS.finditer(text):
        if bracket[0] in "[{":
            depth += 1
            highest = max(depth, highest)
        elif bracket[0] in "]}":
            depth -= 1
    return depth, highest


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip(SPACE))


def _opens(text: str, indent: int) -> bool:
    return _indentation(text) == indent and text[indent : indent + 1] in ("{", "[")
