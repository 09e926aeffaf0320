"""Items: what a script is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import TypeAlias

from incmrql.diagnostics import NOWHERE, Span
from incmrql.syntax.ast.expressions import Expr, Parameter
from incmrql.syntax.ast.nodes import Node
from incmrql.syntax.ast.types import TypeTree


@dataclass(frozen=True, slots=True)
class Evaluate(Node):
    """`e;`: evaluate and print."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Define(Node):
    """`x = e;`: a named query."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class StoreValue(Node):
    """`store x := e;`: evaluate now, keep the value."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Output(Node):
    """`store "path" from e;` (binary) or `dump "path" from e;` (text)."""

    kind: OneOf["store", "dump"]
    path: str
    incremental: bool
    expr: Expr


@dataclass(frozen=True, slots=True)
class Incremental(Node):
    """`incr e;`."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Inspect(Node):
    """`lineage e;` or `debug e;`."""

    kind: OneOf["lineage", "debug"]
    expr: Expr


@dataclass(frozen=True, slots=True)
class DeclareType(Node):
    """`type T = …;`."""

    name: str
    type: TypeTree
    name_span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeclareData(Node):
    """`data T = A: int | B: string;`."""

    name: str
    constructors: tuple[tuple[str, TypeTree], ...]
    name_span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)
    constructor_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeclareFunction(Node):
    """`function f(x: int): int { e };`."""

    name: str
    parameters: tuple[Parameter, ...]
    result: TypeTree
    body: Expr
    name_span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeclareMacro(Node):
    """`macro m(x, y) { e };`: arguments stand for expressions."""

    name: str
    parameters: tuple[str, ...]
    body: Expr
    name_span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)
    parameter_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeclareAggregation(Node):
    """`aggregation a(merge, zero, unit, inverse): T;`; without a unit there is no inverse."""

    name: str
    merge: Expr
    zero: Expr
    unit: Expr | None
    inverse: Expr | None
    type: TypeTree
    name_span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Import(Node):
    """`import f, g from "module";`."""

    names: tuple[str, ...]
    module: str
    name_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeclareParser(Node):
    """`parser p = "module.Class";`."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Include(Node):
    """`include "file";`."""

    path: str


Item: TypeAlias = (
    Evaluate
    | Define
    | StoreValue
    | Output
    | Incremental
    | Inspect
    | DeclareType
    | DeclareData
    | DeclareFunction
    | DeclareMacro
    | DeclareAggregation
    | Import
    | DeclareParser
    | Include
)


@dataclass(frozen=True, slots=True)
class Script(Node):
    """All items, in order."""

    items: tuple[Item, ...]
