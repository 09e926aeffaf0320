"""Programs over the tables of random queries, whose identities are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from incmrql.plan.assembly import program_of as planned
from incmrql.plan.program import Program
from incmrql.values import Value
from tests.plan.stepping import typed_script


def program_of(
    text: str, arguments: Sequence[str] = (), stored: Mapping[str, Value] | None = None
) -> Program:
    """The program of the `incr` items of a script over R, S, N and W."""
    script = typed_script(text)
    items = [item for item in script.items if item.kind == "incr"]
    return planned(items, script, arguments, stored)


def identity(text: str) -> str:
    """The identity of a script's program."""
    return program_of(text).identity
