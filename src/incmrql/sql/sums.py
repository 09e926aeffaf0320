"""Exact sums in SQL: integers in two halves, doubles as integer limbs, rounded once.

A double inside the window is cut into `limbs` integers of 32 bits,

    x = Σ limb_i · 2^(lowest + 32 i),   limb_i = R(x / 2^e_i) - R(x / 2^(e_i + 32)) · 2^32

with R the nearest integer.  Integer sums of limbs are exact in any order; `rounded` adds them up
with carries and rounds once, to nearest even.  A value outside the window is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from incmrql.sql import arrays, tree
from incmrql.sql.context import WIDE, Context, Window
from incmrql.sql.shapes import NotNative
from incmrql.sql.tree import Dialect

OUTSIDE = "incmrql: a double lies outside the window of the exact sum"
"""The error that asks for the same query with the wide window."""

_BASE = 2**32
Of = Callable[[exp.Expression], exp.Expression]
Total = Callable[[Of, exp.Expression], exp.Expression]
"""The sum, from a zero, of what a function makes of every value."""


def long(value: int) -> exp.Expression:
    """A long."""
    return tree.cast(tree.number(value), "BIGINT")


def double(value: float) -> exp.Expression:
    """A double that is a power of two, or another short one."""
    return exp.Var(this=f"{value!r}".replace("e", "E") + "D")


def _power(exponent: int) -> exp.Expression:
    return double(2.0**exponent)


@dataclass(frozen=True, slots=True)
class Summed:
    """The parts of an exact sum of doubles: limbs, what is not finite, whether one was outside."""

    limbs: list[exp.Expression]
    special: exp.Expression
    outside: exp.Expression


def parts(total: Total, window: Window, ctx: Context) -> Summed:
    """The sums that make up an exact sum of doubles."""
    if ctx.dialect is not Dialect.SPARK:
        raise NotNative("exact sums of doubles are the kernel's")
    largest = _power(min(window.lowest + 32 * window.limbs - 1, 1023))
    wide = window is WIDE

    def inside(x: exp.Expression) -> exp.Expression:
        """The value itself, or 0 for what the limbs cannot hold."""
        return tree.case([(_is_finite(x) if wide else _below(x, largest), x)], double(0.0))

    def limb(number: int) -> Of:
        return lambda x: _limb(inside(x), number, window, ctx)

    def special(x: exp.Expression) -> exp.Expression:
        fits = _is_finite(x) if wide else _below(x, largest)
        return tree.case([(fits, double(0.0))], x)

    def outside(x: exp.Expression) -> exp.Expression:
        if wide:
            return long(0)
        scaled = tree.binary(exp.Mul, inside(x), _power(-window.lowest))
        too_fine = tree.binary(exp.NEQ, scaled, tree.call("rint", scaled))
        too_large = tree.conjunction(
            [tree.binary(exp.GTE, tree.call("abs", x), largest), _is_finite(x)]
        )
        assert too_large is not None
        return tree.case([(tree.binary(exp.Or, too_fine, too_large), long(1))], long(0))

    limbs = [total(limb(number), long(0)) for number in range(window.limbs)]
    return Summed(limbs, total(special, double(0.0)), total(outside, long(0)))


def _is_finite(x: exp.Expression) -> exp.Expression:
    """NaN is greater than everything in Spark."""
    return tree.binary(exp.LT, tree.call("abs", x), exp.Var(this="double('Infinity')"))


def _below(x: exp.Expression, largest: exp.Expression) -> exp.Expression:
    return tree.binary(exp.LT, tree.call("abs", x), largest)


def _limb(x: exp.Expression, number: int, window: Window, ctx: Context) -> exp.Expression:
    """One limb of a value that is inside the window, as a long."""
    exponent = window.lowest + 32 * number
    here = _nearest(x, exponent)
    if number == window.limbs - 1:
        cut = here
    else:
        above = tree.binary(exp.Mul, _nearest(x, exponent + 32), double(float(_BASE)))
        cut = tree.binary(exp.Sub, here, above)
    whole = tree.cast(cut, "BIGINT")
    if window is not WIDE or exponent + 85 > 1023:
        return whole
    small = _below(x, _power(exponent + 85))  # else the limb is 0, and 2^-e · x may overflow
    return tree.case([(small, whole)], long(0))


def _nearest(x: exp.Expression, exponent: int) -> exp.Expression:
    """The integer nearest to x / 2^exponent."""
    scaled = x
    left = -exponent
    while left:
        step = max(-1000, min(1000, left))
        scaled = tree.binary(exp.Mul, scaled, _power(step))
        left -= step
    return tree.call("rint", scaled)


def rounded(summed: Summed, window: Window, ctx: Context) -> exp.Expression:
    """The double nearest to an exact sum; null where nothing was summed."""
    finite = _rounded_limbs(summed.limbs, window, ctx)
    noticed = tree.binary(exp.GT, summed.outside, tree.number(0))
    zero = tree.binary(exp.EQ, summed.special, double(0.0))
    error = tree.call("raise_error", tree.text(OUTSIDE))
    branches = [(zero, finite)] if window is WIDE else [(noticed, error), (zero, finite)]
    return tree.case(branches, summed.special)


_DIGITS = "top", "mid", "low"


def _rounded_limbs(
    limbs: list[exp.Expression], window: Window, ctx: Context
) -> exp.Expression:
    zero = long(0)
    given = tree.call("array", *limbs, zero, zero)
    carried = arrays.fold(
        given, zero, lambda c, limb: _shifted(tree.binary(exp.Add, c, limb)), ctx
    )
    negative = tree.binary(exp.LT, carried, tree.number(0))
    turned = arrays.transform(given, lambda limb: exp.Neg(this=limb), ctx)
    digits = tree.call("if", negative, turned, given)
    sign = tree.call("if", negative, double(-1.0), double(1.0))
    found = _digits_found(digits, window, ctx)
    return tree.binary(exp.Mul, found, sign)


def _shifted(value: exp.Expression) -> exp.Expression:
    return tree.call("shiftright", value, tree.number(32))


def _digits_found(
    digits: exp.Expression, window: Window, ctx: Context
) -> exp.Expression:
    """The double for limbs whose sum is not negative.

    Going up, the fold keeps the carry, the last two digits and whether any below them is not
    zero; whenever a digit is not zero it notes it with the two below: the last note holds the
    leading digits.
    """
    zero = "CAST(0 AS BIGINT)"
    start = exp.Var(
        this=f"named_struct('c', {zero}, 'p', {zero}, 'q', {zero}, 'rest', false, 'top', {zero}, "
        f"'mid', {zero}, 'low', {zero}, 'more', false, 'place', 0, 'next', 0)"
    )
    state, limb, done = ctx.fresh("s"), ctx.fresh("limb"), ctx.fresh("s")
    sum_ = f"({state}.c + {limb})"
    digit = f"({sum_} & 4294967295)"
    new = f"{digit} <> 0"
    step = exp.Var(
        this=f"named_struct('c', shiftright({sum_}, 32), 'p', {digit}, 'q', {state}.p, "
        f"'rest', {state}.rest OR {state}.q <> 0, "
        f"'top', if({new}, {digit}, {state}.top), 'mid', if({new}, {state}.p, {state}.mid), "
        f"'low', if({new}, {state}.q, {state}.low), "
        f"'more', if({new}, {state}.rest, {state}.more), "
        f"'place', if({new}, {state}.next, {state}.place), 'next', {state}.next + 1)"
    )
    finish = exp.Var(this=_finish(done, window))
    return tree.call(
        "aggregate",
        digits,
        start,
        tree.lambda_([state, limb], step),
        tree.lambda_([done], finish),
    )


def _finish(s: str, window: Window) -> str:
    """The leading digits as an integer of 55 to 62 bits, the last bit set if anything is below.

    Rounding such an integer to 53 bits is rounding the whole sum; scaling by a power of two is
    exact, in steps none of which leaves the range of doubles before the last.
    """
    tiers = []
    for bits, low in ((8, 10), (16, 18), (24, 26), (32, 34)):
        shift = 64 - low
        head = f"shiftleft({s}.top, {shift})"
        if low < 32:
            body = f"({head} + shiftleft({s}.mid, {shift - 32}) + shiftright({s}.low, {low}))"
            below = f"({s}.low & {2**low - 1}) <> 0 OR {s}.more"
        else:
            body = f"({head} + shiftright({s}.mid, {low - 32}))"
            below = f"({s}.mid & {2 ** (low - 32) - 1}) <> 0 OR {s}.low <> 0 OR {s}.more"
        whole = f"({body} | if({below}, CAST(1 AS BIGINT), CAST(0 AS BIGINT)))"
        tiers.append(f"WHEN {s}.top < {2**bits} THEN CAST({whole} AS DOUBLE) * {float(2**low)!r}D")
    scaled = f"(CASE {' '.join(tiers)} END)"
    exponents = [window.lowest + 32 * (place - 2) for place in range(window.limbs + 2)]
    halves = [(e // 2, e - e // 2) for e in exponents]
    for part in (0, 1):
        powers = ", ".join(f"{2.0 ** pair[part]!r}D".replace("e", "E") for pair in halves)
        scaled += f" * get(array({powers}), {s}.place)"
    return f"if({s}.top = 0, 0.0D, {scaled})"


def integer_sum(total: Total, *, narrow: bool) -> tuple[exp.Expression, exp.Expression]:
    """The exact sum of longs as high and low part: high · 2^32 + low, low not negative.

    Values of 32 bits or less (`narrow`) need no halves: 2^31 of them fit a long.
    """
    if narrow:
        whole = total(lambda x: tree.cast(x, "BIGINT"), long(0))
        return _shifted(whole), _low_half(whole)
    high = total(_shifted, long(0))
    low = total(_low_half, long(0))
    carried = tree.binary(exp.Add, high, _shifted(low))
    return carried, _low_half(low)


def _low_half(value: exp.Expression) -> exp.Expression:
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


def integer_mean(
    high: exp.Expression, low: exp.Expression, count: exp.Expression
) -> exp.Expression:
    """An exact sum of longs divided by their number, rounded once; null for none."""
    whole = as_long(high, low)
    exact = tree.conjunction([
        tree.binary(exp.LTE, whole, tree.number(2**53)),
        tree.binary(exp.GTE, whole, tree.number(-(2**53))),
    ])  # fmt: skip
    assert exact is not None
    near = tree.binary(exp.Div, tree.cast(whole, "DOUBLE"), tree.cast(count, "DOUBLE"))
    some = tree.binary(exp.GT, count, tree.number(0))
    sum_ = tree.binary(
        exp.Add,
        tree.binary(exp.Mul, tree.cast(high, "DECIMAL(20, 0)"), tree.number(_BASE)),
        tree.cast(low, "DECIMAL(20, 0)"),
    )
    size = tree.call("abs", sum_)
    number = tree.cast(count, "DECIMAL(19, 0)")
    quotient = tree.cast(exp.IntDiv(this=exp.paren(size), expression=number), "BIGINT")
    rest = tree.cast(tree.binary(exp.Mod, size, number), "BIGINT")
    sign = tree.case([(tree.binary(exp.LT, sum_, tree.number(0)), double(-1.0))], double(1.0))
    far = tree.binary(exp.Mul, sign, _ratio(quotient, rest, count))
    return tree.case([(tree.is_null(count), tree.null()), (exp.Not(this=exp.paren(some)),
                      tree.null()), (exact, near)], far)  # fmt: skip


def _ratio(
    quotient: exp.Expression, rest: exp.Expression, count: exp.Expression
) -> exp.Expression:
    """quotient + rest / count as a double, for quotients of 22 bits and more."""
    branches = []
    for bits, shift in ((30, 32), (38, 24), (46, 16), (54, 8)):
        more = tree.call("shiftleft", rest, tree.number(shift))
        digits = exp.IntDiv(this=more, expression=tree.wrapped(count))
        whole = tree.binary(
            exp.Add, tree.call("shiftleft", quotient, tree.number(shift)), digits
        )
        inexact = tree.binary(exp.NEQ, tree.binary(exp.Mod, more, count), tree.number(0))
        value = tree.binary(exp.Mul, _with_last_bit(whole, inexact), _power(-shift))
        branches.append((tree.binary(exp.LT, quotient, tree.number(2**bits)), value))
    inexact = tree.binary(exp.NEQ, rest, tree.number(0))
    return tree.case(branches, _with_last_bit(quotient, inexact))


def _with_last_bit(whole: exp.Expression, inexact: exp.Expression) -> exp.Expression:
    bit = tree.case([(inexact, long(1))],
                    long(0))  # fmt: skip
    return tree.cast(tree.binary(exp.BitwiseOr, whole, bit), "DOUBLE")
