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

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Final

from incmrql.errors import InternalError
from incmrql.io.files import MAX_LINE, Line
from incmrql.io.json.documents import Documents
from incmrql.io.json.values import (
    Number,
    Raw,
    check_tree,
    dump_raw,
    parse_raw,
    raw_json,
    raw_of,
    shorten,
    skip_space,
    tree_of,
)
from incmrql.io.rows import BadRow, Read, Row
from incmrql.io.scalars import Unparsable, parse_scalar, quote, weight
from incmrql.io.spec import DataTypes, ReadSpec
from incmrql.io.xml.values import parse_xml
from incmrql.types.model import (
    BOOL,
    FLOATS,
    INTEGERS,
    JSON,
    PREDEFINED,
    XML,
    Basic,
    Collection,
    Data,
    Decimal,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
)
from incmrql.types.model import Any as AnyType
from incmrql.values import Bag, Value
from incmrql.values import Data as DataValue
from incmrql.values import Record as RecordValue


def read_json(lines: Iterable[Line], path: str, spec: ReadSpec) -> Iterator[Read]:
    """The rows of one file."""
    source, sign = spec.source, spec.options.get("sign", "")
    keys = frozenset(source.keys)
    reader = _JsonReader(path, source.row, keys, sign, spec.data, longest=spec.longest)
    return reader.read(lines)


def read_raw(
    lines: Iterable[Line], path: str, keys: Iterable[str], longest: int = MAX_LINE
) -> Iterator[Read]:
    """The rows of one file that `read_json` makes trees of, before they are trees."""
    return _JsonReader(path, JSON, frozenset(keys), raw=True, longest=longest).read(lines)


@dataclass(frozen=True, slots=True)
class _JsonReader:
    """How documents of one file become rows."""

    path: str
    row: Type
    keys: frozenset[str]
    sign: str = ""
    data: DataTypes = field(default_factory=lambda: PREDEFINED)
    raw: bool = False
    """Whether documents stay as they are parsed."""
    longest: int = MAX_LINE
    """Bytes of the longest document."""

    def read(self, lines: Iterable[Line]) -> Iterator[Read]:
        """The rows of the documents on some lines."""
        holds_rows = bool(self.keys) or not isinstance(self.row, Tuple | Collection)
        for item in Documents(lines, self.path, self.longest, split_arrays=holds_rows):
            if isinstance(item, BadRow):
                yield item
            else:
                yield from self._rows(*item)

    def _rows(self, line: int, document: Raw, text: str) -> Iterator[Read]:
        items = self._elements(document)
        lines = _item_lines(line, text) if items is document and text else repeat(line)
        last_bad = -1
        for index, raw in enumerate(items):
            try:
                yield self._row(raw, line)
            except Unparsable as problem:
                # The line of an item is only looked for when it is bad: that parses the text again.
                start = next(islice(lines, index - last_bad - 1, None))
                last_bad = index
                yield BadRow(self.path, start, dump_raw(raw), problem.reason)

    def _elements(self, document: Raw) -> Iterable[Raw]:
        """The rows in a document: the document itself, if it is an array of rows."""
        if self.keys:
            return _members(document, self.keys)
        if isinstance(document, list) and self._is_array_of_rows(document):
            return document
        return (document,)

    def _is_array_of_rows(self, array: list[Raw]) -> bool:
        """Whether an array holds rows, rather than being one."""
        if not isinstance(self.row, Tuple | Collection):
            return True
        try:
            typed_json(array, self.row, self.data)
        except Unparsable:
            return bool(array) and isinstance(array[0], list)
        return False

    def _row(self, raw: Raw, line: int) -> Row:
        if self.raw:
            return Row(check_tree(raw), line=line)
        if not self.sign:
            return Row(typed_json(raw, self.row, self.data), line=line)
        if not isinstance(raw, dict):
            raise Unparsable(f'expected an object with a sign in "{self.sign}"')
        sign = weight(raw.get(self.sign), self.sign)
        members = {name: item for name, item in raw.items() if name != self.sign}
        return Row(typed_json(members, self.row, self.data), sign, line=line)


def _item_lines(line: int, text: str) -> Iterator[int]:
    """The lines on which the items of an array start; the array starts on `line`."""
    previous, at = 0, 1
    while True:
        start = skip_space(text, at)
        line += text.count("\n", previous, start)
        yield line
        _, end = raw_json(text, start)
        previous, at = start, skip_space(text, end) + 1


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


# --- Documents of a declared type ---
#
# Objects become records (a missing member is null, others are ignored), arrays become tuples of
# that length, bags and lists; null is null. A document of another shape is refused with the path
# to the place: `$.a[2].b: expected int, found 1.5`.

_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


def to_typed(document: str | DataValue, type_: Type, data: DataTypes = PREDEFINED) -> Value:
    """The value of a type that a JSON text or tree holds; raises `Unparsable`."""
    raw = parse_raw(document) if isinstance(document, str) else raw_of(document)
    return typed_json(raw, type_, data)


def typed_json(raw: Raw, type_: Type, data: DataTypes = PREDEFINED, path: str = "$") -> Value:
    """The value of a type that a document holds."""
    if raw is None and type_ != JSON:
        return None
    match type_:
        case Basic() | Decimal():
            return _scalar(raw, type_, path)
        case AnyType():
            return tree_of(raw)
        case Record(fields) if isinstance(raw, dict):
            values = [typed_json(raw.get(n), t, data, f"{path}.{n}") for n, t in fields]
            return RecordValue.of(type_.names, values)
        case Tuple(items) if isinstance(raw, list) and len(raw) == len(items):
            return tuple(
                typed_json(item, items[i], data, f"{path}[{i}]") for i, item in enumerate(raw)
            )
        case Collection(kind, element) if isinstance(raw, list):
            values = [typed_json(x, element, data, f"{path}[{i}]") for i, x in enumerate(raw)]
            return Bag(values) if kind == "bag" else values
        case Data():
            return _data(raw, type_, data, path)
        case Function():
            raise InternalError("no document holds a function")
        case Record() | Tuple() | Collection() | Nothing():
            raise _mismatch(raw, type_, path)


def _scalar(raw: Raw, type_: Type, path: str) -> Value:
    if not _holds(raw, type_):
        raise _mismatch(raw, type_, path)
    if isinstance(raw, bool):
        return raw
    try:
        value = parse_scalar(raw, type_)
    except Unparsable as problem:
        raise Unparsable(f"{path}: {problem.reason}") from None
    if isinstance(raw, Number) and isinstance(value, float) and math.isinf(value):
        raise Unparsable(f"{path}: {shorten(raw)} does not fit a {type_}")
    return value


def _holds(raw: Raw, type_: Type) -> bool:
    """Whether a JSON value of this kind can stand for a basic type."""
    if type_ in INTEGERS:
        return isinstance(raw, Number) and raw.lstrip("-").isdigit()
    if type_ in FLOATS:
        return isinstance(raw, Number) or raw in _NOT_FINITE
    if isinstance(type_, Decimal):
        return isinstance(raw, str)
    if type_ == BOOL:
        return isinstance(raw, bool)
    return isinstance(raw, str) and not isinstance(raw, Number)


def _data(raw: Raw, type_: Data, data: DataTypes, path: str) -> Value:
    if type_ == JSON:
        return tree_of(raw)
    if type_ == XML and isinstance(raw, str) and not isinstance(raw, Number):
        try:
            return parse_xml(raw)
        except Unparsable as problem:
            raise Unparsable(f"{path}: {problem.reason}") from None
    if isinstance(raw, dict) and len(raw) == 1:
        ((name, content),) = raw.items()
        for constructor in data.get(type_.name, ()):
            if constructor.name == name:
                value = typed_json(content, constructor.content, data, f"{path}.{name}")
                return DataValue(name, constructor.position, value)
    raise _mismatch(raw, type_, path)


def _mismatch(raw: Raw, type_: Type, path: str) -> Unparsable:
    match raw:
        case list() if isinstance(type_, Tuple):
            actual = f"an array of {len(raw)}"
        case list():
            actual = "an array"
        case dict():
            actual = "an object"
        case str() if not isinstance(raw, Number):
            actual = quote(raw)
        case _:
            actual = dump_raw(raw)
    return Unparsable(f"{path}: expected {type_}, found {actual}")
