"""The tables of Spark's functions by the keys of `types.builtins`, with their meaning."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from incmrql.reference.operators import compare
from incmrql.reference.spark import (
    arrays,
    binaries,
    entries,
    numbers,
    spans,
    statistics,
    strings,
    times,
    zones,
)
from incmrql.reference.spark.casts import micros_of, moment_of
from incmrql.reference.spark.moments import is_beyond, parse_local_time
from incmrql.types.model import DATE, DOUBLE, FLOAT, INT, LONG, TIMESTAMP, TIMESTAMP_NTZ
from incmrql.values import Value


def _coalesce(a: Value, b: Value) -> Value:
    return b if a is None else a


def _greatest(a: Value, b: Value) -> Value:
    return b if a is None or compare(">", b, a) else a


def _least(a: Value, b: Value) -> Value:
    return b if a is None or compare("<", b, a) else a


_ROUNDED: Final = {"long": LONG, "decimal": None, "float": FLOAT, "double": DOUBLE}


def _array_insert(array: Value, place: Value, value: Value) -> Value:
    return None if array is None or place is None else arrays.insert(array, place, value)


def _of_sums(name: str, count: int) -> str:
    """The key of a function of a count and of exact sums."""
    return f"spark.{name}(long{', exact sum' * count})"


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
    "spark.signum(double)": numbers.sign,
    "spark.degrees(double)": numbers.degrees,
    "spark.radians(double)": numbers.radians,
    "spark.factorial(int)": numbers.factorial,
    "spark.bit_count(long)": numbers.bit_count,
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
    "spark.upper(string)": strings.upper,
    "spark.lower(string)": strings.lower,
    "spark.lpad(string, int, string)": strings.pad_left,
    "spark.rpad(string, int, string)": strings.pad_right,
    "spark.repeat(string, int)": strings.repeat,
    "spark.replace(string, string, string)": strings.replace,
    "spark.reverse(string)": lambda text: text[::-1],
    "spark.locate(string, string, int)": strings.locate,
    "spark.substring_index(string, string, int)": strings.substring_index,
    "spark.ascii(string)": strings.code_point,
    "spark.chr(long)": strings.character,
    "spark.translate(string, string, string)": strings.translate,
    "spark.split_at(string, string)": strings.split_at,
    "spark.md5(string)": strings.md5,
    "spark.sha1(string)": strings.sha1,
    "spark.sha2(string, int)": strings.sha2,
    "spark.crc32(string)": strings.crc32,
    "spark.pad_char(string, int)": strings.pad_char,
    "spark.hex(long)": strings.hex_of_number,
    "spark.hex(string)": strings.hex_of_text,
    "spark.bin(long)": strings.binary_digits,
    "spark.lpad(binary, int, binary)": binaries.pad_left,
    "spark.rpad(binary, int, binary)": binaries.pad_right,
    "spark.md5(binary)": binaries.md5,
    "spark.sha1(binary)": binaries.sha1,
    "spark.sha2(binary, int)": binaries.sha2,
    "spark.crc32(binary)": binaries.crc32,
    "spark.substring(binary, int, int)": binaries.substring,
    "spark.hex(binary)": binaries.hex_of,
    "spark.utf8(string)": binaries.utf8,
    "spark.text(binary)": binaries.text_of,
    "spark.big_endian(long, int)": binaries.big_endian,
    "spark.concat(binary, binary)": operator.add,
    "spark.octet_length(binary)": len,
    "spark.startsWith(binary, binary)": bytes.startswith,
    "spark.endsWith(binary, binary)": bytes.endswith,
    "spark.contains(binary, binary)": operator.contains,
    "spark.unhex(string)": binaries.unhex,
    "spark.base64(binary, bool)": binaries.to_base64,
    "spark.unbase64(string)": binaries.from_base64,
    "spark.encode(string, string)": binaries.encode,
    "spark.decode(binary, string)": binaries.decode,
    "spark.add_months(date, int)": times.add_months,
    "spark.quarter(date)": times.quarter,
    "spark.dayofweek(date)": times.day_of_week,
    "spark.weekday(date)": times.weekday,
    "spark.dayofyear(date)": times.day_of_year,
    "spark.weekofyear(date)": times.week_of_year,
    "spark.last_day(date)": times.last_day,
    "spark.is_beyond_date(string)": partial(is_beyond, target=DATE),
    "spark.is_beyond_timestamp(string)": partial(is_beyond, target=TIMESTAMP),
    "spark.is_beyond_timestamp_ntz(string)": partial(is_beyond, target=TIMESTAMP_NTZ),
    "spark.local_time(string)": parse_local_time,
    "spark.next_day(date, int)": times.next_day,
    "spark.unix_date(date)": times.unix_date,
    "spark.from_unix_date(int)": times.from_unix_date,
    "spark.unix_seconds(timestamp)": times.unix_seconds,
    "spark.unix_millis(timestamp)": times.unix_millis,
    "spark.unix_micros(timestamp)": micros_of,
    "spark.from_unix_micros(long)": moment_of,
    "spark.add_micros(timestamp, long)": times.add_micros,
    "spark.add_months_to_timestamp(timestamp, int)": times.add_months_to_moment,
    "spark.local_time_in(timestamp, string)": zones.local_time,
    "spark.moment_in(timestamp, string)": zones.moment_of_local,
    "spark.start_of_day(date, string)": zones.start_of_day,
    "spark.add_months_in(timestamp, int, string)": zones.add_months_in,
    "spark.add_days_in(timestamp, long, string)": zones.add_days_in,
    "spark.trunc_in(timestamp, string, string)": zones.truncated_in,
    "spark.timestamp_in(string, string)": zones.timestamp_in,
    "spark.months_between_in(timestamp, timestamp, bool, string)": zones.months_between_in,
    "spark.months_between(timestamp, timestamp, bool)": times.months_between,
    "spark.whole_units(timestamp, timestamp, long)": times.whole_units,
    "spark.whole_months(timestamp, timestamp)": times.whole_months,
    "spark.date_format(timestamp, string)": times.format_moment,
    "spark.times(long, decimal)": spans.times,
    "spark.times(long, double)": spans.times,
    "spark.divided(long, long)": spans.divide,
    "spark.divided(long, decimal)": spans.divide,
    "spark.divided(long, double)": spans.divide,
    "spark.span_text(long, string)": spans.span_text,
    "spark.size({T})": len,
    "spark.array_contains({T}, T)": arrays.contains,
    "spark.array_position({T}, T)": arrays.position,
    "spark.array_remove({T}, T)": arrays.remove,
    "spark.array_distinct({T})": arrays.without_repetition,
    "spark.array_union({T}, {T})": arrays.union,
    "spark.array_intersect({T}, {T})": arrays.intersect,
    "spark.array_except({T}, {T})": arrays.difference,
    "spark.arrays_overlap({T}, {T})": arrays.overlap,
    "spark.slice({T}, int, int)": arrays.slice_of,
    "spark.array_join({string}, string)": arrays.join,
    "spark.array_join({string}, string, string)": arrays.join_with_nulls,
    "spark.flatten({{T}})": arrays.flatten,
    "spark.sort_array({T}, bool)": arrays.in_order,
    "spark.array_reverse({T})": arrays.backwards,
    "spark.sequence(long, long, long)": arrays.sequence,
    "spark.overlay(string, string, int, int)": strings.overlay,
    "spark.levenshtein(string, string)": strings.levenshtein,
    "spark.levenshtein(string, string, int)": strings.levenshtein_within,
    "spark.find_in_set(string, string)": strings.place_in_list,
    "spark.octet_length(string)": strings.byte_length,
    "spark.space(int)": strings.spaces,
    "spark.day_name(date)": times.day_name,
    "spark.month_name(date)": times.month_name,
    "spark.make_timestamp(int, int, int, int, int, decimal)": times.make_timestamp,
    "spark.bit_at(int, int)": numbers.bit_at(32),
    "spark.bit_at(long, int)": numbers.bit_at(64),
    "spark.width_bucket(double, double, double, long)": numbers.width_bucket,
    "spark.ceil_at(decimal, int)": numbers.rounded_up,
    "spark.floor_at(decimal, int)": numbers.rounded_down,
    "spark.product_parts(double, double)": statistics.product_parts,
    "spark.power_parts(double, int)": statistics.power_parts,
    "spark.entries({T})": entries.entries,
    "spark.last_entries({T})": entries.last_entries,
    "spark.pair_up({T}, {U})": entries.pair_up,
    "spark.str_to_map(string, string, string)": entries.split,
}
"""Functions that are not called with null arguments; null as a result is a failure."""

SPARK_NULL_AWARE: Final[Mapping[str, Callable[..., Any]]] = {
    "spark.coalesce(T, T)": _coalesce,
    "spark.greatest(T, T)": _greatest,
    "spark.least(T, T)": _least,
    "spark.array_repeat(T, int)": arrays.repeat,
    "spark.array_min({T})": arrays.least,
    "spark.array_max({T})": arrays.greatest,
    "spark.fail(string)": lambda _message: None,
    "spark.array_insert({T}, int, T)": _array_insert,
    "spark.most_frequent({T})": arrays.most_frequent,
    "spark.most_frequent_last({T})": partial(arrays.most_frequent, last=True),
    "spark.bit_and_of({long})": partial(arrays.reduce_values, operator.and_),
    "spark.bit_or_of({long})": partial(arrays.reduce_values, operator.or_),
    "spark.bit_xor_of({long})": partial(arrays.reduce_values, operator.xor),
    "spark.product_of({double})": numbers.product,
    _of_sums("covar_pop", 3): statistics.covariance_of_population,
    _of_sums("covar_samp", 3): statistics.covariance_of_sample,
    _of_sums("regr_sxy", 3): statistics.sum_of_products,
    _of_sums("regr_sxx", 2): statistics.sum_of_squares,
    _of_sums("corr", 5): statistics.correlation,
    _of_sums("regr_r2", 5): statistics.determination,
    _of_sums("regr_slope", 4): statistics.slope,
    _of_sums("regr_intercept", 4): statistics.intercept,
    _of_sums("skewness", 3): statistics.skewness,
    _of_sums("kurtosis", 4): statistics.kurtosis,
}
"""Functions that accept null arguments and may return null."""
