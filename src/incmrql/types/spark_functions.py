"""Functions of Spark that the language has not, or has with another meaning, by their signatures.

The names have a point in them, so that no query can call them.
"""

from __future__ import annotations

from typing import Final

from incmrql.types.model import BOOL, DATE, DOUBLE, FLOAT, INT, LONG, STRING
from incmrql.types.signatures import D, Signature, Some, T

_CHOICE: Final = (Signature((T, T), T),)
_TO_STRING: Final = (Signature((STRING,), STRING),)
_TRIM: Final = (Signature((STRING, STRING), STRING),)
_OF_DATE: Final = (Signature((DATE,), INT),)
_ROUND: Final = tuple(Signature((t, INT), t) for t in (LONG, D, FLOAT, DOUBLE))
_TO_WHOLE: Final = (Signature((D,), D), Signature((DOUBLE,), LONG))
_BITS: Final = (Signature((LONG, LONG), LONG),)
_SHIFT: Final = (Signature((INT, INT), INT), Signature((LONG, INT), LONG))

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
    "spark.substring": (Signature((STRING, INT, INT), STRING),),
    "spark.trim": _TRIM,
    "spark.ltrim": _TRIM,
    "spark.rtrim": _TRIM,
    "spark.upper": _TO_STRING,
    "spark.lower": _TO_STRING,
    # dates
    "spark.add_months": (Signature((DATE, INT), DATE),),
    "spark.quarter": _OF_DATE,
    "spark.dayofweek": _OF_DATE,
    "spark.weekday": _OF_DATE,
    "spark.dayofyear": _OF_DATE,
    "spark.weekofyear": _OF_DATE,
    "spark.last_day": (Signature((DATE,), DATE),),
    "spark.is_beyond_date": (Signature((STRING,), BOOL),),
    "spark.is_beyond_timestamp": (Signature((STRING,), BOOL),),
    # collections
    "spark.size": (Signature((Some(T),), INT),),
}
"""Functions of Spark; `reference.spark.builtins` has their meaning."""
