"""Constants: tokens to literals."""

from __future__ import annotations

from math import isnan

from incmrql.diagnostics import QueryError
from incmrql.syntax.ast import Literal, LiteralKind
from incmrql.syntax.cursor import Cursor
from incmrql.syntax.tokens import CONSTANTS, LONGEST, NUMBERS, too_large

_INT_MAX = 2**31 - 1


def at_literal(cursor: Cursor) -> bool:
    """Whether a constant stands ahead, a sign before a number included."""
    token = cursor.token
    if token.kind == "op" and token.text == "-":
        return cursor.peek().kind in ("int", "long", "double")
    return token.kind in ("int", "long", "double", "string") or _is_word(cursor)


def parse_literal(cursor: Cursor) -> Literal:
    """A constant."""
    start = cursor.token.start
    negative = cursor.take("-")
    token = cursor.token
    if _is_word(cursor):
        cursor.advance()
        value = CONSTANTS[token.text]
        return Literal(value, "null" if value is None else "bool", span=cursor.since(start))
    if token.kind == "string":
        cursor.advance()
        return Literal(str(token.value), "string", span=cursor.since(start))
    if token.kind == "double":
        cursor.advance()
        # There is one zero: -0.0 is 0.0.
        double = (-float(token.text) if negative else float(token.text)) + 0.0
        return Literal(double, "double", span=cursor.since(start))
    if token.kind not in ("int", "long"):
        raise cursor.unexpected("a constant")
    number = int(token.value or 0)
    if number > LONGEST and not negative:
        raise QueryError(too_large(cursor.here()))
    cursor.advance()
    number = -number if negative else number
    fits = -_INT_MAX - 1 <= number <= _INT_MAX
    kind: LiteralKind = "int" if token.kind == "int" and fits else "long"
    return Literal(number, kind, span=cursor.since(start))


def at_special(cursor: Cursor) -> bool:
    """Whether the name of a number stands ahead, a sign included: in expressions a name."""
    token = cursor.peek() if cursor.at("-") else cursor.token
    return token.kind == "id" and token.text in NUMBERS


def parse_special(cursor: Cursor) -> Literal:
    """`NaN`, `Infinity` or `-Infinity`, a constant of a pattern."""
    start = cursor.token.start
    negative = cursor.take("-")
    value = NUMBERS[cursor.advance().text]
    # There is one NaN: -NaN is NaN.
    signed = -value if negative and not isnan(value) else value
    return Literal(signed, "double", span=cursor.since(start))


def _is_word(cursor: Cursor) -> bool:
    return cursor.token.kind == "id" and cursor.token.text in CONSTANTS
