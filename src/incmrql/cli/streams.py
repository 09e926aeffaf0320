"""Scripts with streams on the command line: printing batches, and ending by signals."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from incmrql.cli.options import CONSOLE
from incmrql.cli.signals import ending_by_signal, stopping
from incmrql.cli.terminal import Console, Json, Live, Plain, print_answer, tell
from incmrql.errors import DataError

if TYPE_CHECKING:
    from incmrql.api.runs import Batch, Failures, Run, Verified
    from incmrql.api.scripts import Strict
    from incmrql.api.session import PreparedScript
    from incmrql.values import Value


_NOT_OF_FILES = ("R130", "R213", "R214", "R215", "R216")
"""Problems that do not come from the input files of a batch: skipping it would not help."""


@dataclass(frozen=True, slots=True)
class Printer:
    """The `Listener` of the command line: prints batches, answers and notices."""

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
            self.console.say(f"state rebuilt from {'1 file' if files == 1 else f'{files:,} files'}")
        if not run.is_idle():
            return
        if files is None:
            self.console.say(f"nothing new since batch {number}")
        elif not self.shows_changes:
            self.console.answers(number, [run.answer(item) for item in run.printed])

    def verified(self, verified: Verified) -> None:
        """Print the result of a verification."""
        self.console.say(str(verified))

    def _printable(self, run: Run, item: int) -> Value:
        """The changes of an answer as a bag of rows and weights, or the whole answer."""
        from incmrql.values import Bag

        return Bag(run.changes(item)) if self.shows_changes else run.answer(item)


def run_script(
    script: PreparedScript,
    given: dict[str, Any],
    show: Callable[[Value], str],
    *,
    strict: Strict,
    as_json: bool,
) -> None:
    """Run a script on Spark: batch items once, and streaming items until the run is stopped.

    `given` are the stream options of the command line; `show` formats a value as a line.
    """
    from incmrql.api.options import stream_options
    from incmrql.api.scripts import doubts

    for problem in doubts(script.compiled):
        click.echo(problem.render(), err=True)
    folder = given["output"] if given["output"] != CONSOLE else None
    shows_changes = (given["mode"] or ("snapshot" if folder is None else "changes")) == "changes"
    mode = given["mode"] if folder is not None or given["output"] is None else None
    options = replace(
        stream_options({**given, "output": folder, "mode": mode}),
        detach_output=given["output"] == CONSOLE,
        quarantine=script.settings["quarantine"].absolute(),
        keep_changes=shows_changes and folder is None,
    )
    for note in script.plan_notes(options, strict):
        tell(note)
    _refuse_options(script, given)
    console = _console(show, as_json=as_json, shows_changes=shows_changes)
    printer = Printer(console, shows_changes)
    run = script.run(options, lambda _item, value: print_answer(show(value)), printer)
    if run is None:
        return
    with run, ending_by_signal(run, run.own_folder) as stop:
        run.prepare()  # starts Spark, which installs its own handler for Ctrl-C; ours comes after
        printer.start(run)
        with stopping(console, stop), _recovery_hints(run, has_checkpoint=run.own_folder is None):
            run.follow(stop)


def _refuse_options(script: PreparedScript, given: dict[str, Any]) -> None:
    """Refuse options that do not apply to the streaming items of the script."""
    if given["verify"] is not None and script.window:
        raise click.UsageError("--verify is only for queries with incr.")
    for name in ("skip_batch", "forget", "retract"):
        if given[name] not in (None, ()) and given["checkpoint"] is None:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --checkpoint.")


def _console(show: Callable[[Value], str], *, as_json: bool, shows_changes: bool) -> Console:
    if as_json:
        return Json(show, "changes" if shows_changes else "answers")
    if sys.stderr is not None and sys.stderr.isatty():
        together = sys.stdout is not None and sys.stdout.isatty()
        return Live(show, lambda: shutil.get_terminal_size().columns, together)
    return Plain(show)


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
