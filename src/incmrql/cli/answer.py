"""`incmrql answer`: print or save the answer in a checkpoint, without Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from incmrql.cli.options import allow_import, allow_path
from incmrql.cli.terminal import align_rows, print_answer, tell

if TYPE_CHECKING:
    from typing import Literal

    Format = Literal["table", "mrql", "csv", "json", "parquet"]


@click.command(short_help="Print the current answer in a checkpoint.")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "--item",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Which answer, if the program has several.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "mrql", "csv", "json", "parquet"]),
    help="How to print it. mrql reads back as the same value; json is one row per line. "
    "[default: table]",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the whole answer to FILE, replacing it at once. Its ending is the format: "
    ".csv, .json, .jsonl, .parquet, or .mrql for a row per line in MRQL's notation.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print at most N rows. [default: all; on a terminal, 100 rows of a table]",
)
@allow_import
@allow_path
def answer(  # noqa: PLR0913, PLR0917 - one parameter for each option
    checkpoint: Path,
    item: int,
    format_: Format | None,
    output: Path | None,
    limit: int | None,
    modules: tuple[str, ...],
    allowed: tuple[str, ...],
) -> None:
    """Print the current answer in CHECKPOINT, as of its last batch.

    Nothing runs: the answer is read from the state, also beside a run that is working.
    """
    if output is not None and limit is not None:
        raise click.UsageError("--limit is for printing; --output writes the whole answer.")
    if output is not None and format_ is not None:
        raise click.UsageError("The ending of --output is its format: leave out --format.")
    if format_ == "parquet":
        raise click.UsageError("Parquet is not printed: name a file with --output.")
    from incmrql.api.checkpoints import SavedRun

    run = SavedRun(checkpoint, modules, allowed)
    count = len(run.program.outputs)
    if item > count:
        raise click.UsageError(f"There is no answer {item}. Answers are numbered 1 to {count}.")
    saved = run.saved_answer(item - 1)
    if output is not None:
        saved.write(output)
        tell(f"answer after batch {saved.batch}: {len(saved.rows):,} rows in {output}")
    elif format_ is None or format_ == "table":
        most = _ON_A_TERMINAL if limit is None and _is_terminal() else limit
        for line in align_rows([saved.header, *saved.cells(most)]):
            print_answer(line)
        shown, all_ = len(saved.rows[:most]), len(saved.rows)
        tell(f"answer after batch {saved.batch}: {_count(shown, all_)}")
    else:
        for line in saved.lines(format_, limit):
            print_answer(line)


_ON_A_TERMINAL = 100
"""Rows of a table on a terminal, unless `--limit` says otherwise."""


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _count(shown: int, all_: int) -> str:
    rows = "1 row" if all_ == 1 else f"{all_:,} rows"
    return rows if shown == all_ else f"the first {shown:,} of {rows}; --limit shows more"
