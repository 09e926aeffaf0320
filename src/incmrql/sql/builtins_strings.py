"""String built-ins as SQL.  Positions count code points, as both dialects do.

Regular expressions are RE2's as Arrow runs it, and letters change their case as in Python: both
are pinned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from incmrql.sql.builtins_call import Call, Lowering
from incmrql.sql.literals import integer, string
from incmrql.sql.operators import attempt
from incmrql.sql.tree import Dialect, binary, call, case, cast, column, lambda_, text
from incmrql.types.model import LONG

_BLANKS: Final = "".join(map(chr, range(0x21)))


def _named(spark: str, duckdb: str) -> Lowering:
    """A function that both dialects have, under these names."""

    def lower(this: Call) -> exp.Expression:
        return call(spark if this.spark else duckdb, *this.arguments)

    return lower


def _length(this: Call) -> exp.Expression:
    return _length_of(this.arguments[0], this.dialect)


def _length_of(x: exp.Expression, dialect: Dialect) -> exp.Expression:
    if dialect is Dialect.SPARK:
        return call("char_length", x)
    return cast(call("length", x), "INTEGER")


def _substring(this: Call) -> exp.Expression:
    """From `begin` to before `end`, counted from 0; null where that is outside of the text."""
    whole, begin, *rest = this.arguments
    size = _length_of(whole.copy(), this.dialect)
    end = rest[0] if rest else cast(size.copy(), "BIGINT")
    inside = [
        binary(exp.LTE, integer(0, LONG, this.dialect), begin.copy()),
        binary(exp.LTE, begin.copy(), end.copy()),
        *([binary(exp.LTE, end.copy(), size)] if rest else []),
    ]
    test = inside[0]
    for condition in inside[1:]:
        test = binary(exp.And, test, condition)
    first = _sum("+", begin, integer(1, LONG, this.dialect), this.dialect)
    places = [first]
    if rest:
        places.append(_sum("-", end, begin.copy(), this.dialect))
    if this.spark:
        places = [cast(place, "INT", attempt=True) for place in places]
    return case([(test, call("substring", whole, *places))], None)


def _sum(op: str, left: exp.Expression, right: exp.Expression, dialect: Dialect) -> exp.Expression:
    if dialect is Dialect.SPARK:
        return call("try_add" if op == "+" else "try_subtract", left, right)
    return attempt(binary(exp.Add if op == "+" else exp.Sub, left, right))


def _replace(this: Call) -> exp.Expression:
    """All occurrences; the empty text occurs before every character and at the end."""
    whole, old, new = this.arguments
    plain = call("replace", whole, old, new)
    if isinstance(old, exp.Literal) and old.this:
        return plain
    empty = binary(exp.EQ, old.copy(), text(""))
    joined = _joined(whole.copy(), new.copy(), this.dialect)
    between = case([(binary(exp.EQ, whole.copy(), text("")), new.copy())], joined)
    return case([(empty, between)], plain)


def _joined(whole: exp.Expression, new: exp.Expression, dialect: Dialect) -> exp.Expression:
    """A text that is not empty with another one around each of its characters."""
    if dialect is Dialect.SPARK:
        inner = call("array_join", call("split", whole, text("")), new)
    else:
        characters = call("regexp_extract_all", whole, text("(?s)."))
        followed = lambda_(["c0"], binary(exp.DPipe, column("c0"), new))
        inner = call("array_to_string", call("list_transform", characters, followed), text(""))
        return binary(exp.DPipe, new.copy(), inner)
    return binary(exp.DPipe, binary(exp.DPipe, new.copy(), inner), new.copy())


def _trim(this: Call) -> exp.Expression:
    name = "btrim" if this.spark else "trim"
    return call(name, this.arguments[0], string(_BLANKS, this.dialect))


def _concat(this: Call) -> exp.Expression:
    whole = this.arguments[0]
    for part in this.arguments[1:]:
        whole = binary(exp.DPipe, whole, part)
    return whole


STRINGS: Final[Mapping[str, Lowering]] = {
    "contains": _named("contains", "contains"),
    "startsWith": _named("startswith", "starts_with"),
    "endsWith": _named("endswith", "ends_with"),
    "length": _length,
    "substring": _substring,
    "replace": _replace,
    "trim": _trim,
    "concat": _concat,
}
