"""A parser of JSON lines: an object a line, with members in an order that was seen before.

The shape is learnt: a line that does not match is parsed, and if all is plain about it, an
expression for lines with the same members in the same order is added.  As each expression names
every member once and in order, no member can be there twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any as Arrow
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from incmrql.io.arrow.casting import in_canonical_order, list_offsets
from incmrql.io.arrow.types import arrow_type, model_type
from incmrql.io.files import Line
from incmrql.io.json.files import read_json
from incmrql.io.json.values import SPACE, Broken, Number, Raw, raw_json
from incmrql.io.rows import Read
from incmrql.io.scalars import Unparsable
from incmrql.io.spec import ReadSpec
from incmrql.io.vectorised.blocks import LineBlock
from incmrql.io.vectorised.parser import Mask, ParsedLines, Parser
from incmrql.io.vectorised.scalars import SIGN, pattern, raw_type, sign_weights, to_type
from incmrql.types.model import (
    BOOL,
    DATE,
    FLOATS,
    INTEGERS,
    STRING,
    TIMESTAMP,
    Basic,
    Collection,
    Decimal,
    Record,
    Type,
)

_MOST_SHAPES = 8
_MOST_LOOKED_AT = 50
_SPACE: Final = r"[ \t]*"
_STRING: Final = r'"(?:[^"\\\x00-\x1f\x7f]|\\["\\/bfnrt])*"'
_OTHER: Final = rf"(?:{_STRING}|-?(?:0|[1-9]\d{{0,30}})(?:\.\d{{1,30}})?|true|false|null)"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_COMMA: Final = f"{_SPACE},{_SPACE}"


class Odd(Exception):
    """Something about a document or a type is not plain."""


class JsonParser(Parser):
    """Objects on lines of their own."""

    def __init__(self, path: str, spec: ReadSpec) -> None:
        assert isinstance(spec.source.row, Record)
        assert isinstance(spec.element, Record)
        self.path, self.spec, self.row = path, spec, spec.source.row
        self.element = spec.element
        """The fields that are used: all are looked at, and the others not read."""
        self.raw = pa.schema([(name, _raw_type(type_)) for name, type_ in spec.element.fields])
        self.sign: str = spec.options.get("sign", "")
        self.sign_type: Arrow | None = None
        """The Arrow type of the signs, once one was seen: all are numbers, or all are texts."""
        self.shapes: dict[str, None] = {}
        """Expressions for lines with the same members in the same order."""

    def matches(self, lines: Arrow) -> Mask:
        """Lines of a learnt shape; more are learnt of the first lines that have none."""
        matching = self._matching(lines)
        while len(self.shapes) < _MOST_SHAPES and not matching.all():
            samples = np.flatnonzero(~matching)[:_MOST_LOOKED_AT]
            shapes_before = len(self.shapes)
            for index in samples:
                self._learn(lines[int(index)].as_py())
            if len(self.shapes) == shapes_before:
                break
            matching = self._matching(lines)
        return matching

    def _matching(self, lines: Arrow) -> Mask:
        if not self.shapes:
            return np.zeros(len(lines), bool)
        expression = rf"^(?:{'|'.join(self.shapes)}){_SPACE}\r?\n$"
        return np.array(pc.match_substring_regex(lines, expression))

    def _learn(self, line: bytes) -> None:
        try:
            text = line.decode().rstrip(SPACE)
            raw, end = raw_json(text, 0)
            if end < len(text) or not isinstance(raw, dict):
                return
            sign_type, sign_text = self._sign(raw)
            shape = _object(raw, self.row, {self.sign: sign_text} if self.sign else {})
        except (UnicodeDecodeError, Unparsable, Odd):
            return
        if len(self.shapes) < _MOST_SHAPES and re.fullmatch(shape, text):
            self.shapes[shape] = None
            self.sign_type = sign_type

    def _sign(self, raw: dict[str, Raw]) -> tuple[Arrow | None, str]:
        """The Arrow type of the sign of a document, and the texts of such signs."""
        if not self.sign:
            return None, ""
        sign = raw.get(self.sign)
        type_ = pa.int64() if isinstance(sign, Number) else pa.string()
        if not isinstance(sign, str) or self.sign_type not in (None, type_):
            raise Odd
        return type_, "-?1" if type_ == pa.int64() else f'"{SIGN}"'

    def parse(self, lines: bytes) -> ParsedLines:
        """All members at once, by Arrow's reader."""
        schema, weights = self.raw, None
        if self.sign_type is not None:
            schema = schema.append(pa.field(self.sign, self.sign_type))
        table = json.read_json(
            pa.BufferReader(lines),
            json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        if self.sign_type is not None:
            signs = table.column(self.sign).combine_chunks()
            weights = sign_weights(signs, model_type(self.sign_type, self.sign), self.sign)
            if weights is None:
                raise pa.ArrowInvalid("a sign is none")
        columns = [
            _to_column(table.column(name).combine_chunks(), type_)
            for name, type_ in self.element.fields
        ]
        values = pa.StructArray.from_arrays(columns, fields=list(arrow_type(self.element)))
        return ParsedLines(values, weights=weights)

    def stands_alone(self, line: bytes, following: bytes) -> bool:
        """Whether the documents of a line end on it, and a bad one does not take more lines."""
        text = line.decode().rstrip(SPACE)
        if not text.startswith("{"):
            return not text
        at = 0
        try:
            while at < len(text):
                _, at = raw_json(text, at)
        except Unparsable as problem:
            missing = isinstance(problem, Broken) and problem.position >= len(text)
            return not missing and following.startswith((b"{", b"["))
        return True

    def is_clearly_independent(self, block: LineBlock) -> bool:
        """Where the only brackets of each line are one brace at its start and one at its end.

        Such a line is a document, or wrong before its end.
        """
        data = np.frombuffer(block.data, np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        starts = ends[:-1] + 1
        braces = np.count_nonzero(data == ord("{")) == np.count_nonzero(data == ord("}"))
        return bool(
            braces
            and np.count_nonzero(data == ord("{")) == len(ends)
            and (data[ends - 1] == ord("}")).all()
            and (data[starts] == ord("{")).all()
            and data[0] == ord("{")
            and b"[" not in block.data
            and b"]" not in block.data
        )

    def is_independent(self, block: LineBlock) -> bool:
        """Its first line must open a document, or a bad one before the block would take it."""
        return block.data.startswith(b"{") and super().is_independent(block)

    def read_rows(self, lines: Iterable[Line]) -> Iterator[Read]:
        """Lines by the row-by-row reader."""
        return read_json(lines, self.path, self.spec)

    def read_independent(self, lines: Iterable[Line]) -> Iterator[Read]:
        """Without empty lines, which a bad document would take for its own."""
        return self.read_rows(line for line in lines if line.problem or line.text.strip(SPACE))


def json_is_plain(row: Type, sign: str = "") -> bool:
    """Whether documents of a type, and with a member that has their sign, can have a shape."""
    try:
        if not isinstance(row, Record) or sign in row.names:
            return False
        _raw_type(row)
    except Odd:
        return False
    return True


def _object(raw: dict[str, Raw], type_: Record, known: Mapping[str, str] = _NOTHING) -> str:
    """The texts of objects with these members; `known` has those of some of them."""
    types = dict(type_.fields)

    def member(name: str, item: Raw) -> str:
        if name in known:
            return known[name]
        return _value(item, types[name]) if name in types else _any(item)

    members = [f"{_name(name)}{_SPACE}:{_SPACE}{member(name, item)}" for name, item in raw.items()]
    return rf"\{{{_SPACE}{_COMMA.join(members)}{_SPACE}\}}"


def _name(name: str) -> str:
    if not name.isascii() or not name.isprintable() or '"' in name or "\\" in name:
        raise Odd
    return f'"{re.escape(name)}"'


def _value(raw: Raw, type_: Type) -> str:
    match type_:
        case Record() if isinstance(raw, dict):
            return f"(?:null|{_object(raw, type_)})"
        case Record() if raw is None:
            return "null"
        case Collection(_, element) if isinstance(raw, list):
            shapes = dict.fromkeys(_value(item, element) for item in raw)
            if isinstance(element, Record) and not shapes:
                return rf"(?:null|\[{_SPACE}\])"
            item = f"(?:{'|'.join(shapes)})" if shapes else _scalar_or_list(element)
            return rf"(?:null|\[{_SPACE}(?:{item}(?:{_COMMA}{item})*)?{_SPACE}\])"
        case Collection() if raw is None:
            return "null"
        case Record() | Collection():
            raise Odd
        case _:
            return _scalar(type_)


def _scalar_or_list(element: Type) -> str:
    if isinstance(element, Record | Collection):
        raise Odd
    return _scalar(element)


def _scalar(type_: Type) -> str:
    if type_ == STRING:
        return f"(?:null|{_STRING})"
    text = pattern(type_)
    if text is None:
        raise Odd
    return f'(?:null|"{text}")' if type_ in (DATE, TIMESTAMP) else f"(?:null|{text})"


def _any(raw: Raw) -> str:
    """A member that is not wanted: any scalar."""
    if isinstance(raw, dict | list):
        raise Odd
    return _OTHER


def _raw_type(type_: Type) -> Arrow:
    match type_:
        case Record(fields) if fields:
            return pa.struct([(name, _raw_type(field)) for name, field in fields])
        case Collection(kind, element) if kind == "list" or _is_sorted_by_arrow(element):
            return pa.list_(_raw_type(element))
        case Decimal():
            return raw_type(type_)
        case _ if type_ in (*INTEGERS, *FLOATS, STRING, BOOL, DATE, TIMESTAMP):
            return raw_type(type_)
        case _:
            raise Odd


def _is_sorted_by_arrow(element: Type) -> bool:
    return isinstance(element, Basic | Decimal) and element not in FLOATS


def _to_column(column: Arrow, type_: Type) -> Arrow:
    match type_:
        case Record(fields):
            inner = [_to_column(column.field(name), field) for name, field in fields]
            return pa.StructArray.from_arrays(
                inner, fields=list(arrow_type(type_)), mask=column.is_null()
            )
        case Collection(_, element):
            elements, offsets = _to_column(column.flatten(), element), list_offsets(column)
            if type_.kind == "bag":
                elements = in_canonical_order(elements, offsets, element)
            return pa.ListArray.from_arrays(offsets, elements, mask=column.is_null())
        case _:
            return to_type(column, type_)
