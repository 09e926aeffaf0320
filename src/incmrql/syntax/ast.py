"""The syntax tree: frozen nodes with their spans in the text.

Spans are not part of equality.  There are five closed unions:
`TypeTree`, `Pattern`, `Expr`, `Item`, and the parts of templates and paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar
from typing import Literal as OneOf

from incmrql.errors import NOWHERE, Span

# --- Nodes and constants ---


@dataclass(frozen=True, slots=True)
class Node:
    """Base class of all nodes."""

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


LiteralKind: TypeAlias = OneOf["null", "bool", "int", "long", "double", "string"]


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A constant."""

    value: str | int | float | bool | None
    kind: LiteralKind


# --- Paths in XML ---


@dataclass(frozen=True, slots=True)
class Step(Node):
    """One step of a path: `/a`, `//a`, `/@a`, `/*`; `.` is the step to the node itself."""

    axis: OneOf["child", "descendant", "self"]
    name: str
    attribute: bool
    conditions: tuple[int | PathCondition, ...]


@dataclass(frozen=True, slots=True)
class PathCondition(Node):
    """`[path]` or `[path = constant]`."""

    path: tuple[Step, ...]
    equals: Literal | None


# --- Types ---


@dataclass(frozen=True, slots=True)
class NamedType(Node):
    """`int`, or a type that the script declares."""

    name: str


@dataclass(frozen=True, slots=True)
class TupleType(Node):
    """`(int, string)`."""

    items: tuple[TypeTree, ...]


@dataclass(frozen=True, slots=True)
class RecordType(Node):
    """`< A: int, B: string >`."""

    fields: tuple[tuple[str, TypeTree], ...]


@dataclass(frozen=True, slots=True)
class ListType(Node):
    """`[int]`."""

    element: TypeTree


@dataclass(frozen=True, slots=True)
class BagType(Node):
    """`{int}`."""

    element: TypeTree


@dataclass(frozen=True, slots=True)
class AppliedType(Node):
    """`bag(int)`, `list(int)`."""

    name: str
    arguments: tuple[TypeTree, ...]


@dataclass(frozen=True, slots=True)
class DecimalType(Node):
    """`decimal(10, 2)`."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class DistributedType(Node):
    """`!{int}`: a collection declared as distributed; the type is the same as `{int}`."""

    inner: TypeTree


TypeTree: TypeAlias = (
    NamedType
    | TupleType
    | RecordType
    | ListType
    | BagType
    | AppliedType
    | DecimalType
    | DistributedType
)


# --- Templates ---


Held = TypeVar("Held")
"""The content of a template's holes: expressions, or patterns if the template is a pattern."""


@dataclass(frozen=True, slots=True)
class Hole(Node, Generic[Held]):
    """`{{e}}`."""

    content: Held


@dataclass(frozen=True, slots=True)
class XmlText(Node):
    """Text between tags, or in an attribute."""

    text: str


@dataclass(frozen=True, slots=True)
class XmlElement(Node, Generic[Held]):
    """An element with attributes (each a run of text and holes) and children."""

    tag: str
    attributes: tuple[tuple[str, tuple[XmlText | Hole[Held], ...]], ...]
    children: tuple[XmlElement[Held] | XmlText | Hole[Held], ...]


@dataclass(frozen=True, slots=True)
class JsonObject(Node, Generic[Held]):
    """`{"a": …}`; as a pattern it matches objects that have these members, and maybe others."""

    members: tuple[tuple[str, JsonPart[Held]], ...]


@dataclass(frozen=True, slots=True)
class JsonArray(Node, Generic[Held]):
    """`[…]`."""

    items: tuple[JsonPart[Held], ...]


@dataclass(frozen=True, slots=True)
class JsonLeaf(Node):
    """A string, number, boolean or null of JSON."""

    literal: Literal


JsonPart: TypeAlias = "JsonObject[Held] | JsonArray[Held] | JsonLeaf | Hole[Held]"


# --- Patterns ---


@dataclass(frozen=True, slots=True)
class NamePattern(Node):
    """`x` matches anything and names it."""

    name: str


@dataclass(frozen=True, slots=True)
class AnyPattern(Node):
    """`*` matches anything."""


@dataclass(frozen=True, slots=True)
class LiteralPattern(Node):
    """A constant matches itself."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class TuplePattern(Node):
    """`(p, q)`."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class ListPattern(Node):
    """`[p, q]` matches a list of exactly that length."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class DataPattern(Node):
    """`Node(t, a, cs)` matches values of this constructor."""

    constructor: str
    arguments: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class RecordPattern(Node):
    """`< A: p >` matches records by the fields it names."""

    fields: tuple[tuple[str, Pattern], ...]


@dataclass(frozen=True, slots=True)
class TypedPattern(Node):
    """`p as T` matches values that can be cast to T."""

    pattern: Pattern
    type: TypeTree


@dataclass(frozen=True, slots=True)
class TemplatePattern(Node):
    """A template whose holes are patterns."""

    body: XmlElement[Pattern] | JsonPart[Pattern]


Pattern: TypeAlias = (
    NamePattern
    | AnyPattern
    | LiteralPattern
    | TuplePattern
    | ListPattern
    | DataPattern
    | RecordPattern
    | TypedPattern
    | TemplatePattern
)


# --- Expressions ---


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


# --- Items ---


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
    """`store x := e;`: evaluate now and store the value."""

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
