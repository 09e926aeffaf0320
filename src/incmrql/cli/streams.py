"""Scripts with streams on the command line: printing batches, and ending by signals."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from incmrql.cli.options import CONSOLE
from incmrql.cli.signals import ending_by_signal, stopping
from incmrql.cli.terminal import (
    Console,
    Json,
    Plain,
    count,
    is_terminal,
    print_answer,
    tell,
)
from incmrql.errors import DataError

if TYPE_CHECKING:
    from incmrql.api.runs import Batch, Failures, Run, Verified
    from incmrql.api.scripts import Strict
    from incmrql.api.session import PreparedScript
    from incmrql.cli.live import LivePrinter
    from incmrql.values import Value


_NOT_OF_FILES = ("R130", "R213", "R214", "R215", "R216")
"""Problems that do not come from the input files of a batch: skipping it would not help."""


@dataclass(frozen=True, slots=True)
class Printer:
    """Prints batches, answers and notices line by line: for pipes, files and logs."""

    console: Console
    shows_changes: bool
    """Whether to print the changes of each batch instead of the whole answers."""

    def notice(self, text: str) -> None:
        """Print a notice."""
        self.console.say(text)

    def failures(self, number: int, failures: Failures) -> None:
        """Print how many rows have failing arithmetic, if any."""
        if failures.count:
            self.console.say(f"batch {number}: {failures}")

    def batch(self, run: Run, batch: Batch) -> None:
        """Print a batch and its answers, or their changes."""
        self.console.batch(batch.report, [self._printable(run, item) for item in run.printed])

    def start(self, run: Run) -> None:
        """Print whether the start rebuilt the state, and whether there is new input."""
        files, number = run.rebuilt_from, run.status.batch
        if files is not None:
            self.console.say(f"state rebuilt from {count(files, 'file', 'files')}")
        if not run.is_idle():
            return
        if files is None:
            self.console.say(f"nothing new since batch {number}")
        elif not self.shows_changes:
            self.console.answers(number, [run.answer(item) for item in run.printed])

    def verified(self, verified: Verified) -> None:
        """Print the result of a verification."""
        self.console.say(str(verified))

    def following(self, run: Run) -> AbstractContextManager[None]:  # noqa: ARG002 - for a terminal
        """Do nothing: lines need no end."""
        return nullcontext()

    def stopping(self) -> None:
        """Say what Ctrl-C does."""
        self.console.say("stopping after this batch")

    def _printable(self, run: Run, item: int) -> Value:
        """The changes of an answer as a bag of rows and weights, or the whole answer."""
        from incmrql.values import Bag

        return Bag(run.changes(item)) if self.shows_changes else run.answer(item)


@dataclass(frozen=True, slots=True)
class Format:
    """How answers are printed."""

    show: Callable[[Value], str]
    """Formats an answer as a line."""
    as_json: bool = False
    limit: int | None = None
    """The rows of an answer that the user asks for; None: as many as fit."""


def run_script(
    script: PreparedScript, given: dict[str, Any], format_: Format, *, strict: Strict
) -> None:
    """Run a script on Spark: batch items once, and streaming items until the run is stopped.

    `given` are the stream options of the command line.
    """
    from incmrql.api.options import stream_options
    from incmrql.api.scripts import doubts

    for problem in doubts(script.compiled):
        click.echo(problem.render(), err=True)
    folder = given["output"] if given["output"] != CONSOLE else None
    shows_changes = (given["mode"] or ("snapshot" if folder is None else "changes")) == "changes"
    mode = given["mode"] if folder is not None or given["output"] is None else None
    printer = _printer(script, format_, shows_changes=shows_changes)
    is_drawn = not isinstance(printer, Printer)
    options = replace(
        stream_options({**given, "output": folder, "mode": mode}),
        detach_output=given["output"] == CONSOLE,
        quarantine=script.settings["quarantine"].absolute(),
        keep_changes=(shows_changes or is_drawn) and folder is None,
        show_progress=is_drawn,
    )
    for note in script.plan_notes(options, strict):
        tell(note)
    _refuse_options(script, given)
    run = script.run(options, lambda _item, value: print_answer(format_.show(value)), printer)
    if run is None:
        return
    with run, ending_by_signal(run, run.own_folder) as stop:
        run.prepare()  # starts Spark, which installs its own handler for Ctrl-C; ours comes after
        with (
            printer.following(run),
            stopping(printer.stopping, stop),
            _recovery_hints(run, has_checkpoint=run.own_folder is None),
        ):
            printer.start(run)
            run.follow(stop)


def _refuse_options(script: PreparedScript, given: dict[str, Any]) -> None:
    """Refuse options that do not apply to the streaming items of the script."""
    if given["verify"] is not None and script.window:
        raise click.UsageError("--verify is only for queries with incr.")
    for name in ("skip_batch", "forget", "retract"):
        if given[name] not in (None, ()) and given["checkpoint"] is None:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --checkpoint.")


def _printer(
    script: PreparedScript, format_: Format, *, shows_changes: bool
) -> Printer | LivePrinter:
    """What prints the batches of a run: lines, JSON objects, or drawings on a terminal."""
    if format_.as_json:
        return Printer(Json(format_.show, "changes" if shows_changes else "answers"), shows_changes)
    if not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
        return Printer(Plain(format_.show), shows_changes)
    from incmrql.cli.live import LivePrinter

    return LivePrinter(
        limit=format_.limit,
        shows_changes=shows_changes,
        is_window=script.window,
        show=None if is_terminal(sys.stdout) else format_.show,
    )


@contextmanager
def _recovery_hints(run: Run, *, has_checkpoint: bool) -> Iterator[None]:
    """Add to the error of a refused batch how the user can continue."""
    try:
        yield
    except DataError as problem:
        number = run.refused_batch
        if number is None or problem.code in _NOT_OF_FILES:
            raise
        ways = f"Fix its files and run again, or leave them out with --skip-batch {number}."
        if not has_checkpoint:
            ways = "Fix its files and run again; with --checkpoint DIR the run would resume there."
        hint = f"{problem.hint}\n   " if problem.hint else ""
        hint += f"Nothing has changed: batch {number} was not committed. {ways}"
        raise DataError(problem.code, problem.message, place=problem.place, hint=hint) from None
