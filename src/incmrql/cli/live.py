"""A run over streams on a terminal: a line for each batch, below it the answer as it is now.

What is finished scrolls up. Below it a few lines are drawn in place: small answers as tables, what
the running batch has read, what Ctrl-C does. Of answers that do not fit, the changes of each
batch are printed instead. If stdout is a file or a pipe, the answers go there as without a
terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from incmrql.cli.tables import answer_table, change_table
from incmrql.cli.terminal import (
    count,
    duration,
    loop_summary,
    print_answer,
    read_summary,
    size_text,
    visible,
)

if TYPE_CHECKING:
    from incmrql.api.runs import Batch, BatchReport, Failures, Progress, Run, Verified
    from incmrql.api.saved_answers import AnswerColumns
    from incmrql.values import Value


_MOST_ROWS: Final = 40
"""Rows of an answer that are drawn in place, where the terminal is high enough."""
_RESERVED: Final = 6
"""Lines of the terminal that are kept for status lines."""
_MOST_CHANGES: Final = 10
"""Changes that are printed for a batch."""
_SOON: Final = 0.5
"""Seconds that a batch runs before its progress is shown."""


class LivePrinter:
    """Draws a run over streams on the terminal that stderr is.

    `show` formats answers for a stdout that is no terminal; None if it is the terminal too.
    """

    def __init__(
        self,
        *,
        limit: int | None = None,
        shows_changes: bool = False,
        is_window: bool = False,
        show: Callable[[Value], str] | None = None,
        console: Console | None = None,
    ) -> None:
        self._console = console or Console(stderr=True, markup=False, highlight=False, emoji=False)
        self._limit, self._shows_changes, self._is_window = limit, shows_changes, is_window
        self._show = show
        self._live: Live | None = None
        self._run: Run | None = None
        self._sizes: dict[int, int] = {}
        """The number of rows of each answer, as far as it is known."""
        self._answers: list[RenderableType] = []
        """The answers that are drawn in place."""
        self._seen: tuple[int, float] = (-1, 0.0)
        """The batch whose progress was looked at last, and when that was first."""
        self._is_stopping = False

    # --- listener ---

    def notice(self, text: str) -> None:
        """Print a notice."""
        self._console.print(Text(visible(text)))

    def failures(self, number: int, failures: Failures) -> None:
        """Print how many rows have failing arithmetic, if any."""
        if failures.count:
            self.notice(f"batch {number}: {failures}")

    def batch(self, run: Run, batch: Batch) -> None:
        """Print a batch, and draw the answers or print their changes."""
        self.notice(status_line(batch.report))
        self._answers = []
        for item in run.printed:
            self._print_item(run, item)
        self._refresh()

    def verified(self, verified: Verified) -> None:
        """Print the result of a verification."""
        self.notice(str(verified))

    # --- start and end ---

    def start(self, run: Run) -> None:
        """Print whether the start rebuilt the state, and the answer if there is no new input."""
        files, number = run.rebuilt_from, run.status.batch
        if files is not None:
            self.notice(f"state rebuilt from {count(files, 'file', 'files')}")
        if not run.is_idle():
            return
        if files is None:
            self.notice(f"nothing new since batch {number}")
        has_answer = files is not None or self._show is None  # a pipe has it from an earlier run
        if has_answer and not self._shows_changes:
            for item in run.printed:
                self._print_whole(run, item)
            self._refresh()

    @contextmanager
    def following(self, run: Run) -> Iterator[None]:
        """Draw while a run is followed; says at the end what a stop has left behind."""
        self._run = run
        with Live(
            get_renderable=self._drawn, console=self._console, refresh_per_second=4,
            redirect_stdout=False, redirect_stderr=False,
        ) as self._live:  # fmt: skip
            try:
                yield
            except KeyboardInterrupt:
                self._run = None
                self.notice(_interrupted(run))
                raise click.exceptions.Exit(130) from None
            finally:
                self._run = None
        self._live = None
        if self._is_stopping:
            self.notice(_stopped(run))

    def stopping(self) -> None:
        """Say what Ctrl-C does; called by a signal handler, so the next refresh draws it."""
        self._is_stopping = True

    # --- answers ---

    def _print_item(self, run: Run, item: int) -> None:
        """Show an answer after a batch: whole if it is small, else what has changed."""
        columns = run.columns(item)
        if self._show is not None:
            print_answer(self._show(_printable(run, item, shows_changes=self._shows_changes)))
        elif self._shows_changes:
            self._print_changes(run, item, columns)
        elif self._is_window or not columns.is_bag or self._limit is not None:
            self._print_whole(run, item)
        else:
            self._sizes[item] = self._size(run, item)
            if self._sizes[item] <= self._room(run):
                self._print_whole(run, item)
            else:
                title = f"{columns.title or 'the answer'} has {_rows(self._sizes[item])}; changes:"
                self._console.print(Text(visible(title), "dim"))
                self._print_changes(run, item, columns)

    def _size(self, run: Run, item: int) -> int:
        """The rows of an answer; after the first time, from its changes."""
        if item not in self._sizes and run.status.batch > 0:
            return len(run.answer(item) or ())
        return self._sizes.get(item, 0) + run.change_size(item)[1]

    def _room(self, run: Run) -> int:
        """The most rows that are drawn of an answer."""
        lines = (self._console.height - _RESERVED) // max(len(run.printed), 1)
        return max(min(lines, _MOST_ROWS), 3)

    def _print_whole(self, run: Run, item: int) -> None:
        """Show the first rows of an answer."""
        if self._show is not None:
            print_answer(self._show(run.answer(item)))
            return
        saved, width = run.saved_answer(item), self._console.width
        rows, most = saved.rows, self._room(run) if self._limit is None else self._limit
        self._sizes[item] = len(rows)
        if saved.columns.title or len(run.printed) > 1:
            title = saved.columns.title or f"answer {item + 1}"
            self._answers.append(Text(visible(title), "bold cyan"))
        self._answers += answer_table(saved.columns, rows[:most], width)
        if len(rows) > most:
            self._answers.append(Text(f"the first {most:,} of {_rows(len(rows))}", "dim"))

    def _print_changes(self, run: Run, item: int, columns: AnswerColumns) -> None:
        """Print the first changes of a batch."""
        most = _MOST_CHANGES if self._limit is None else self._limit
        changes, all_ = run.changes(item, most), run.change_size(item)[0]
        if changes:
            for part in change_table(columns, changes, self._console.width):
                self._console.print(part)
        if all_ > len(changes):
            self._console.print(Text(f"and {all_ - len(changes):,} more changes", "dim"))

    # --- drawing ---

    def _refresh(self) -> None:
        """Draw now; answers that nobody draws in place are printed."""
        if self._live is None:
            for part in self._answers:
                self._console.print(part)
        else:
            self._live.refresh()

    def _drawn(self) -> RenderableType:
        """What is drawn in place; called by a thread of its own."""
        run = self._run
        if run is None:
            return Group(*self._answers)
        return Group(*self._answers, Text(self._activity(run), "dim"))

    def _activity(self, run: Run) -> str:
        """What the run is doing."""
        progress = run.progress()
        if self._is_stopping:
            if progress is None:
                return "stopping"
            return f"stopping after batch {progress.batch}; Ctrl-C again stops at once"
        if progress is None:
            return "waiting for new input; Ctrl-C stops"
        now = time.monotonic()
        if self._seen[0] != progress.batch:
            self._seen = progress.batch, now
        seconds = now - self._seen[1]
        return "" if seconds < _SOON else progress_line(progress, seconds)


def status_line(report: BatchReport) -> str:
    """A batch in plain words."""
    bad = "" if not report.bad.bad else f"; {count(report.bad.bad, 'line', 'lines')} left out"
    lag = "" if report.lag is None else f"; lag {duration(report.lag)}"
    return (
        f"batch {report.number}: {count(report.inserted, 'row', 'rows')} added, "
        f"{report.deleted:,} removed{bad}; "
        f"{count(report.changed, 'answer row', 'answer rows')} changed; "
        f"state {_rows(report.state_rows)}, {size_text(report.state_bytes)}; "
        f"{read_summary(report)}{duration(report.seconds)}{lag}{loop_summary(report)}"
    )


def progress_line(progress: Progress, seconds: float) -> str:
    """What a batch has read so far, how fast, and how much time is left."""
    files = count(progress.files, "file", "files")
    head = f"batch {progress.batch}: "
    if progress.read >= progress.size and progress.rows:
        return f"{head}{_rows(progress.rows)} read from {files}; computing the answer"
    share = f" ({100 * progress.read // max(progress.size, 1)}%)" if progress.read else ""
    text = f"{head}reading {files}, {size_text(progress.size)}{share}: {_rows(progress.rows)}"
    if progress.rows:
        text += f", {round(progress.rows / seconds):,} a second"
    if progress.read:
        left = (progress.size - progress.read) * seconds / progress.read
        text += f", {duration(left)} left"
    return text


def _rows(number: int) -> str:
    return count(number, "row", "rows")


def _printable(run: Run, item: int, *, shows_changes: bool) -> Value:
    from incmrql.values import Bag

    return Bag(run.changes(item)) if shows_changes else run.answer(item)


def _stopped(run: Run) -> str:
    """What a run that has stopped has left behind."""
    if run.own_folder is not None:
        return "stopped; without --checkpoint nothing is kept"
    number = run.status.batch
    after = f" after batch {number}" if number >= 0 else " before the first batch"
    return f"stopped{after}; run again with the same --checkpoint to continue"


def _interrupted(run: Run) -> str:
    """What a run that was stopped at once has left behind."""
    if run.own_folder is not None:
        return "stopped at once; without --checkpoint nothing is kept"
    number = run.status.batch
    if run.is_committing:
        return f"stopped at once: batch {number} is committed; the next start publishes its output"
    return f"stopped at once: batch {number + 1} was not committed and runs again at the next start"


__all__ = ["LivePrinter", "progress_line", "status_line"]
