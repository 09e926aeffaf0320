"""The tables of Spark's functions by the keys of `types.builtins`, with their meaning."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from incmrql.reference.operators import compare
from incmrql.reference.spark import numbers, strings, times
from incmrql.reference.spark.moments import is_beyond
from incmrql.types.model import DATE, DOUBLE, FLOAT, INT, LONG, TIMESTAMP
from incmrql.values import Value


def _coalesce(a: Value, b: Value) -> Value:
    return b if a is None else a


def _greatest(a: Value, b: Value) -> Value:
    return b if a is None or compare(">", b, a) else a


def _least(a: Value, b: Value) -> Value:
    return b if a is None or compare("<", b, a) else a


_ROUNDED: Final = {"long": LONG, "decimal": None, "float": FLOAT, "double": DOUBLE}

SPARK_STRICT: Final[Mapping[str, Callable[..., Any]]] = {
    **{f"spark.round({name}, int)": numbers.rounding(t) for name, t in _ROUNDED.items()},
    **{
        f"spark.bround({name}, int)": numbers.rounding(t, half_even=True)
        for name, t in _ROUNDED.items()
    },
    "spark.ceil(decimal)": numbers.ceil_decimal,
    "spark.ceil(double)": numbers.ceil_to_long,
    "spark.floor(decimal)": numbers.floor_decimal,
    "spark.floor(double)": numbers.floor_to_long,
    **{f"spark.pmod({t}, {t})": numbers.positive_remainder(t) for t in (INT, LONG, FLOAT, DOUBLE)},
    "spark.pmod(decimal, decimal)": numbers.decimal_remainder,
    "spark.div(decimal, decimal)": numbers.whole_quotient,
    "spark.bitand(long, long)": operator.and_,
    "spark.bitor(long, long)": operator.or_,
    "spark.bitxor(long, long)": operator.xor,
    "spark.bitnot(long)": operator.invert,
    **{f"spark.shiftleft({t}, int)": numbers.shift_left(t) for t in (INT, LONG)},
    **{f"spark.shiftright({t}, int)": numbers.shift_right(t) for t in (INT, LONG)},
    **{f"spark.shiftrightunsigned({t}, int)": numbers.shift_right_unsigned(t) for t in (INT, LONG)},
    "spark.like(string, string, string)": strings.like,
    "spark.substring(string, int, int)": strings.substring,
    "spark.trim(string, string)": strings.trim,
    "spark.ltrim(string, string)": strings.trim_left,
    "spark.rtrim(string, string)": strings.trim_right,
    "spark.upper(string)": str.upper,
    "spark.lower(string)": str.lower,
    "spark.add_months(date, int)": times.add_months,
    "spark.quarter(date)": times.quarter,
    "spark.dayofweek(date)": times.day_of_week,
    "spark.weekday(date)": times.weekday,
    "spark.dayofyear(date)": times.day_of_year,
    "spark.weekofyear(date)": times.week_of_year,
    "spark.last_day(date)": times.last_day,
    "spark.is_beyond_date(string)": partial(is_beyond, target=DATE),
    "spark.is_beyond_timestamp(string)": partial(is_beyond, target=TIMESTAMP),
    "spark.size({T})": len,
}
"""Functions that are not called with null arguments; null as a result is a failure."""

SPARK_NULL_AWARE: Final[Mapping[str, Callable[..., Any]]] = {
    "spark.coalesce(T, T)": _coalesce,
    "spark.greatest(T, T)": _greatest,
    "spark.least(T, T)": _least,
    "spark.fail(string)": lambda _message: None,
}
"""Functions that accept null arguments and may return null."""
