"""Expressions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import TypeAlias

from incmrql.diagnostics import NOWHERE, Span
from incmrql.syntax.ast.nodes import Literal, Node
from incmrql.syntax.ast.paths import Step
from incmrql.syntax.ast.patterns import Pattern
from incmrql.syntax.ast.templates import JsonPart, XmlElement
from incmrql.syntax.ast.types import TypeTree


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A variable, a named query, a stored value or a registered source."""

    name: str


@dataclass(frozen=True, slots=True)
class TupleExpr(Node):
    """`()`, `(a, b)`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class BagExpr(Node):
    """`{a, b}`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ListExpr(Node):
    """`[a, b]`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RecordExpr(Node):
    """`< A: a, B: b >`."""

    fields: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """An argument of a call, named or not."""

    name: str | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`f(a, b)`; sources and streams are calls too."""

    function: str
    arguments: tuple[Argument, ...]
    name_span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


BinaryOp: TypeAlias = OneOf[
    "+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=",
    "and", "or", "union", "intersect", "except",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`a op b`; `mod` is `%`."""

    op: BinaryOp
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`+a`, `-a`, `not a`, `exists a`."""

    op: OneOf["+", "-", "not", "exists"]
    operand: Expr


@dataclass(frozen=True, slots=True)
class Project(Node):
    """`e.name`: a field, children with a tag, a look-up."""

    subject: Expr
    name: str
    name_span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ProjectAll(Node):
    """`e.*`: all children."""

    subject: Expr


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """`e.@name`."""

    subject: Expr
    name: str


@dataclass(frozen=True, slots=True)
class AllAttributes(Node):
    """`e.@*`."""

    subject: Expr


@dataclass(frozen=True, slots=True)
class Component(Node):
    """`e#i`: a component of a tuple, from 0."""

    subject: Expr
    index: int


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`e[i]`."""

    subject: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """`e[i:j]`, both ends included."""

    subject: Expr
    first: Expr
    last: Expr


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`e as T`."""

    subject: Expr
    type: TypeTree


@dataclass(frozen=True, slots=True)
class Range(Node):
    """`a..b`, or `a...b` spread over machines."""

    first: Expr
    last: Expr
    distributed: bool


@dataclass(frozen=True, slots=True)
class If(Node):
    """`if c then a else b`."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Let(Node):
    """`let p = e in b`."""

    pattern: Pattern
    value: Expr
    body: Expr


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """`p: e` of a case."""

    pattern: Pattern
    body: Expr


@dataclass(frozen=True, slots=True)
class Case(Node):
    r"""`case e { p: a | q: b }`: the first branch that matches."""

    subject: Expr
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """`x: int`."""

    name: str
    type: TypeTree


@dataclass(frozen=True, slots=True)
class Lambda(Node):
    r"""`\(x: int): int. e`."""

    parameters: tuple[Parameter, ...]
    result: TypeTree
    body: Expr


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """`repeat x = e step s limit n`; several names step together."""

    names: tuple[str, ...]
    initial: Expr
    step: Expr
    limit: Expr | None


@dataclass(frozen=True, slots=True)
class Generator(Node):
    """`p in e`."""

    pattern: Pattern
    domain: Expr


@dataclass(frozen=True, slots=True)
class Binding(Node):
    """`p = e` of a from clause."""

    pattern: Pattern
    value: Expr


Bind: TypeAlias = Generator | Binding


@dataclass(frozen=True, slots=True)
class Key(Node):
    """A group-by key: `p: e`, `p` alone (its own key), or a plain expression.

    Exactly one of `pattern` alone, `pattern` with `expr`, `expr` alone.
    """

    pattern: Pattern | None
    expr: Expr | None


@dataclass(frozen=True, slots=True)
class Order(Node):
    """`e asc` or `e desc`."""

    expr: Expr
    descending: bool


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`select … from … where … group by … having … order by … limit …`."""

    distinct: bool
    head: Expr
    binds: tuple[Bind, ...]
    where: Expr | None
    keys: tuple[Key, ...]
    having: Expr | None
    order: tuple[Order, ...]
    limit: Expr | None


@dataclass(frozen=True, slots=True)
class Quantifier(Node):
    """`some p in e: c`, `all p in e: c`."""

    kind: OneOf["some", "all"]
    binds: tuple[Bind, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class XPath(Node):
    """`xpath(…)`."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class TypeExpr(Node):
    """`type(T)`, an argument of sources."""

    type: TypeTree


@dataclass(frozen=True, slots=True)
class Trace(Node):
    """`trace(e)`: e, with its text and value printed."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Template(Node):
    """`[xml| … |]`, `[json| … |]`."""

    body: XmlElement[Expr] | JsonPart[Expr]


Expr: TypeAlias = (
    Literal
    | Name
    | TupleExpr
    | BagExpr
    | ListExpr
    | RecordExpr
    | Call
    | Binary
    | Unary
    | Project
    | ProjectAll
    | Attribute
    | AllAttributes
    | Component
    | Index
    | Slice
    | Cast
    | Range
    | If
    | Let
    | Case
    | Lambda
    | Repeat
    | Select
    | Quantifier
    | XPath
    | TypeExpr
    | Trace
    | Template
)
