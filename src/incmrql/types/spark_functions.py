"""Functions of Spark that the language has not, or has with another meaning, by their signatures.

The names have a point in them, so that no query can call them.
"""

from __future__ import annotations

from typing import Final

from incmrql.types.model import (
    BINARY,
    BOOL,
    DATE,
    DOUBLE,
    EXACT_SUM,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Type,
    list_of,
    map_of,
)
from incmrql.types.signatures import D, Open, Signature, Some, T, U

_CHOICE: Final = (Signature((T, T), T),)
_TO_STRING: Final = (Signature((STRING,), STRING),)
_TRIM: Final = (Signature((STRING, STRING), STRING),)
_OF_DATE: Final = (Signature((DATE,), INT),)
_ROUND: Final = tuple(Signature((t, INT), t) for t in (LONG, D, FLOAT, DOUBLE))
_TO_WHOLE: Final = (Signature((D,), D), Signature((DOUBLE,), LONG))
_BITS: Final = (Signature((LONG, LONG), LONG),)
_SHIFT: Final = (Signature((INT, INT), INT), Signature((LONG, INT), LONG))
_DIGEST: Final = (Signature((STRING,), STRING), Signature((BINARY,), STRING))
_TWO_BYTES: Final = (Signature((BINARY, BINARY), BOOL),)
_PAD: Final = tuple(Signature((t, INT, t), t) for t in (STRING, BINARY))
_OF_TIME: Final = (Signature((TIMESTAMP,), LONG),)
_IN_ZONE: Final = (Signature((TIMESTAMP, STRING), TIMESTAMP),)
_SAME_ARRAY: Final = (Signature((Some(T),), Open(list_of, (T,))),)
_CHOSEN: Final = (Signature((Some(T),), T),)
_BITS_OF: Final = (Signature((Some(LONG),), LONG),)


def _of_sums(count: int) -> tuple[Signature, ...]:
    """A function of a count and of exact sums."""
    return (Signature((LONG, *(EXACT_SUM,) * count), DOUBLE),)


_TWO_ARRAYS: Final = (Signature((Some(T), Some(T)), Open(list_of, (T,))),)


def _entries(key: Type, value: Type) -> Type:
    return list_of(map_of(key, value).element)


SPARK_FUNCTIONS: Final[dict[str, tuple[Signature, ...]]] = {
    # choices
    "spark.coalesce": _CHOICE,
    "spark.greatest": _CHOICE,
    "spark.least": _CHOICE,
    "spark.fail": (Signature((STRING,), T),),
    # numbers
    "spark.round": _ROUND,
    "spark.bround": _ROUND,
    "spark.ceil": _TO_WHOLE,
    "spark.floor": _TO_WHOLE,
    "spark.pmod": tuple(Signature((t, t), t) for t in (INT, LONG, D, FLOAT, DOUBLE)),
    "spark.signum": (Signature((DOUBLE,), DOUBLE),),
    "spark.degrees": (Signature((DOUBLE,), DOUBLE),),
    "spark.radians": (Signature((DOUBLE,), DOUBLE),),
    "spark.factorial": (Signature((INT,), LONG),),
    "spark.bit_count": (Signature((LONG,), INT),),
    "spark.div": (Signature((D, D), LONG),),
    "spark.bitand": _BITS,
    "spark.bitor": _BITS,
    "spark.bitxor": _BITS,
    "spark.bitnot": (Signature((LONG,), LONG),),
    "spark.shiftleft": _SHIFT,
    "spark.shiftright": _SHIFT,
    "spark.shiftrightunsigned": _SHIFT,
    # strings
    "spark.like": (Signature((STRING, STRING, STRING), BOOL),),
    "spark.substring": (
        Signature((STRING, INT, INT), STRING),
        Signature((BINARY, INT, INT), BINARY),
    ),
    "spark.trim": _TRIM,
    "spark.ltrim": _TRIM,
    "spark.rtrim": _TRIM,
    "spark.upper": _TO_STRING,
    "spark.lower": _TO_STRING,
    "spark.lpad": _PAD,
    "spark.rpad": _PAD,
    "spark.repeat": (Signature((STRING, INT), STRING),),
    "spark.replace": (Signature((STRING, STRING, STRING), STRING),),
    "spark.reverse": (Signature((STRING,), STRING),),
    "spark.locate": (Signature((STRING, STRING, INT), INT),),
    "spark.substring_index": (Signature((STRING, STRING, INT), STRING),),
    "spark.ascii": (Signature((STRING,), INT),),
    "spark.chr": (Signature((LONG,), STRING),),
    "spark.translate": (Signature((STRING, STRING, STRING), STRING),),
    "spark.split_at": (Signature((STRING, STRING), list_of(STRING)),),
    "spark.md5": _DIGEST,
    "spark.sha1": _DIGEST,
    "spark.sha2": (Signature((STRING, INT), STRING), Signature((BINARY, INT), STRING)),
    "spark.crc32": (Signature((STRING,), LONG), Signature((BINARY,), LONG)),
    "spark.pad_char": (Signature((STRING, INT), STRING),),
    "spark.hex": tuple(Signature((t,), STRING) for t in (LONG, STRING, BINARY)),
    "spark.bin": (Signature((LONG,), STRING),),
    # bytes
    "spark.utf8": (Signature((STRING,), BINARY),),
    "spark.text": (Signature((BINARY,), STRING),),
    "spark.big_endian": (Signature((LONG, INT), BINARY),),
    "spark.concat": (Signature((BINARY, BINARY), BINARY),),
    "spark.startsWith": _TWO_BYTES,
    "spark.endsWith": _TWO_BYTES,
    "spark.contains": _TWO_BYTES,
    "spark.unhex": (Signature((STRING,), BINARY),),
    "spark.base64": (Signature((BINARY, BOOL), STRING),),
    "spark.unbase64": (Signature((STRING,), BINARY),),
    "spark.encode": (Signature((STRING, STRING), BINARY),),
    "spark.decode": (Signature((BINARY, STRING), STRING),),
    # dates
    "spark.add_months": (Signature((DATE, INT), DATE),),
    "spark.quarter": _OF_DATE,
    "spark.dayofweek": _OF_DATE,
    "spark.weekday": _OF_DATE,
    "spark.dayofyear": _OF_DATE,
    "spark.weekofyear": _OF_DATE,
    "spark.last_day": (Signature((DATE,), DATE),),
    "spark.next_day": (Signature((DATE, INT), DATE),),
    "spark.unix_date": (Signature((DATE,), INT),),
    "spark.from_unix_date": (Signature((INT,), DATE),),
    "spark.unix_seconds": _OF_TIME,
    "spark.unix_millis": _OF_TIME,
    "spark.unix_micros": _OF_TIME,
    "spark.from_unix_micros": (Signature((LONG,), TIMESTAMP),),
    "spark.add_micros": (Signature((TIMESTAMP, LONG), TIMESTAMP),),
    "spark.add_months_to_timestamp": (Signature((TIMESTAMP, INT), TIMESTAMP),),
    "spark.months_between": (Signature((TIMESTAMP, TIMESTAMP, BOOL), DOUBLE),),
    "spark.local_time_in": _IN_ZONE,
    "spark.moment_in": _IN_ZONE,
    "spark.start_of_day": (Signature((DATE, STRING), TIMESTAMP),),
    "spark.add_months_in": (Signature((TIMESTAMP, INT, STRING), TIMESTAMP),),
    "spark.add_days_in": (Signature((TIMESTAMP, LONG, STRING), TIMESTAMP),),
    "spark.trunc_in": (Signature((TIMESTAMP, STRING, STRING), TIMESTAMP),),
    "spark.months_between_in": (Signature((TIMESTAMP, TIMESTAMP, BOOL, STRING), DOUBLE),),
    "spark.timestamp_in": (Signature((STRING, STRING), TIMESTAMP),),
    "spark.whole_units": (Signature((TIMESTAMP, TIMESTAMP, LONG), LONG),),
    "spark.whole_months": (Signature((TIMESTAMP, TIMESTAMP), LONG),),
    "spark.date_format": (Signature((TIMESTAMP, STRING), STRING),),
    "spark.is_beyond_date": (Signature((STRING,), BOOL),),
    "spark.is_beyond_timestamp": (Signature((STRING,), BOOL),),
    "spark.is_beyond_timestamp_ntz": (Signature((STRING,), BOOL),),
    "spark.local_time": (Signature((STRING,), TIMESTAMP_NTZ),),
    # intervals, as numbers of months or microseconds
    "spark.times": (Signature((LONG, D), LONG), Signature((LONG, DOUBLE), LONG)),
    "spark.divided": tuple(Signature((LONG, t), LONG) for t in (LONG, D, DOUBLE)),
    "spark.span_text": (Signature((LONG, STRING), STRING),),
    # collections
    "spark.size": (Signature((Some(T),), INT),),
    "spark.array_contains": (Signature((Some(T), T), BOOL),),
    "spark.array_position": (Signature((Some(T), T), LONG),),
    "spark.array_remove": (Signature((Some(T), T), Open(list_of, (T,))),),
    "spark.array_distinct": _SAME_ARRAY,
    "spark.array_union": _TWO_ARRAYS,
    "spark.array_intersect": _TWO_ARRAYS,
    "spark.array_except": _TWO_ARRAYS,
    "spark.arrays_overlap": (Signature((Some(T), Some(T)), BOOL),),
    "spark.slice": (Signature((Some(T), INT, INT), Open(list_of, (T,))),),
    "spark.array_join": (
        Signature((Some(STRING), STRING), STRING),
        Signature((Some(STRING), STRING, STRING), STRING),
    ),
    "spark.flatten": (Signature((Some(Some(T)),), Open(list_of, (T,))),),
    "spark.array_repeat": (Signature((T, INT), Open(list_of, (T,))),),
    "spark.array_min": (Signature((Some(T),), T),),
    "spark.array_max": (Signature((Some(T),), T),),
    "spark.sort_array": (Signature((Some(T), BOOL), Open(list_of, (T,))),),
    "spark.array_reverse": _SAME_ARRAY,
    # maps, as lists of entries
    "spark.entries": _SAME_ARRAY,
    "spark.last_entries": _SAME_ARRAY,
    "spark.pair_up": (Signature((Some(T), Some(U)), Open(_entries, (T, U))),),
    "spark.str_to_map": (Signature((STRING,) * 3, _entries(STRING, STRING)),),
    "spark.sequence": (Signature((LONG, LONG, LONG), list_of(LONG)),),
    "spark.overlay": (Signature((STRING, STRING, INT, INT), STRING),),
    "spark.levenshtein": (
        Signature((STRING, STRING), INT),
        Signature((STRING, STRING, INT), INT),
    ),
    "spark.find_in_set": (Signature((STRING, STRING), INT),),
    "spark.octet_length": (Signature((STRING,), INT), Signature((BINARY,), INT)),
    "spark.space": (Signature((INT,), STRING),),
    "spark.day_name": (Signature((DATE,), STRING),),
    "spark.month_name": (Signature((DATE,), STRING),),
    "spark.make_timestamp": (Signature((INT, INT, INT, INT, INT, D), TIMESTAMP),),
    "spark.bit_at": (Signature((INT, INT), INT), Signature((LONG, INT), INT)),
    "spark.width_bucket": (Signature((DOUBLE, DOUBLE, DOUBLE, LONG), LONG),),
    "spark.ceil_at": (Signature((D, INT), D),),
    "spark.floor_at": (Signature((D, INT), D),),
    "spark.array_insert": (Signature((Some(T), INT, T), Open(list_of, (T,))),),
    # groups
    "spark.most_frequent": _CHOSEN,
    "spark.most_frequent_last": _CHOSEN,
    "spark.bit_and_of": _BITS_OF,
    "spark.bit_or_of": _BITS_OF,
    "spark.bit_xor_of": _BITS_OF,
    "spark.product_of": (Signature((Some(DOUBLE),), DOUBLE),),
    "spark.product_parts": (Signature((DOUBLE, DOUBLE), list_of(DOUBLE)),),
    "spark.power_parts": (Signature((DOUBLE, INT), list_of(DOUBLE)),),
    "spark.covar_pop": _of_sums(3),
    "spark.covar_samp": _of_sums(3),
    "spark.regr_sxy": _of_sums(3),
    "spark.regr_sxx": _of_sums(2),
    "spark.corr": _of_sums(5),
    "spark.regr_r2": _of_sums(5),
    "spark.regr_slope": _of_sums(4),
    "spark.regr_intercept": _of_sums(4),
    "spark.skewness": _of_sums(3),
    "spark.kurtosis": _of_sums(4),
}
"""Functions of Spark; `reference.spark.builtins` has their meaning."""
