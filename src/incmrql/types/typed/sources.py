"""Where rows come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any as AnyValue

from incmrql.syntax.ast import Step
from incmrql.types.model import Type
from incmrql.types.typed.queries import Expr


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from.

    `format` is line, json, xml, text, binary, python (a declared parser) or registered.  `path`
    is the place of the files, or the registered name.  `row` is the type of what the file
    holds (columns of type any are in it and are skipped); the `Read` node's type is the type
    of what comes out.  `options` holds the named arguments that were given, by name.
    """

    format: str
    streaming: bool
    path: Expr | None
    row: Type
    delimiter: str = ","
    keys: tuple[str, ...] = ()
    """JSON: the members to take.  XML: the tags."""
    steps: tuple[Step, ...] = ()
    host: Expr | None = None
    port: Expr | None = None
    parser: str = ""
    name: str = ""
    options: tuple[tuple[str, AnyValue], ...] = ()
