"""`incmrql state`: show or repartition the state in a checkpoint, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from incmrql.cli.options import allow_import, allow_path
from incmrql.cli.terminal import align_rows, count, print_answer, tell

if TYPE_CHECKING:
    from incmrql.api.checkpoints import RolledBack, SavedRun
    from incmrql.values import Value


@click.command(short_help="Show what a checkpoint holds.")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "--node",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show the rows of node N's state tables.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="Maximum number of rows to show per table.",
)
@click.option(
    "--rebucket",
    type=click.IntRange(min=1, max=4096),
    metavar="N",
    help="Repartition the state into N buckets.",
)
@click.option(
    "--copy-to",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Copy the checkpoint to a new directory. The copy has no output directories.",
)
@click.option(
    "--roll-back-to",
    type=click.IntRange(min=0),
    metavar="N",
    help="Go back to the state after batch N, one of the last. Outputs get the difference.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: one object, or with --node one row per line.",
)
@allow_import
@allow_path
def state(  # noqa: PLR0913, PLR0917 - one parameter for each option
    checkpoint: Path,
    node: int | None,
    limit: int,
    rebucket: int | None,
    copy_to: Path | None,
    roll_back_to: int | None,
    as_json: bool,
    modules: tuple[str, ...],
    allowed: tuple[str, ...],
) -> None:
    """Show what CHECKPOINT holds: plan nodes, state tables, batches and files.

    With --rebucket, --copy-to or --roll-back-to, change or copy it instead.
    """
    named = {"node": node, "rebucket": rebucket, "copy-to": copy_to, "roll-back-to": roll_back_to}
    given = [f"--{name}" for name, value in named.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} cannot be combined.")
    from incmrql.api.checkpoints import SavedRun

    saved = SavedRun(checkpoint, modules, allowed)
    if node is not None:
        _show_rows(saved, node, limit, as_json=as_json)
    elif rebucket is not None:
        rows, before = saved.rebucket(rebucket)
        tell(f"{count(rows, 'row', 'rows')} from {before} to {rebucket} buckets")
    elif copy_to is not None:
        batch = saved.copy_to(copy_to)
        tell(f"copied as of batch {batch} to {copy_to}; name a new --output for its answers")
    elif roll_back_to is not None:
        _tell_rolled_back(saved.roll_back(roll_back_to))
    else:
        facts = saved.facts()
        print_answer(json.dumps(facts) if as_json else "\n".join(_summary(facts)))


def _tell_rolled_back(result: RolledBack) -> None:
    tell(f"batch {result.batch} went back to the state after batch {result.to}")
    if result.again:
        tell(f"{count(result.again, 'file is', 'files are')} new input again for the next batch")
    if result.gone:
        which, whose = ("file", "its") if result.gone == 1 else ("files", "their")
        verb = "exists" if result.gone == 1 else "exist"
        tell(
            f"{result.gone:,} {which} of later batches no longer {verb}: "
            f"no answer has {whose} rows any more"
        )


def _summary(facts: dict[str, Any]) -> Iterator[str]:
    """The lines that describe a checkpoint."""
    yield f"checkpoint {facts['checkpoint']}, incmrql {facts['engine']}"
    last = facts["last_commit"]
    when = "" if last is None else f", the last at {datetime.fromtimestamp(last, UTC):%F %T} UTC"
    yield f"  {count(facts['batches'], 'batch', 'batches')}{when}"
    yield f"  {count(facts['files'], 'file', 'files')} ingested"
    size = f"{facts['bytes']:,} bytes in {count(facts['buckets'], 'bucket', 'buckets')}"
    yield f"  {count(facts['rows'], 'row', 'rows')} of state, {size}"
    if facts["window"]:
        yield "  each batch is answered on its own"
    if facts["begun"] is not None:
        files = count(facts["begun"], "file", "files")
        yield f"  batch {facts['batches']} was begun and not committed: {files}"
    text = facts["script"].get("text", "")
    if text:
        yield from ("", "script", *(f"  {line}" for line in text.strip().splitlines()))
    yield from ("", *_nodes(facts))
    yield from ("", *_tables(facts))


def _nodes(facts: dict[str, Any]) -> list[str]:
    kept: dict[int, list[str]] = {}
    for table in facts["tables"]:
        if table["node"] is not None:
            kept.setdefault(table["node"], []).append(table["holds"])
    return align_rows(
        [
            ("node", "kind", "about", "keeps"),
            *[
                (
                    str(node["number"]),
                    node["kind"],
                    node["about"],
                    ", ".join(dict.fromkeys(kept.get(node["number"], ["nothing"]))),
                )
                for node in facts["nodes"]
            ],
        ]
    )


def _tables(facts: dict[str, Any]) -> list[str]:
    return align_rows(
        [
            ("table", "node", "holds", "rows", "bytes", "segments"),
            *[
                (
                    table["name"],
                    "" if table["node"] is None else str(table["node"]),
                    table["holds"],
                    f"{table['rows']:,}",
                    f"{table['size']:,}",
                    str(table["runs"]),
                )
                for table in facts["tables"]
            ],
        ]
    )


def _show_rows(saved: SavedRun, node: int, limit: int, *, as_json: bool) -> None:
    from incmrql.api.scripts import dump_json
    from incmrql.values import show

    nodes = len(saved.described["nodes"])
    if node >= nodes:
        raise click.UsageError(f"There is no node {node}. Nodes are numbered 0 to {nodes - 1}.")
    shown: Callable[[Value], str] = dump_json if as_json else show
    saved.program  # noqa: B018 - raises if the program cannot be compiled, also for empty nodes
    tables = [table for table in saved.tables() if table.node == node]
    if not tables:
        tell(f"node {node} has no state")
    for table in tables:
        tell(f"{table.name}: {table.holds}, {table.rows:,} rows in segments")
        for row in saved.rows(table.name, limit):
            print_answer(shown(row))
