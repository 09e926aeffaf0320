"""Scripts with streams: batch items first, in order; then all others as one program.

A batch item is answered once.  Items that read a stream take in the same batches until the run is
stopped: those with `incr` answer over everything so far, those without for each batch alone.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from incmrql.cli.console import Console, Json, Live, Plain
from incmrql.cli.signals import ending_by_signal, stopping
from incmrql.cli.stream_options import CONSOLE, StreamChoices
from incmrql.cli.terminal import tell
from incmrql.diagnostics import DataError, Diagnostic, QueryError

if TYPE_CHECKING:
    from incmrql.algebra.scripts import Emit
    from incmrql.incremental.streams import Program
    from incmrql.pipeline import Compiled
    from incmrql.runtime import BatchReport, Driver, StreamOptions
    from incmrql.runtime.arithmetic import OnArithmetic
    from incmrql.session import Session
    from incmrql.types import typed
    from incmrql.values import Value

_ONCE = ("store-value", "lineage", "debug")
"""Items that are answered once, from what is there, even if they read a stream."""
_NO_TERM = ("A001", "A002")
_NOT_OF_FILES = ("R130", "R213", "R214", "R215", "R216")
"""Problems of a batch that have nothing to do with the files it takes in."""


@dataclass(frozen=True, slots=True)
class Talk:
    """How values are printed, and where lines that cannot be read go."""

    show: Callable[[Any], str]
    """A value as a line."""
    as_json: bool
    quarantine: Path


@dataclass(frozen=True, slots=True)
class Asked:
    """A script as it was asked for."""

    script: str | Path
    words: tuple[str, ...]

    def as_json(self, stored: Mapping[str, Value]) -> dict[str, Any]:
        """What a checkpoint keeps, so that the program can be made again."""
        from incmrql.api import load
        from incmrql.values import show

        source = load(self.script)
        path = str(Path(source.name).absolute()) if isinstance(self.script, Path) else ""
        kept = {name: show(value) for name, value in stored.items()}
        return {
            "text": source.text,
            "path": path,
            "arguments": list(self.words),
            "stored": kept,
            "folder": str(Path.cwd()),
        }


_EACH_BATCH_ALONE = (
    "note[W303]: the query has no incr: each batch is answered alone."
    " Write incr before it for the answer over everything so far."
)


def run_script(
    session: Session,
    asked: Asked,
    choices: StreamChoices,
    talk: Talk,
    emit: Emit,
    *,
    on_arithmetic: OnArithmetic = "report",
    **settings: Any,
) -> int:
    """Run a script on Spark; how many items it has."""
    from incmrql.session import DEEPEST
    from incmrql.syntax.depth import room
    from incmrql.types.questionable import questionable

    compiled = session._compiled(asked.script, asked.words)
    script = compiled.typed
    for problem in questionable(script):
        click.echo(problem.render(), err=True)
    followed = _followed(compiled, choices)
    if followed and not followed[0].incremental:
        click.echo(_EACH_BATCH_ALONE, err=True)
    _refuse_options(followed, choices)
    with room(DEEPEST):
        engine = session._engine(compiled, asked.words, **settings)
        for item in script.items:
            if not any(item is each for each in followed):
                engine.run_item(item, emit)
        if followed:
            from incmrql.incremental.streams import program_of

            stored = engine.world.stored
            watch = on_arithmetic != "null"
            program = program_of(followed, script, asked.words, stored, watch=watch)
            window = not followed[0].incremental
            follow = partial(_follow, window=window, on_arithmetic=on_arithmetic)
            follow(program, session, asked.as_json(stored), choices, talk)
    return len(script.items)


def _followed(compiled: Compiled, choices: StreamChoices) -> list[typed.ScriptItem]:
    """The items that follow streams, which must all be of one kind."""
    from incmrql.incremental.chance import follows_streams
    from incmrql.incremental.plan import plan_of
    from incmrql.pipeline import advice

    script = compiled.typed
    streaming = [
        item
        for item in script.items
        if item.kind not in _ONCE and follows_streams(item.expr, script)
    ]
    if choices.strict:
        found = advice(compiled, strict=choices.strict, iterate=choices.iterate)
        problems = [each for each in found if each.severity == "error"]
        if problems:
            raise QueryError(*problems)
    followed = []
    for item in streaming:
        try:
            plan_of(item, script)
        except QueryError as problem:
            if problem.code not in _NO_TERM:
                raise
            tell(f"{problem}\nThe query is answered once, from what is there now.")
        else:
            followed.append(item)
    _refuse_both(followed)
    return followed


def _refuse_both(items: Sequence[typed.ScriptItem]) -> None:
    """Items with and without `incr` cannot follow the same batches."""
    alone = [item for item in items if not item.incremental]
    if alone and len(alone) < len(items):
        message = "some items of the script have incr, and this one answers for each batch alone"
        hint = "Write incr before all of them, or put those without into a script of their own."
        raise QueryError(Diagnostic("A103", message, alone[0].span, "has no incr", hint))


def _refuse_options(items: Sequence[typed.ScriptItem], choices: StreamChoices) -> None:
    """Options that make no sense for the items that follow streams."""
    if choices.verify is not None and any(not item.incremental for item in items):
        raise click.UsageError("--verify is for queries with incr.")
    for name in ("skip_batch", "forget", "retract"):
        if getattr(choices, name) not in (None, ()) and choices.checkpoint is None:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --checkpoint.")


def _follow(  # noqa: PLR0913 - what is followed, and how
    program: Program,
    session: Session,
    described: dict[str, Any],
    choices: StreamChoices,
    talk: Talk,
    *,
    window: bool,
    on_arithmetic: OnArithmetic,
) -> None:
    """Follow the streams of a program until it is stopped."""
    from incmrql.runtime import Driver
    from incmrql.runtime.loop import run_driver
    from incmrql.runtime.ownership import sign
    from incmrql.runtime.private import PRIVATE
    from incmrql.runtime.quarantine import sentences
    from incmrql.runtime.source_notices import SourceNotices

    mode = choices.mode or ("snapshot" if choices.folder is None else "changes")
    console = _console(talk, mode)
    options = _options(choices, talk, window=window, keep_changes=mode == "changes")
    named = choices.folder, choices.checkpoint, talk.quarantine
    paths = session.paths.also(*named)
    options = replace(options, on_arithmetic=on_arithmetic, paths=paths)
    if options.checkpoint_mode is None and session.is_local:
        options = replace(options, checkpoint_mode=PRIVATE)
    with (
        _checkpoint(choices) as checkpoint,
        Driver(
            program, checkpoint, choices.folder, session.private_spark, options, script=described
        ) as driver,
    ):
        if choices.checkpoint is not None:
            sign(driver)
        for notice in driver.binding.notices:
            console.say(notice)
        printed = [] if any(not sink.named for sink in driver.sinks) else _printed(program)

        odd = SourceNotices(program)

        def on_batch(driver: Driver, report: BatchReport) -> None:
            for sentence in sentences(program, report, is_kept=True):
                console.say(sentence)
            if report.errors is not None and report.errors.count:
                console.say(f"batch {report.number}: {report.errors}")
            for notice in odd.of(report):
                console.say(notice.render())
            console.batch(report, [_shown(driver, number, mode) for number in printed])
            if choices.verify is not None and (report.number + 1) % choices.verify == 0:
                _verified(driver, session, console)

        own = checkpoint.parent if choices.checkpoint is None else None
        with ending_by_signal(driver, own) as stop:
            driver.on_notice = console.say
            driver.look()  # what is wrong with a folder is known before Spark starts
            driver.job  # noqa: B018 - Spark starts now, and sets a handler of its own for Ctrl-C
            with stopping(console, stop), _advised(driver, choices):
                run_driver(driver, on_batch=on_batch, stop=stop)


def _verified(driver: Driver, session: Session, console: Console) -> None:
    from incmrql.runtime.verify import verify

    console.say(str(verify(driver, session.private_spark())))


def _printed(program: Program) -> list[int]:
    """The numbers of the answers that no item writes to a place of its own."""
    return [n for n, each in enumerate(program.outputs) if each.kind not in ("store", "dump")]


def _shown(driver: Driver, number: int, mode: str) -> Value:
    """What is printed of an answer: its changes as a bag of rows with weights, or all of it."""
    from incmrql.values import Bag

    return Bag(driver.changes(number)) if mode == "changes" else driver.answer(number)


def _options(
    choices: StreamChoices, talk: Talk, *, window: bool, keep_changes: bool
) -> StreamOptions:
    from incmrql.runtime import StreamOptions

    return StreamOptions(
        mode=choices.mode if choices.folder is not None or choices.output is None else None,
        format=choices.format,
        detach_output=choices.output == CONSOLE,
        quarantine=talk.quarantine.absolute(),
        trigger=choices.trigger,
        settle=choices.settle,
        available_now=choices.available_now,
        max_batches=choices.max_batches,
        max_files_per_batch=choices.max_files_per_batch,
        keep_input=choices.keep_input,
        keep_changes=keep_changes and choices.folder is None,
        skip_batch=choices.skip_batch,
        forget=choices.forget,
        retract=choices.retract,
        allow_empty=choices.allow_empty,
        window=window,
        on_change=choices.on_change,
        iterate=choices.iterate,
        tolerance=choices.tolerance,
        resync=choices.resync,
        checkpoint_mode=choices.checkpoint_mode,
    )


def _console(talk: Talk, mode: str) -> Console:
    if talk.as_json:
        return Json(talk.show, "changes" if mode == "changes" else "answers")
    if sys.stderr is not None and sys.stderr.isatty():
        together = sys.stdout is not None and sys.stdout.isatty()
        return Live(talk.show, lambda: shutil.get_terminal_size().columns, together)
    return Plain(talk.show)


@contextmanager
def _checkpoint(choices: StreamChoices) -> Iterator[Path]:
    """The checkpoint; one for this run only if none is named."""
    if choices.checkpoint is not None:
        yield choices.checkpoint
        return
    with tempfile.TemporaryDirectory(prefix="incmrql-") as own:
        yield Path(own, "checkpoint")


@contextmanager
def _advised(driver: Driver, choices: StreamChoices) -> Iterator[None]:
    """A refusal of a batch says how to go on."""
    try:
        yield
    except DataError as problem:
        number = driver.refused
        if number is None or problem.code in _NOT_OF_FILES:
            raise
        way = f"or leave its files out with --skip-batch {number}."
        if choices.checkpoint is None:
            way = "with --checkpoint DIR from where it was."
        hint = f"{problem.hint}\n   " if problem.hint else ""
        told = f"{hint}Nothing has changed: mend batch {number} and run again, {way}"
        raise DataError(problem.code, problem.message, place=problem.place, hint=told) from None
