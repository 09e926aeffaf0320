"""Built-in functions of scalars as SQL, and the table of those that have no such form.

A null argument gives null.  Null instead of a tree means that the dialect has no form that
agrees with the reference to the last bit; `kernel.pinned` then does it, on every engine alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from incmrql.sql.builtins_call import Call, Lowering
from incmrql.sql.builtins_dates import DATES
from incmrql.sql.builtins_numbers import NUMBERS
from incmrql.sql.builtins_strings import STRINGS
from incmrql.sql.conversions import to_text
from incmrql.sql.operators import compare
from incmrql.sql.tree import Dialect, case
from incmrql.types.model import Type, is_scalar

_BOTH: Final = (Dialect.SPARK, Dialect.DUCKDB)

PINNED: Final[Mapping[str, tuple[Dialect, ...]]] = {
    # every library rounds these in its own way
    "acos(double)": _BOTH,
    "asin(double)": _BOTH,
    "atan(double)": _BOTH,
    "cos(double)": _BOTH,
    "exp(double)": _BOTH,
    "log(double)": _BOTH,
    "pow(double, double)": _BOTH,
    "sin(double)": _BOTH,
    "tan(double)": _BOTH,
    # no engine rounds the number that a double exactly is
    "round(double, long)": _BOTH,
    # both want the number of digits as a constant; where it is one, this is native
    "round(decimal, long)": _BOTH,
    # the shortest digits: Java has them from 19 on only
    "string(double)": (Dialect.SPARK,),
    "string(float)": (Dialect.SPARK,),
    # RE2 as Arrow runs it
    "matches(string, string)": _BOTH,
    "replaceAll(string, string, string)": _BOTH,
    "replaceFirst(string, string, string)": _BOTH,
    "split(string, string)": _BOTH,
    # letters as Python knows them
    "toLowerCase(string)": _BOTH,
    "toUpperCase(string)": _BOTH,
}
"""The signatures without a native form, and in which dialects; all others have one in both."""


def builtin(
    function: str,
    arguments: Sequence[exp.Expression],
    parameter_types: Sequence[Type],
    result_type: Type,
    dialect: Dialect,
) -> exp.Expression | None:
    """The call of a built-in function of scalars."""
    lowering = _LOWERINGS.get(function)
    if lowering is None:
        return None
    return lowering(Call(tuple(arguments), tuple(parameter_types), result_type, dialect))


def _string(this: Call) -> exp.Expression | None:
    source = this.types[0]
    return to_text(this.arguments[0], source, this.dialect) if is_scalar(source) else None


def _inverse(this: Call) -> exp.Expression:
    return this.arguments[0]


def _choice(first: str, second: str) -> Lowering:
    """The left argument where `first` holds, the right where `second` does, null where neither."""

    def lower(this: Call) -> exp.Expression | None:
        type_, (left, right) = this.types[0], this.arguments
        if not is_scalar(type_):
            return None
        branches = [
            (compare(first, type_, left.copy(), right.copy(), this.dialect), left),
            (compare(second, type_, left.copy(), right.copy(), this.dialect), right),
        ]
        return case(branches, None)

    return lower


_LOWERINGS: Final[Mapping[str, Lowering]] = {
    **NUMBERS,
    **STRINGS,
    **DATES,
    "string": _string,
    "inv": _inverse,
    "min": _choice("<=", ">"),
    "max": _choice(">=", "<"),
}
