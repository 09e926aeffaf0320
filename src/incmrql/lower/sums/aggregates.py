"""Aggregates over exact sums: `sum`, `avg`, and `variance` and `stddev` from sums of squares.

The sums are columns of integer limbs, as many for one row as for a million; one Python function
(`engine.columns.pinned`) makes the exact fraction of them and rounds it once.  The square of a
double is the sum of two doubles without error, hi + lo (Veltkamp, Dekker):

    hi = x·x,  a = t - (t - x) with t = (2^27 + 1)·x,  b = x - a,
    lo = ((a·a - hi) + 2·a·b) + b·b

Inside the window of sums no step of that overflows or loses a bit.  For doubles outside of it,
the values of the group are collected instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import NARROW, Context, SumWindow
from incmrql.lower.shapes import Cell, Parts, Shape
from incmrql.lower.sums import limbs
from incmrql.lower.sums import limbs as sums
from incmrql.lower.sums.rounding import (
    OUTSIDE,
    Derive,
    integer_mean,
    mean_of,
    narrow_mean,
    round_sum,
)
from incmrql.lower.tree import Dialect
from incmrql.types.model import (
    BYTE,
    DOUBLE,
    EXACT_SUM,
    INT,
    LONG,
    NOTHING,
    SHORT,
    Collection,
    Decimal,
    Type,
    is_float,
    is_integer,
)

# --- `sum` and `avg` ---


def or_else(value: exp.Expression, default: exp.Expression) -> exp.Expression:
    """The value, or the default where it is null."""
    return tree.call("coalesce", value, default)


@dataclass(frozen=True, slots=True)
class Summing:
    """How elements are summed: `total` of what is made of each, and the `number` of them."""

    total: limbs.Total
    number: exp.Expression
    element: Type
    narrow: bool
    """Whether the elements are integers of 32 bits or less, maybe in a wider type."""
    derive: Derive | None = None
    """How columns are made of the sums, where they are columns."""

    def result(self, name: str, type_: Type, ctx: Context) -> Shape | None:
        """`sum`, `avg` or `sum#part` in its type; None where there is no native form."""
        if is_float(self.element):
            return self._of_doubles(name, type_, ctx)
        if is_integer(self.element) or self.element == NOTHING:
            return self._of_integers(name, type_, ctx)
        if isinstance(self.element, Decimal) and self.element.precision <= 28 and name == "sum":
            kind = tree.type_text(type_, ctx.dialect)
            sum_ = tree.cast(self.total(lambda x: x, tree.null()), kind, attempt=True)
            return Cell(or_else(sum_, tree.cast(tree.number(0), kind)), type_)
        return None

    def _of_doubles(self, name: str, type_: Type, ctx: Context) -> Shape:
        if ctx.fast_sums:
            sum_ = self.total(lambda x: x, limbs.double(0.0))
            if name == "sum#part":
                return Parts((Cell(or_else(sum_, limbs.double(0.0)), DOUBLE, True),), EXACT_SUM)
        else:
            parts = limbs.sum_parts(self.total, ctx.window, ctx)
            if name == "sum#part":
                return Parts(tuple(Cell(part, LONG, True) for part in parts.all), EXACT_SUM)
            sum_ = round_sum(parts, ctx.window, self.derive)
        sum_ = or_else(sum_, limbs.double(0.0))
        if name == "sum":
            return Cell(sum_, type_, present=True)
        return Cell(mean_of(sum_, self.number), type_)

    def _as_long(self, value: exp.Expression) -> exp.Expression:
        return value if self.element == LONG else tree.cast(value, "BIGINT")

    def _of_integers(self, name: str, type_: Type, ctx: Context) -> Shape:
        if self.narrow or self.element in (BYTE, SHORT, INT):
            whole = self.total(self._as_long, limbs.long(0))
            long = or_else(whole, limbs.long(0))
            exact = tree.cast(long, "DECIMAL(38, 0)")
        else:
            high, low = limbs.integer_halves(self.total)
            none = [(tree.is_null(high), limbs.long(0))]
            long = tree.case(none, limbs.as_long(high, low))
            zero = tree.cast(tree.number(0), "DECIMAL(38, 0)")
            exact = whole = or_else(limbs.as_decimal(high, low), zero)
        match name:
            case "avg" if whole is not exact:
                return Cell(narrow_mean(whole, self.number, ctx), type_)
            case "avg":
                return Cell(integer_mean(whole, self.number), type_)
            case "sum#part" if whole is not exact:  # a long holds the sum of 2^31 of them
                return Cell(long, LONG, present=True)
            case "sum#part":
                return Cell(exact, type_, present=True)
            case _:
                return Cell(long, type_)


# --- `variance` and `stddev` ---


NAMES: Final = ("variance", "stddev")
SQUARES: Final = SumWindow(2 * NARROW.lowest, 2 * NARROW.limbs)
"""Where the squares of what lies in the narrow window lie."""

Prepare = Callable[[exp.Expression], exp.Expression]
"""A column for an expression of each row, beside which aggregates stand."""
_MOST: Final = 2.0**30
"""Values whose limbs a long can sum."""


def variance_or_stddev(
    name: str,
    values: exp.Expression,
    element: Type,
    total: Callable[[exp.Expression], exp.Expression],
    prepare: Prepare,
    ctx: Context,
) -> Cell | None:
    """`variance` or `stddev` of the values that are not null; None where sums cannot hold them.

    `total` is the sum over the rows of the group.
    """
    if ctx.dialect is not Dialect.SPARK:
        return None
    if is_integer(element):
        return _of_integers(name, values, element, total, prepare, ctx)
    if is_float(element) and ctx.window is NARROW:
        return _of_doubles(name, values, total, prepare, ctx)
    return None


def _of_integers(
    name: str,
    values: exp.Expression,
    element: Type,
    total: Callable[[exp.Expression], exp.Expression],
    prepare: Prepare,
    ctx: Context,
) -> Cell:
    x = prepare(tree.cast(values, "BIGINT"))
    square = _square_of_int(x) if element in (BYTE, SHORT, INT) else _square_of_long(x)
    limbs = [total(half) for half in (sums.low_half(x), sums.high_half(x))]
    squares = [total(half) for half in square]
    count = total(tree.case([(tree.not_null(x), sums.long(1))], sums.long(0)))
    return _pinned_result(name, count, sums.double(0.0), (limbs, squares), 0, ctx)


def _square_of_int(x: exp.Expression) -> list[exp.Expression]:
    square = tree.binary(exp.Mul, x, x)
    return [sums.low_half(square), sums.high_half(square)]


def _square_of_long(x: exp.Expression) -> list[exp.Expression]:
    """With x = a·2^32 + b, |b| at most 2^31: b² + 2ab·2^32 + a²·2^64, in limbs of 32 bits."""
    low = tree.cast(tree.cast(x, "INT"), "BIGINT")  # takes the low bits
    is_negative = tree.binary(exp.LT, low, tree.number(0))
    carry = tree.case([(is_negative, sums.long(1))], sums.long(0))
    high = tree.binary(exp.Add, sums.high_half(x), carry)
    low_square, mixed, high_square = (
        tree.binary(exp.Mul, a, b) for a, b in ((low, low), (high, low), (high, high))
    )
    twice = [
        tree.binary(exp.Mul, half(mixed), tree.number(2))
        for half in (sums.low_half, sums.high_half)
    ]
    return [
        sums.low_half(low_square),
        tree.binary(exp.Add, sums.high_half(low_square), twice[0]),
        tree.binary(exp.Add, twice[1], sums.low_half(high_square)),
        sums.high_half(high_square),
    ]


def _of_doubles(
    name: str,
    values: exp.Expression,
    total: Callable[[exp.Expression], exp.Expression],
    prepare: Prepare,
    ctx: Context,
) -> Cell:
    x = prepare(tree.cast(values, "DOUBLE"))
    sum_ = sums.sum_parts(lambda of, _: total(of(x)), NARROW, ctx)
    bounded = prepare(sums.inside(x, NARROW))
    hi = tree.binary(exp.Mul, bounded, bounded)
    lo = prepare(_error_of_square(bounded, hi, prepare))
    squares = [
        total(tree.binary(exp.Add, sums.limb(hi, index, SQUARES), sums.limb(lo, index, SQUARES)))
        for index in range(SQUARES.limbs)
    ]
    too_many = tree.cast(
        tree.call("floor", tree.binary(exp.Div, sum_.count, sums.double(_MOST))), "BIGINT"
    )
    is_outside = tree.binary(exp.GT, tree.binary(exp.Add, sum_.outside, too_many), tree.number(0))
    error = tree.cast(tree.call("raise_error", tree.text(OUTSIDE)), "BIGINT")
    count = tree.case([(is_outside, error)], sum_.count)
    return _pinned_result(name, count, sum_.special, (sum_.limbs, squares), NARROW.lowest, ctx)


def _error_of_square(x: exp.Expression, hi: exp.Expression, prepare: Prepare) -> exp.Expression:
    """What is missing from the rounded square."""
    times, minus, plus = exp.Mul, exp.Sub, exp.Add
    scaled = tree.binary(times, x, sums.double(2.0**27 + 1))
    a = prepare(tree.binary(minus, scaled, tree.binary(minus, scaled, x)))
    b = tree.binary(minus, x, a)
    mixed = tree.binary(times, sums.double(2.0), tree.binary(times, a, b))
    above = tree.binary(plus, tree.binary(minus, tree.binary(times, a, a), hi), mixed)
    return tree.binary(plus, above, tree.binary(times, b, b))


def _pinned_result(
    name: str,
    count: exp.Expression,
    special: exp.Expression,
    limbs: tuple[list[exp.Expression], list[exp.Expression]],
    lowest: int,
    ctx: Context,
) -> Cell:
    """One number for the limbs of sum and squares; null where there is no group."""
    longs = Collection("list", LONG)
    arguments = [
        Cell(count, LONG),
        Cell(special, DOUBLE),
        *[Cell(tree.call("array", *column), longs) for column in limbs],
        Cell(tree.number(lowest), INT),
    ]
    return ctx.call_pinned(f"{name}#sums", arguments, DOUBLE, "rounded once, from exact sums")
