"""Exact sums to doubles in SQL, rounded once, to nearest even; and the means of exact sums.

The limbs of a sum are added up with carries to digits of 32 bits, of a sum that is not negative;
the three leading digits, and whether anything is below them, decide the nearest double
(`_nearest`).  The digits are found in two ways:

* in a few columns beside the group, as plain arithmetic: each step is a column of its own, so that
  no expression is written out twice;
* by a function of SQL that folds an array of the limbs: inside of rows, where there is no place for
  columns, and for the wide window, whose limbs would take hundreds of them.

Both are needed: of a million groups the columns are rounded in 2 seconds on one core, and 23 take
the calls.

Spark calls no function that is made of SQL inside a function of elements, nor with an argument
that has one.  There its body stands in place of the call, over the arguments as the fields of a
struct: `get(transform(array(struct), given -> body), 0)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from incmrql.lower import tree
from incmrql.lower.context import NARROW, WIDE, Context, SumWindow
from incmrql.lower.sums.limbs import SumParts, double, high_half, literal, long, low_half
from incmrql.lower.tree import Dialect

OUTSIDE: Final = "incmrql: a double lies outside the window of the exact sum"
"""The error that asks for the same query with the wide window."""

_NARROW_SUM, _WIDE_SUM, _MEAN = "exact_sum", "exact_sum_wide", "exact_mean"
SQL_FUNCTIONS: Final = (_NARROW_SUM, _WIDE_SUM, _MEAN)
"""The functions that the texts call and a session must have (`creating_statement`)."""

_PARAMETERS: Final = {
    _NARROW_SUM: {"limbs": "ARRAY<BIGINT>", "special": "DOUBLE", "outside": "BIGINT"},
    _WIDE_SUM: {"limbs": "ARRAY<BIGINT>", "special": "DOUBLE"},
    _MEAN: {"total": "DECIMAL(38, 0)", "number": "BIGINT"},
}
_ARGUMENTS: Final = "given"

Derive: TypeAlias = Callable[[Sequence[exp.Expression]], list[exp.Expression]]
"""Columns that hold expressions over the aggregates and over columns derived before."""


def round_sum(summed: SumParts, window: SumWindow, derive: Derive | None) -> exp.Expression:
    """The double nearest to an exact sum; null where nothing was summed.

    It is rounded in columns where there can be some.
    """
    if derive is None or window is WIDE:
        return _function_call(summed, window)
    return _round_in_columns(summed, window, derive)


def _function_call(summed: SumParts, window: SumWindow) -> exp.Expression:
    arguments = [tree.call("array", *summed.limbs), summed.special]
    if window is WIDE:
        return tree.call(_WIDE_SUM, *arguments)
    too_many = tree.call("floor", tree.binary(exp.Div, summed.count, double(2.0**31)))
    is_outside = tree.binary(exp.Add, summed.outside, too_many)
    return tree.call(_NARROW_SUM, *arguments, tree.cast(is_outside, "BIGINT"))


def _nearest(
    top: exp.Expression, mid: exp.Expression, low: exp.Expression, rest: exp.Expression
) -> exp.Expression:
    """The nearest double to top · 2^64 + mid · 2^32 + low and something, if there is a rest.

    An integer of 55 to 62 bits, whose last bit is set if anything is below, rounds as the whole.
    There is a tier for every 8 bits that the top digit may have, so that no shift is computed.
    """
    tiers = []
    for bits, cut in ((8, 10), (16, 18), (24, 26), (32, 34)):
        shift = 64 - cut
        whole = _shift_left(top, shift)
        if cut < 32:
            whole = tree.binary(exp.Add, whole, _shift_left(mid, shift - 32))
            whole = tree.binary(exp.Add, whole, tree.call("shiftright", low, tree.number(cut)))
            below = [_has(low, 2**cut - 1)]
        else:
            part = tree.call("shiftright", mid, tree.number(cut - 32))
            whole = tree.binary(exp.Add, whole, part)
            below = [_has(mid, 2 ** (cut - 32) - 1), exp.Not(this=exp.paren(_is(low, 0)))]
        inexact = rest
        for bits_below in below:
            inexact = tree.binary(exp.Or, inexact, bits_below)
        last = tree.case([(inexact, long(1))], long(0))
        value = tree.cast(tree.binary(exp.BitwiseOr, whole, last), "DOUBLE")
        fits = tree.binary(exp.LT, top, tree.number(2**bits))
        tiers.append((fits, tree.binary(exp.Mul, value, double(float(2**cut)))))
    return tree.case(tiers, None)


def _shift_left(value: exp.Expression, bits: int) -> exp.Expression:
    """A long times 2^bits."""
    return tree.call("shiftleft", value, tree.number(bits))


def _has(value: exp.Expression, mask: int) -> exp.Expression:
    """Whether any bit of a mask is set."""
    masked = tree.binary(exp.BitwiseAnd, value, tree.number(mask))
    return exp.Not(this=exp.paren(_is(masked, 0)))


def _is(value: exp.Expression, number: int) -> exp.Expression:
    return tree.binary(exp.EQ, value, tree.number(number))


# --- in columns ---------------------------------------------------------------------------


def _round_in_columns(summed: SumParts, window: SumWindow, derive: Derive) -> exp.Expression:
    (sign,) = derive([_sign(summed.limbs)])
    magnitude = derive([tree.binary(exp.Mul, limb, sign) for limb in summed.limbs])
    digits = derive(_digits(magnitude))
    top, mid, low, rest, scale = derive(_leading(digits, window))
    value = tree.binary(exp.Mul, _nearest(top, mid, low, rest), scale)
    signed = tree.binary(exp.Mul, tree.cast(sign, "DOUBLE"), value)
    finite = tree.case([(_is(top, 0), double(0.0))], signed)
    too_many = tree.binary(exp.GT, summed.count, tree.number(2**31))
    is_outside = tree.binary(exp.Or, tree.binary(exp.GT, summed.outside, tree.number(0)), too_many)
    error = tree.call("raise_error", tree.text(OUTSIDE))
    ordinary = tree.binary(exp.EQ, summed.special, double(0.0))
    return tree.case([(is_outside, error), (ordinary, finite)], summed.special)


def _carry(limbs: Sequence[exp.Expression]) -> exp.Expression:
    """What limbs carry over to the one above them."""
    carry = high_half(limbs[0])
    for limb in limbs[1:]:
        carry = high_half(tree.binary(exp.Add, limb, carry))
    return carry


def _sign(limbs: Sequence[exp.Expression]) -> exp.Expression:
    negative = tree.binary(exp.LT, _carry(limbs), tree.number(0))
    return tree.case([(negative, long(-1))], long(1))


def _digits(limbs: Sequence[exp.Expression]) -> list[exp.Expression]:
    """The digits of a sum that is not negative, the lowest first."""
    digits = [low_half(limbs[0])]
    for index in range(1, len(limbs)):
        whole = tree.binary(exp.Add, limbs[index], _carry(limbs[:index]))
        digits.append(low_half(whole))
    return [*digits, _carry(limbs)]


def _leading(digits: Sequence[exp.Expression], window: SumWindow) -> list[exp.Expression]:
    """The first digit that is not 0, the two below, whether anything else is, and its worth."""
    choices: list[list[exp.Expression]] = []
    for index in reversed(range(len(digits))):
        below = [digits[index - n] if index >= n else long(0) for n in (1, 2)]
        rest = [exp.Not(this=exp.paren(_is(nonzero, 0))) for nonzero in digits[: max(index - 2, 0)]]
        more = tree.boolean(False)
        for nonzero in rest:
            more = tree.binary(exp.Or, more, nonzero)
        worth = double(2.0 ** (window.lowest + 32 * (index - 2)))
        choices.append([digits[index], *below, more, worth])
    leading = []
    for part in range(5):
        branches = [
            (exp.Not(this=exp.paren(_is(choice[0], 0))), choice[part]) for choice in choices[:-1]
        ]
        leading.append(tree.case(branches, choices[-1][part]))
    return leading


# --- by functions of SQL --------------------------------------------------------------------


def creating_statement(name: str) -> str:
    """The statement that creates a function of `SQL_FUNCTIONS`; writing it takes milliseconds."""
    parameters = ", ".join(f"{parameter} {kind}" for parameter, kind in _PARAMETERS[name].items())
    head = f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({parameters}) RETURNS DOUBLE"
    return f"{head} RETURN {_body(name, '')}"


def inline_functions(whole: exp.Expression) -> exp.Expression:
    """A tree in which every call that Spark refuses is the body of its function."""
    whole = whole.copy()  # no node stands at two places of a copy
    calls = [node for node in whole.find_all(exp.Anonymous) if node.name in SQL_FUNCTIONS]
    for call in reversed(calls):
        if call.find(exp.Lambda) is not None or call.find_ancestor(exp.Lambda) is not None:
            call.replace(_inline_call(call))
    return whole


def _inline_call(call: exp.Anonymous) -> exp.Expression:
    """The body of a function over a struct of its arguments."""
    fields: list[exp.Expression] = []
    for (name, kind), argument in zip(
        _PARAMETERS[call.name].items(), list(call.expressions), strict=True
    ):
        fields += [tree.text(name), tree.cast(argument, kind)]
    arguments = tree.call("array", tree.call("named_struct", *fields))
    body = tree.lambda_([_ARGUMENTS], exp.Var(this=_body(call.name, f"{_ARGUMENTS}.")))
    return tree.call("get", tree.call("transform", arguments, body), tree.number(0))


def _body(name: str, prefix: str) -> str:
    """What a function computes; `of` stands before the names of its parameters."""
    if name == _MEAN:
        return _mean_body(f"{prefix}total", f"{prefix}number")
    window = NARROW if name == _NARROW_SUM else WIDE
    round_sum = f"WHEN {prefix}special = 0 THEN {_rounded_limbs(f'{prefix}limbs', window)}"
    check = f"WHEN {prefix}outside > 0 THEN raise_error('{OUTSIDE}') " if window is NARROW else ""
    return f"CASE {check}{round_sum} ELSE {prefix}special END"


def _rounded_limbs(limbs: str, window: SumWindow) -> str:
    """The limbs with carries, turned to a sum that is not negative, and rounded."""
    more = f"concat({limbs}, array(CAST(0 AS BIGINT), CAST(0 AS BIGINT)))"
    carry = f"aggregate({more}, CAST(0 AS BIGINT), (c, limb) -> shiftright(c + limb, 32))"
    negated = f"transform({more}, limb -> -limb)"
    positive, negative = (_fold_limbs(digits, window) for digits in (more, negated))
    return f"if({carry} < 0, -1 * {negative}, {positive})"


def _fold_limbs(digits: str, window: SumWindow) -> str:
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
    return f"aggregate({digits}, {start}, (s, limb) -> {step}, s -> {_scale_leading(window)})"


def _scale_leading(window: SumWindow) -> str:
    """The double that the leading digits in `s` round to.

    Scaling by a power of two is exact, in steps none of which leaves the range of doubles before
    the last.
    """
    top, mid, low, more = (exp.Var(this=f"s.{name}") for name in ("top", "mid", "low", "more"))
    scaled = f"({tree.print_tree(_nearest(top, mid, low, more), Dialect.SPARK)})"
    exponents = [window.lowest + 32 * (index - 2) for index in range(window.limbs + 2)]
    halves = [(e // 2, e - e // 2) for e in exponents]
    for part in (0, 1):
        powers = ", ".join(literal(2.0 ** pair[part]) for pair in halves)
        scaled += f" * get(array({powers}), s.place)"
    return f"if(s.top = 0, 0.0D, {scaled})"


def _mean_body(total: str, number: str) -> str:
    """What is small enough is exact in doubles; the rest by quotient and remainder.

    With q = |total| div n of 22 bits and more, q · 2^k + (remainder · 2^k) div n has at least
    55 bits; with its last bit set if anything is below, it rounds as the whole does.  The one
    quotient that is no long is 2^63, where all are the least long.
    """
    quotient, rest = f"(abs({total}) DIV {number})", f"CAST(abs({total}) % {number} AS BIGINT)"
    most = f"CAST({number} AS DECIMAL(19, 0)) * {2**63}"
    tiers = [f"WHEN abs({total}) >= {most} THEN {literal(2.0**63)}"]
    for bits, shift in ((30, 32), (38, 24), (46, 16), (54, 8)):
        more = f"shiftleft({rest}, {shift})"
        whole = f"(shiftleft({quotient}, {shift}) + {more} DIV {number})"
        bit = f"if({more} % {number} <> 0, CAST(1 AS BIGINT), CAST(0 AS BIGINT))"
        value = f"CAST({whole} | {bit} AS DOUBLE) * {literal(2.0**-shift)}"
        tiers.append(f"WHEN {quotient} < {2**bits} THEN {value}")
    bit = f"if({rest} <> 0, CAST(1 AS BIGINT), CAST(0 AS BIGINT))"
    far = f"CASE {' '.join(tiers)} ELSE CAST({quotient} | {bit} AS DOUBLE) END"
    near = f"CAST({total} AS DOUBLE) / CAST({number} AS DOUBLE)"
    return (
        f"CASE WHEN {number} > 0 THEN if(abs({total}) <= {2**53}, {near}, "
        f"if({total} < 0, -1.0D, 1.0D) * {far}) END"
    )


# --- means ----------------------------------------------------------------------------------


def integer_mean(sum_: exp.Expression, count: exp.Expression) -> exp.Expression:
    """An exact sum divided by a count, rounded once; null for none."""
    return tree.call(_MEAN, tree.cast(sum_, "DECIMAL(38, 0)"), count)


def mean_of(total: exp.Expression, number: exp.Expression) -> exp.Expression:
    """A double divided by a count; null for none."""
    some = tree.binary(exp.GT, number, tree.number(0))
    mean = tree.binary(exp.Div, total, tree.cast(number, "DOUBLE"))
    return tree.case([(some, tree.binary(exp.Add, mean, double(0.0)))], None)


def narrow_mean(total: exp.Expression, number: exp.Expression, ctx: Context) -> exp.Expression:
    """The mean of integers of 32 bits, whose sum a long holds: in doubles while that is exact.

    Null for none of them, as Spark divides by zero.
    """
    near = tree.binary(exp.Div, tree.cast(total, "DOUBLE"), tree.cast(number, "DOUBLE"))
    small = tree.binary(exp.LTE, tree.call("abs", total), tree.number(2**53))
    if ctx.window is WIDE:
        return tree.case([(small, near)], integer_mean(total, number))
    many = tree.binary(exp.GTE, number, tree.number(2**30))
    error = tree.call("raise_error", tree.text(OUTSIDE))
    return tree.case([(small, near), (many, error)], _far_mean(total, number))


def _far_mean(total: exp.Expression, number: exp.Expression) -> exp.Expression:
    """The mean where the sum is above 2^53 and there are less than 2^30 numbers.

    The quotient q is in 2^23..2^31, so q · 2^31 + 2 · ((remainder · 2^30) div n) has at least 55
    bits; with its last bit set if anything is below, it rounds as the whole does.  All of these
    have the sign of the sum.  (A call of `exact_mean` makes a query of a million groups 7 percent
    slower: its tiers are over decimals.)
    """
    rest = _shift_left(tree.binary(exp.Mod, total, number), 30)
    below = tree.call("sign", tree.binary(exp.Mod, rest, number))
    more = _shift_left(tree.binary(exp.IntDiv, rest, number), 1)
    whole = _shift_left(tree.binary(exp.IntDiv, total, number), 31)
    bits = tree.binary(exp.Add, tree.binary(exp.Add, whole, more), tree.cast(below, "BIGINT"))
    return tree.binary(exp.Mul, tree.cast(bits, "DOUBLE"), double(2.0**-31))
