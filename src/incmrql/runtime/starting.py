"""What `start` of a query is told: the options of a run, and what it is made of."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypedDict,
    TypeGuard,
    get_args,
    get_origin,
    get_type_hints,
)

from incmrql.diagnostics import DataError
from incmrql.formats import ANYWHERE, Paths
from incmrql.formats.rows import Policy, ReadReport
from incmrql.incremental.streams import Program
from incmrql.runtime.arithmetic import OnArithmetic
from incmrql.runtime.handles import FrameStream, PushedStream
from incmrql.runtime.options import StreamOptions
from incmrql.types import typed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("incmrql")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LEAST: Final = {
    "resync": 1,
    "max_batches": 1,
    "max_files_per_batch": 1,
    "skip_batch": 0,
    "verify": 1,
    "buckets": 1,
    "checkpoint_mode": 0,
}
"""The least value of each option that is an int."""
_PATHS: Final = ("forget", "retract")
_DRIVER: Final = frozenset(each.name for each in fields(StreamOptions))


class StartOptions(TypedDict, total=False):
    """How a query follows its streams."""

    checkpoint: str | Path | None
    """The folder from which a stopped or killed run goes on; none lasts as long as the run."""
    output: str | Path | None
    """The folder that gets a folder `batch=N` for every batch."""
    mode: Literal["changes", "snapshot"] | None
    format: Literal["parquet", "json", "csv"]
    trigger: str | float | None
    """The time from batch to batch of a loop in the background; none: `step` makes batches."""
    settle: str | float
    """How long a file must not have changed."""
    window: bool
    """Whether each batch is answered alone."""
    keep_answer: bool
    """Whether the whole answer is kept; without it only changes can be asked for."""
    keep_input: Literal["all", "none"] | int | None
    on_change: Literal["reuse", "rebuild", "refuse"]
    """What becomes of a checkpoint of another query."""
    on_arithmetic: OnArithmetic
    """Rows for which arithmetic fails: `report` counts them, `fail` refuses a batch that has one,
    `null` does not watch."""
    iterate: Literal["default", "exact", "recompute", "diffuse"]
    """How loops are kept: exactly, by running them again, or by letting differences diffuse."""
    tolerance: float | None
    """Of loops that diffuse: the error from which on they are run again."""
    resync: int | None
    """Of loops that diffuse: after how many batches they are run again in any case."""
    on_batch: Callable[[Any], None] | None
    """Called with each `Batch`."""
    available_now: bool
    """Whether the loop ends when it has taken in what is there."""
    max_batches: int | None
    max_files_per_batch: int | None
    skip_batch: int | None
    """The number of a batch that is not taken in."""
    forget: Sequence[str | Path]
    """Ingested files that are no longer watched; their rows stay in the answer."""
    retract: Sequence[str | Path]
    """Ingested files whose rows leave the answer; needs kept input."""
    allow_empty: bool
    """With `on_modified: replace`, whether all files of a folder may vanish at once."""
    verify: int | None
    """Compare the answer with that over all data after every so many batches."""
    buckets: int
    checkpoint_mode: int | None
    """Permissions of the folders of a new checkpoint; 0o700 on this machine, else by umask."""
    check_runs: bool
    """Whether the files of the state are compared with their checksums at the start."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a run is made of."""

    program: Program
    spark: Callable[[], SparkSession]
    streams: Mapping[str, PushedStream | FrameStream]
    registered: Mapping[str, Any]
    described: Mapping[str, Any]
    options: StartOptions = field(default_factory=lambda: StartOptions())
    quarantine: Path | None = None
    """The folder for lines that are no rows."""
    on_report: Callable[[ReadReport, Policy], None] | None = None
    """Called for the lines of a batch that are no rows; None: they are a warning."""
    paths: Paths = ANYWHERE
    """Which files the query may read and write."""

    def followed(self) -> dict[int, PushedStream | FrameStream]:
        """The streams of the session that the program reads, by the places of their inputs."""
        return {
            each.place: self.streams[each.source.name]
            for each in self.program.streams
            if each.source.format == "registered" and each.source.name in self.streams
        }


def seconds(time_: str | float) -> float:
    """A time such as `500ms`, `1s` or `2m`, or a number of seconds, in seconds."""
    if isinstance(time_, int | float) and not isinstance(time_, bool) and time_ >= 0:
        return float(time_)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", str(time_).strip())
    if found is None or isinstance(time_, bool):
        raise DataError("R212", f"{time_!r} is not a time such as 500ms, 1s or 2m")
    return float(found[1]) * _UNITS[found[2] or "s"]


def check_options(options: StartOptions) -> None:
    """Refuse options that there are not, and values that an option does not take."""
    unknown = sorted(options.keys() - StartOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(sorted(StartOptions.__annotations__))
        hint = f"Options are: {known}."
        raise DataError("R212", f'start has no option "{unknown[0]}"', hint=hint)
    for name, declared in get_type_hints(StartOptions).items():
        value = options.get(name)
        choices = _choices(declared)
        if value is None:
            continue
        if choices and value not in choices and not (name == "keep_input" and _is_count(value)):
            known = ", ".join(map(repr, choices))
            also = " or a number of batches" if name == "keep_input" else ""
            raise DataError("R212", f"{name}={value!r}: {name} must be one of {known}{also}")
        if name in _LEAST and not (_is_count(value) and value >= _LEAST[name]):
            message = f"{name}={value!r}: {name} must be an int, at least {_LEAST[name]}"
            raise DataError("R212", message)
        if name in _PATHS and isinstance(value, str | Path):
            raise DataError("R212", f"{name} must be a list of paths: write {name}=[{value!r}]")


def _choices(declared: Any) -> tuple[Any, ...]:
    """The values of the literals in a type; empty if it has none."""
    if get_origin(declared) is Literal:
        return get_args(declared)
    return tuple(choice for part in get_args(declared) for choice in _choices(part))


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def stream_options(options: StartOptions, *, keep_changes: bool) -> StreamOptions:
    """The options of the driver."""
    given: dict[str, Any] = {
        name: value for name, value in options.items() if name in _DRIVER and value is not None
    }
    for name in ("forget", "retract"):
        if name in given:
            given[name] = tuple(map(str, given[name]))
    for name in ("trigger", "settle"):
        if name in given:
            given[name] = seconds(given[name])
    return StreamOptions(**given, keep_changes=keep_changes)


def log_scope(item: typed.ScriptItem, options: StartOptions) -> None:
    """Say once that a query without `incr` is answered over everything: in scripts it is not."""
    if item.incremental or options.get("window"):
        return
    _LOG.warning(
        "the query has no incr: start() answers it over everything so far; "
        "incmrql run would answer each batch alone, as start(window=True) does [W303]"
    )
