"""Whole-column versions of pinned functions, or null where the columns at hand need another way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any as Arrow
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from incmrql.kernel.pinned_decimals import decimals
from incmrql.types.model import Type
from incmrql.values.elementary import NAMES, elementary

Columns: TypeAlias = Callable[[Sequence[Arrow], Sequence[Type], Type], Arrow | None]


def _elementary(name: str, arguments: Sequence[Arrow], _: Sequence[Type], __: Type) -> Arrow:
    """exp, sin, ... of columns of doubles."""
    known = arguments[0].is_valid()
    for column in arguments[1:]:
        known = pc.and_(known, column.is_valid())
    numbers = [c.fill_null(0.0).to_numpy(zero_copy_only=False) for c in arguments]
    found = elementary(name, *numbers)
    return pa.array(found, mask=~known.to_numpy(zero_copy_only=False))


def _changed_case(
    function: Callable[[Arrow], Arrow], arguments: Sequence[Arrow], _: Sequence[Type], __: Type
) -> Arrow | None:
    """Lower or upper case where there are only letters of ASCII."""
    only = pc.all(pc.string_is_ascii(arguments[0])).as_py()
    return None if only is False else function(arguments[0])


def _matches(arguments: Sequence[Arrow], _: Sequence[Type], __: Type) -> Arrow | None:
    """Whether texts match one expression, if RE2 takes it as it is."""
    text, patterns = arguments
    pattern = _only(patterns)
    if pattern is None:
        return None
    try:
        pc.match_substring_regex(text.slice(0, 1), pattern=pattern)  # `a)(b` is none by itself
        return pc.match_substring_regex(text, pattern=rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid:
        return None


def _only(column: Arrow) -> str | None:
    """The one text that a column consists of, if it does."""
    if not len(column) or column.null_count:
        return None
    bounds = pc.min_max(column.cast(pa.binary()))
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    return least.decode() if least == most else None


COLUMNS: Final[Mapping[str, Columns]] = {
    **{name: partial(_elementary, name) for name in NAMES},
    **{op: partial(decimals, op) for op in "+-*/%"},
    "matches": _matches,
    "toLowerCase": partial(_changed_case, pc.ascii_lower),
    "toUpperCase": partial(_changed_case, pc.ascii_upper),
}
"""Functions of whole columns, none of them in chunks."""
