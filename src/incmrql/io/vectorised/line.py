"""Parsers of delimited lines and of plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any as Arrow
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from incmrql.io.arrow.types import arrow_type
from incmrql.io.files import Line, line_of
from incmrql.io.line import FieldSplitter, LineOptions, may_be_wider, read_lines, read_text
from incmrql.io.rows import Read
from incmrql.io.scalars import Unparsable
from incmrql.io.vectorised.blocks import LineBlock
from incmrql.io.vectorised.parser import Mask, ParsedLines, Parser
from incmrql.io.vectorised.scalars import SIGN, pattern, raw_type, sign_weights, to_type
from incmrql.types.model import ANY, STRING, Record, Tuple, Type, column_types, element_type

_DELIMITERS: Final = frozenset(",;|\t~^#&!")
"""Characters that are in no number and no time."""
_QUOTES: Final = frozenset(["", '"', "'"])


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file in order: the place of each in the element, or None, and its type."""

    columns: tuple[tuple[int | None, Type], ...]
    header: Line | None = None
    sign: int | None = None
    """The place of the column with the signs."""


class LineParser(Parser):
    """Lines with the right number of fields, each of them plain."""

    def __init__(self, path: str, row: Type, options: LineOptions, layout: Columns) -> None:
        self.path, self.row, self.options, self.layout = path, row, options, layout
        self.element = element_type(row)
        self.names = [f"c{i}" for i in range(len(layout.columns))]
        self.is_open = may_be_wider(row, options)
        self.more = 0
        """Fields beyond the columns in the lines of the block at hand: as many as in its first."""
        quote = re.escape(options.quote)
        delimiter = re.escape(options.delimiter)
        plain = rf"[^{quote}{delimiter}\r\n\x00]*"
        self.text = rf"(?:{quote}(?:[^{quote}\r\n\x00]|{quote}{quote})*{quote}|{plain})"
        if not quote:
            self.text = plain
        self.fields = [self._field(type_) for _, type_ in layout.columns]
        self.sign = None if layout.sign is None else self.names[layout.sign]
        if layout.sign is not None:
            self.fields[layout.sign] = SIGN
        self.read_columns = [
            (name, index, type_)
            for name, (index, type_) in zip(self.names, layout.columns, strict=True)
            if index is not None
        ]

    def _field(self, type_: Type) -> str:
        if type_ in (STRING, ANY):
            return self.text
        null = "" if self.options.null is None else f"|{re.escape(self.options.null)}"
        return f"(?:{pattern(type_)}{null})?"

    def matches(self, lines: Arrow) -> Mask:
        """Lines of the right fields, and as many beyond them as the first line has."""
        filled = np.flatnonzero(np.asarray(pc.binary_length(lines)) > 1)
        first = lines[int(filled[0])].as_py() if len(filled) else b""
        extra = _width(first, self.options) - len(self.names)
        self.more = max(0, extra if self.is_open else min(extra, 1))
        more = [self.text if self.is_open else ""] * self.more
        pattern = re.escape(self.options.delimiter).join([*self.fields, *more])
        return np.array(pc.match_substring_regex(lines, rf"^{pattern}\r?\n$"))

    def parse(self, lines: bytes) -> ParsedLines:
        """All fields at once, by Arrow's reader."""
        extra_names = [f"more{i}" for i in range(self.more)]
        types = {name: raw_type(type_) for name, _, type_ in self.read_columns}
        types |= dict.fromkeys(extra_names[:1], pa.string())
        if self.sign is not None:
            types.setdefault(self.sign, pa.string())
        table = self._read(lines, types, extra_names)
        beyond = table.num_rows if self.more > 1 else 0
        if self.more == 1:  # an ending delimiter has an empty field behind it
            beyond = pc.sum(pc.not_equal(table.column("more0"), "")).as_py()
        columns: list[Arrow] = [None] * len(self.read_columns)
        for name, index, type_ in self.read_columns:
            column = table.column(name).combine_chunks()
            if type_ not in (STRING, ANY) and column.type == pa.string():
                column = _null_where_empty(column)
            columns[index] = to_type(column, type_)
        weights = None
        if self.sign is not None:
            signs = table.column(self.sign).combine_chunks()
            weights = sign_weights(signs, STRING, self.options.sign)
        return ParsedLines(_rows(columns, self.element), beyond, weights)

    def _read(self, lines: bytes, types: dict[str, Arrow], extra_names: list[str]) -> Arrow:
        """The columns of these Arrow types."""
        null, of_type = self.options.null, {name: type_ for name, _, type_ in self.read_columns}
        if null is None:
            return self._read_some(lines, types, extra_names, [""], strings_can_be_null=False)
        texts = {name: types[name] for name in types if of_type.get(name) in (STRING, ANY)}
        others = {name: types[name] for name in of_type if name not in texts}
        plain = {name: types[name] for name in types if name not in of_type}
        columns: dict[str, Arrow] = {}
        for some, nulls in ((texts, [null]), (others, ["", null]), (plain, [])):
            if some:
                table = self._read_some(lines, some, extra_names, nulls, strings_can_be_null=True)
                columns |= {name: table.column(name) for name in some}
        return pa.table(columns)

    def _read_some(
        self,
        lines: bytes,
        types: dict[str, Arrow],
        extra_names: list[str],
        nulls: list[str],
        *,
        strings_can_be_null: bool,
    ) -> Arrow:
        return csv.read_csv(
            pa.BufferReader(lines),
            csv.ReadOptions(
                use_threads=False,
                block_size=len(lines) + 1,
                column_names=[*self.names, *extra_names],
            ),
            csv.ParseOptions(
                delimiter=self.options.delimiter, quote_char=self.options.quote or False
            ),
            csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=nulls,
                strings_can_be_null=strings_can_be_null,
                quoted_strings_can_be_null=False,
            ),
        )

    def stands_alone(self, line: bytes, following: bytes) -> bool:  # noqa: ARG002
        """Whether the quotes of a line are closed on it, or the line is wrong by itself."""
        quote = self.options.quote
        if not quote or quote.encode() not in line:
            return True
        try:
            return FieldSplitter(self.options.delimiter, quote).feed(line_of(1, line))
        except Unparsable:
            return True

    def is_clearly_independent(self, block: LineBlock) -> bool:
        """It is where nothing is quoted."""
        quote = self.options.quote.encode()
        return not quote or quote not in block.data

    def read_rows(self, lines: Iterable[Line]) -> Iterator[Read]:
        """Lines by the row-by-row reader, after their header."""
        header = [self.layout.header] if self.layout.header is not None else []
        return read_lines(chain(header, lines), self.path, self.row, self.options)


class TextParser(Parser):
    """Lines that are rows as they are."""

    skips_empty = False

    def __init__(self, path: str) -> None:
        self.path = path

    def matches(self, lines: Arrow) -> Mask:
        """Lines without a carriage return in them."""
        return np.array(pc.match_substring_regex(lines, r"^[^\r\n]*\r?\n$"))

    def parse(self, lines: bytes) -> ParsedLines:
        """The lines without their ends."""
        return ParsedLines(
            pc.utf8_rtrim(pa.array(lines.decode().split("\n")[:-1], pa.string()), "\r")
        )

    def stands_alone(self, line: bytes, following: bytes) -> bool:  # noqa: ARG002
        """Every line does."""
        return True

    def is_clearly_independent(self, block: LineBlock) -> bool:  # noqa: ARG002
        """Always."""
        return True

    def read_rows(self, lines: Iterable[Line]) -> Iterator[Read]:
        """Lines by the row-by-row reader."""
        return read_text(lines, self.path)


def _width(line: bytes, options: LineOptions) -> int:
    """How many fields a line has; 0 where that is not plain."""
    if not options.quote or options.quote.encode() not in line:
        return line.count(options.delimiter.encode()) + 1
    splitter = FieldSplitter(options.delimiter, options.quote)
    try:
        return len(splitter.fields) if splitter.feed(line_of(1, line)) else 0
    except Unparsable:
        return 0


def line_columns(row: Type, options: LineOptions, head: bytes | None) -> Columns | None:
    """Where the columns are, if that is plain; `head` is the first line of the file."""
    simple = options.delimiter in _DELIMITERS and options.quote in _QUOTES
    if not simple or options.comment or not _is_plain_null(options):
        return None
    types = column_types(row) or ()
    if not all(type_ in (STRING, ANY) or pattern(type_) for type_ in types) or set(types) == {ANY}:
        return None
    if options.sign and isinstance(row, Record) and options.sign in row.names:
        return None  # a sign that is also a field of the row
    if not options.header:
        columns = tuple(_columns_by_position(types))
        if not options.sign:
            return Columns(columns)
        return Columns((*columns, (None, ANY)), sign=len(columns))
    if head is None or not isinstance(row, Record):
        return None
    return _columns_by_header(row, options, line_of(1, head))


def _is_plain_null(options: LineOptions) -> bool:
    """Whether the text that stands for null, if there is one, is a field of its own anywhere."""
    null = options.null or ""
    is_ascii = null.isascii() and (null.isprintable() or not null)
    return is_ascii and options.delimiter not in null and (options.quote or "\n") not in null


def _columns_by_position(types: Sequence[Type]) -> Iterator[tuple[int | None, Type]]:
    index = 0
    for type_ in types:
        yield (None if type_ == ANY else index), type_
        index += type_ != ANY


def _columns_by_header(row: Record, options: LineOptions, header: Line) -> Columns | None:
    if header.problem or (options.quote and options.quote in header.text):
        return None
    names = [name.strip() for name in header.text.split(options.delimiter)]
    element = element_type(row)
    assert isinstance(element, Record)
    if any(names.count(name) != 1 for name in element.names):
        return None
    types = dict(element.fields)
    order = element.names
    columns = [(order.index(n), types[n]) if n in types else (None, ANY) for n in names]
    if options.sign and names.count(options.sign) != 1:
        return None
    sign = names.index(options.sign) if options.sign else None
    return Columns(tuple(columns), header, sign)


def _rows(columns: list[Arrow], element: Type) -> Arrow:
    """The rows that have these columns."""
    if not isinstance(element, Record | Tuple):
        return columns[0]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(element)))


def _null_where_empty(column: Arrow) -> Arrow:
    empty = pc.equal(column, "")
    return pc.if_else(empty, pa.scalar(None, pa.string()), column)
