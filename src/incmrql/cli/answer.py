"""`incmrql answer`: print or save the answer in a checkpoint, without Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from incmrql.cli.options import allow_import, allow_path
from incmrql.cli.terminal import align_rows, count, is_terminal, print_answer, tell

if TYPE_CHECKING:
    from typing import Literal

    from incmrql.api.saved_answers import SavedAnswer

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
@click.option(
    "--as-of",
    type=click.IntRange(min=0),
    metavar="N",
    help="The answer after batch N, one of the last (see run --keep-batches). "
    "[default: after the last]",
)
@allow_import
@allow_path
def answer(  # noqa: PLR0913, PLR0917 - one parameter for each option
    checkpoint: Path,
    item: int,
    format_: Format | None,
    output: Path | None,
    limit: int | None,
    as_of: int | None,
    modules: tuple[str, ...],
    allowed: tuple[str, ...],
) -> None:
    """Print the answer in CHECKPOINT after its last batch.

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
    answers = len(run.program.outputs)
    if item > answers:
        raise click.UsageError(f"There is no answer {item}. Answers are numbered 1 to {answers}.")
    saved = run.saved_answer(item - 1, as_of=as_of)
    if output is not None:
        saved.write(output)
        rows = count(len(saved.rows), "row", "rows")
        tell(f"answer after batch {saved.batch}: {rows} in {output}")
    elif format_ is None or format_ == "table":
        _print_table(saved, limit)
    else:
        for line in saved.lines(format_, limit):
            print_answer(line)


_ON_A_TERMINAL = 100
"""Rows of a table on a terminal, unless `--limit` says otherwise."""


def _print_table(saved: SavedAnswer, limit: int | None) -> None:
    """Print the first rows of an answer, on a terminal cut to its width."""
    rows = saved.rows
    if is_terminal(sys.stdout):
        from incmrql.cli.tables import print_table

        shown = rows[: _ON_A_TERMINAL if limit is None else limit]
        print_table(saved.columns, shown)
    else:
        shown = rows[:limit]
        for line in align_rows([saved.header, *saved.columns.cells(shown)]):
            print_answer(line)
    tell(f"answer after batch {saved.batch}: {_size(len(shown), len(rows))}")


def _size(shown: int, all_: int) -> str:
    rows = count(all_, "row", "rows")
    return rows if shown == all_ else f"the first {shown:,} of {rows}; --limit shows more"
