"""`incmrql state`: what a checkpoint holds, without Spark."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from incmrql.cli.settings import allow_import, allow_path
from incmrql.cli.terminal import answer, tell

if TYPE_CHECKING:
    from incmrql.runtime.ownership import Ownership
    from incmrql.values import Value


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--node", type=click.IntRange(min=0), help="Show the rows of this node's tables.")
@click.option("--limit", type=click.IntRange(min=0), default=20, help="Rows to show of a table.")
@click.option("--rebucket", type=click.IntRange(min=1, max=4096), help="Cut the state in N parts.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: an object, or a row a line.")
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
    """Show what CHECKPOINT holds: its nodes, what they keep, batches and files."""
    if node is not None and rebucket is not None:
        raise click.UsageError("--node and --rebucket do not go together.")
    from incmrql.formats import Paths
    from incmrql.runtime.checkpoint import Checkpoint
    from incmrql.runtime.ownership import ownership

    folder = checkpoint.absolute()
    may = ownership(Checkpoint(folder), Paths.of(allowed))
    if node is not None:
        _show_rows(folder, node, limit, modules, may, as_json=as_json)
    elif rebucket is not None:
        _rebucket(folder, rebucket, modules, may)
    else:
        facts = _facts(folder)
        answer(json.dumps(facts) if as_json else "\n".join(_told(facts)))


@contextlib.contextmanager
def beside(described: dict[str, Any]) -> Iterator[None]:
    """In the folder where a script was started, which its paths are relative to."""
    folder = (described.get("script") or {}).get("folder", "")
    with contextlib.chdir(folder) if os.path.isdir(folder) else contextlib.nullcontext():
        yield


def _facts(folder: Path) -> dict[str, Any]:
    from incmrql.runtime.checkpoint import Checkpoint
    from incmrql.runtime.reopening import table_facts

    checkpoint = Checkpoint(folder)
    described, last = checkpoint.described(), checkpoint.last()
    tables = table_facts(last["tables"], described)
    intended = checkpoint.intent(last["batch"] + 1)
    return {
        "checkpoint": str(folder),
        "engine": described["engine"],
        "script": described.get("script") or {},
        "window": bool(described.get("window")),
        "buckets": checkpoint.buckets,
        "batches": last["batch"] + 1,
        "last_commit": last["time"] if last["batch"] >= 0 else None,
        "begun": None if intended is None else len(intended),
        "files": len({file.path for batch in checkpoint.batches() for file, _ in batch}),
        "rows": sum(table.rows for table in tables),
        "bytes": sum(table.size for table in tables),
        "sources": described["streams"],
        "nodes": [
            {**{key: each[key] for key in ("kind", "about")}, "number": number}
            for number, each in enumerate(described["nodes"])
        ],
        "tables": [asdict(table) for table in tables],
    }


def _told(facts: dict[str, Any]) -> Iterator[str]:
    """What is known of a checkpoint, as lines."""
    yield f"checkpoint {facts['checkpoint']}, incmrql {facts['engine']}"
    last = facts["last_commit"]
    when = "" if last is None else f", the last at {datetime.fromtimestamp(last, UTC):%F %T} UTC"
    yield f"  {_many(facts['batches'], 'batch', 'batches')}{when}"
    yield f"  {_many(facts['files'], 'file', 'files')} taken in"
    size = f"{facts['bytes']:,} bytes in {_many(facts['buckets'], 'bucket', 'buckets')}"
    yield f"  {_many(facts['rows'], 'row', 'rows')} of state, {size}"
    if facts["window"]:
        yield "  each batch is answered alone"
    if facts["begun"] is not None:
        yield f"  batch {facts['batches']} was begun: {_many(facts['begun'], 'file', 'files')}"
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
    return _aligned(
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
    return _aligned(
        [
            ("table", "node", "holds", "rows", "bytes", "runs"),
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


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _many(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _show_rows(
    folder: Path,
    node: int,
    limit: int,
    modules: tuple[str, ...],
    may: Ownership,
    *,
    as_json: bool,
) -> None:
    from incmrql.formats import dump_json
    from incmrql.runtime.checkpoint import Checkpoint
    from incmrql.runtime.reopening import read_program, table_facts, table_rows
    from incmrql.values import show

    checkpoint = Checkpoint(folder)
    described = dict(checkpoint.described())
    count = len(described["nodes"])
    if node >= count:
        raise click.UsageError(f"There is no node {node}: the nodes are 0 to {count - 1}.")
    tables = table_facts(checkpoint.last()["tables"], described)
    shown: Callable[[Value], str] = dump_json if as_json else show
    with beside(described):
        program, _ = read_program(folder, modules, may.program)
        mine = [table for table in tables if table.node == node]
        if not mine:
            tell(f"node {node} keeps nothing")
        for table in mine:
            tell(f"{table.name}: {table.holds}, {table.rows:,} rows in runs")
            for row in islice(table_rows(folder, program, table.name), limit):
                answer(shown(row))


def _rebucket(folder: Path, buckets: int, modules: tuple[str, ...], may: Ownership) -> None:
    from incmrql.diagnostics import InternalError
    from incmrql.runtime import Driver, StreamOptions
    from incmrql.runtime.checkpoint import Checkpoint
    from incmrql.runtime.rebucket import rebucket
    from incmrql.runtime.reopening import read_program

    def no_spark() -> Any:
        raise InternalError("rewriting a checkpoint asked for Spark")

    described = dict(Checkpoint(folder).described())
    with beside(described):
        program, _ = read_program(folder, modules, may.program)
    options = StreamOptions(
        window=bool(described.get("window")),
        iterate="diffuse" if described.get("diffuse") else "default",
        paths=may.outputs,
        reads_sources=False,
    )
    script = described.get("script") or {}
    with beside(described), Driver(program, folder, None, no_spark, options, script=script) as it:
        before = it.checkpoint.buckets
        rows = rebucket(it, buckets)
    tell(f"{rows:,} rows from {before} to {buckets} buckets")
