"""Texts as decimals and dates as Spark's casts read them, a whole column at once.

Texts of the common forms (`-12.50`, `2024-02-29`) are read by Arrow.  Others, with blanks around
them, a sign `+`, an exponent or more digits than fit, are for the reference to read, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any as Arrow
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from incmrql.io.arrow.types import arrow_type
from incmrql.types.model import DATE, Decimal, Type

_YEAR: Final = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_DATE: Final = rf"\A{_YEAR}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])\z"


def common_form(type_: Type) -> str | None:
    """The pattern of texts that Arrow reads as a type as Spark does; None for other types."""
    match type_:
        case Decimal(precision, scale) if scale < precision:
            fraction = rf"(?:\.[0-9]{{1,{scale}}})?" if scale else ""
            return rf"\A-?[0-9]{{1,{precision - scale}}}{fraction}\z"
        case _:
            return _DATE if type_ == DATE else None


def cast_texts(column: Arrow, type_: Type, by_row: Callable[[Arrow], Arrow]) -> Arrow | None:
    """A column of texts as one of a type; `by_row` casts those that are not of a common form.

    None if a text of a common form has no value, like the 30th of February.
    """
    pattern = common_form(type_)
    assert pattern is not None, type_
    is_common = pc.match_substring_regex(column, pattern).fill_null(True)
    odd = np.flatnonzero(~is_common.to_numpy(zero_copy_only=False))
    plain = pc.if_else(is_common, column, pa.scalar(None, column.type)) if len(odd) else column
    try:
        values = plain.cast(arrow_type(type_))
    except pa.ArrowInvalid:
        return None
    if not len(odd):
        return values
    places = np.arange(len(column))
    places[odd] = len(column) + np.arange(len(odd))
    return pa.concat_arrays([values, by_row(column.take(pa.array(odd)))]).take(pa.array(places))
