"""Exact sums of doubles rounded in a few columns beside the group, as plain arithmetic.

The limbs are added up with carries to digits of 32 bits, of a sum that is not negative; the three
leading digits, and whether anything is below them, decide the nearest double.  Each step is a
column of its own, so that no expression is written out twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlglot import exp

from incmrql.sql import tree
from incmrql.sql.context import Window
from incmrql.sql.rounding import OUTSIDE
from incmrql.sql.sums import Summed, double, high_half, long, low_half

Derive: TypeAlias = Callable[[Sequence[exp.Expression]], list[exp.Expression]]
"""Columns that hold expressions over the aggregates and over columns derived before."""


def rounded(summed: Summed, window: Window, derive: Derive) -> exp.Expression:
    """The double nearest to an exact sum in the narrow window; null where nothing was summed."""
    (sign,) = derive([_sign(summed.limbs)])
    turned = derive([tree.binary(exp.Mul, limb, sign) for limb in summed.limbs])
    digits = derive(_digits(turned))
    top, mid, low, rest, scale = derive(_leading(digits, window))
    value = tree.binary(exp.Mul, _rounded(top, mid, low, rest), scale)
    signed = tree.binary(exp.Mul, tree.cast(sign, "DOUBLE"), value)
    finite = tree.case([(_is(top, 0), double(0.0))], signed)
    many = tree.binary(exp.GT, summed.count, tree.number(2**31))
    noticed = tree.binary(exp.Or, tree.binary(exp.GT, summed.outside, tree.number(0)), many)
    error = tree.call("raise_error", tree.text(OUTSIDE))
    ordinary = tree.binary(exp.EQ, summed.special, double(0.0))
    return tree.case([(noticed, error), (ordinary, finite)], summed.special)


def _carried(limbs: Sequence[exp.Expression]) -> exp.Expression:
    """What limbs carry over to the one above them."""
    carry = high_half(limbs[0])
    for limb in limbs[1:]:
        carry = high_half(tree.binary(exp.Add, limb, carry))
    return carry


def _sign(limbs: Sequence[exp.Expression]) -> exp.Expression:
    negative = tree.binary(exp.LT, _carried(limbs), tree.number(0))
    return tree.case([(negative, long(-1))], long(1))


def _digits(limbs: Sequence[exp.Expression]) -> list[exp.Expression]:
    """The digits of a sum that is not negative, the lowest first."""
    found = [low_half(limbs[0])]
    for place in range(1, len(limbs)):
        whole = tree.binary(exp.Add, limbs[place], _carried(limbs[:place]))
        found.append(low_half(whole))
    return [*found, _carried(limbs)]


def _leading(digits: Sequence[exp.Expression], window: Window) -> list[exp.Expression]:
    """The first digit that is not 0, the two below, whether anything else is, and its worth."""
    choices: list[list[exp.Expression]] = []
    for place in reversed(range(len(digits))):
        below = [digits[place - n] if place >= n else long(0) for n in (1, 2)]
        rest = [exp.Not(this=exp.paren(_is(each, 0))) for each in digits[: max(place - 2, 0)]]
        more = tree.boolean(False)
        for each in rest:
            more = tree.binary(exp.Or, more, each)
        worth = double(2.0 ** (window.lowest + 32 * (place - 2)))
        choices.append([digits[place], *below, more, worth])
    found = []
    for part in range(5):
        branches = [
            (exp.Not(this=exp.paren(_is(choice[0], 0))), choice[part]) for choice in choices[:-1]
        ]
        found.append(tree.case(branches, choices[-1][part]))
    return found


def _rounded(
    top: exp.Expression, mid: exp.Expression, low: exp.Expression, rest: exp.Expression
) -> exp.Expression:
    """The nearest double to top · 2^64 + mid · 2^32 + low and something, if there is a rest.

    An integer of 55 to 62 bits, whose last bit is set if anything is below, rounds as the whole.
    """
    branches = []
    for bits, cut in ((8, 10), (16, 18), (24, 26), (32, 34)):
        shift = 64 - cut
        whole = _left(top, shift)
        if cut < 32:
            whole = tree.binary(exp.Add, whole, _left(mid, shift - 32))
            whole = tree.binary(exp.Add, whole, tree.call("shiftright", low, tree.number(cut)))
            below = [_has(low, 2**cut - 1)]
        else:
            part = tree.call("shiftright", mid, tree.number(cut - 32))
            whole = tree.binary(exp.Add, whole, part)
            below = [_has(mid, 2 ** (cut - 32) - 1), exp.Not(this=exp.paren(_is(low, 0)))]
        inexact = rest
        for each in below:
            inexact = tree.binary(exp.Or, inexact, each)
        last = tree.case([(inexact, long(1))], long(0))
        value = tree.cast(tree.binary(exp.BitwiseOr, whole, last), "DOUBLE")
        fits = tree.binary(exp.LT, top, tree.number(2**bits))
        branches.append((fits, tree.binary(exp.Mul, value, double(float(2**cut)))))
    return tree.case(branches, None)


def _left(value: exp.Expression, bits: int) -> exp.Expression:
    return tree.call("shiftleft", value, tree.number(bits))


def _has(value: exp.Expression, mask: int) -> exp.Expression:
    """Whether any bit of a mask is set."""
    masked = tree.binary(exp.BitwiseAnd, value, tree.number(mask))
    return exp.Not(this=exp.paren(_is(masked, 0)))


def _is(value: exp.Expression, number: int) -> exp.Expression:
    return tree.binary(exp.EQ, value, tree.number(number))
