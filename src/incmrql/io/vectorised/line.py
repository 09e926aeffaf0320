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
from incmrql.io.vectorised.parser import Mask, Parser
from incmrql.io.vectorised.scalars import pattern, raw_type, to_type
from incmrql.types.model import ANY, STRING, Record, Tuple, Type, column_types, element_type

_DELIMITERS: Final = frozenset(",;|\t~^#&!")
"""Characters that are in no number and no time."""
_QUOTES: Final = frozenset(["", '"', "'"])


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file in order: the place of each in the element, or None, and its type."""

    columns: tuple[tuple[int | None, Type], ...]
    header: Line | None = None


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
        self.read_columns = [
            (name, index, type_)
            for name, (index, type_) in zip(self.names, layout.columns, strict=True)
            if index is not None
        ]

    def _field(self, type_: Type) -> str:
        return self.text if type_ in (STRING, ANY) else f"(?:{pattern(type_)})?"

    def matches(self, lines: Arrow) -> Mask:
        """Lines of the right fields, and as many beyond them as the first line has."""
        filled = np.flatnonzero(np.asarray(pc.binary_length(lines)) > 1)
        first = lines[int(filled[0])].as_py() if len(filled) else b""
        extra = _width(first, self.options) - len(self.names)
        self.more = max(0, extra if self.is_open else min(extra, 1))
        more = [self.text if self.is_open else ""] * self.more
        pattern = re.escape(self.options.delimiter).join([*self.fields, *more])
        return np.array(pc.match_substring_regex(lines, rf"^{pattern}\r?\n$"))

    def parse(self, lines: bytes) -> tuple[Arrow, int]:
        """All fields at once, by Arrow's reader."""
        extra_names = [f"more{i}" for i in range(self.more)]
        table = csv.read_csv(
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
                column_types={name: raw_type(type_) for name, _, type_ in self.read_columns}
                | dict.fromkeys(extra_names[:1], pa.string()),
                include_columns=[*(name for name, _, _ in self.read_columns), *extra_names[:1]],
                null_values=[""],
                strings_can_be_null=False,
            ),
        )
        beyond = table.num_rows if self.more > 1 else 0
        if self.more == 1:  # an ending delimiter has an empty field behind it
            beyond = pc.sum(pc.not_equal(table.column("more0"), "")).as_py()
        columns: list[Arrow] = [None] * len(self.read_columns)
        for name, index, type_ in self.read_columns:
            column = table.column(name).combine_chunks()
            if type_ not in (STRING, ANY) and column.type == pa.string():
                column = _null_where_empty(column)
            columns[index] = to_type(column, type_)
        return _rows(columns, self.element), beyond

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

    def parse(self, lines: bytes) -> tuple[Arrow, int]:
        """The lines without their ends."""
        return pc.utf8_rtrim(pa.array(lines.decode().split("\n")[:-1], pa.string()), "\r"), 0

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
    if not simple or options.null is not None or options.comment or options.sign:
        return None
    types = column_types(row) or ()
    if not all(type_ in (STRING, ANY) or pattern(type_) for type_ in types) or set(types) == {ANY}:
        return None
    if not options.header:
        return Columns(tuple(_columns_by_position(types)))
    if head is None or not isinstance(row, Record):
        return None
    return _columns_by_header(row, options, line_of(1, head))


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
    return Columns(tuple(columns), header)


def _rows(columns: list[Arrow], element: Type) -> Arrow:
    """The rows that have these columns."""
    if not isinstance(element, Record | Tuple):
        return columns[0]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(element)))


def _null_where_empty(column: Arrow) -> Arrow:
    empty = pc.equal(column, "")
    return pc.if_else(empty, pa.scalar(None, pa.string()), column)
