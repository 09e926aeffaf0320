"""The identity of a program: digests over bytes that encode its structure, tag by tag.

No two different structures have the same bytes, whatever texts the user wrote: each item starts
with the letter of its kind, and texts, tuples and fields say how long they are.  Variables, and
the names of what the script declares, are numbers in the order in which they are met; what such a
name stands for follows once, after the part that uses it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from incmrql.errors import InternalError
from incmrql.plan.identity.fields import ENTRIES, MONOIDS, REQUIRED, Entry, Kept, Space
from incmrql.plan.identity.python import python_texts
from incmrql.plan.identity.versions import version_of
from incmrql.plan.monoids import Monoid
from incmrql.plan.nodes import Accumulator, Input, Node, inputs
from incmrql.types import typed
from incmrql.types.model import PREDEFINED, Data
from incmrql.values import Value, encode

if TYPE_CHECKING:
    from incmrql.plan.program import Output, Program, Stream


SCHEME: Final = 1
"""The version of the encoding itself: another one makes every program a different one."""


class Encoder:
    """The bytes of parts of a program, one after the other, and the digest of them all.

    `arguments` and `stored` are what the script was started with, and what its items have stored.
    """

    def __init__(
        self,
        script: typed.Script,
        arguments: Sequence[str] = (),
        stored: Mapping[str, Value] | None = None,
    ) -> None:
        self.script, self.arguments, self.stored = script, tuple(arguments), stored or {}
        self._bytes: list[bytes] = []
        self._variables: dict[typed.Variable, int] = {}
        self._references: dict[tuple[Space, str], int] = {}
        self._defined = 0

    def add(self, part: Any) -> None:
        """Write a part, and what its names stand for."""
        self._write(part)
        while self._defined < len(self._references):
            space, name = list(self._references)[self._defined]
            self._defined += 1
            self._define(space, name)

    def digest(self) -> str:
        """The digest of all that was added, with the version of the encoding."""
        whole = hashlib.blake2b(digest_size=16)
        for each in (b"incmrql", str(SCHEME).encode(), b":", *self._bytes):
            whole.update(each)
        return f"{SCHEME}-{whole.hexdigest()}"

    # --- structure -------------------------------------------------------------------------

    def _write(self, part: Any) -> None:
        match part:
            case None:
                self._bytes.append(b"n")
            case bool():
                self._bytes.append(b"t" if part else b"f")
            case int():
                self._sized(b"i", str(part).encode())
            case float():
                self._bytes.append(b"d" + struct.pack(">d", part))
            case str():
                self._text(part)
            case tuple():
                self._bytes.append(b"(%d:" % len(part))
                for item in part:
                    self._write(item)
            case typed.Variable():
                self._variable(part)
            case _:
                self._object(part)

    def _object(self, part: Any) -> None:
        entry = ENTRIES.get(type(part))
        if entry is None:
            raise InternalError(f"a {type(part).__name__} has no entry in the identity's fields")
        self._tag(entry, part)
        written = [(kept, getattr(part, kept.attribute)) for kept in entry.kept]
        written = [(kept, value) for kept, value in written if not _is_default(kept, value)]
        self._bytes.append(b"{%d:" % len(written))
        for kept, value in written:
            self._text(kept.stable_key)
            self._field(part, kept, value)
        self._beside(part)

    def _tag(self, entry: Entry, part: Any) -> None:
        """The tag of a class, and the version of the operator that it is."""
        self._sized(b"<", entry.tag.encode())
        name = f"{entry.tag} {getattr(part, entry.by)}" if entry.by else entry.tag
        self._sized(b"v", str(version_of(name)).encode())

    def _field(self, part: Any, kept: Kept, value: Any) -> None:
        if kept.constant:
            self._sized(b"c", encode(value))
        elif kept.names is not None and value != "":
            self._reference(kept.names, value)
        elif isinstance(part, typed.Source) and kept.attribute == "options":
            self._write(tuple(sorted(value)))  # in whatever order they were given
        elif isinstance(part, Accumulator) and kept.attribute == "monoid" and part.kind == "user":
            self._reference("aggregations", part.monoid.name)
        else:
            self._write(value)

    def _beside(self, part: Any) -> None:
        """What counts besides the fields of an object."""
        match part:
            case Monoid():
                self._text(MONOIDS[part.name])
            case Data(name) if name in self.script.data and name not in PREDEFINED:
                self._reference("data", name)
            case typed.ScriptArguments():
                self._write(self.arguments)
            case _:
                pass

    def _variable(self, variable: typed.Variable) -> None:
        """The number of a variable; its type where it is met first."""
        known = self._variables.get(variable)
        number = self._variables.setdefault(variable, len(self._variables))
        self._sized(b"x", str(number).encode())
        if known is None:
            self._write(variable.type)

    def _reference(self, space: Space, name: str) -> None:
        number = self._references.setdefault((space, name), len(self._references))
        self._text(space)
        self._sized(b"r", str(number).encode())

    def _define(self, space: Space, name: str) -> None:
        """What a name stands for."""
        script = self.script
        self._text(f"define {space}")
        match space:
            case "functions":
                self._write(script.functions[name])
            case "aggregations":
                self._write(script.aggregations[name])
            case "queries":
                self._write(script.queries[name])
            case "data":
                self._write(script.data[name])
            case "python":
                self._write(script.python[name])
                self._write(tuple(python_texts(script.python[name].call)))
            case "parsers":
                self._write(tuple(python_texts(script.parsers[name])))
            case "stored" if name in self.stored:
                self._sized(b"c", encode(self.stored[name]))
            case "stored":
                self._write(None)

    # --- bytes -----------------------------------------------------------------------------

    def _text(self, text: str) -> None:
        self._sized(b"s", text.encode("utf-8", "surrogatepass"))

    def _sized(self, kind: bytes, content: bytes) -> None:
        self._bytes.append(b"%s%d:" % (kind, len(content)))
        self._bytes.append(content)


def _is_default(kept: Kept, value: Any) -> bool:
    return (
        kept.default is not REQUIRED
        and type(value) is type(kept.default)
        and bool(value == kept.default)
    )


# --- Digests ---


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
    for output in program.all_outputs:
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
