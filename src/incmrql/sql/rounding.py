"""The functions of SQL that round exact sums: what they are, and their bodies in place of calls.

Spark calls no function that is made of SQL inside a function of elements, nor with an argument
that has one.  There its body stands in place of the call, over the arguments as the fields of a
struct: `get(transform(array(struct), given -> body), 0)`.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from incmrql.sql import tree
from incmrql.sql.context import NARROW, WIDE, Window

OUTSIDE: Final = "incmrql: a double lies outside the window of the exact sum"
"""The error that asks for the same query with the wide window."""

NARROW_SUM, WIDE_SUM, MEAN = "exact_sum", "exact_sum_wide", "exact_mean"
OURS: Final = (NARROW_SUM, WIDE_SUM, MEAN)
"""The functions that the texts call and a session must have (`functions`)."""

_PARAMETERS: Final = {
    NARROW_SUM: {"limbs": "ARRAY<BIGINT>", "special": "DOUBLE", "outside": "BIGINT"},
    WIDE_SUM: {"limbs": "ARRAY<BIGINT>", "special": "DOUBLE"},
    MEAN: {"total": "DECIMAL(38, 0)", "number": "BIGINT"},
}
_GIVEN: Final = "given"


def functions() -> dict[str, str]:
    """The functions that the texts call, each as the statement that creates it."""
    return {name: _function(name) for name in OURS}


def _function(name: str) -> str:
    parameters = ", ".join(f"{each} {kind}" for each, kind in _PARAMETERS[name].items())
    head = f"CREATE OR REPLACE TEMPORARY FUNCTION {name}({parameters}) RETURNS DOUBLE"
    return f"{head} RETURN {_body(name, '')}"


def in_place(whole: exp.Expression) -> exp.Expression:
    """A tree in which every call that Spark refuses is the body of its function."""
    whole = whole.copy()  # no node stands at two places of a copy
    calls = [each for each in whole.find_all(exp.Anonymous) if each.name in OURS]
    for call in reversed(calls):
        if call.find(exp.Lambda) is not None or call.find_ancestor(exp.Lambda) is not None:
            call.replace(_opened(call))
    return whole


def _opened(call: exp.Anonymous) -> exp.Expression:
    """The body of a function over a struct of its arguments."""
    fields: list[exp.Expression] = []
    for (name, kind), argument in zip(
        _PARAMETERS[call.name].items(), list(call.expressions), strict=True
    ):
        fields += [tree.text(name), tree.cast(argument, kind)]
    one = tree.call("array", tree.call("named_struct", *fields))
    body = tree.lambda_([_GIVEN], exp.Var(this=_body(call.name, f"{_GIVEN}.")))
    return tree.call("get", tree.call("transform", one, body), tree.number(0))


def _body(name: str, of: str) -> str:
    """What a function computes; `of` stands before the names of its parameters."""
    if name == MEAN:
        return _mean(f"{of}total", f"{of}number")
    window = NARROW if name == NARROW_SUM else WIDE
    rounded = f"WHEN {of}special = 0 THEN {_rounded_limbs(f'{of}limbs', window)}"
    noticed = f"WHEN {of}outside > 0 THEN raise_error('{OUTSIDE}') " if window is NARROW else ""
    return f"CASE {noticed}{rounded} ELSE {of}special END"


def literal(value: float) -> str:
    """A double as Spark writes it."""
    return f"{value!r}".replace("e", "E") + "D"


def _rounded_limbs(limbs: str, window: Window) -> str:
    """The limbs with carries, turned to a sum that is not negative, and rounded."""
    more = f"concat({limbs}, array(CAST(0 AS BIGINT), CAST(0 AS BIGINT)))"
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
        powers = ", ".join(literal(2.0 ** pair[part]) for pair in halves)
        scaled += f" * get(array({powers}), {s}.place)"
    return f"if({s}.top = 0, 0.0D, {scaled})"


def _mean(total: str, number: str) -> str:
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
