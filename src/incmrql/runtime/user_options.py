"""The options of a run that users set, each declared once: its type, its default, what it does.

The command line, `start()` and the tests of the docs are made from these fields.  Nothing heavy is
imported here: the command line reads them before it knows what to run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from incmrql.errors import DataError

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_ABOUT: Final = "about"


def seconds(given: str | float) -> float:
    """A time such as `500ms`, `1s` or `2m`, or a number of seconds, in seconds."""
    if isinstance(given, int | float) and not isinstance(given, bool) and given >= 0:
        return float(given)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", str(given).strip())
    if match is None or isinstance(given, bool):
        raise DataError("R212", f"{given!r} is not a time such as 500ms, 1s or 2m")
    return float(match[1]) * _UNITS[match[2] or "s"]


def kept_input(given: str | int) -> Literal["all", "none"] | int:
    """Of how many batches the input is kept: `all`, `none` or a number, which may be a text."""
    if given in ("all", "none"):
        return "all" if given == "all" else "none"
    if not re.fullmatch(r"[1-9]\d*", str(given)):
        raise DataError("R212", f"{given!r} is not all, none or a number of batches")
    return int(given)


def permissions(given: str | int) -> int:
    """Permissions of a folder; a text has octal digits, of which the user has all, as in `750`."""
    if isinstance(given, int):
        return given
    if not re.fullmatch(r"0?7[0-7]{2}", given):
        raise DataError("R212", f"{given!r} is not permissions such as 700 or 750")
    return int(given, 8)


@dataclass(frozen=True, slots=True)
class About:
    """What a user is told of an option, and which values it takes beyond its type."""

    help: str
    metavar: str | None = None
    """What stands for its value in the help of a command."""
    least: int | None = None
    above: float | None = None
    read: Callable[[Any], Any] | None = None
    """Gives the value from the text or the number that a user has given."""
    on_command_line: bool = True


def option(default: Any, help: str, **about: Any) -> Any:  # noqa: A002
    """A field with what is said of it."""
    return field(default=default, metadata={_ABOUT: About(help, **about)})


@dataclass(frozen=True, slots=True)
class UserOptions:
    """How a query follows its streams; times are in seconds."""

    checkpoint: Path | None = option(None, "The folder from which a stopped or killed run goes on.")
    """None: one that lasts as long as the run."""
    output: str | None = option(
        None,
        "console, or the folder that gets a batch=N folder for every batch. "
        "[default: the one that the checkpoint has recorded, else console]",
        metavar="URI",
    )
    format: Literal["parquet", "json", "csv"] | None = option(
        None,
        "The files of an output folder. [default: as the checkpoint has recorded, else parquet]",
    )
    mode: Literal["changes", "snapshot"] | None = option(
        None,
        "What a batch did to the answer, or the whole answer. "
        "[default: snapshot on the console, changes in a folder]",
    )
    trigger: float | None = option(
        None, "From one look at the sources to the next.", metavar="TIME", read=seconds
    )
    """None: a loop looks every second, and a run from Python has no loop."""
    settle: float = option(
        1.0,
        "How long a file must not have changed before it is taken in.",
        metavar="TIME",
        read=seconds,
    )
    keep_input: Literal["all", "none"] | int | None = option(
        None,
        "Copies of all files taken in, of those of the last N batches, or of none. "
        "[default: only of what came by sockets]",
        metavar="ALL|N|NONE",
        read=kept_input,
    )
    skip_batch: int | None = option(
        None, "Do not take in batch N; its files count as taken in.", metavar="N", least=0
    )
    forget: tuple[str, ...] = option(
        (),
        "Stop watching a file that was ingested; its rows stay. May be repeated.",
        metavar="FILE",
    )
    retract: tuple[str, ...] = option(
        (),
        "Remove the rows of a file that was ingested; needs kept input. May be repeated.",
        metavar="FILE",
    )
    allow_empty: bool = option(
        False, "With on_modified: replace, accept that all files of a folder are gone."
    )
    checkpoint_mode: int | None = option(
        None,
        "Permissions of the folders of a new checkpoint. "
        "[default: 700 on this machine, by umask on a cluster]",
        metavar="OCTAL",
        read=permissions,
    )
    available_now: bool = option(False, "Take in what is there, then end.")
    max_batches: int | None = option(None, "Stop after this many batches.", least=1)
    max_files_per_batch: int | None = option(None, "Maximum number of files of one batch.", least=1)
    verify: int | None = option(
        None,
        "Every N batches, compare the answer with that of the query run anew.",
        metavar="N",
        least=1,
    )
    on_change: Literal["reuse", "rebuild", "refuse"] = option(
        "refuse", "What to do if the checkpoint is of another query."
    )
    iterate: Literal["default", "exact", "recompute", "diffuse"] = option(
        "default",
        "How loops are kept. The default is exact, or runs the loop again where that costs "
        "less; diffuse is an approximation with a stated error.",
    )
    tolerance: float | None = option(
        None, "With diffuse, the error from which on a loop is run again.", metavar="X", above=0
    )
    resync: int | None = option(
        None, "With diffuse, run loops again every N batches.", metavar="N", least=1
    )
    on_arithmetic: Literal["null", "report", "fail"] = option(
        "report",
        "Overflow and division by zero give null. Streams: report counts the rows where that "
        "happens, fail refuses such a batch, null does not watch. Batch queries: fail is an "
        "error.",
    )
    window: bool = option(False, "Answer each batch alone.", on_command_line=False)
    keep_answer: bool = option(
        True,
        "Keep the whole answer where it does not follow from other state.",
        on_command_line=False,
    )
    buckets: int = option(
        8,
        "Parts of the state of a new checkpoint; an old one keeps its.",
        least=1,
        on_command_line=False,
    )
    check_runs: bool = option(
        True, "Compare checksums of the state at the start.", on_command_line=False
    )
    on_batch: Callable[[Any], None] | None = option(
        None, "Called with each `Batch`.", on_command_line=False
    )


def declared() -> dict[str, About]:
    """What is said of each option, by its name."""
    return {each.name: each.metadata[_ABOUT] for each in fields(UserOptions)}
