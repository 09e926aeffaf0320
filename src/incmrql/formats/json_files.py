"""JSON files to rows: lines, arrays of rows, or documents one after the other.

    source(json, path)                  every document; an array stands for its items
    source(json, path, {"a", "b"})      the values of members a and b, at any depth
    source(json, path, type(T))         the same, checked against T

An array that is itself a T (a tuple, a bag, a list) is one row.  Documents may share lines or
span them.  After a document that is not JSON, reading goes on at the next line that starts one
at the same indentation, so neither a broken line of a file of lines nor a broken document among
indented ones takes others with it.  A document is in memory as a whole, and may have no more bytes
than a line may have; a larger array of rows is read item by item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

from incmrql.formats.files import MAX_LINE, Line
from incmrql.formats.json_documents import Documents
from incmrql.formats.json_typed import Catalog, typed
from incmrql.formats.json_values import Raw, checked, dump_raw, raw_json, skip_space
from incmrql.formats.rows import BadRow, Read, Row
from incmrql.formats.scalars import Unparsable
from incmrql.formats.signs import weight
from incmrql.types.model import JSON, PREDEFINED, Collection, Tuple, Type


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
    longest: int = MAX_LINE
    """Bytes of the longest document."""


def read_json(
    lines: Iterable[Line],
    path: str,
    row: Type,
    keys: Iterable[str],
    options: Mapping[str, Any],
    data: Catalog = PREDEFINED,
) -> Iterator[Read]:
    """The rows of one file; `data` are the data types that rows may hold."""
    sign, longest = options.get("sign", ""), options.get("max_line", MAX_LINE)
    return _read(lines, _Want(path, row, frozenset(keys), sign, data, longest=longest))


def read_raw(
    lines: Iterable[Line], path: str, keys: Iterable[str], longest: int = MAX_LINE
) -> Iterator[Read]:
    """The rows of one file that `read_json` makes trees of, as they are before that."""
    want = _Want(path, JSON, frozenset(keys), "", PREDEFINED, raw=True, longest=longest)
    return _read(lines, want)


def _read(lines: Iterable[Line], want: _Want) -> Iterator[Read]:
    holds_rows = bool(want.keys) or not isinstance(want.row, Tuple | Collection)
    for found in Documents(lines, want.path, want.longest, split_arrays=holds_rows):
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
            yield _row(raw, line, want)
        except Unparsable as problem:
            start = next(islice(lines, place - known - 1, None))
            known = place
            yield BadRow(want.path, start, dump_raw(raw), problem.reason)


def _item_lines(line: int, text: str) -> Iterator[int]:
    """The lines on which the items of an array start; the array starts on `line`."""
    before, at = 0, 1
    while True:
        start = skip_space(text, at)
        line += text.count("\n", before, start)
        yield line
        _, end = raw_json(text, start)
        before, at = start, skip_space(text, end) + 1


def _row(raw: Raw, line: int, want: _Want) -> Row:
    if want.raw:
        return Row(checked(raw), line=line)
    if not want.sign:
        return Row(typed(raw, want.row, want.data), line=line)
    if not isinstance(raw, dict):
        raise Unparsable(f'expected an object with a sign in "{want.sign}"')
    sign = weight(raw.get(want.sign), want.sign)
    members = {n: v for n, v in raw.items() if n != want.sign}
    return Row(typed(members, want.row, want.data), sign, line=line)


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
