"""A program in its checkpoint: described when a run starts, and recompiled without that run.

Recompiling needs no Spark and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from incmrql.compiler.combined import CombinedQueries, compile_combined
from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import READ_ONLY, Imports, catalog_for
from incmrql.compiler.plans import PlanScript, compile_plans, sources_of_json
from incmrql.engine.compile.program import compile_program
from incmrql.engine.store.content import SortedRows
from incmrql.engine.store.segments import OpenSegments
from incmrql.engine.store.sorting import TableInfo
from incmrql.engine.store.tables import Reader, StateTable, scan
from incmrql.errors import CheckpointError, DataError, IncmrqlError, SourceText
from incmrql.io.arrow.columns import column_values
from incmrql.io.files import ANYWHERE, Paths
from incmrql.plan.identity import Encoder, program_identity
from incmrql.plan.nodes import Constant, Groups, Input, Join, Linear, Merge, Node, Ordered
from incmrql.plan.program import Program, Stream
from incmrql.runtime.checkpoint.manifests import Checkpoint, State
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.folders import FolderFeed
from incmrql.runtime.feeds.frames import FrameFeed
from incmrql.runtime.feeds.once import OnceFeed, RegisteredFeed
from incmrql.runtime.feeds.push import PushFeed
from incmrql.runtime.feeds.readers import ReaderFeed
from incmrql.runtime.feeds.sockets import SocketFeed
from incmrql.runtime.feeds.spooled import Feed
from incmrql.types import typed
from incmrql.types.model import PREDEFINED
from incmrql.values import Bag, Record, Value, read

# --- Description and sources ---


class StreamingFrame:
    """Marks a name whose rows come from a streaming DataFrame."""


def describe(
    program: Program, script: Mapping[str, Any], tables: Iterable[TableInfo] = ()
) -> dict[str, Any]:
    """The description of a program for its checkpoint.

    `script` is what is needed to recompile it, and `tables` are its state tables.
    """
    identity = program_identity(program)
    nodes = [
        {"identity": digest, "kind": kind_of(node), "about": about(node)}
        for digest, node in zip(identity.nodes, program.nodes, strict=True)
    ]
    return {
        "engine": version("incmrql"),
        "identity": identity.whole,
        "texts": [output.text for output in program.outputs],
        "nodes": nodes,
        "streams": [_stream_json(stream) for stream in program.streams],
        "tables": {table.name: _table_json(program, table) for table in tables},
        "script": dict(script),
    }


def _table_json(program: Program, table: TableInfo) -> dict[str, Any]:
    """What a table holds, and the digest of its schema: its columns and their order."""
    schema = table.schema
    encoder = Encoder(program.script)
    encoder.add((schema.keys, schema.rest, schema.descending, schema.most, schema.last))
    return {
        "node": table.node,
        "answer": table.answer,
        "holds": table.holds,
        "form": encoder.digest(),
    }


def kind_of(node: Node) -> str:
    """The kind of a node, in one word."""
    match node:
        case Input():
            return "source"
        case Constant():
            return "constant"
        case Linear():
            return "map"
        case Merge():
            return "union"
        case Join():
            return "join"
        case Groups():
            return "groups"
        case Ordered():
            return "order"
        case _:
            return "loop"


def about(node: Node) -> str:
    """What distinguishes a node from others of its kind, for messages."""
    match node:
        case Input(name=name):
            return name
        case Join(key=key) | Groups(key=key):
            return f"by {key}"
        case _:
            return ""


def _stream_json(stream: Stream) -> dict[str, Any]:
    return {
        "place": stream.place,
        "name": stream.name,
        "format": stream.source.format,
        "path": stream.path,
        "deletes": stream.deletes,
        "streaming": stream.streaming,
    }


def feeds_of(  # noqa: PLR0913 (a program, its state, and its data)
    program: Program,
    checkpoint: Checkpoint,
    state: State,
    settle: float,
    archive: Archive,
    registered: Mapping[str, Any],
    *,
    window: bool,
    allow_empty: bool = False,
) -> list[Feed]:
    """The feed of each source of a program."""
    feeds: list[Feed] = []
    for stream in program.streams:
        ingested = state.ingested.setdefault(stream.place, {})
        folder = checkpoint.input / f"source-{stream.place}"
        begun = state.number >= 0 and not window
        data = registered.get(stream.source.name) if stream.source.name else None
        if stream.source.reader is not None:
            pending = checkpoint.intent(state.number + 1) or ()
            feed = ReaderFeed(
                stream, folder, ingested, settle, archive,
                begun=begun, allow_empty=allow_empty, pending=pending,
            )  # fmt: skip
            feeds.append(feed)
        elif stream.socket is not None:
            feeds.append(SocketFeed(stream, folder, ingested))
        elif stream.path is None and isinstance(data, StreamingFrame):
            feeds.append(FrameFeed(stream, folder, ingested, checkpoint.check_newest))
        elif stream.path is None and stream.streaming:
            feeds.append(PushFeed(stream, folder, ingested, check=checkpoint.check_newest))
        elif stream.path is None:
            if data is None and not begun:
                message = f'no data are registered as "{stream.source.name}"'
                raise DataError("R208", message, hint="Register data before the start.")
            feeds.append(RegisteredFeed(stream, folder, data, ingested, begun=begun))
        elif stream.streaming:
            feeds.append(FolderFeed(stream, ingested, settle, archive, allow_empty=allow_empty))
        else:
            feeds.append(OnceFeed(stream, ingested, begun=begun))
    return feeds


# --- Recompiling ---


def read_program(
    folder: Path, modules: Iterable[str] = (), paths: Paths = ANYWHERE
) -> tuple[Program, dict[str, Any]]:
    """The program of a checkpoint and its description; refused if it cannot be recompiled.

    Relative paths of the script mean the same as at its start only in the same directory.  Only the
    Python `modules` named here are imported, because whoever wrote the checkpoint chose its code.
    Includes and types of files are read where `paths` allows it.
    """
    described = dict(Checkpoint(folder).description())
    return recompile(folder, described, Imports(frozenset(modules), paths=paths)), described


def recompile(folder: Path, described: Mapping[str, Any], imports: Imports = READ_ONLY) -> Program:
    """The program that a checkpoint describes; `imports` says what its script may import."""
    script = described.get("script") or {}
    if "text" not in script:
        message = f"checkpoint {folder} does not record its script"
        raise CheckpointError(f"{message}: it was not created by incmrql run")
    try:
        program = _compile_saved(script, imports, watch=bool(described.get("watch")))
    except IncmrqlError as problem:
        message = f"the script of checkpoint {folder} cannot be compiled again"
        raise CheckpointError(f"{message}:\n{problem}") from problem
    if program.identity != described["identity"]:
        message = f"checkpoint {folder} was created with a different version of its script"
        raise CheckpointError(f"{message} or of incmrql ({described['engine']})")
    return program


def _compile_saved(saved: dict[str, Any], imports: Imports, *, watch: bool) -> Program:
    """The program of a script as the checkpoint records it."""
    if "queries" in saved:  # of several kinds, which a Python session has combined
        queries = CombinedQueries.of_json(saved["queries"])
        compiled = compile_combined(queries, imports)
        return compiled.program(compiled.items, queries.arguments, watch=watch)
    if "plans" in saved:  # of Spark, which need no analysis
        compiled = compile_plans(PlanScript.of_json(saved["plans"]))
        return compiled.program([compiled.items[n] for n in saved["items"]], watch=watch)
    path, words = saved.get("path", ""), list(saved.get("arguments", ()))
    source = SourceText(saved["text"], path or "<query>")
    declared = sources_of_json(saved.get("registered", {}))
    registered = {name: (source.row, source.streaming) for name, source in declared.items()}
    catalog = replace(catalog_for(source, words, imports), registered=registered)
    compiled = compile_script(source, catalog, imports.include)
    items = compiled.streaming
    if "item" in saved:  # written by a Python session, which follows one query of a text
        compiled = compiled.with_options(
            {n: dict(source.options) for n, source in declared.items()}
        )
        items = (compiled.items[saved["item"]],)
    return compiled.program(items, words, _stored_values(saved, compiled.typed), watch=watch)


def _stored_values(saved: dict[str, Any], script: typed.Script) -> dict[str, Value]:
    """The values that items of the script have stored, by name."""
    data = script.data or PREDEFINED
    positions = {
        constructor.name: position
        for constructors in data.values()
        for position, constructor in enumerate(constructors)
    }
    texts = saved.get("stored", {})
    return {name: read(text, positions) for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What users see of a state table."""

    name: str
    node: int | None
    """The node it belongs to; None for a part of an answer."""
    holds: str
    rows: int
    """Rows of all segments; a key counts once for each segment that has it."""
    size: int
    runs: int


def table_facts(tables: Mapping[str, Any], described: Mapping[str, Any]) -> list[TableFacts]:
    """The tables that a manifest lists, those of nodes first, with what the description says."""
    known = described.get("tables", {})

    def order(name: str) -> tuple[bool, int, str]:
        table = known.get(name, {})
        owner = table.get("node")
        return owner is None, table.get("answer") or 0 if owner is None else owner, name

    facts = []
    for name in sorted(tables, key=order):
        segments = [*tables[name]["bases"], *tables[name]["levels"]]
        table = known.get(name, {})
        rows = sum(sum(segment["counts"]) for segment in segments)
        size = sum(segment["size"] for segment in segments)
        node, holds = table.get("node"), table.get("holds", "")
        facts.append(TableFacts(name, node, holds, rows, size, len(segments)))
    return facts


@dataclass(frozen=True, slots=True)
class SavedState:
    """The committed state tables of a checkpoint."""

    tables: Mapping[str, StateTable]
    reader: Reader

    def rows(self, name: str) -> Iterator[Value]:
        """The rows of a table as records: the key, the row, its weight, its accumulators.

        Each row comes once, with the sums over all segments.
        """
        table = self.tables[name]
        for bucket in range(table.buckets):
            yield from _records(scan(table, self.reader, bucket))


def saved_state(folder: Path, program: Program) -> SavedState:
    """The committed state of a checkpoint, read with the schemas of its program."""
    checkpoint = Checkpoint(folder, compile_program(program).schemas)
    checkpoint.description()
    reader = Reader(checkpoint.runs.absolute(), OpenSegments())
    return SavedState(checkpoint.committed_state().tables, reader)


def _records(content: SortedRows) -> Iterator[Value]:
    schema = content.schema
    keys = _tuples(content.keys.columns, schema.keys, len(content))
    rest = _tuples(content.rest.columns, schema.rest, len(content))
    weights = content.weights.tolist()
    parts = {name: column.tolist() for name, column in content.parts.items()}
    for index, key in enumerate(keys):
        fields: dict[str, Value] = {"key": key}
        if schema.rest:
            fields["row"] = rest[index]
        fields["times"] = weights[index]
        if parts:
            fields["sums"] = Bag([(name, column[index]) for name, column in parts.items()])
        yield Record.of(tuple(fields), list(fields.values()))


def _tuples(columns: tuple[Any, ...], types: tuple[Any, ...], count: int) -> list[Value]:
    """The rows of several columns as tuples; of one column, its values."""
    lists = [column_values(c, t) for c, t in zip(columns, types, strict=True)]
    if not lists:
        return [()] * count
    return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))
