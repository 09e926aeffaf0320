"""JSON files to rows: lines, arrays of rows, or documents one after the other.

    source(json, path)                  every document; an array stands for its items
    source(json, path, {"a", "b"})      the values of members a and b, at any depth
    source(json, path, type(T))         the same, checked against T

An array that is itself a T (a tuple, a bag, a list) is one row.  Documents may share lines or
span them.  After a document that is not JSON, reading goes on at the next line that starts one
at the same indentation, so neither a broken line of a file of lines nor a broken document among
indented ones takes others with it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, Final, TypeAlias

from incmrql.formats.files import Line
from incmrql.formats.json_typed import Catalog, typed
from incmrql.formats.json_values import SPACE, Broken, Raw, checked, dump_raw, raw_json, skip_space
from incmrql.formats.rows import BadRow, Read, Row
from incmrql.formats.scalars import Unparsable
from incmrql.formats.signs import weight
from incmrql.types.model import JSON, PREDEFINED, Collection, Tuple, Type

_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')

_Document: TypeAlias = tuple[int, Raw, str]
"""The line on which a document starts, the document, and its text if it spans lines."""


@dataclass(frozen=True, slots=True)
class _Want:
    """What is wanted of each document."""

    path: str
    row: Type
    keys: frozenset[str]
    sign: str
    data: Catalog
    raw: bool = False
    """Whether documents stay as they are parsed."""


def read_json(
    lines: Iterable[Line],
    path: str,
    row: Type,
    keys: Iterable[str],
    options: Mapping[str, Any],
    data: Catalog = PREDEFINED,
) -> Iterator[Read]:
    """The rows of one file; `data` are the data types that rows may hold."""
    return _read(lines, _Want(path, row, frozenset(keys), options.get("sign", ""), data))


def read_raw(lines: Iterable[Line], path: str, keys: Iterable[str]) -> Iterator[Read]:
    """The rows of one file that `read_json` makes trees of, as they are before that."""
    return _read(lines, _Want(path, JSON, frozenset(keys), "", PREDEFINED, raw=True))


def _read(lines: Iterable[Line], want: _Want) -> Iterator[Read]:
    for found in _documents(lines, want.path):
        if isinstance(found, BadRow):
            yield found
        else:
            yield from _rows(*found, want)


def _rows(line: int, document: Raw, text: str, want: _Want) -> Iterator[Read]:
    items = _elements(document, want)
    lines = _item_lines(line, text) if items is document and text else repeat(line)
    known = -1
    for place, raw in enumerate(items):
        try:
            yield _row(raw, want)
        except Unparsable as problem:
            line = next(islice(lines, place - known - 1, None))
            known = place
            yield BadRow(want.path, line, dump_raw(raw), problem.reason)


def _item_lines(line: int, text: str) -> Iterator[int]:
    """The lines on which the items of an array start; the array starts on `line`."""
    before, at = 0, 1
    while True:
        start = skip_space(text, at)
        line += text.count("\n", before, start)
        yield line
        _, end = raw_json(text, start)
        before, at = start, skip_space(text, end) + 1


def _row(raw: Raw, want: _Want) -> Row:
    if want.raw:
        return Row(checked(raw))
    if not want.sign:
        return Row(typed(raw, want.row, want.data))
    if not isinstance(raw, dict):
        raise Unparsable(f'expected an object with a sign in "{want.sign}"')
    sign = weight(raw.get(want.sign), want.sign)
    return Row(typed({n: v for n, v in raw.items() if n != want.sign}, want.row, want.data), sign)


def _elements(document: Raw, want: _Want) -> Iterable[Raw]:
    """What are rows of a document: the document itself, if it is an array of rows."""
    if want.keys:
        return _members(document, want.keys)
    if isinstance(document, list) and _is_array_of_rows(document, want):
        return document
    return (document,)


def _is_array_of_rows(array: list[Raw], want: _Want) -> bool:
    """Whether an array holds rows, rather than being one."""
    row = want.row
    if not isinstance(row, Tuple | Collection):
        return True
    try:
        typed(array, row, want.data)
    except Unparsable:
        return bool(array) and isinstance(array[0], list)
    return False


def _members(document: Raw, keys: frozenset[str]) -> Iterator[Raw]:
    """The values of the members with these names, outer ones first, in order."""
    pending: list[tuple[str, Raw]] = [("", document)]
    while pending:
        name, raw = pending.pop()
        if name in keys:
            yield raw
        if isinstance(raw, dict):
            pending.extend(reversed(raw.items()))
        elif isinstance(raw, list):
            pending.extend(("", item) for item in reversed(raw))


# --- lines to documents ------------------------------------------------------------------


def _documents(lines: Iterable[Line], path: str) -> Iterator[_Document | BadRow]:
    source, ahead = iter(lines), deque[Line]()
    while (line := ahead.popleft() if ahead else next(source, None)) is not None:
        if line.problem:
            yield BadRow(path, line.number, line.text, line.problem)
        elif line.text.strip(SPACE):
            yield from _Block(line, source, ahead).documents(path)


class _Block:
    """Lines that hold one document, or several that share lines."""

    def __init__(self, first: Line, source: Iterator[Line], ahead: deque[Line]) -> None:
        self.lines, self.source, self.ahead = [first], source, ahead
        self.depth: int | None = None

    def documents(self, path: str) -> Iterator[_Document | BadRow]:
        found: list[_Document] = []
        at, number, text = 0, self.lines[0].number, self.text()
        while at < len(text):
            start = skip_space(text, at)
            number += text.count("\n", at, start)
            try:
                raw, at = raw_json(text, start)
            except Unparsable as problem:
                missing = isinstance(problem, Broken) and problem.position >= len(text)
                at = start
                if missing and self.grow():
                    text = self.text()
                    continue
                yield from found
                reason = "the document that starts here has no end" if missing else problem.reason
                yield BadRow(path, number, self.skip(number, text[start]), reason)
                return
            height = text.count("\n", start, at)
            found.append((number, raw, text[start:at] if height else ""))
            number += height
        yield from found

    def text(self) -> str:
        return "\n".join(line.text for line in self.lines).rstrip(SPACE)

    def grow(self) -> bool:
        """Take lines until brackets match, or as many as there are: each is parsed twice at most.

        A line that is not text ends the block.
        """
        before = len(self.lines)
        if self.depth is None:
            self.depth = _depth(self.lines[0].text)
        while len(self.lines) < 2 * before:
            line = self.ahead.popleft() if self.ahead else next(self.source, None)
            if line is None:
                break
            if line.problem:
                self.ahead.appendleft(line)
                break
            self.lines.append(line)
            self.depth += _depth(line.text)
            if self.depth <= 0:
                break
        return len(self.lines) > before

    def skip(self, number: int, opening: str) -> str:
        """The text of the bad document that starts on a line; what follows it is read next."""
        self.ahead.extendleft(line for line in reversed(self.lines) if line.number > number)
        bad = [line for line in self.lines if line.number == number]
        indent = _indentation(bad[0].text)
        while opening in "{[":
            line = self.ahead.popleft() if self.ahead else next(self.source, None)
            if line is None:
                break
            if _opens(line.text, indent):
                self.ahead.appendleft(line)
                break
            bad.append(line)
        return "\n".join(line.text for line in bad)


def _depth(text: str) -> int:
    """How many brackets a line leaves open."""
    return sum(
        1 if found[0] in "[{" else -1 if found[0] in "]}" else 0
        for found in _BRACKETS.finditer(text)
    )


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip(SPACE))


def _opens(text: str, indent: int) -> bool:
    return _indentation(text) == indent and text[indent : indent + 1] in ("{", "[")
