"""JSON text to trees of the data type JSON, and values to JSON text.

    parse_json(dump_json(tree)) is tree

`raw_json` is the step between text and tree that typed reading also starts from: Python's own
lists and dictionaries, with numbers kept as they were written.  The text must be JSON to the
letter: no NaN, no comments, no halves of surrogate pairs.  Of members with equal names the last
one counts.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias

from incmrql.errors import InternalError
from incmrql.io.scalars import Unparsable, quote
from incmrql.io.xml.values import is_xml, xml_text
from incmrql.types.model import PREDEFINED
from incmrql.values import (
    Bag,
    Data,
    LocalTime,
    Months,
    Record,
    Value,
    canonical,
    show,
    shown_order,
    sort_values,
)
from incmrql.values.numbers import LONG, fits, normal
from incmrql.values.spans import span_text

DEEPEST: Final = 100
"""Documents nested deeper than this are refused: no engine could compare or sort them."""


SPACE: Final = " \t\r\n"
_DECODER_LIMIT: Final = 5_000
_SPACES: Final = re.compile(f"[{SPACE}]*")


class Number(str):
    """A number as it stands in the text."""

    __slots__ = ()


Raw: TypeAlias = Any
"""None, bool, Number, str, list[Raw] or dict[str, Raw]."""

_POSITIONS: Final = {parser.name: parser.position for parser in PREDEFINED["JSON"]}
_MOST_LONG_DIGITS = 20
_LONGEST_SHOWN = 30
_SURELY_FINITE = 300
"""A number of so many characters and without an exponent fits a double."""


def parse_json(text: str) -> Data:
    """The tree of one JSON document; raises `Unparsable`."""
    return tree_of(parse_raw(text))


def parse_raw(text: str) -> Raw:
    """The one document that a text holds."""
    raw, end = raw_json(text, 0)
    if rest := text[end:].strip(SPACE):
        raise Unparsable(f"text follows the document: {quote(rest)}")
    return raw


class Broken(Unparsable):
    """What is not JSON; `position` is where, which is the end if only more text is missing.

    `what` is the reason without the place.
    """

    def __init__(self, reason: str, position: int, what: str) -> None:
        super().__init__(reason)
        self.position, self.what = position, what


def raw_json(text: str, start: int) -> tuple[Raw, int]:
    """The document that starts at `start`, after white space, and where it ends."""
    start = skip_space(text, start)
    try:
        with _bounded_recursion():
            raw, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as problem:
        what = problem.msg.lower()
        reason = f"not JSON at {_place(text, problem.pos)}: {what}"
        raise Broken(reason, problem.pos, what) from None
    except RecursionError:
        raise Unparsable(f"nested deeper than {DEEPEST} levels") from None
    part = text[start:end]
    if not part.isascii() or "\\u" in part or part.count("[") + part.count("{") > DEEPEST:
        _check(raw)
    return raw, end


@contextmanager
def _bounded_recursion() -> Iterator[None]:
    """A recursion limit that Python's decoder, which recurs in C, cannot overrun the stack with."""
    saved = sys.getrecursionlimit()
    with suppress(RecursionError):  # refused where the calls are nested deeper than that already
        sys.setrecursionlimit(min(saved, _DECODER_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(saved)


def skip_space(text: str, start: int) -> int:
    """Where white space that starts at `start` ends."""
    space = _SPACES.match(text, start)
    return space.end() if space else start


def tree_of(raw: Raw) -> Data:
    """A document as a tree."""
    match raw:
        case None:
            return _data_value("Jnull", ())
        case bool():
            return _data_value("Jbool", raw)
        case Number():
            return _number(raw)
        case str():
            return _data_value("Jstring", raw)
        case list():
            return _data_value("JArray", [tree_of(item) for item in raw])
        case _:
            return _data_value("JObject", Bag((name, tree_of(item)) for name, item in raw.items()))


def check_tree(raw: Raw) -> Raw:
    """A document that has a tree; raises `Unparsable` as `tree_of` does."""
    match raw:
        case Number() if len(raw) > _SURELY_FINITE or "e" in raw or "E" in raw:
            _number(raw)
        case list():
            for item in raw:
                check_tree(item)
        case dict():
            for item in raw.values():
                check_tree(item)
        case _:
            pass
    return raw


def raw_of(tree: Data) -> Raw:
    """The document of a tree; members in canonical order."""
    content = tree.content
    match tree.constructor:
        case "JObject":
            return {name: raw_of(item) for name, item in sort_values(content)}
        case "JArray":
            return [raw_of(item) for item in content]
        case "Jnull":
            return None
        case "Jlong":
            return Number(content)
        case "Jdouble":
            return Number(repr(content)) if math.isfinite(content) else _not_finite(content)
        case _:
            return content


def to_json(value: Value) -> Data:
    """Any value as a tree of type JSON."""
    return value if is_json(value) else tree_of(_raw(value))


def dump_json(value: Value) -> str:
    """A value as JSON text on one line.

    Records become objects, tuples and collections arrays (a bag in canonical order), decimals
    and times strings, and so do NaN and the infinities.  JSON trees stand for themselves, XML
    trees for their text, values of other data types are `{"constructor": content}`.
    """
    return dump_raw(_raw(value))


def is_json(value: Value) -> bool:
    """Whether a value is a tree of type JSON."""
    return isinstance(value, Data) and _POSITIONS.get(value.constructor) == value.position


def _raw(value: Value) -> Raw:
    match value:
        case None | bool() | str():
            return value
        case Months() | timedelta():
            return span_text(value)
        case bytes():
            return value.hex()
        case LocalTime():
            return value.isoformat()
        case int():
            return Number(value)
        case float():
            return Number(repr(value + 0.0)) if math.isfinite(value) else _not_finite(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            text = canonical(value).replace(tzinfo=None).isoformat()
            return (text.rstrip("0") if "." in text else text) + "Z"
        case date():
            return value.isoformat()
        case Bag():
            return [_raw(item) for item in shown_order(value)]
        case tuple() | list():
            return [_raw(item) for item in value]
        case Record():
            return {name: _raw(item) for name, item in value.items()}
        case dict():
            return {
                key if isinstance(key, str) else show(key): _raw(item)
                for key, item in value.items()
            }
        case Data():
            return _raw_data(value)
        case _:
            raise InternalError(f"a Python {type(value).__name__} is not a value of the language")


def _raw_data(value: Data) -> Raw:
    if is_json(value):
        return raw_of(value)
    if is_xml(value):
        return xml_text(value)
    return {value.constructor: _raw(value.content)}


def dump_raw(raw: Raw) -> str:
    """A document as text."""
    match raw:
        case Number():
            return str(raw)
        case list():
            return f"[{', '.join([dump_raw(item) for item in raw])}]"
        case dict():
            members = [f"{dump_raw(name)}: {dump_raw(item)}" for name, item in raw.items()]
            return f"{{{', '.join(members)}}}"
        case _:
            return json.dumps(raw, ensure_ascii=False)


def _not_finite(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _number(text: Number) -> Data:
    """A long where the number is whole and fits, else the nearest double."""
    if text.lstrip("-").isdigit() and len(text) <= _MOST_LONG_DIGITS and fits(LONG, int(text)):
        return _data_value("Jlong", int(text))
    number = normal(float(text))
    if math.isinf(number):
        raise Unparsable(f"{shorten(text)} does not fit a double")
    return _data_value("Jdouble", number)


def shorten(number: str) -> str:
    """The text of a number, without its middle if it is long."""
    return number if len(number) <= _LONGEST_SHOWN else f"{number[:10]}...{number[-10:]}"


def _data_value(constructor: str, content: Value) -> Data:
    return Data(constructor, _POSITIONS[constructor], content)


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position)
    return place_of(line, position - text.rfind("\n", 0, position))


def place_of(line: int, column: int) -> str:
    """A place in a text: lines from 0, columns from 1; the first line is not named."""
    return f"line {line + 1}, column {column}" if line else f"column {column}"


def _check(raw: Raw) -> None:
    """Refuse what is too deep to be compared, and strings that UTF-8 cannot hold."""
    pending = [(raw, 1)]
    while pending:
        item, depth = pending.pop()
        match item:
            case str():
                _check_string(item)
            case dict():
                for name in item:
                    _check_string(name)
                pending += [(inner, depth + 1) for inner in item.values()]
                _check_depth(depth)
            case list():
                pending += [(inner, depth + 1) for inner in item]
                _check_depth(depth)
            case _:
                pass


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise Unparsable(f"nested deeper than {DEEPEST} levels")


def _check_string(text: str) -> None:
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError as problem:
        half = f"\\u{ord(text[problem.start]):04x}"
        raise Unparsable(f"a string holds {half}, half of a surrogate pair") from None


def _refuse(constant: str) -> NoReturn:
    raise Unparsable(f"not JSON: {constant} is not a number of JSON")


_DECODER: Final = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse)
