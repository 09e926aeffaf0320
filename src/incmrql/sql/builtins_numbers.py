"""Numeric built-ins as SQL.

What IEEE 754 defines is native; exp, log, pow and the trigonometric functions are not, as every
library rounds them in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from incmrql.sql.builtins_call import Call, Lowering
from incmrql.sql.literals import double, integer
from incmrql.sql.operators import attempt, one_zero
from incmrql.sql.tree import Dialect, binary, call, case, cast, number, text, type_text
from incmrql.types.model import DOUBLE, LONG, Decimal, is_integer

_WHOLE: Final = 2.0**52
"""From here on every double is a whole number."""
_MOST_DIGITS: Final = 38


def _absolute(this: Call) -> exp.Expression:
    x = this.arguments[0]
    if not is_integer(this.result):
        return call("abs", x)
    if not this.spark:
        return attempt(call("abs", x))
    zero = integer(0, this.result, this.dialect)
    negative = binary(exp.LT, x.copy(), zero)
    return case([(negative, call("try_subtract", zero.copy(), x.copy()))], x)


def _root(this: Call) -> exp.Expression:
    return call("sqrt", this.arguments[0])


def _whole(name: str) -> Lowering:
    """`ceil` or `floor`, which are longs in Spark."""

    def lower(this: Call) -> exp.Expression:
        x = this.arguments[0]
        if not this.spark:
            return one_zero(call(name, x), this.dialect)
        return case([(_small(x, this.dialect), cast(call(name, x.copy()), "DOUBLE"))], x)

    return lower


def _rint(this: Call) -> exp.Expression:
    x = this.arguments[0]
    if this.spark:
        return one_zero(call("rint", x), this.dialect)
    rounded = one_zero(call("round_even", x.copy(), number(0)), this.dialect)
    return case([(_small(x, this.dialect), rounded)], x)


def _small(x: exp.Expression, dialect: Dialect) -> exp.Expression:
    """Whether a double can have digits after its point."""
    return binary(exp.LT, call("abs", x.copy()), double(_WHOLE, dialect))


def _round(this: Call) -> exp.Expression | None:
    match this.types[0]:
        case Decimal() as source if len(this.arguments) > 1:
            return _round_to(this.arguments[0], this.arguments[1], source, this.dialect)
        case Decimal():
            return _round_decimal(this.arguments[0], this.dialect)
        case _ if this.types[0] == DOUBLE and len(this.arguments) == 1:
            return _round_double(this.arguments[0], this.dialect)
        case _ if this.types[0] == LONG and len(this.arguments) == 1:
            return this.arguments[0]
        case _:
            return None


def _round_double(x: exp.Expression, dialect: Dialect) -> exp.Expression:
    """floor(x + 1/2) as a long: the sum itself would be rounded."""
    below = call("floor", x.copy())
    whole = below if dialect is Dialect.SPARK else cast(below, "BIGINT")
    up = binary(exp.GTE, binary(exp.Sub, x.copy(), below.copy()), double(0.5, dialect))
    near = binary(
        exp.Add, whole, case([(up, integer(1, LONG, dialect))], integer(0, LONG, dialect))
    )
    fits = exp.Between(
        this=x.copy(), low=double(-(2.0**63), dialect), high=double(2.0**63 - 1024, dialect)
    )
    return case([(_small(x, dialect), near), (fits, cast(x, "BIGINT", attempt=True))], None)


def _round_decimal(x: exp.Expression, dialect: Dialect) -> exp.Expression:
    """floor(x + 1/2) as a long: from the whole part and the rest, which are exact."""
    one = cast(number(1), "DECIMAL(1, 0)")
    half, minus = (cast(text(t), "DECIMAL(2, 1)") for t in ("0.5", "-0.5"))
    if dialect is Dialect.SPARK:
        whole = cast(x, "BIGINT", attempt=True)
        rest = call("try_mod", x.copy(), one)
        more, less = (
            call(name, whole.copy(), integer(1, LONG, dialect))
            for name in ("try_add", "try_subtract")
        )
    else:
        whole = cast(call("trunc", x), "BIGINT", attempt=True)
        rest = binary(exp.Sub, x.copy(), call("trunc", x.copy()))
        more, less = (
            attempt(binary(kind, whole.copy(), integer(1, LONG, dialect)))
            for kind in (exp.Add, exp.Sub)
        )
    branches = [(binary(exp.GTE, rest, half), more), (binary(exp.LT, rest.copy(), minus), less)]
    return case(branches, whole)


def _round_to(
    x: exp.Expression, digits: exp.Expression, type_: Decimal, dialect: Dialect
) -> exp.Expression | None:
    """A decimal with so many decimals, halves away from zero, where their number is a constant."""
    written = _constant(digits)
    if written is None:
        return None
    if written >= type_.scale:
        return x
    if written < type_.scale - type_.precision:
        zero = cast(number(0), type_text(type_, dialect))
        return case([(exp.Is(this=x, expression=exp.Null()), exp.Null())], zero)
    rounded = call("round", x, number(written))
    return cast(rounded, type_text(type_, dialect), attempt=True)


def _constant(tree: exp.Expression) -> int | None:
    """The integer that a tree writes, if it does."""
    match tree:
        case exp.Cast() | exp.Paren():
            return _constant(tree.this)
        case exp.Neg():
            opposite = _constant(tree.this)
            return None if opposite is None else -opposite
        case exp.Literal() if not tree.is_string:
            return int(str(tree.this).rstrip("LSY"))
        case _:
            return None


NUMBERS: Final[Mapping[str, Lowering]] = {
    "abs": _absolute,
    "sqrt": _root,
    "ceil": _whole("ceil"),
    "floor": _whole("floor"),
    "rint": _rint,
    "round": _round,
}
