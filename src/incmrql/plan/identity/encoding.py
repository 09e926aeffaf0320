"""The identity of a program: digests of an encoding of its structure.

Different structures have different bytes, whatever texts the user wrote: each item starts with the
letter of its kind, and texts, tuples and fields start with their length.  Variables and declared
names are numbered in the order in which they occur; the declaration of a name follows once, after
the part that uses it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from incmrql.errors import InternalError
from incmrql.plan.identity.fields import ENTRIES, MONOIDS, REQUIRED, Entry, IdentityField, Space
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
"""The version of the encoding itself: raising it changes the identity of every program."""


class Encoder:
    """Encodes parts of a program one after the other, and computes a digest of all of them.

    `arguments` are those of the script, and `stored` the values that its items have stored.
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
        """Write a part and the declarations of the names in it."""
        self._write(part)
        self._write_declarations()

    def declare(self, space: Space, name: str) -> None:
        """Write the declaration of a name, and those of the names in it."""
        self._write_definition(space, name)
        self._write_declarations()

    def _write_declarations(self) -> None:
        """Write the declarations of the names that have occurred and are not written yet."""
        while self._defined < len(self._references):
            space, name = list(self._references)[self._defined]
            self._defined += 1
            self._write_definition(space, name)

    def digest(self) -> str:
        """The digest of all added parts, with the version of the encoding."""
        whole = hashlib.blake2b(digest_size=16)
        for piece in (b"incmrql", str(SCHEME).encode(), b":", *self._bytes):
            whole.update(piece)
        return f"{SCHEME}-{whole.hexdigest()}"

    # --- structure -------------------------------------------------------------------------

    def _write(self, part: Any) -> None:
        match part:
            case None:
                self._bytes.append(b"n")
            case bool():
                self._bytes.append(b"t" if part else b"f")
            case int():
                self._write_sized(b"i", str(part).encode())
            case float():
                self._bytes.append(b"d" + struct.pack(">d", part))
            case str():
                self._write_text(part)
            case tuple():
                self._bytes.append(b"(%d:" % len(part))
                for item in part:
                    self._write(item)
            case typed.Variable():
                self._write_variable(part)
            case _:
                self._write_object(part)

    def _write_object(self, part: Any) -> None:
        entry = ENTRIES.get(type(part))
        if entry is None:
            raise InternalError(f"a {type(part).__name__} has no entry in the identity's fields")
        self._write_tag(entry, part)
        fields = [(field, getattr(part, field.attribute)) for field in entry.fields]
        fields = [(field, value) for field, value in fields if not _is_default(field, value)]
        self._bytes.append(b"{%d:" % len(fields))
        for field, value in fields:
            self._write_text(field.stable_key)
            self._write_field(part, field, value)
        self._write_extras(part)

    def _write_tag(self, entry: Entry, part: Any) -> None:
        """Write the tag of a class and the version of its operator."""
        self._write_sized(b"<", entry.tag.encode())
        name = f"{entry.tag} {getattr(part, entry.by)}" if entry.by else entry.tag
        self._write_sized(b"v", str(version_of(name)).encode())

    def _write_field(self, part: Any, field: IdentityField, value: Any) -> None:
        if field.constant:
            self._write_sized(b"c", encode(value))
        elif field.names is not None and value != "":
            self._write_reference(field.names, value)
        elif isinstance(part, typed.Source) and field.attribute == "options":
            self._write(tuple(sorted(value)))  # in whatever order they were given
        elif isinstance(part, Accumulator) and field.attribute == "monoid" and part.kind == "user":
            self._write_reference("aggregations", part.monoid.name)
        else:
            self._write(value)

    def _write_extras(self, part: Any) -> None:
        """Write what identifies an object besides its fields."""
        match part:
            case Monoid():
                self._write_text(MONOIDS[part.name])
            case Data(name) if name in self.script.data and name not in PREDEFINED:
                self._write_reference("data", name)
            case typed.ScriptArguments():
                self._write(self.arguments)
            case _:
                pass

    def _write_variable(self, variable: typed.Variable) -> None:
        """Write the number of a variable, and at its first occurrence its type."""
        seen = self._variables.get(variable)
        number = self._variables.setdefault(variable, len(self._variables))
        self._write_sized(b"x", str(number).encode())
        if seen is None:
            self._write(variable.type)

    def _write_reference(self, space: Space, name: str) -> None:
        number = self._references.setdefault((space, name), len(self._references))
        self._write_text(space)
        self._write_sized(b"r", str(number).encode())

    def _write_definition(self, space: Space, name: str) -> None:
        """Write the declaration of a name."""
        script = self.script
        self._write_text(f"define {space}")
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
                self._write_sized(b"c", encode(self.stored[name]))
            case "stored":
                self._write(None)

    # --- bytes -----------------------------------------------------------------------------

    def _write_text(self, text: str) -> None:
        self._write_sized(b"s", text.encode("utf-8", "surrogatepass"))

    def _write_sized(self, kind: bytes, content: bytes) -> None:
        self._bytes.append(b"%s%d:" % (kind, len(content)))
        self._bytes.append(content)


def _is_default(field: IdentityField, value: Any) -> bool:
    return (
        field.default is not REQUIRED
        and type(value) is type(field.default)
        and bool(value == field.default)
    )


# --- Digests ---


@dataclass(frozen=True, slots=True)
class ProgramIdentity:
    """The digest of each node, including all nodes below it, and of the whole program."""

    whole: str
    nodes: tuple[str, ...]


def program_identity(program: Program) -> ProgramIdentity:
    """The identity of a program: programs with the same identity keep the same state."""
    streams = {stream.place: stream for stream in program.streams}
    digests: list[str] = []
    for index, node in enumerate(program.nodes):
        encoder = _encoder(program)
        encoder.add(tuple(digests[below] for below in inputs(node)))
        encoder.add(_with_resolved_source(node, streams.get(index), encoder))
        digests.append(encoder.digest())
    encoder = _encoder(program)
    encoder.add(tuple(digests))
    for output in program.all_outputs:
        _add_output(encoder, output, digests)
    return ProgramIdentity(encoder.digest(), tuple(digests))


def _encoder(program: Program) -> Encoder:
    return Encoder(program.script, program.arguments, dict(program.stored))


def _with_resolved_source(node: Node, stream: Stream | None, encoder: Encoder) -> Node:
    """The node; the path of a source is added by its value, not by its expression.

    A path in a variable is thus the same as one in the text.
    """
    if not isinstance(node, Input) or stream is None:
        return node
    encoder.add((stream.path, stream.deletes, stream.socket))
    return replace(node, source=replace(node.source, path=None, host=None, port=None))


def _add_output(encoder: Encoder, output: Output, digests: list[str]) -> None:
    """Add the answer of an item; its target is not part of the identity."""
    for part in output.parts:
        encoder.add((part.variable, digests[part.place], part.order))
    encoder.add(output.result)
