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

from incmrql.sql import tree
from incmrql.sql.context import NARROW, WIDE, Context, Window
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
    return exp.Var(this=_literal(value))


def _literal(value: float) -> str:
    return f"{value!r}".replace("e", "E") + "D"


def _power(exponent: int) -> exp.Expression:
    return double(2.0**exponent)


@dataclass(frozen=True, slots=True)
class Summed:
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
    def of(parts: list[exp.Expression]) -> Summed:
        """The inverse of `all`."""
        return Summed(parts[:-3], *parts[-3:])


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
        return lambda x: _limb(inside(x), number, window)

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
    return Summed(
        limbs,
        total(special, double(0.0)),
        total(outside, long(0)),
        total(lambda x: tree.case([(tree.not_null(x), long(1))], long(0)), long(0)),
    )


def times(
    total: Callable[[exp.Expression], exp.Expression], part: Summed, weight: exp.Expression
) -> Summed:
    """The sum of sums, each taken several times.

    Limbs are integers of 32 bits for each value, so a long holds the sum for 2^31 values; with
    more than that the query is done again with sums of 38 digits.
    """
    scaled = [tree.binary(exp.Mul, each, weight) for each in part.all]
    *limbs, special, outside, _ = scaled
    many = tree.binary(exp.Mul, tree.cast(part.count, "DOUBLE"), weight)
    return Summed([total(limb) for limb in limbs], total(special), total(outside), total(many))


def wide_times(
    total: Callable[[exp.Expression], exp.Expression], part: Summed, weight: exp.Expression
) -> Summed:
    """The same in sums of 38 digits, whose carries go to the limb above."""
    found: list[exp.Expression] = []
    carry: exp.Expression = long(0)
    for limb in part.limbs:
        product = tree.binary(exp.Mul, tree.cast(limb, "DECIMAL(20, 0)"),
                              tree.cast(weight, "DECIMAL(18, 0)"))  # fmt: skip
        sum_ = total(tree.cast(product, "DECIMAL(38, 0)"))
        low = tree.call("pmod", sum_, tree.cast(tree.number(_BASE), "DECIMAL(38, 0)"))
        high = tree.binary(exp.Sub, sum_, low)
        found.append(tree.binary(exp.Add, tree.cast(low, "BIGINT"), carry))
        carry = tree.cast(exp.IntDiv(this=exp.paren(high), expression=tree.number(_BASE)), "BIGINT")
    found[-1] = tree.binary(exp.Add, found[-1], tree.call("shiftleft", carry, tree.number(32)))
    special = total(tree.binary(exp.Mul, part.special, weight))
    return Summed(found, special, total(part.outside), total(part.count))


def _is_finite(x: exp.Expression) -> exp.Expression:
    """NaN is greater than everything in Spark."""
    return tree.binary(exp.LT, tree.call("abs", x), exp.Var(this="double('Infinity')"))


def _below(x: exp.Expression, largest: exp.Expression) -> exp.Expression:
    return tree.binary(exp.LT, tree.call("abs", x), largest)


def _limb(x: exp.Expression, number: int, window: Window) -> exp.Expression:
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


def rounded(summed: Summed, window: Window) -> exp.Expression:
    """The double nearest to an exact sum; null where nothing was summed."""
    limbs = tree.call("array", *summed.limbs)
    given = [limbs, summed.special]
    if window is WIDE:
        return tree.call(WIDE_SUM, *given)
    noticed = tree.binary(exp.Add, summed.outside, tree.call("floor", tree.binary(
        exp.Div, summed.count, double(2.0**31))))  # fmt: skip
    return tree.call(NARROW_SUM, *given, tree.cast(noticed, "BIGINT"))


NARROW_SUM, WIDE_SUM, MEAN = "exact_sum", "exact_sum_wide", "exact_mean"
OURS = (NARROW_SUM, WIDE_SUM, MEAN)
"""The functions that the texts call and a session must have (`functions`)."""


def functions() -> dict[str, str]:
    """The functions that the texts call, each as the statement that creates it."""
    return {
        NARROW_SUM: _function(
            NARROW_SUM,
            "limbs ARRAY<BIGINT>, special DOUBLE, outside BIGINT",
            f"CASE WHEN outside > 0 THEN raise_error('{OUTSIDE}') "
            f"WHEN special = 0 THEN {_rounded_limbs(NARROW)} ELSE special END",
        ),
        WIDE_SUM: _function(
            WIDE_SUM,
            "limbs ARRAY<BIGINT>, special DOUBLE",
            f"CASE WHEN special = 0 THEN {_rounded_limbs(WIDE)} ELSE special END",
        ),
        MEAN: _function(MEAN, "total DECIMAL(38, 0), number BIGINT", _mean()),
    }


def _function(name: str, parameters: str, body: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({parameters}) RETURNS DOUBLE RETURN {body}"


def _rounded_limbs(window: Window) -> str:
    """The limbs with carries, turned to a sum that is not negative, and rounded."""
    more = "concat(limbs, array(CAST(0 AS BIGINT), CAST(0 AS BIGINT)))"
    carried = f"aggregate({more}, CAST(0 AS BIGINT), (c, limb) -> shiftright(c + limb, 32))"
    turned = f"transform({more}, limb -> -limb)"
    positive, negative = (_leading(digits, window) for digits in (more, turned))
    return f"if({carried} < 0, -1 * {negative}, {positive})"


def _leading(digits: str, window: Window) -> str:
    """The double for limbs whose sum is not negative.

    Going up, the fold keeps the carry, the last two digits and whether any below them is not
    zero; whenever a digit is not zero it notes it with the two below: the last note holds the
    leading digits.
    """
    zero = "CAST(0 AS BIGINT)"
    start = (
        f"named_struct('c', {zero}, 'p', {zero}, 'q', {zero}, 'rest', false, 'top', {zero}, "
        f"'mid', {zero}, 'low', {zero}, 'more', false, 'place', 0, 'next', 0)"
    )
    digit = "((s.c + limb) & 4294967295)"
    new = f"{digit} <> 0"
    step = (
        f"named_struct('c', shiftright(s.c + limb, 32), 'p', {digit}, 'q', s.p, "
        f"'rest', s.rest OR s.q <> 0, 'top', if({new}, {digit}, s.top), "
        f"'mid', if({new}, s.p, s.mid), 'low', if({new}, s.q, s.low), "
        f"'more', if({new}, s.rest, s.more), 'place', if({new}, s.next, s.place), "
        "'next', s.next + 1)"
    )
    return f"aggregate({digits}, {start}, (s, limb) -> {step}, s -> {_finish('s', window)})"


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
        powers = ", ".join(_literal(2.0 ** pair[part]) for pair in halves)
        scaled += f" * get(array({powers}), {s}.place)"
    return f"if({s}.top = 0, 0.0D, {scaled})"


def integer_halves(total: Total) -> tuple[exp.Expression, exp.Expression]:
    """The exact sum of longs as high and low part: high · 2^32 + low, low not negative."""
    high = total(_shifted, long(0))
    low = total(_low_half, long(0))
    return tree.binary(exp.Add, high, _shifted(low)), _low_half(low)


def _shifted(value: exp.Expression) -> exp.Expression:
    return tree.call("shiftright", value, tree.number(32))


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


def integer_mean(sum_: exp.Expression, count: exp.Expression) -> exp.Expression:
    """An exact sum divided by a count, rounded once; null for none."""
    return tree.call(MEAN, tree.cast(sum_, "DECIMAL(38, 0)"), count)


def _mean() -> str:
    """What is small enough is exact in doubles; the rest by quotient and remainder.

    With q = |total| div n of 22 bits and more, q · 2^k + (remainder · 2^k) div n has at least
    55 bits; with its last bit set if anything is below, it rounds as the whole does.
    """
    quotient, rest = "(abs(total) DIV number)", "CAST(abs(total) % number AS BIGINT)"
    tiers = []
    for bits, shift in ((30, 32), (38, 24), (46, 16), (54, 8)):
        more = f"shiftleft({rest}, {shift})"
        whole = f"(shiftleft({quotient}, {shift}) + {more} DIV number)"
        bit = f"if({more} % number <> 0, CAST(1 AS BIGINT), CAST(0 AS BIGINT))"
        value = f"CAST({whole} | {bit} AS DOUBLE) * {_literal(2.0**-shift)}"
        tiers.append(f"WHEN {quotient} < {2**bits} THEN {value}")
    bit = f"if({rest} <> 0, CAST(1 AS BIGINT), CAST(0 AS BIGINT))"
    far = f"CASE {' '.join(tiers)} ELSE CAST({quotient} | {bit} AS DOUBLE) END"
    near = "CAST(total AS DOUBLE) / CAST(number AS DOUBLE)"
    return (
        f"CASE WHEN number > 0 THEN if(abs(total) <= {2**53}, {near}, "
        f"if(total < 0, -1.0D, 1.0D) * {far}) END"
    )


def as_decimal(high: exp.Expression, low: exp.Expression) -> exp.Expression:
    """An exact sum of longs as a decimal."""
    above = tree.binary(exp.Mul, tree.cast(high, "DECIMAL(20, 0)"), tree.number(_BASE))
    whole = tree.binary(exp.Add, above, tree.cast(low, "DECIMAL(20, 0)"))
    return tree.cast(whole, "DECIMAL(38, 0)")
