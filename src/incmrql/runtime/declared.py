"""Streams as a session declares them: the type of their rows, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from incmrql.diagnostics import DataError
from incmrql.runtime.handles import FrameStream, Options, PushedStream
from incmrql.types.model import Record, Type
from incmrql.types.texts import type_from_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SIGN: Final = "_weight"
"""The column that says how many of a row come, or go, where none is named."""
_FLAGS: Final = ("insert_only", "trusted_deletes")


def pushed(name: str, row: str, options: Mapping[str, Any], *, keep: bool) -> PushedStream:
    """A stream of rows of a type that are pushed."""
    if "sign" in options:
        hint = "insert and delete say it of each row."
        raise DataError("R212", "the rows of a pushed stream have no sign", hint=hint)
    type_ = type_from_text(row)
    return PushedStream(name, type_, _checked(name, type_, options), keep=keep)


def framed(name: str, frame: DataFrame, options: Mapping[str, Any]) -> FrameStream:
    """A stream of the rows of a streaming data frame; without a sign it only grows."""
    from incmrql.spark.frame_types import frame_row_type

    if not getattr(frame, "isStreaming", False):
        hint = 'Give the type of the rows, as in "< A: int >", or use register for data at rest.'
        raise DataError("R212", f'"{name}" is no streaming DataFrame', hint=hint)
    sign = options.get("sign", SIGN if SIGN in frame.columns else None)
    if sign is None:
        row = frame_row_type(frame.schema, name)
        return FrameStream(name, row, _checked(name, row, {"insert_only": True, **options}), frame)
    if sign not in frame.columns:
        hint = f"Columns are: {', '.join(frame.columns)}."
        raise DataError("R112", f'there is no sign column "{sign}"', place=name, hint=hint)
    row = frame_row_type(frame.drop(sign).schema, name)
    return FrameStream(name, row, _checked(name, row, {**options, "sign": sign}), frame)


def _checked(name: str, row: Type, options: Mapping[str, Any]) -> Options:
    """The options of a stream, as the language has them."""
    found: dict[str, Any] = {}
    for option, value in options.items():
        if option == "key":
            found[option] = _key(name, row, value)
        elif isinstance(value, bool if option in _FLAGS else str if option == "sign" else ()):
            found[option] = value
        else:
            hint = f"Options are: key, {', '.join(_FLAGS)}, and sign of a DataFrame."
            raise DataError("R212", f"a stream has no option {option}={value!r}", hint=hint)
    if found.get("insert_only") and "sign" in found:
        raise DataError("R212", f'"{name}" is insert_only and has a sign', hint="Leave one out.")
    return tuple(found.items())


def _key(name: str, row: Type, key: Any) -> tuple[str, ...]:
    columns = (key,) if isinstance(key, str) else tuple(key)
    names = row.names if isinstance(row, Record) else ()
    for column in columns:
        if column not in names:
            hint = f"Columns are: {', '.join(names)}." if names else "Keys need a record type."
            raise DataError("R212", f'the key "{column}" is no column of "{name}"', hint=hint)
    return columns
