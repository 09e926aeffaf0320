"""The options of a run that users set, each declared once: its type, default and help text.

The command line, `start()` and the tests of the docs are derived from these fields.  This module
imports nothing heavy, because `incmrql --help` needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from incmrql.errors import DataError

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_ABOUT: Final = "about"


def seconds(given: str | float) -> float:
    """Parse a duration such as `500ms`, `1s` or `2m`, or a number of seconds."""
    if isinstance(given, int | float) and not isinstance(given, bool) and given >= 0:
        return float(given)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", str(given).strip())
    if match is None or isinstance(given, bool):
        raise DataError("R212", f"{given!r} is not a time such as 500ms, 1s or 2m")
    return float(match[1]) * _UNITS[match[2] or "s"]


def size(given: str | int) -> int:
    """Parse a number of bytes such as `500MB` or `2GiB`, or a plain number."""
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]i?)?B?", str(given).strip())
    if match is None or isinstance(given, bool) or not float(match[1]):
        raise DataError("R212", f"{given!r} is not a size such as 500MB, 2GiB or 100000")
    unit = (match[2] or "").upper()
    base = 1024 if unit.endswith("I") else 1000
    return int(float(match[1]) * base ** " KMGT".index(unit[:1] or " "))


def kept_input(given: str | int) -> Literal["all", "none"] | int:
    """Parse how many batches of input to keep: `all`, `none` or a number."""
    if given in ("all", "none"):
        return "all" if given == "all" else "none"
    if not re.fullmatch(r"[1-9]\d*", str(given)):
        raise DataError("R212", f"{given!r} is not all, none or a number of batches")
    return int(given)


def permissions(given: str | int) -> int:
    """Parse the permissions of a directory, such as `750`; the owner always has all of them."""
    if isinstance(given, int):
        return given
    if not re.fullmatch(r"0?7[0-7]{2}", given):
        raise DataError("R212", f"{given!r} is not permissions such as 700 or 750")
    return int(given, 8)


def texts(given: Iterable[str | Path]) -> tuple[str, ...]:
    """Paths as texts."""
    return tuple(map(str, given))


@dataclass(frozen=True, slots=True)
class About:
    """The help text of an option, and constraints on its values beyond the type."""

    help: str
    metavar: str | None = None
    """The placeholder for its value in `--help`."""
    least: int | None = None
    above: float | None = None
    read: Callable[[Any], Any] | None = None
    """Converts what the user gave; may raise `DataError`."""
    on_command_line: bool = True


def option(default: Any, help: str, **about: Any) -> Any:  # noqa: A002 - named as in click
    """A dataclass field that carries its declaration."""
    return field(default=default, metadata={_ABOUT: About(help, **about)})


@dataclass(frozen=True, slots=True)
class UserOptions:
    """How a query over streams runs; durations are in seconds."""

    checkpoint: Path | None = option(
        None,
        "Directory for state and progress. Rerun with the same directory to resume.",
        read=Path,
    )
    """None: one that lasts as long as the run."""
    output: str | None = option(
        None,
        "console, or a directory that gets one batch=N directory for each batch. "
        "[default: as recorded in the checkpoint, else console]",
        metavar="URI",
        read=str,
    )
    format: Literal["parquet", "json", "csv"] | None = option(
        None,
        "File format of an output directory. "
        "[default: as recorded in the checkpoint, else parquet]",
    )
    mode: Literal["changes", "snapshot"] | None = option(
        None,
        "What to write after each batch: the changes to the answer, or the whole answer. "
        "[default: snapshot on the console, changes in a directory]",
    )
    trigger: float | None = option(
        None, "How often to poll the sources. [default: 1s]", metavar="TIME", read=seconds
    )
    """None: a loop polls every second, and a run from Python has no loop."""
    settle: float = option(
        1.0,
        "Ingest a file only after it has not changed for this long. [default: 1s]",
        metavar="TIME",
        read=seconds,
    )
    keep_input: Literal["all", "none"] | int | None = option(
        None,
        "Keep copies of ingested input: all, the last N batches, or none. Needed to verify or "
        "rebuild once the originals are gone. [default: only input that exists nowhere else]",
        metavar="ALL|N|NONE",
        read=kept_input,
    )
    keep_batches: int = option(
        10,
        "Keep the state of the last N batches, to look at it or to roll back. [default: 10]",
        metavar="N",
        least=0,
    )
    skip_batch: int | None = option(
        None, "Skip batch N and mark its files as ingested.", metavar="N", least=0
    )
    forget: tuple[str, ...] = option(
        (),
        "Stop watching an ingested file; its rows stay. May be repeated.",
        metavar="FILE",
        read=texts,
    )
    retract: tuple[str, ...] = option(
        (),
        "Remove the rows of an ingested file; needs kept input. May be repeated.",
        metavar="FILE",
        read=texts,
    )
    allow_empty: bool = option(
        False, "With on_modified: replace, accept that all files of a directory are gone."
    )
    checkpoint_mode: int | None = option(
        None,
        "Permissions of the directories of a new checkpoint. "
        "[default: 700 on this machine, by umask on a cluster]",
        metavar="OCTAL",
        read=permissions,
    )
    available_now: bool = option(False, "Ingest everything that is available now, then stop.")
    max_batches: int | None = option(None, "Stop after N batches.", metavar="N", least=1)
    max_files_per_batch: int | None = option(
        None, "Maximum number of files per batch, oldest first.", metavar="N", least=1
    )
    max_bytes_per_batch: int | None = option(
        None,
        "Maximum size of the files of a batch, such as 500MB; a larger file is a batch of its own.",
        metavar="SIZE",
        read=size,
    )
    max_rows_per_batch: int | None = option(
        None,
        "Maximum number of rows per batch; a file with more rows is a batch of its own.",
        metavar="N",
        least=1,
    )
    verify: int | None = option(
        None,
        "Every N batches, check the answer against a full recomputation.",
        metavar="N",
        least=1,
    )
    on_change: Literal["reuse", "rebuild", "refuse"] = option(
        "refuse",
        "What to do if the checkpoint was written by a different query. [default: refuse]",
    )
    iterate: Literal["default", "exact", "recompute", "diffuse"] = option(
        "default",
        "How to maintain loops. default is exact, or reruns a loop where that costs less; "
        "diffuse is approximate, with an error bound. [default: default]",
    )
    tolerance: float | None = option(
        None, "With diffuse, rerun a loop when its relative error reaches X.", metavar="X", above=0
    )
    resync: int | None = option(
        None, "With diffuse, rerun loops every N batches.", metavar="N", least=1
    )
    on_arithmetic: Literal["null", "report", "fail"] = option(
        "report",
        "Overflow and division by zero give null. In streams, report counts the affected rows, "
        "fail refuses the batch, and null does not check. In batch queries, fail is an error. "
        "[default: report]",
    )
    window: bool = option(False, "Answer each batch on its own.", on_command_line=False)
    keep_answer: bool = option(
        True,
        "Store the whole answer where it cannot be derived from other state.",
        on_command_line=False,
    )
    buckets: int = option(
        8,
        "Number of buckets of a new checkpoint; an existing one keeps its number.",
        least=1,
        on_command_line=False,
    )
    check_runs: bool = option(
        True, "Verify the checksums of all state files at the start.", on_command_line=False
    )
    on_batch: Callable[[Any], None] | None = option(
        None, "Called with each `Batch`.", on_command_line=False
    )


def declared_options() -> dict[str, About]:
    """The declaration of each option, by name."""
    return {option.name: option.metadata[_ABOUT] for option in fields(UserOptions)}
