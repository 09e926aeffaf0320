"""Exact sums in SQL: integers in two halves, doubles as integer limbs.

A double inside the window is cut into `limbs` integers of 32 bits,

    x = Σ limb_i · 2^(lowest + 32 i),   limb_i = R(x / 2^e_i) - R(x / 2^(e_i + 32)) · 2^32

with R the nearest integer.  Integer sums of limbs are exact in any order; `rounding` adds them
up with carries and rounds once.  A value outside the window is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import WIDE, Context, SumWindow
from incmrql.lower.shapes import NotNative
from incmrql.lower.tree import Dialect

_BASE = 2**32
Elementwise = Callable[[exp.Expression], exp.Expression]
Total = Callable[[Elementwise, exp.Expression], exp.Expression]
"""The sum, from a zero, of what a function makes of every value."""


def long(value: int) -> exp.Expression:
    """A long."""
    return tree.cast(tree.number(value), "BIGINT")


def literal(value: float) -> str:
    """A double as Spark writes it."""
    return f"{value!r}".replace("e", "E") + "D"


def double(value: float) -> exp.Expression:
    """A double that is a power of two, or another short one."""
    return exp.Var(this=literal(value))


def _power(exponent: int) -> exp.Expression:
    return double(2.0**exponent)


@dataclass(frozen=True, slots=True)
class SumParts:
    """The parts of an exact sum of doubles.

    Beside the limbs: the sum of what is not finite, how many values were outside the window,
    and how many were summed.
    """

    limbs: list[exp.Expression]
    special: exp.Expression
    outside: exp.Expression
    count: exp.Expression

    @property
    def all(self) -> list[exp.Expression]:
        """All parts, in order."""
        return [*self.limbs, self.special, self.outside, self.count]

    @staticmethod
    def of(columns: list[exp.Expression]) -> SumParts:
        """The inverse of `all`."""
        return SumParts(columns[:-3], *columns[-3:])


def sum_parts(total: Total, window: SumWindow, ctx: Context) -> SumParts:
    """The sums that make up an exact sum of doubles."""
    if ctx.dialect is not Dialect.SPARK:
        raise NotNative("exact sums of doubles are the kernel's")

    def limb_of(number: int) -> Elementwise:
        return lambda x: limb(inside(x, window), number, window)

    def special(x: exp.Expression) -> exp.Expression:
        return tree.case([(_fits(x, window), double(0.0))], x)

    def outside(x: exp.Expression) -> exp.Expression:
        if window is WIDE:
            return long(0)
        scaled = tree.binary(exp.Mul, inside(x, window), _power(-window.lowest))
        too_fine = tree.binary(exp.NEQ, scaled, tree.call("rint", scaled))
        too_large = tree.conjunction(
            [tree.binary(exp.GTE, tree.call("abs", x), _largest(window)), _is_finite(x)]
        )
        assert too_large is not None
        return tree.case([(tree.binary(exp.Or, too_fine, too_large), long(1))], long(0))

    limbs = [total(limb_of(number), long(0)) for number in range(window.limbs)]
    return SumParts(
        limbs,
        total(special, double(0.0)),
        total(outside, long(0)),
        total(lambda x: tree.case([(tree.not_null(x), long(1))], long(0)), long(0)),
    )


def inside(x: exp.Expression, window: SumWindow) -> exp.Expression:
    """The value itself, or 0 for what the limbs cannot hold."""
    return tree.case([(_fits(x, window), x)], double(0.0))


def _fits(x: exp.Expression, window: SumWindow) -> exp.Expression:
    return _is_finite(x) if window is WIDE else _below(x, _largest(window))


def _largest(window: SumWindow) -> exp.Expression:
    return _power(min(window.lowest + 32 * window.limbs - 1, 1023))


def weighted_sums(
    total: Callable[[exp.Expression], exp.Expression], part: SumParts, weight: exp.Expression
) -> SumParts:
    """The sum of sums, each taken several times.

    Limbs are integers of 32 bits for each value, so a long holds the sum for 2^31 values; with
    more than that the query is done again with sums of 38 digits.
    """
    scaled = [tree.binary(exp.Mul, column, weight) for column in part.all]
    *limbs, special, outside, _ = scaled
    many = tree.binary(exp.Mul, tree.cast(part.count, "DOUBLE"), weight)
    return SumParts([total(limb) for limb in limbs], total(special), total(outside), total(many))


def wide_weighted_sums(
    total: Callable[[exp.Expression], exp.Expression], part: SumParts, weight: exp.Expression
) -> SumParts:
    """The same in sums of 38 digits, whose carries go to the limb above."""
    digits: list[exp.Expression] = []
    carry: exp.Expression = long(0)
    for limb in part.limbs:
        product = tree.binary(exp.Mul, tree.cast(limb, "DECIMAL(20, 0)"),
                              tree.cast(weight, "DECIMAL(18, 0)"))  # fmt: skip
        sum_ = total(tree.cast(product, "DECIMAL(38, 0)"))
        low = tree.call("pmod", sum_, tree.cast(tree.number(_BASE), "DECIMAL(38, 0)"))
        high = tree.binary(exp.Sub, sum_, low)
        digits.append(tree.binary(exp.Add, tree.cast(low, "BIGINT"), carry))
        carry = tree.cast(exp.IntDiv(this=exp.paren(high), expression=tree.number(_BASE)), "BIGINT")
    digits[-1] = tree.binary(exp.Add, digits[-1], tree.call("shiftleft", carry, tree.number(32)))
    special = total(tree.binary(exp.Mul, part.special, weight))
    return SumParts(digits, special, total(part.outside), total(part.count))


def _is_finite(x: exp.Expression) -> exp.Expression:
    """NaN is greater than everything in Spark."""
    return tree.binary(exp.LT, tree.call("abs", x), exp.Var(this="double('Infinity')"))


def _below(x: exp.Expression, largest: exp.Expression) -> exp.Expression:
    return tree.binary(exp.LT, tree.call("abs", x), largest)


def limb(x: exp.Expression, number: int, window: SumWindow) -> exp.Expression:
    """One limb of a value that is inside the window, as a long."""
    exponent = window.lowest + 32 * number
    rounded = _nearest(x, exponent)
    if number == window.limbs - 1:
        difference = rounded
    else:
        above = tree.binary(exp.Mul, _nearest(x, exponent + 32), double(float(_BASE)))
        difference = tree.binary(exp.Sub, rounded, above)
    whole = tree.cast(difference, "BIGINT")
    if window is not WIDE or exponent + 85 > 1023:
        return whole
    small = _below(x, _power(exponent + 85))  # else the limb is 0, and 2^-e · x may overflow
    return tree.case([(small, whole)], long(0))


def _nearest(x: exp.Expression, exponent: int) -> exp.Expression:
    """The integer nearest to x / 2^exponent."""
    scaled = x
    remaining = -exponent
    while remaining:
        step = max(-1000, min(1000, remaining))
        scaled = tree.binary(exp.Mul, scaled, _power(step))
        remaining -= step
    return tree.call("rint", scaled)


def integer_halves(total: Total) -> tuple[exp.Expression, exp.Expression]:
    """The exact sum of longs as high and low part: high · 2^32 + low, low not negative."""
    high = total(high_half, long(0))
    low = total(low_half, long(0))
    return tree.binary(exp.Add, high, high_half(low)), low_half(low)


def high_half(value: exp.Expression) -> exp.Expression:
    """A long without its lower 32 bits, as a number of 2^32."""
    return tree.call("shiftright", value, tree.number(32))


def low_half(value: exp.Expression) -> exp.Expression:
    """The lower 32 bits of a long, not negative."""
    return tree.binary(exp.BitwiseAnd, value, tree.number(_BASE - 1))


def as_long(high: exp.Expression, low: exp.Expression) -> exp.Expression:
    """An exact sum as a long, or null where it does not fit."""
    fits = tree.conjunction([
        tree.binary(exp.GTE, high, tree.number(-(2**31))),
        tree.binary(exp.LT, high, tree.number(2**31)),
    ])  # fmt: skip
    assert fits is not None
    whole = tree.binary(exp.Add, tree.call("shiftleft", high, tree.number(32)), low)
    return tree.case([(fits, whole)], None)


def as_decimal(high: exp.Expression, low: exp.Expression) -> exp.Expression:
    """An exact sum of longs as a decimal."""
    above = tree.binary(exp.Mul, tree.cast(high, "DECIMAL(20, 0)"), tree.number(_BASE))
    whole = tree.binary(exp.Add, above, tree.cast(low, "DECIMAL(20, 0)"))
    return tree.cast(whole, "DECIMAL(38, 0)")
