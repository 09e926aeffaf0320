"""`incmrql try`: a query on your own data, cut into batches, verified and timed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from incmrql.cli.options import chosen_script, spark_settings
from incmrql.cli.terminal import tell, visible

if TYPE_CHECKING:
    from incmrql.api.session import Session
    from incmrql.api.trial import Trial, TriedBatch, TriedData, TriedQuery


_DIFFERENT: Final = 3
_WIDTH: Final = 40
"""Characters of the longest bar."""
_MOST_NODES: Final = 15
_MOST_LINES: Final = 8
"""Lines of a difference that are shown."""


@click.command("try", short_help="Try a query on your own data.")
@click.argument("file")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME=PATH",
    help="Where the rows of a table are: a file or folder of Parquet, csv or JSON. A schema may "
    "follow, as in NAME=PATH:'id INT, at DATE'. May be repeated.",
)
@click.option(
    "--static",
    multiple=True,
    metavar="NAME",
    help="A table that does not change, or a path that the query reads. May be repeated.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    metavar="N",
    help="Maximum number of rows to use of each table.",
)
@click.option(
    "--batches",
    type=click.IntRange(min=1, max=999),
    default=10,
    show_default=True,
    metavar="N",
    help="Batches after the first load.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.01,
    show_default=True,
    metavar="X",
    help="Changed rows of a batch, as a share of each table.",
)
@click.option(
    "--deletions",
    type=click.FloatRange(0, 1),
    default=0.2,
    show_default=True,
    metavar="X",
    help="Deletions, as a share of the changed rows.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the choice of deleted rows."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Begin no batch after this time, once there were three.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the batches in this new directory. [default: removed at the end]",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg",
    help="Write the times as a picture.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write everything as a JSON object; - is stdout.",
)
@click.option("--master", help="Spark master URL. [default: this machine]")
@click.option("--conf", multiple=True, metavar="K=V", help="Spark setting. May be repeated.")
def try_(  # noqa: PLR0913 - one parameter for each option
    *,
    file: str,
    tables: tuple[str, ...],
    static: tuple[str, ...],
    rows: int,
    batches: int,
    share: float,
    deletions: float,
    seed: int,
    seconds: float,
    keep: Path | None,
    plot: Path | None,
    json_file: Path | None,
    master: str | None,
    conf: tuple[str, ...],
) -> int:
    """Try the query FILE on your own data: whether it is right, and how fast.

    FILE is a script of Spark SQL (.sql) or MRQL (.mrql), or a Python file that builds a DataFrame
    (job.py, or job.py:NAME for one of several, or for a function that returns it). Its tables are
    those of --table, and the files that it reads itself.

    The data are cut into a first load and small batches of insertions and deletions. After each,
    the answer is compared with that of plain Spark over the same rows, and both are timed. Your
    files are only read. Exits with 3 if an answer was wrong.
    """
    from incmrql.api.session import Session
    from incmrql.api.trial import History, TableFile, TriedData, run_trial, trial_folder

    path, name = _split(file)
    settings = spark_settings(conf)
    if plot is not None and plot.suffix != ".svg":
        raise click.UsageError(f"--plot writes a picture of SVG: {plot.stem}.svg")
    history = History(batches, share, deletions, seed)
    data = TriedData([TableFile.of_text(text) for text in tables], static, history, rows)
    out = _Lines(to_stdout=json_file != Path("-"))
    with trial_folder(keep) as folder, Session(master=master, conf=settings) as session:
        out.doing("starting Spark")
        session.spark  # noqa: B018 - started on first access
        out.doing("reading the data")
        query = _query(session, path, name, data, folder)
        warnings = [problem for problem in _warnings(query) if problem.code != "W303"]
        out.explain(query, warnings)
        trial = run_trial(query, history, out, warnings=warnings, longest=seconds)
    out.finish(trial)
    if plot is not None:
        plot.write_text(_svg(trial), encoding="utf-8")
    if json_file is not None:
        text = json.dumps(trial.as_json(), ensure_ascii=False, indent=2)
        if json_file == Path("-"):
            click.echo(text)
        else:
            json_file.write_text(f"{text}\n", encoding="utf-8")
    if keep is not None:
        tell(f"the batches are in {keep}")
    return 0 if trial.is_right else _DIFFERENT


def _split(file: str) -> tuple[Path, str]:
    """The path of a query, and the name in a Python file."""
    name, place = "", file
    if not Path(file).exists() and ".py:" in file:
        place, _, name = file.rpartition(":")
    path = chosen_script(place, None)
    kinds = (".sql", ".mrql", ".py")
    if not isinstance(path, Path) or path.suffix not in kinds:
        raise click.UsageError(f"{file} is none of {', '.join(kinds)}.")
    return path, name


def _query(session: Session, path: Path, name: str, data: TriedData, folder: Path) -> TriedQuery:
    from incmrql.api.trial import job_query, mrql_query, sql_query

    match path.suffix:
        case ".py":
            return job_query(session, path, name, data, folder)
        case ".sql":
            return sql_query(session, path, data, folder)
        case _:
            return mrql_query(session, path, data, folder)


def _warnings(query: TriedQuery) -> Sequence[Any]:
    from incmrql.api.scripts import advice

    return advice(query.compiled)


# --- what is shown ---


@dataclass(slots=True)
class _Lines:
    """The report: lines on stdout, and what is going on below them if stderr is a terminal."""

    to_stdout: bool
    _is_busy: bool = False

    def doing(self, what: str) -> None:
        """Show what begins now."""
        if sys.stderr is not None and sys.stderr.isatty():
            self._clear()
            click.echo(f"{visible(what)} ...", nl=False, err=True)
            self._is_busy = True

    def say(self, text: str = "") -> None:
        """Print a line of the report."""
        self._clear()
        click.echo(visible(text), err=not self.to_stdout)

    def explain(self, query: TriedQuery, warnings: Sequence[Any]) -> None:
        """Print what is used and what is kept."""
        from incmrql.api.trial import describe_use, kept_lines

        self.say("data:")
        for use in query.uses:
            self.say(f"  {describe_use(use)}")
        self.say("\nwhat is kept (incmrql explain says more):")
        lines = list(kept_lines(query.compiled))
        for line in lines[:_MOST_NODES]:
            self.say(f"  {line}")
        if len(lines) > _MOST_NODES:
            self.say(f"  and {len(lines) - _MOST_NODES} more lines")
        for note in query.notes:
            self.say(f"  note: {note}")
        for warning in warnings:
            self.say(warning.render())
        self.say("\nbatches:")

    def batch(self, batch: TriedBatch) -> None:
        """Print a batch."""
        from incmrql.api.trial import duration

        what = "first load" if not batch.number else f"batch {batch.number}"
        rows = f"{batch.inserted:,} rows in, {batch.deleted:,} out"
        times = f"{duration(batch.seconds)}, plain Spark {duration(batch.again)}"
        result = "equal" if not batch.difference else "DIFFERENT"
        self.say(f"  {what}: {rows}; {batch.changed:,} changes of the answer; {times}; {result}")
        lines = batch.difference.splitlines()
        for line in lines[:_MOST_LINES]:
            self.say(f"    {line}")
        if len(lines) > _MOST_LINES:
            self.say(f"    and {len(lines) - _MOST_LINES} more lines")

    def finish(self, trial: Trial) -> None:
        """Print the plot and the verdict."""
        from incmrql.api.trial import verdict

        if trial.later:
            self.say("\ntimes: █ incremental, ░ plain Spark beyond it")
            for line in _bars(trial.later):
                self.say(f"  {line}")
        if trial.rebuilt == "different":
            self.say(trial.rebuilt_difference)
        self.say()
        for line in verdict(trial):
            self.say(line)

    def _clear(self) -> None:
        if self._is_busy:
            click.echo("\r\x1b[K", nl=False, err=True)
        self._is_busy = False


def _bars(batches: Sequence[TriedBatch]) -> Iterator[str]:
    """A bar for each batch: as long as the longer time, filled as far as the incremental one."""
    from incmrql.api.trial import duration

    longest = max(max(batch.seconds, batch.again) for batch in batches)
    for batch in batches:
        ours = max(1, round(batch.seconds / longest * _WIDTH))
        other = round(batch.again / longest * _WIDTH)
        bar = "█" * min(ours, max(other, 1)) + ("░" if other > ours else "▓") * abs(other - ours)
        times = f"{duration(batch.seconds)}, {duration(batch.again)}"
        yield f"{batch.number:>3} {bar[:_WIDTH].ljust(_WIDTH)} {times}"


def _svg(trial: Trial) -> str:
    """The times of all batches after the first as bars: incremental blue, plain Spark grey."""
    width, height, bar = 40 * max(1, len(trial.later)) + 80, 240, 14
    longest = max((max(b.seconds, b.again) for b in trial.later), default=1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="16">ms by batch (longest {longest * 1000:,.0f}): incremental blue, '
        "plain Spark grey</text>",
    ]
    for place, batch in enumerate(trial.later):
        for offset, (seconds, colour) in enumerate(
            ((batch.seconds, "#1f77b4"), (batch.again, "#999999"))
        ):
            tall = seconds / longest * (height - 60)
            parts.append(
                f'<rect x="{40 + place * 40 + offset * bar}" y="{height - 25 - tall:.1f}" '
                f'width="{bar - 1}" height="{tall:.1f}" fill="{colour}">'
                f"<title>{seconds * 1000:,.0f} ms</title></rect>"
            )
        parts.append(f'<text x="{46 + place * 40}" y="{height - 10}">{batch.number}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
