"""The identity of a program: one digest for each node, and one for the whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from incmrql.incremental.identity.encoding import Encoder
from incmrql.incremental.nodes import Input, Node, inputs

if TYPE_CHECKING:
    from incmrql.incremental.streams import Output, Program, Stream


@dataclass(frozen=True, slots=True)
class ProgramIdentity:
    """The digests of a program: of what each node does with all below it, and of the whole."""

    whole: str
    nodes: tuple[str, ...]


def program_identity(program: Program) -> ProgramIdentity:
    """The identity of a program: programs with the same one keep the same state."""
    streams = {stream.place: stream for stream in program.streams}
    digests: list[str] = []
    for place, node in enumerate(program.nodes):
        encoder = _encoder(program)
        encoder.add(tuple(digests[below] for below in inputs(node)))
        encoder.add(_placed(node, streams.get(place), encoder))
        digests.append(encoder.digest())
    encoder = _encoder(program)
    encoder.add(tuple(digests))
    for output in program.answered:
        _add_output(encoder, output, digests)
    return ProgramIdentity(encoder.digest(), tuple(digests))


def _encoder(program: Program) -> Encoder:
    return Encoder(program.script, program.arguments, dict(program.stored))


def _placed(node: Node, stream: Stream | None, encoder: Encoder) -> Node:
    """A node; of a source, the place that its expressions come to counts, not how it is said."""
    if not isinstance(node, Input) or stream is None:
        return node
    encoder.add((stream.path, stream.deletes, stream.socket))
    return replace(node, source=replace(node.source, path=None, host=None, port=None))


def _add_output(encoder: Encoder, output: Output, digests: list[str]) -> None:
    """What an item answers; where it is written to does not count."""
    for part in output.parts:
        encoder.add((part.variable, digests[part.place], part.order))
    encoder.add(output.result)
