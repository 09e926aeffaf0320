"""Values as text in MRQL's own notation: `show` writes them, `read` parses what it writes.

    value  = null | true | false | integer | double | string | NaN | [-]Infinity
           | "(" [ values ] ")" | "{" [ values ] "}" | "[" [ values ] "]"
           | "<" [ name ":" value { "," name ":" value } ] ">"
           | ("decimal" | "date" | "timestamp" | "timestamp_ntz" | "binary" | "interval")
             "(" string ")"
           | constructor "(" [ values ] ")"

White space is free between tokens.  `(v)` is `v`, as in the language.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Final, NoReturn

from incmrql.errors import InternalError
from incmrql.values.canonical import canonical, shown_order
from incmrql.values.data import Bag, Data, LocalTime, Map, Months, Record, Value
from incmrql.values.encoding import encode
from incmrql.values.numbers import LONG, fits, normal
from incmrql.values.spans import read_span, span_text

# --- Writing ---
#
# identical(read(show(v)), v)
#
# Equal values have the same text: bags in canonical order, one zero, one NaN, times in UTC.
# The only exception: a decimal keeps its trailing zeros.


NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name that needs no quotes."""

SHORT_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f\x7f-\x9f\ud800-\udfff]')
_LEAST_PLAIN: Final = 1e-3
_LEAST_LARGE: Final = 1e16


def show(value: Value, limit: int | None = None) -> str:
    """The value as text; `limit` is the maximum number of elements of the outermost collection."""
    if limit is None or not isinstance(value, list) or len(value) <= limit:
        return _show(value)
    elements = shown_order(value) if isinstance(value, Bag) else value
    text = ", ".join([*map(_show, islice(elements, limit)), "..."])
    return f"{{ {text} }}" if isinstance(value, Bag) else f"[ {text} ]"


def show_float(x: float) -> str:
    """The shortest digits that read back as `x`, always with a point or an exponent."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    if x == 0:
        return "0.0"
    if _LEAST_PLAIN <= abs(x) < _LEAST_LARGE:
        return float.__repr__(x)
    number = Decimal(float.__repr__(x))
    first, *rest = number.as_tuple().digits
    sign = "-" if x < 0 else ""
    return f"{sign}{first}.{''.join(map(str, rest)) or 0}E{number.adjusted()}"


def show_string(text: str) -> str:
    """A string in double quotes."""
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _show(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Months():
            return _show_call(value)
        case int():
            return int.__repr__(value)
        case float():
            return show_float(value)
        case str():
            return show_string(value)
        case tuple():
            return "(" + ",".join([_show(part) for part in value]) + ")"
        case Bag():
            return _show_sequence("{", [_show(part) for part in shown_order(value)], "}")
        case list():
            return _show_sequence("[", [_show(part) for part in value], "]")
        case Map():
            pairs = [f"{_show(key)}: {_show(item)}" for key, item in value.items()]
            return "map" + _show_sequence("{", pairs, "}")
        case Record():
            fields = [_show(part) for part in value.values_]
            return _show_sequence("<", [*map(_show_field, value.names_, fields)], ">")
        case Data():
            content = _show(value.content)
            return value.constructor + (content if _is_tuple(value) else f"({content})")
        case _:
            return _show_call(value)


def _show_call(value: Value) -> str:
    """A value without a literal: a function of the language applied to a string."""
    match value:
        case Decimal():
            return f'decimal("{canonical(value):f}")'
        case LocalTime():
            return f'timestamp_ntz("{_iso_text(value)}")'
        case datetime():
            return f'timestamp("{_iso_text(canonical(value).replace(tzinfo=None))}Z")'
        case date():
            return f'date("{value.isoformat()}")'
        case Months() | timedelta():
            return f'interval("{span_text(value)}")'
        case bytes():
            return f'binary("{value.hex()}")'
        case _:
            kind = type(value).__name__
            raise InternalError(f"a Python {kind} is not a value of the language")


def _iso_text(moment: datetime) -> str:
    text = moment.isoformat()
    return text.rstrip("0") if "." in text else text


def _show_sequence(opening: str, parts: list[str], closing: str) -> str:
    return f"{opening} {', '.join(parts)} {closing}" if parts else f"{opening} {closing}"


def _show_field(name: str, text: str) -> str:
    """A field; its name is quoted if it is not an identifier (names in data can be anything)."""
    return f"{name if NAME.fullmatch(name) else show_string(name)}: {text}"


def _is_tuple(value: Data) -> bool:
    """Whether the content is shown as several arguments, or none."""
    return isinstance(value.content, tuple)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return SHORT_ESCAPES.get(character) or f"\\u{ord(character):04x}"


# --- Reading ---


_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number> -? \d+ (?P<double> (?: \.\d+ )? (?: [eE][+-]?\d+ )? ) )
      | (?P<string> " (?: [^"\\] | \\. )* " )
      | (?P<name>   -? [A-Za-z_][A-Za-z0-9_]* )
      | (?P<sign>   [][(){}<>,:] )
      | (?P<end>    \Z )
      | (?P<other>  \S )
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_KINDS: Final = ("number", "string", "name", "sign", "end", "other")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_UNESCAPED: Final = {escape[1]: character for character, escape in SHORT_ESCAPES.items()}
_CONSTANTS: Final[Mapping[str, Value]] = {
    "null": None,
    "true": True,
    "false": False,
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}


def read(text: str, constructors: Mapping[str, int] | None = None) -> Value:
    """The value that a text denotes.

    `constructors` gives the positions of the constructors that may occur.  Raises a ValueError
    that names the position where the text is not a value.
    """
    reader = _Reader(text, constructors or {})
    value = reader.value()
    if reader.kind != "end":
        reader.fail("the end of the text")
    return value


class _Reader:
    """A recursive-descent parser: a position in the text, and the token that starts there."""

    def __init__(self, text: str, constructors: Mapping[str, int]) -> None:
        self.text = text
        self.constructors = constructors
        self.start = self.end = 0
        self.kind = self.token = ""
        self.advance()

    def advance(self) -> None:
        lexeme = _TOKEN.match(self.text, self.end)
        if lexeme is None:
            raise InternalError(f"no token at {self.end} of {self.text!r}")
        groups = lexeme.groupdict()
        self.kind = next(kind for kind in _KINDS if groups[kind] is not None)
        self.token, self.start, self.end = lexeme[self.kind], lexeme.start(self.kind), lexeme.end()
        if self.kind == "number" and groups["double"]:
            self.kind = "double"

    def fail(self, expected: str) -> NoReturn:
        actual = "the end" if self.kind == "end" else repr(self.token)
        raise ValueError(f"expected {expected} at position {self.start}, found {actual}")

    def skip(self, sign: str) -> None:
        if self.token != sign:
            self.fail(repr(sign))
        self.advance()

    def value(self) -> Value:
        match self.token:
            case "(":
                return _tuple_or_only(self.values(")"))
            case "{":
                return Bag(self.values("}"))
            case "[":
                return self.values("]")
            case "<":
                return self.record()
            case name if self.kind == "name" and name not in _CONSTANTS:
                return self.call()
            case _:
                literal = self.literal()
                self.advance()
                return literal

    def literal(self) -> Value:
        match self.kind:
            case "number":
                number = int(self.token) if len(self.token) < 40 else LONG.stop
                return number if fits(LONG, number) else self.fail("an integer of 64 bits")
            case "double":
                return normal(float(self.token))
            case "string":
                return self.string()
            case "name":
                return _CONSTANTS[self.token]
            case _:
                return self.fail("a value")

    def string(self) -> str:
        return _ESCAPE.sub(self.unescape, self.token[1:-1])

    def unescape(self, match: re.Match[str]) -> str:
        digits, character = match.groups()
        if digits:
            return chr(int(digits, 16))
        return _UNESCAPED.get(character) or self.fail(f"a string without \\{character}")

    def values(self, closing: str) -> list[Value]:
        """The values in a pair of brackets; the current token is the opening one."""
        self.advance()
        values: list[Value] = []
        while self.token != closing:
            if values:
                self.skip(",")
            values.append(self.value())
        self.advance()
        return values

    def record(self) -> Record:
        self.advance()
        fields: list[tuple[str, Value]] = []
        while self.token != ">":
            if fields:
                self.skip(",")
            name = self.field_name()
            self.skip(":")
            fields.append((name, self.value()))
        self.advance()
        return Record(fields)

    def field_name(self) -> str:
        if self.kind == "string":
            name = self.string()
        elif NAME.fullmatch(self.token):
            name = self.token
        else:
            self.fail("a field name")
        self.advance()
        return name

    def call(self) -> Value:
        """A constructor or a function of the language with its arguments."""
        name, start = self.token, self.start
        position = self.constructors.get(name)
        if position is None and name not in _FUNCTIONS:
            self.fail("a value or a known constructor")
        self.advance()
        if self.token != "(":
            self.fail("'('")
        values = self.values(")")
        if position is not None:
            return Data(name, position, _tuple_or_only(values))
        try:
            (text,) = values
            return _FUNCTIONS[name](_check_string(text))
        except (ValueError, InvalidOperation, InternalError):
            raise ValueError(
                f"expected a {name} at position {start}, found {self.text[start : self.end]!r}"
            ) from None


def _tuple_or_only(values: list[Value]) -> Value:
    return values[0] if len(values) == 1 else tuple(values)


def _check_string(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError("not a string")
    return value


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    encode(number)  # raises if there are too many digits
    return number


def _timestamp(text: str) -> Value:
    return canonical(datetime.fromisoformat(text))


_FUNCTIONS: Final[Mapping[str, Callable[[str], Value]]] = {
    "decimal": _decimal,
    "date": date.fromisoformat,
    "timestamp": _timestamp,
    "timestamp_ntz": lambda text: LocalTime.of(datetime.fromisoformat(text)),
    "binary": bytes.fromhex,
    "interval": read_span,
}
