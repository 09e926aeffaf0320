"""The options of `incmrql run` that are about streams."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from incmrql.cli.strictness import strict_option

if TYPE_CHECKING:
    from incmrql.incremental.explain import Strict

CONSOLE = "console"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType[float]):
    """A time as in `500ms`, `1s`, `2m`; a number alone is in seconds."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a time such as 500ms, 1s or 2m", param, ctx)
        return float(found[1]) * _UNITS[found[2] or "s"]


class Kept(click.ParamType["Literal['all', 'none'] | int"]):
    """Of how many batches the input is kept: `all`, `none` or a number."""

    name = "all|N|none"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Literal["all", "none"] | int:
        """The word, or the number."""
        if value in ("all", "none"):
            return "all" if value == "all" else "none"
        if not re.fullmatch(r"[1-9]\d*", str(value)):
            self.fail(f"{value!r} is not all, none or a number of batches", param, ctx)
        return int(value)


class Permissions(click.ParamType[int]):
    """Permissions of a folder as octal digits, as in `750`; the user may always do everything."""

    name = "octal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        if not re.fullmatch(r"0?7[0-7]{2}", str(value)):
            self.fail(f"{value!r} is not permissions such as 700 or 750", param, ctx)
        return int(str(value), 8)


@dataclass(frozen=True, slots=True)
class StreamChoices:
    """What the options of streams say."""

    checkpoint: Path | None
    output: str | None
    format: Literal["parquet", "json", "csv"] | None
    mode: Literal["changes", "snapshot"] | None
    trigger: float
    settle: float
    keep_input: Literal["all", "none"] | int | None
    skip_batch: int | None
    forget: tuple[str, ...]
    retract: tuple[str, ...]
    allow_empty: bool
    available_now: bool
    max_batches: int | None
    max_files_per_batch: int | None
    verify: int | None
    strict: Strict
    on_change: Literal["reuse", "rebuild", "refuse"]
    iterate: Literal["default", "exact", "recompute", "diffuse"]
    tolerance: float | None
    resync: int | None
    checkpoint_mode: int | None

    @property
    def folder(self) -> Path | None:
        """The output folder, if one is named."""
        return None if self.output in (None, CONSOLE) else Path(self.output or "")


_OPTIONS = (
    click.option(
        "--checkpoint",
        type=click.Path(file_okay=False, path_type=Path),
        help="Streams: the folder from which a stopped or killed run goes on.",
    ),
    click.option(
        "--output",
        metavar="URI",
        help="Streams: console, or the folder that gets a batch=N folder for every batch. "
        "[default: the one that the checkpoint has recorded, else console]",
    ),
    click.option(
        "--format",
        type=click.Choice(["parquet", "json", "csv"]),
        help="Streams: the files of an output folder. "
        "[default: as the checkpoint has recorded, else parquet]",
    ),
    click.option(
        "--mode",
        type=click.Choice(["changes", "snapshot"]),
        help="Streams: what a batch did to the answer, or the whole answer. "
        "[default: snapshot on the console, changes in a folder]",
    ),
    click.option(
        "--trigger",
        type=Duration(),
        default="1s",
        help="Streams: from one look at the sources to the next.",
    ),
    click.option(
        "--settle",
        type=Duration(),
        default="1s",
        help="Streams: how long a file must not have changed before it is taken in.",
    ),
    click.option(
        "--keep-input",
        type=Kept(),
        help="Streams: copies of all files taken in, of those of the last N batches, or of none. "
        "[default: only of what came by sockets]",
    ),
    click.option(
        "--skip-batch",
        type=click.IntRange(min=0),
        metavar="N",
        help="Streams: do not take in batch N; its files count as taken in.",
    ),
    click.option(
        "--forget",
        multiple=True,
        metavar="FILE",
        help="Streams: stop watching a file that was ingested; its rows stay. May be repeated.",
    ),
    click.option(
        "--retract",
        multiple=True,
        metavar="FILE",
        help="Streams: remove the rows of a file that was ingested; needs kept input. "
        "May be repeated.",
    ),
    click.option(
        "--allow-empty",
        is_flag=True,
        help="Streams: with on_modified: replace, accept that all files of a folder are gone.",
    ),
    click.option(
        "--checkpoint-mode",
        type=Permissions(),
        help="Streams: permissions of the folders of a new checkpoint. "
        "[default: 700 on this machine, by umask on a cluster]",
    ),
    click.option("--available-now", is_flag=True, help="Streams: take in what is there, then end."),
    click.option("--max-batches", type=click.IntRange(min=1), help="Streams: then end."),
    click.option(
        "--max-files-per-batch", type=click.IntRange(min=1), help="Streams: of one batch."
    ),
    click.option(
        "--verify",
        type=click.IntRange(min=1),
        metavar="N",
        help="Streams: every N batches, compare the answer with that of the query run anew.",
    ),
    strict_option(
        "Streams: refuse a query of which a batch may read all rows of a table; "
        "with =groups, also one of which it may read whole groups."
    ),
    click.option(
        "--on-change",
        type=click.Choice(["reuse", "rebuild", "refuse"]),
        default="refuse",
        help="Streams: what to do if the checkpoint is of another query.",
    ),
    click.option(
        "--iterate",
        type=click.Choice(["default", "exact", "recompute", "diffuse"]),
        default="default",
        help="Streams: how loops are kept. The default is exact, or runs the loop again where "
        "that costs less; diffuse is an approximation with a stated error.",
    ),
    click.option(
        "--tolerance",
        type=click.FloatRange(min=0, min_open=True),
        metavar="X",
        help="Streams: with diffuse, the error from which on a loop is run again.",
    ),
    click.option(
        "--resync",
        type=click.IntRange(min=1),
        metavar="N",
        help="Streams: with diffuse, run loops again every N batches.",
    ),
)


def stream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of streams to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
