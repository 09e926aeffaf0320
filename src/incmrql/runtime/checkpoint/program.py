"""A program in its checkpoint: described by the run that starts it, and compiled again without it.

Compiling it again needs no Spark, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import READ_ONLY, Imports, catalog_for
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
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.model import PREDEFINED
from incmrql.values import Bag, Record, Value, read

# --- Description and sources ---


class StreamingFrame:
    """Marks a name whose rows come from a streaming data frame."""


def describe(
    program: Program, script: Mapping[str, Any], tables: Iterable[TableInfo] = ()
) -> dict[str, Any]:
    """What a checkpoint says of its program.

    `script` is how it was asked for, and `tables` are those that it keeps.
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
        "streams": [_described(stream) for stream in program.streams],
        "tables": {table.name: _table(program, table) for table in tables},
        "script": dict(script),
    }


def _table(program: Program, table: TableInfo) -> dict[str, Any]:
    """What a table holds, and the digest of its form: of what columns, in which order."""
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
    """The kind of a node in a word."""
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
    """What tells a node from others of its kind."""
    match node:
        case Input(name=name):
            return name
        case Join(key=key) | Groups(key=key):
            return f"by {key}"
        case _:
            return ""


def _described(stream: Stream) -> dict[str, Any]:
    return {
        "place": stream.place,
        "name": stream.name,
        "format": stream.source.format,
        "path": stream.path,
        "deletes": stream.deletes,
        "streaming": stream.streaming,
    }


def feeds_of(  # noqa: PLR0913 (a program, where it stands, and its data)
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
    """The sources of a program at work."""
    found: list[Feed] = []
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
            found.append(feed)
        elif stream.socket is not None:
            found.append(SocketFeed(stream, folder, ingested))
        elif stream.path is None and isinstance(data, StreamingFrame):
            found.append(FrameFeed(stream, folder, ingested, checkpoint.check_newest))
        elif stream.path is None and stream.streaming:
            found.append(PushFeed(stream, folder, ingested, check=checkpoint.check_newest))
        elif stream.path is None:
            if data is None and not begun:
                message = f'there are no data for "{stream.source.name}"'
                raise DataError("R208", message, hint="Register them before the start.")
            found.append(RegisteredFeed(stream, folder, data, ingested, begun=begun))
        elif stream.streaming:
            found.append(FolderFeed(stream, ingested, settle, archive, allow_empty=allow_empty))
        else:
            found.append(OnceFeed(stream, ingested, begun=begun))
    return found


# --- Compiled again ---


def read_program(
    folder: Path, modules: Iterable[str] = (), paths: Paths = ANYWHERE
) -> tuple[Program, dict[str, Any]]:
    """The program of a checkpoint and its description; refused if it cannot be made again.

    Paths of the script mean what they meant when it was started only in the same folder.  Only
    the Python `modules` that are named are imported: whoever wrote the checkpoint chose its code.
    Includes and types of files are read where `paths` allows it.
    """
    described = dict(Checkpoint(folder).described())
    return recompile(folder, described, Imports(frozenset(modules), paths=paths)), described


def recompile(folder: Path, described: Mapping[str, Any], imports: Imports = READ_ONLY) -> Program:
    """The program that the description in a checkpoint tells of, with what it may import."""
    asked = described.get("script") or {}
    if "text" not in asked:
        message = f"checkpoint {folder} does not say which script it is of"
        raise CheckpointError(f"{message}: it was not made by incmrql run")
    try:
        program = _compiled_again(asked, imports, watch=bool(described.get("watch")))
    except IncmrqlError as problem:
        message = f"the script of checkpoint {folder} cannot be read again"
        raise CheckpointError(f"{message}:\n{problem}") from problem
    if program.identity != described["identity"]:
        message = f"checkpoint {folder} is of another version of its script or of incmrql"
        raise CheckpointError(f"{message} ({described['engine']})")
    return program


def _compiled_again(asked: dict[str, Any], imports: Imports, *, watch: bool) -> Program:
    path, words = asked.get("path", ""), list(asked.get("arguments", ()))
    source = SourceText(asked["text"], path or "<query>")
    known = asked.get("registered", {})
    registered = {n: (type_from_text(each["type"]), each["streaming"]) for n, each in known.items()}
    catalog = replace(catalog_for(source, words, imports), registered=registered)
    compiled = compile_script(source, catalog, imports.include)
    items = compiled.streaming
    if "item" in asked:  # of a session in Python, which follows one query of a text
        compiled = compiled.with_options({n: _options(each) for n, each in known.items()})
        items = (compiled.items[asked["item"]],)
    return compiled.program(items, words, _stored(asked, compiled.typed), watch=watch)


def _options(registered: dict[str, Any]) -> dict[str, Any]:
    """What a session has declared of a source; JSON has no tuples."""
    options = registered["options"].items()
    return {name: tuple(each) if isinstance(each, list) else each for name, each in options}


def _stored(asked: dict[str, Any], script: typed.Script) -> dict[str, Value]:
    data = script.data or PREDEFINED
    positions = {
        each.name: position
        for constructors in data.values()
        for position, each in enumerate(constructors)
    }
    texts = asked.get("stored", {})
    return {name: read(text, positions) for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A state table in numbers."""

    name: str
    node: int | None
    """The node it belongs to; None for a part of an answer."""
    holds: str
    rows: int
    """A key counts once for each run that holds it."""
    size: int
    runs: int


def table_facts(tables: Mapping[str, Any], described: Mapping[str, Any]) -> list[TableFacts]:
    """The tables that a manifest lists, those of nodes first, as their program is described."""
    known = described.get("tables", {})

    def order(name: str) -> tuple[bool, int, str]:
        table = known.get(name, {})
        owner = table.get("node")
        return owner is None, table.get("answer") or 0 if owner is None else owner, name

    found = []
    for name in sorted(tables, key=order):
        runs = [*tables[name]["bases"], *tables[name]["levels"]]
        table = known.get(name, {})
        rows = sum(sum(run["counts"]) for run in runs)
        size = sum(run["size"] for run in runs)
        node, holds = table.get("node"), table.get("holds", "")
        found.append(TableFacts(name, node, holds, rows, size, len(runs)))
    return found


@dataclass(frozen=True, slots=True)
class SavedState:
    """The committed state tables of a checkpoint."""

    tables: Mapping[str, StateTable]
    reader: Reader

    def rows(self, name: str) -> Iterator[Value]:
        """The rows of a table as records: the key, the row, how often, what is added up.

        Each is there once, with what all runs add up to.
        """
        table = self.tables[name]
        for bucket in range(table.buckets):
            yield from _records(scan(table, self.reader, bucket))


def saved_state(folder: Path, program: Program) -> SavedState:
    """The state that the program of a checkpoint has left there."""
    checkpoint = Checkpoint(folder, compile_program(program).schemas)
    checkpoint.described()
    reader = Reader(checkpoint.runs.absolute(), OpenSegments())
    return SavedState(checkpoint.recovered().tables, reader)


def _records(content: SortedRows) -> Iterator[Value]:
    schema = content.schema
    keys = _tuples(content.keys.columns, schema.keys, len(content))
    rest = _tuples(content.rest.columns, schema.rest, len(content))
    weights = content.weights.tolist()
    parts = {name: column.tolist() for name, column in content.parts.items()}
    for place, key in enumerate(keys):
        fields: dict[str, Value] = {"key": key}
        if schema.rest:
            fields["row"] = rest[place]
        fields["times"] = weights[place]
        if parts:
            fields["sums"] = Bag([(name, each[place]) for name, each in parts.items()])
        yield Record.of(tuple(fields), list(fields.values()))


def _tuples(columns: tuple[Any, ...], types: tuple[Any, ...], count: int) -> list[Value]:
    """The values of several columns; of one column, those alone."""
    lists = [column_values(c, t) for c, t in zip(columns, types, strict=True)]
    if not lists:
        return [()] * count
    return lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))
