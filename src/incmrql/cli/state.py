"""`incmrql state`: show or repartition the state in a checkpoint, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from incmrql.cli.options import allow_import, allow_path
from incmrql.cli.terminal import align_rows, print_answer, tell

if TYPE_CHECKING:
    from incmrql.api.checkpoints import SavedRun
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
    as_json: bool,
    modules: tuple[str, ...],
    allowed: tuple[str, ...],
) -> None:
    """Show what CHECKPOINT holds: plan nodes, state tables, batches and files."""
    if node is not None and rebucket is not None:
        raise click.UsageError("--node and --rebucket cannot be combined.")
    from incmrql.api.checkpoints import SavedRun

    saved = SavedRun(checkpoint, modules, allowed)
    if node is not None:
        _show_rows(saved, node, limit, as_json=as_json)
    elif rebucket is not None:
        rows, before = saved.rebucket(rebucket)
        tell(f"{rows:,} rows from {before} to {rebucket} buckets")
    else:
        facts = saved.facts()
        print_answer(json.dumps(facts) if as_json else "\n".join(_summary(facts)))


def _summary(facts: dict[str, Any]) -> Iterator[str]:
    """The lines that describe a checkpoint."""
    yield f"checkpoint {facts['checkpoint']}, incmrql {facts['engine']}"
    last = facts["last_commit"]
    when = "" if last is None else f", the last at {datetime.fromtimestamp(last, UTC):%F %T} UTC"
    yield f"  {_many(facts['batches'], 'batch', 'batches')}{when}"
    yield f"  {_many(facts['files'], 'file', 'files')} ingested"
    size = f"{facts['bytes']:,} bytes in {_many(facts['buckets'], 'bucket', 'buckets')}"
    yield f"  {_many(facts['rows'], 'row', 'rows')} of state, {size}"
    if facts["window"]:
        yield "  each batch is answered on its own"
    if facts["begun"] is not None:
        files = _many(facts["begun"], "file", "files")
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


def _many(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _show_rows(saved: SavedRun, node: int, limit: int, *, as_json: bool) -> None:
    from incmrql.api.scripts import dump_json
    from incmrql.values import show

    count = len(saved.described["nodes"])
    if node >= count:
        raise click.UsageError(f"There is no node {node}. Nodes are numbered 0 to {count - 1}.")
    shown: Callable[[Value], str] = dump_json if as_json else show
    saved.program  # noqa: B018 - raises if the program cannot be compiled, also for empty nodes
    tables = [table for table in saved.tables() if table.node == node]
    if not tables:
        tell(f"node {node} has no state")
    for table in tables:
        tell(f"{table.name}: {table.holds}, {table.rows:,} rows in segments")
        for row in saved.rows(table.name, limit):
            print_answer(shown(row))
