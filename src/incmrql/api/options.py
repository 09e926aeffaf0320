"""The options of `start()`: those of `UserOptions`, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from incmrql.diagnostics import DataError
from incmrql.runtime.user_options import About, UserOptions, declared

if TYPE_CHECKING:
    from incmrql.runtime.options import StreamOptions


class StartOptions(TypedDict, total=False):
    """The keyword arguments of `start()`, for type checkers: the fields of `UserOptions`."""

    checkpoint: str | Path | None
    output: str | Path | None
    mode: Literal["changes", "snapshot"] | None
    format: Literal["parquet", "json", "csv"] | None
    trigger: str | float | None
    settle: str | float
    window: bool
    keep_answer: bool
    keep_input: Literal["all", "none"] | int | None
    on_change: Literal["reuse", "rebuild", "refuse"]
    on_arithmetic: Literal["null", "report", "fail"]
    iterate: Literal["default", "exact", "recompute", "diffuse"]
    tolerance: float | None
    resync: int | None
    on_batch: Callable[[Any], None] | None
    available_now: bool
    max_batches: int | None
    max_files_per_batch: int | None
    skip_batch: int | None
    forget: Sequence[str | Path]
    retract: Sequence[str | Path]
    allow_empty: bool
    verify: int | None
    buckets: int
    checkpoint_mode: int | None
    check_runs: bool


def stream_options(given: Mapping[str, Any]) -> StreamOptions:
    """The options that a user has given by name; None leaves the default.

    A name or value that cannot be is refused with R212.
    """
    from incmrql.runtime.options import StreamOptions

    known = declared()
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        hint = f"Options are: {', '.join(sorted(known))}."
        raise DataError("R212", f'start has no option "{unknown[0]}"', hint=hint)
    values = {name: value for name, value in given.items() if value is not None}
    for name, value in values.items():
        read = known[name].read
        if read is not None:
            values[name] = read(value)
        elif name in ("forget", "retract"):
            values[name] = tuple(map(str, value))
        elif name == "checkpoint":
            values[name] = Path(value)
        elif name == "output":
            values[name] = str(value)
    return StreamOptions(**values)


__all__ = ["About", "StartOptions", "UserOptions", "declared", "stream_options"]
