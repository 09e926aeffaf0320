"""The keyword arguments of `start()`: the fields of `UserOptions`, checked and parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args, get_origin, get_type_hints

from incmrql.errors import DataError
from incmrql.runtime.user_options import About, UserOptions, declared_options, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from incmrql.api.streams import FrameStream, PushedStream
    from incmrql.runtime.options import StreamOptions


class StartOptions(TypedDict, total=False):
    """The keyword arguments of `start()`, for type checkers."""

    checkpoint: str | Path | None
    output: str | Path | None
    mode: Literal["changes", "snapshot"] | None
    format: Literal["parquet", "json", "csv"] | None
    trigger: str | float | None
    settle: str | float
    window: bool
    keep_answer: bool
    keep_input: Literal["all", "none"] | int | None
    keep_batches: int
    on_change: Literal["reuse", "rebuild", "refuse"]
    on_arithmetic: Literal["null", "report", "fail"]
    iterate: Literal["default", "exact", "recompute", "diffuse"]
    tolerance: float | None
    resync: int | None
    on_batch: Callable[[Any], None] | None
    available_now: bool
    max_batches: int | None
    max_files_per_batch: int | None
    max_bytes_per_batch: str | int | None
    max_rows_per_batch: int | None
    skip_batch: int | None
    forget: Sequence[str | Path]
    retract: Sequence[str | Path]
    allow_empty: bool
    verify: int | None
    buckets: int
    checkpoint_mode: int | None
    check_runs: bool


class InputChoices(TypedDict, total=False):
    """What a user says of the inputs of a query of Spark, for type checkers."""

    static: Sequence[str | Path | DataFrame]
    inputs: Mapping[DataFrame, PushedStream | FrameStream | str]
    on_modified: Literal["refuse", "replace"]


def stream_options(given: Mapping[str, Any]) -> StreamOptions:
    """The options from the keyword arguments of a user; None leaves the default.

    An unknown name or an impossible value is refused with R212.
    """
    from incmrql.runtime.options import StreamOptions

    known = declared_options()
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        hint = f"Options are: {', '.join(sorted(known))}."
        raise DataError("R212", f'start has no option "{unknown[0]}"', hint=hint)
    types = get_type_hints(UserOptions)
    values = {}
    for name, value in given.items():
        if value is not None:
            read = known[name].read
            _check_value(name, value, known[name], types[name])
            values[name] = value if read is None else read(value)
    return StreamOptions(**values)


def _check_value(name: str, value: Any, about: About, type_: Any) -> None:
    """Refuse a value that the option does not accept."""
    choices = _choices(type_)
    if about.read is None and choices and value not in choices:
        known = ", ".join(map(repr, choices))
        raise DataError("R212", f"{name}={value!r}: {name} must be one of {known}")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if about.least is not None and not (
        is_number and isinstance(value, int) and value >= about.least
    ):
        message = f"{name}={value!r}: {name} must be an int, at least {about.least}"
        raise DataError("R212", message)
    if about.above is not None and not (is_number and value > about.above):
        raise DataError("R212", f"{name}={value!r}: {name} must be a number above {about.above}")
    if get_origin(type_) is tuple and isinstance(value, str | Path):
        raise DataError("R212", f"{name} must be a list of paths: write {name}=[{str(value)!r}]")
    if name == "on_batch" and not callable(value):
        raise DataError("R212", f"on_batch={value!r}: on_batch must be a function of a Batch")


def _choices(type_: Any) -> tuple[Any, ...]:
    """The values of the `Literal`s in a type; empty if it has none."""
    if get_origin(type_) is Literal:
        return get_args(type_)
    return tuple(choice for part in get_args(type_) for choice in _choices(part))


__all__ = [
    "About",
    "InputChoices",
    "StartOptions",
    "UserOptions",
    "declared_options",
    "seconds",
    "stream_options",
]
