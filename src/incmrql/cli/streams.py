"""`incmrql run` for items that follow a stream: options, the loop, what is printed."""

from __future__ import annotations

import re
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import click

from incmrql.diagnostics import QueryError

if TYPE_CHECKING:
    from incmrql.formats import Policy, ReadReport
    from incmrql.runtime import BatchReport, Driver
    from incmrql.session import Session
    from incmrql.types import typed

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


@dataclass(frozen=True, slots=True)
class StreamChoices:
    """The options of `run` that are about streams."""

    checkpoint: Path | None
    output: str
    format: Literal["parquet", "json", "csv"]
    mode: Literal["changes", "snapshot"] | None
    trigger: float
    settle: float
    available_now: bool
    max_batches: int | None
    max_files_per_batch: int | None


def stream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of streams to a command."""
    for option in (
        click.option(
            "--checkpoint",
            type=click.Path(file_okay=False, path_type=Path),
            help="Streams: the folder from which a stopped or killed run goes on.",
        ),
        click.option(
            "--output",
            default=CONSOLE,
            metavar="URI",
            help="Streams: console, or the folder that gets a batch=N folder for every batch.",
        ),
        click.option(
            "--format",
            type=click.Choice(["parquet", "json", "csv"]),
            default="parquet",
            help="Streams: the files of an output folder.",
        ),
        click.option(
            "--mode",
            type=click.Choice(["changes", "snapshot"]),
            help="Streams: what a batch did to the answer, or the whole answer. "
            "[default: snapshot on the console, changes in a folder]",
        ),
        click.option("--trigger", type=Duration(), default="1s", help="Streams: time of a batch."),
        click.option(
            "--settle",
            type=Duration(),
            default="1s",
            help="Streams: how long a file must not have changed before it is taken in.",
        ),
        click.option(
            "--available-now", is_flag=True, help="Streams: take in what is there, then end."
        ),
        click.option("--max-batches", type=click.IntRange(min=1), help="Streams: then end."),
        click.option(
            "--max-files-per-batch", type=click.IntRange(min=1), help="Streams: of one batch."
        ),
    ):
        command = option(command)
    return command


def follow(
    item: typed.ScriptItem,
    script: typed.Script,
    words: tuple[str, ...],
    session: Session,
    choices: StreamChoices,
    say: Say,
) -> bool:
    """Follow the streams of an item; whether that could be done."""
    from incmrql.incremental import program_of
    from incmrql.runtime import StreamOptions, run_stream

    try:
        program = program_of(item, script, words)
    except QueryError as problem:
        if problem.code != "A101":
            raise
        click.echo(f"{problem}\nThe query is answered once, from what is there now.", err=True)
        return False
    to_console = choices.output == CONSOLE
    mode = choices.mode or ("snapshot" if to_console else "changes")
    with _folders(choices, mode) as (checkpoint, output), _stopping() as stop:
        options = StreamOptions(
            mode=mode,
            format=choices.format,
            trigger=choices.trigger,
            settle=choices.settle,
            available_now=choices.available_now,
            max_batches=choices.max_batches,
            max_files_per_batch=choices.max_files_per_batch,
        )

        def on_batch(driver: Driver, report: BatchReport) -> None:
            policy: Policy = dict(program.stream.source.options).get("on_error", "quarantine")
            if report.bad.bad:
                say.report(report.bad, policy)
            if to_console and mode == "snapshot":
                say.answer(driver.answer())
            elif to_console:
                say.changes(driver.changes(report))
            click.echo(_summary(report), err=True)

        spark = session.private_spark()
        run_stream(program, checkpoint, output, spark, options, on_batch=on_batch, stop=stop)
    return True


@dataclass(frozen=True, slots=True)
class Say:
    """How answers, changes and reports are printed."""

    answer: Callable[[Any], None]
    changes: Callable[[list[tuple[Any, int]]], None]
    report: Callable[[ReadReport, Policy], None]


def _summary(report: BatchReport) -> str:
    return (
        f"batch {report.number}: {report.inserted:,} rows in, {report.deleted:,} out; "
        f"{report.touched:,} keys touched, {report.changed:,} changes; "
        f"{report.seconds * 1000:,.0f} ms"
    )


@contextmanager
def _folders(choices: StreamChoices, mode: str) -> Iterator[tuple[Path, Path | None]]:
    """The checkpoint, one for this run if none is named, and where the output goes."""
    with tempfile.TemporaryDirectory(prefix="incmrql-") as own:
        checkpoint = choices.checkpoint or Path(own, "checkpoint")
        if choices.output != CONSOLE:
            yield checkpoint, Path(choices.output)
        else:
            yield checkpoint, Path(own, "output") if mode == "changes" else None


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set: the batch on its way is finished first."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        click.echo("stopping after this batch", err=True)
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
