"""What a program's run starts with: its description in the checkpoint, and its sources at work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from incmrql.diagnostics import DataError
from incmrql.incremental.identity import Encoder, program_identity
from incmrql.incremental.nodes import Constant, Groups, Input, Join, Linear, Merge, Node, Ordered
from incmrql.incremental.streams import Program, Stream
from incmrql.kernel.form import StateTable
from incmrql.runtime.checkpoint import Checkpoint, State
from incmrql.runtime.feeds.archive import Archive
from incmrql.runtime.feeds.feed import Feed
from incmrql.runtime.feeds.folders import FolderFeed
from incmrql.runtime.feeds.frames import FrameFeed
from incmrql.runtime.feeds.once import OnceFeed, RegisteredFeed
from incmrql.runtime.feeds.push import PushFeed
from incmrql.runtime.feeds.sockets import SocketFeed


class Framed:
    """Marks a name whose rows come from a streaming data frame."""


def describe(
    program: Program, script: Mapping[str, Any], tables: Iterable[StateTable] = ()
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


def _table(program: Program, table: StateTable) -> dict[str, Any]:
    """What a table holds, and the digest of its form: of what columns, in which order."""
    form = table.form
    encoder = Encoder(program.script)
    encoder.add((form.keys, form.rest, form.descending, form.most, form.last))
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
        consumed = state.consumed.setdefault(stream.place, {})
        folder = checkpoint.input / f"source-{stream.place}"
        begun = state.number >= 0 and not window
        data = registered.get(stream.source.name) if stream.source.name else None
        if stream.socket is not None:
            found.append(SocketFeed(stream, folder, consumed))
        elif stream.path is None and isinstance(data, Framed):
            found.append(FrameFeed(stream, folder, consumed, checkpoint.check_newest))
        elif stream.path is None and stream.streaming:
            found.append(PushFeed(stream, folder, consumed, check=checkpoint.check_newest))
        elif stream.path is None:
            if data is None and not begun:
                message = f'there are no data for "{stream.source.name}"'
                raise DataError("R208", message, hint="Register them before the start.")
            found.append(RegisteredFeed(stream, folder, data, consumed, begun=begun))
        elif stream.streaming:
            found.append(FolderFeed(stream, consumed, settle, archive, allow_empty=allow_empty))
        else:
            found.append(OnceFeed(stream, consumed, begun=begun))
    return found
