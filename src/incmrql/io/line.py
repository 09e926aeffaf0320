"""Delimited lines to rows: `source(line, path, delimiter, type(T))`, also called csv.

In come the lines of one file and the type of a row of the file, a record or a tuple of basic
types or one basic type.  Out come its elements, without the columns of type any.  A delimiter at
the end of a line ends its last field; columns beyond the declared ones are ignored, unless a
header says how many columns there are.

Fields are quoted as in RFC 4180: a quote starts a quoted field only at the field's beginning,
delimiters and line ends inside are text, and a doubled quote is one.  An empty field is null,
or the empty string in a column of strings; lines without a character are skipped.  After a
record whose quotes go wrong, reading goes on with the line after the one where it started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from incmrql.errors import DataError, InternalError, nearest
from incmrql.io.files import Line
from incmrql.io.rows import BadRow, Read, Row
from incmrql.io.scalars import Parser, Unparsable, scalar_parser, weight
from incmrql.types.model import ANY, STRING, Record, Tuple, Type, column_types, element_type
from incmrql.values import Record as RecordValue
from incmrql.values import Value

LONGEST_RECORD = 1 << 24
"""A quoted field of more characters than this is taken for one whose quote is never closed."""
MOST_LINES = 1 << 18
"""So is a record of more lines than this."""
_NEVER_CLOSED = "a quoted field starts on this line and is never closed"

Field: TypeAlias = tuple[str, bool]
"""The text of a field, and whether it was quoted."""


@dataclass(frozen=True, slots=True)
class LineOptions:
    """How lines are cut into fields, and what some of them mean."""

    delimiter: str = ","
    header: bool = False
    quote: str = '"'
    null: str | None = None
    comment: str = ""
    sign: str = ""

    @classmethod
    def of(cls, delimiter: str, options: Mapping[str, Any]) -> LineOptions:
        """The named options of a source, as far as they are about lines."""
        names = ("header", "quote", "null", "comment", "sign")
        return cls(delimiter, **{name: options[name] for name in names if name in options})


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that is part of the element: its place in the line and how to read it."""

    place: int
    label: str
    parse: Parser
    string: bool


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the fields of a line mean: how many there are, which to read, and where the sign is."""

    width: int
    columns: tuple[_Column, ...]
    sign: int | None
    make: Callable[[list[Value]], Value]
    is_open: bool = False
    """Whether a line may have columns beyond these."""


def read_lines(lines: Iterable[Line], path: str, row: Type, options: LineOptions) -> Iterator[Read]:
    """The rows of one file."""
    layout = None if options.header else _layout_by_position(row, options)
    for line, text, fields in _records(lines, options):
        if isinstance(fields, str):
            if layout is None:
                hint = "Write the header as UTF-8 text, with its quotes closed."
                message = f"the header is not readable: {fields}"
                raise DataError("R111", message, place=f"{path}:{line}", hint=hint)
            yield BadRow(path, line, text, fields)
        elif layout is None:
            layout = _layout_by_header(
                row, [name.strip() for name, _ in fields], options, f"{path}:{line}"
            )
        else:
            try:
                yield _row(fields, line, layout, options)
            except Unparsable as problem:
                yield BadRow(path, line, text, problem.reason)


def _row(fields: list[Field], line: int, layout: _Layout, options: LineOptions) -> Row:
    more = len(fields) - layout.width
    beyond = more > 1 or (more == 1 and fields[-1][0] != "")
    if more < 0 or (beyond and not layout.is_open):
        raise Unparsable(f"expected {_count(layout.width)}, found {len(fields)}")
    values: list[Value] = []
    for column in layout.columns:
        text, quoted = fields[column.place]
        if (text == options.null and not quoted) or not (text or column.string):
            values.append(None)
            continue
        try:
            values.append(column.parse(text))
        except Unparsable as problem:
            raise Unparsable(f"{column.label}: {problem.reason}") from None
    sign = 1 if layout.sign is None else weight(fields[layout.sign][0], options.sign)
    return Row(layout.make(values), sign, beyond, line)


def _count(number: int) -> str:
    return f"{number} columns" if number != 1 else "1 column"


# --- which column is where ---------------------------------------------------------------


def _layout_by_position(row: Type, options: LineOptions) -> _Layout:
    """Columns by their place; the sign is the field of that name, or the one after them."""
    types, sign = _types(row), options.sign
    names = row.names if isinstance(row, Record) else ()
    is_open = may_be_wider(row, options)
    if sign in names:
        return _layout(row, range(len(types)), len(types), names.index(sign), is_open=is_open)
    width = len(types) + bool(sign)
    sign_index = width - 1 if sign else None
    return _layout(row, range(len(types)), width, sign_index, is_open=is_open)


def _layout_by_header(row: Type, names: list[str], options: LineOptions, place: str) -> _Layout:
    """Columns of a record by the names in the header, others by their place."""
    sign = _sign_index(names, options.sign, place)
    if not isinstance(row, Record):
        places = [i for i in range(len(names)) if i != sign]
        width = len(_types(row)) if sign is None else max(len(_types(row)), sign) + 1
        return _layout(row, [*places, *range(len(names), width)], width, sign)
    used_names = [name for name, type_ in row.fields if type_ != ANY]
    missing = [name for name in used_names if name not in names]
    duplicated = [name for name in used_names if names.count(name) > 1]
    if missing or duplicated:
        what = (
            f"has no column {_list(missing)}" if missing else f"has two columns {_list(duplicated)}"
        )
        close = nearest(missing[0], names) if missing else ""
        hint = f"{close} The header has: {', '.join(names)}.".strip()
        raise DataError("R111", f"the header {what}", place=place, hint=hint)
    places = [names.index(name) if name in names else -1 for name in row.names]
    return _layout(row, places, len(names), sign)


def _sign_index(names: list[str], sign: str, place: str) -> int | None:
    if not sign:
        return None
    if sign in names:
        return names.index(sign)
    hint = f"{nearest(sign, names)} The header has: {', '.join(names)}.".strip()
    raise DataError("R112", f'the header has no sign column "{sign}"', place=place, hint=hint)


def may_be_wider(row: Type, options: LineOptions) -> bool:
    """Whether lines may have columns beyond the declared ones: no header says how many."""
    return not options.header and isinstance(row, Record | Tuple)


def _layout(
    row: Type, places: Sequence[int], width: int, sign: int | None, *, is_open: bool = False
) -> _Layout:
    names = row.names if isinstance(row, Record) else ()
    columns = tuple(
        _Column(
            places[i],
            f'column {places[i] + 1} "{names[i]}"' if names else f"column {places[i] + 1}",
            scalar_parser(type_),
            type_ == STRING,
        )
        for i, type_ in enumerate(_types(row))
        if type_ != ANY
    )
    return _Layout(width, columns, sign, _element_builder(element_type(row)), is_open)


def _types(row: Type) -> tuple[Type, ...]:
    types = column_types(row)
    if types is None:
        raise InternalError(f"a line cannot hold a {row}")
    return types


def _element_builder(element: Type) -> Callable[[list[Value]], Value]:
    """How an element is made from the values of its columns."""
    match element:
        case Record():
            names = element.names
            return lambda values: RecordValue.of(names, values)
        case Tuple():
            return tuple
        case _:
            return lambda values: values[0]


def _list(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


# --- lines to fields ---------------------------------------------------------------------

_Record: TypeAlias = tuple[int, str, list[Field] | str]
"""Where a record starts, its text, and its fields, or the reason why it has none."""


def _records(lines: Iterable[Line], options: LineOptions) -> Iterator[_Record]:
    return iter(_Records(lines, options))


class _Records:
    """The records of lines.

    Where a record that spans lines goes wrong, the lines after its first one come again.  One of
    them that leaves a quote open as well goes wrong at the same place, as from its end on the two
    read the same: it is refused without being read that far, or a file of such lines would be read
    once for each of them.
    """

    def __init__(self, lines: Iterable[Line], options: LineOptions) -> None:
        self._source, self._ahead = iter(lines), deque[Line]()
        self._options = options
        self._open_before = 0
        """Up to this line every record that leaves a quote open goes wrong."""

    def __iter__(self) -> Iterator[_Record]:
        options, comment = self._options, self._options.comment
        while (line := self._next()) is not None:
            if line.problem:
                yield line.number, line.text, line.problem
            elif not line.text or (comment and line.text.startswith(comment)):
                continue
            elif not options.quote or options.quote not in line.text:
                fields = [(text, False) for text in line.text.split(options.delimiter)]
                yield line.number, line.text, fields
            else:
                yield self._quoted_record(line)

    def _next(self) -> Line | None:
        return self._ahead.popleft() if self._ahead else next(self._source, None)

    def _quoted_record(self, first: Line) -> _Record:
        """The record that starts on a line."""
        record_lines = [first]
        splitter = FieldSplitter(self._options.delimiter, self._options.quote)
        length = len(first.text)
        try:
            while not splitter.feed(record_lines[-1]):
                if first.number < self._open_before:
                    raise Unparsable(_NEVER_CLOSED)
                line = self._next()
                if line is None or length > LONGEST_RECORD or len(record_lines) > MOST_LINES:
                    self._ahead.extendleft([] if line is None else [line])
                    self._open_before = record_lines[-1].number + 1
                    raise Unparsable(_NEVER_CLOSED)
                record_lines.append(line)
                length += len(line.text) + len(line.end)
        except Unparsable as problem:
            if len(record_lines) > 1:
                self._open_before = max(self._open_before, record_lines[-1].number)
                self._ahead.extendleft(reversed(record_lines[1:]))
            return first.number, first.text, problem.reason
        return (
            first.number,
            "".join(line.text + line.end for line in record_lines[:-1]) + record_lines[-1].text,
            splitter.fields,
        )


class FieldSplitter:
    """The fields of a record whose lines come one by one."""

    def __init__(self, delimiter: str, quote: str) -> None:
        self.delimiter, self.quote = delimiter, quote
        self.fields: list[Field] = []
        self.parts: list[str] | None = None
        """What was read of a quoted field that is not closed yet."""

    def feed(self, line: Line) -> bool:
        """Whether the record ends with this line."""
        if line.problem:
            raise Unparsable(f"line {line.number} of a quoted field: {line.problem}")
        text, at = line.text, 0
        while True:
            if self.parts is None and text.startswith(self.quote, at):
                self.parts = []
                at += len(self.quote)
            if self.parts is None:
                end = text.find(self.delimiter, at)
                self.fields.append((text[at : end if end >= 0 else len(text)], False))
            else:
                end = self.inside(self.parts, text, at)
                if end < 0:
                    self.parts.append(line.end)
                    return False
                self.fields.append(("".join(self.parts), True))
                self.parts = None
            if end < 0 or end == len(text):
                return True
            if not text.startswith(self.delimiter, end):
                raise Unparsable(f"text follows the closing quote of column {len(self.fields)}")
            at = end + len(self.delimiter)

    def inside(self, parts: list[str], text: str, at: int) -> int:
        """Where the quoted field at hand has ended, or -1; its text goes to `parts`."""
        while (end := text.find(self.quote, at)) >= 0:
            parts.append(text[at:end])
            at = end + len(self.quote)
            if not text.startswith(self.quote, at):
                return at
            parts.append(self.quote)
            at += len(self.quote)
        parts.append(text[at:])
        return -1


# --- Lines as strings ---


def read_text(lines: Iterable[Line], path: str) -> Iterator[Read]:
    """The lines of one file, without their ends; empty ones too."""
    for line in lines:
        if line.problem:
            yield BadRow(path, line.number, line.text, line.problem)
        else:
            yield Row(line.text, line=line.number)
