"""Every class that can occur in a node of a program: its stable tag and the hashed fields.

Tags and keys are part of the digests in checkpoints, so they stay when a class or a field is
renamed: `IdentityField("new_name", key="old_name")`.  A field that is added later has a `default`
with the old meaning; a field with its default value is not written, so that older checkpoints keep
their identity.  A test fails for a class or field that is not listed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from incmrql.algebra import term
from incmrql.plan import monoids, nodes
from incmrql.syntax import ast
from incmrql.types import model, typed

Space: TypeAlias = Literal[
    "functions", "aggregations", "queries", "python", "parsers", "stored", "data"
]
"""The namespaces of a script: where a name is declared."""

REQUIRED: Final = object()
"""The default of a field that is always written."""


@dataclass(frozen=True, slots=True)
class IdentityField:
    """A field that is part of the identity.

    `constant` marks a value of the user, written as canonical bytes.  `names` marks the name of a
    declaration of the script: the declaration is written instead of its name.
    """

    attribute: str
    key: str = ""
    default: Any = REQUIRED
    constant: bool = False
    names: Space | None = None

    @property
    def stable_key(self) -> str:
        """The key in the digest."""
        return self.key or self.attribute


@dataclass(frozen=True, slots=True)
class Entry:
    """How a class is encoded.

    `by` is the field that distinguishes operators with their own versions.  `below` are the fields
    with indices of nodes, which the digests of those nodes replace.
    """

    tag: str
    fields: tuple[IdentityField, ...] = ()
    ignored: tuple[str, ...] = ()
    by: str = ""
    below: tuple[str, ...] = ()


def _entry(
    tag: str,
    *fields: str | IdentityField,
    ignored: Sequence[str] = (),
    by: str = "",
    below: Sequence[str] = (),
) -> Entry:
    written = tuple(IdentityField(field) if isinstance(field, str) else field for field in fields)
    return Entry(tag, written, tuple(ignored), by, tuple(below))


def _expr(
    tag: str, *fields: str | IdentityField, ignored: Sequence[str] = (), by: str = ""
) -> Entry:
    """An expression: its type is part of the identity, and its position in the text is not."""
    return _entry(tag, *fields, "type", ignored=(*ignored, "span"), by=by)


_TYPES: Final[dict[type, Entry]] = {
    model.Basic: _entry("basic", "name"),
    model.Decimal: _entry("decimal", "precision", "scale"),
    model.Any: _entry("any"),
    model.Nothing: _entry("nothing"),
    model.Tuple: _entry("tuple", "items"),
    model.Record: _entry("record", "fields"),
    model.Collection: _entry("collection", "kind", "element"),
    model.Data: _entry("data", "name"),  # the declaration counts too (`Encoder`)
    model.Function: _entry("function-type", "parameters", "result"),
    model.Constructor: _entry("constructor", "name", "position", "content", "owner"),
}

_MODE: Final = IdentityField("mode", default="total")

_EXPRESSIONS: Final[dict[type, Entry]] = {
    typed.Const: _expr("constant", IdentityField("value", constant=True)),
    typed.Var: _expr("variable-use", "variable"),
    typed.Global: _expr("global", IdentityField("key", names="queries")),
    typed.Stored: _expr("stored", IdentityField("key", names="stored")),
    typed.ScriptArguments: _expr("script-arguments"),  # the arguments count (`Encoder`)
    typed.Read: _expr("read", "source"),
    typed.MakeTuple: _expr("make-tuple", "items"),
    typed.MakeRecord: _expr("make-record", "items"),
    typed.MakeCollection: _expr("make-collection", "items"),
    typed.MakeData: _expr("make-data", "constructor", "content"),
    typed.Concat: _expr("concat", "parts"),
    typed.RangeOf: _expr("range", "first", "last"),
    typed.Arithmetic: _expr("arithmetic", "op", "left", "right", _MODE, by="op"),
    typed.Negate: _expr("negate", "operand", _MODE),
    typed.Compare: _expr("compare", "op", "left", "right", by="op"),
    typed.Logic: _expr("logic", "op", "left", "right", by="op"),
    typed.Not: _expr("not", "operand"),
    typed.IsNull: _expr("is-null", "operand"),
    typed.Exists: _expr("exists", "operand"),
    typed.Combine: _expr("combine", "op", "left", "right", by="op"),
    typed.Widen: _expr("widen", "operand"),
    typed.Cast: _expr("cast", "operand", _MODE),
    typed.Field: _expr("field", "subject", "name"),
    typed.Item: _expr("item", "subject", "index"),
    typed.Navigate: _expr("navigate", "kind", "subject", "name", by="kind"),
    typed.At: _expr("at", "subject", "index"),
    typed.LookUp: _expr("look-up", "subject", "key"),
    typed.SliceOf: _expr("slice", "subject", "first", "last"),
    typed.MapOver: _expr("map", "variable", "subject", "body", "flatten"),
    typed.If: _expr("if", "condition", "then", "otherwise"),
    typed.Case: _expr("case", "subject", "branches"),
    typed.Repeat: _expr("repeat-expr", "variables", "initial", "step", "flagged", "limit"),
    typed.Trace: _expr("trace", "operand", ignored=["text"]),
    typed.Call: _expr("call", IdentityField("function", names="functions"), "arguments"),
    typed.PythonCall: _expr("python-call", IdentityField("function", names="python"), "arguments"),
    typed.Builtin: _expr("builtin", "function", "arguments", _MODE, by="function"),
    typed.Aggregate: _expr("aggregate", "function", "operand", "extra", by="function"),
    typed.UserAggregate: _expr(
        "user-aggregate", IdentityField("aggregation", names="aggregations"), "operand"
    ),
    typed.Fold: _expr("fold", "function", "zero", "operand"),
    typed.Select: _expr(
        "select",
        "distinct",
        "qualifiers",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "head",
    ),
    typed.Window: _expr("window", "operand", "row", "order", "functions"),
}

_INSIDE_EXPRESSIONS: Final[dict[type, Entry]] = {
    typed.Variable: _entry("variable", "type", ignored=["name", "number"]),  # numbered (`Encoder`)
    typed.Branch: _entry("branch", "pattern", "body"),
    typed.Lambda: _entry("lambda", "parameters", "body"),
    typed.Generator: _entry("generator", "domain", "pattern"),
    typed.Binding: _entry("binding", "value", "pattern"),
    typed.Condition: _entry("condition", "condition"),
    typed.Group: _entry("group", "keys", "patterns", "lifted", "partition", "rows"),
    typed.Order: _entry("order-key", "expr", "descending"),
    typed.Frame: _entry(
        "frame", "kind", IdentityField("first", constant=True), IdentityField("last", constant=True)
    ),
    typed.Rank: _entry("window-rank", "name", "type", "buckets"),
    typed.Pick: _entry("window-pick", "frame", "argument", "position", "skips_nulls", "default"),
    typed.Total: _entry("window-total", "frame", "values", "argument", "result"),
    typed.Bind: _entry("pattern-bind", "variable"),
    typed.Anything: _entry("pattern-any"),
    typed.Equals: _entry("pattern-equals", IdentityField("value", constant=True), "subject"),
    typed.TupleOf: _entry("pattern-tuple", "items"),
    typed.ListOf: _entry("pattern-list", "items"),
    typed.DataOf: _entry("pattern-data", "constructor", "content"),
    typed.Fields: _entry("pattern-record", "fields"),
    typed.Members: _entry("pattern-members", "members"),
    typed.ReadAs: _entry("pattern-cast", "pattern", "source", "target"),
    typed.Source: _entry(
        "source",
        "format",
        "streaming",
        "path",
        "host",
        "port",
        "row",
        "delimiter",
        "keys",
        "steps",
        IdentityField("parser", names="parsers"),
        "name",
        "options",
        IdentityField("reader", default=None),
        by="format",
    ),
    typed.SparkReader: _entry(
        "spark-reader",
        "format",
        "paths",
        "schema",
        "columns",
        "partitions",
        "options",
        "settings",
        IdentityField("computed", default=()),
    ),
    typed.ComputedColumn: _entry("computed-column", "text", ignored=["shown"]),
    ast.Step: _entry("path-step", "axis", "name", "attribute", "conditions", ignored=["span"]),
    ast.PathCondition: _entry("path-condition", "path", "equals", ignored=["span"]),
    ast.Literal: _entry("literal", "value", "kind", ignored=["span"]),
}

_DECLARED: Final[dict[type, Entry]] = {
    typed.Function: _entry("function", "parameters", "result", "body", ignored=["name"]),
    typed.Aggregation: _entry(
        "aggregation",
        "merge",
        "zero",
        "unit",
        "element",
        "type",
        "inverse",
        ignored=["name", "span"],
    ),
    # The source of the function counts (`Encoder`).
    typed.PythonFunction: _entry(
        "python-function", "parameters", "result", ignored=["name", "call"]
    ),
}

_TERMS: Final[dict[type, Entry]] = {
    term.Picks: _entry("picks", "variable", "fields"),
    term.Scan: _entry("scan", "source", "element", "picks"),
    term.Values: _entry("values", "expr"),
    term.Loop: _entry("loop-rows", "variable"),
    term.Shared: _entry("shared-rows", "variable"),
    term.CMap: _entry("c-map", "source", "variable", "body"),
    term.GroupBy: _entry("group-by", "source"),
    term.CoGroup: _entry("co-group", "left", "right"),
    term.Union: _entry("union", "parts"),
    term.Sort: _entry("sort", "source", "descending", "limit", "ordered"),
    term.Repeat: _entry("repeat", "variables", "initial", "step", "flagged", "limit", "chosen"),
}

_NODES: Final[dict[type, Entry]] = {
    # The name follows from the source and is only printed.
    nodes.Input: _entry(
        "node-input", "source", "element", "insert_only", "ledger", "unique", ignored=["name"]
    ),
    nodes.Constant: _entry("node-constant", "expr"),
    nodes.LoopParam: _entry("node-given", "element"),
    nodes.Linear: _entry("node-map", "steps", below=["input"]),
    nodes.Merge: _entry("node-union", below=["parts"]),
    nodes.Join: _entry(
        "node-join",
        "group",
        "body",
        "key",
        "kept",
        "columns",
        "single",
        below=["left", "right"],
    ),
    nodes.Groups: _entry(
        "node-groups",
        "group",
        "accumulators",
        "tables",
        "requests",
        "body",
        "key",
        "used",
        "kept",
        "linear",
        "is_fold",
        "is_final",
        "columns",
        "single",
        IdentityField("window", default=None),
        below=["inputs"],
    ),
    nodes.WindowRead: _entry("window-read", "window", "group", "body", "before"),
    nodes.Ordered: _entry("node-order", "descending", "limit", "grows", below=["input"]),
    nodes.Repeated: _entry("node-loop", "variables", "term", below=["inputs"]),
    nodes.Accumulator: _entry(
        "accumulator", "kind", "side", "operand", "monoid", "distinct", by="kind"
    ),
    nodes.Distinct: _entry("distinct-values", "table", "group"),
    nodes.Table: _entry("ordered-values", "side", "operand", "order", "most"),
    nodes.TableRead: _entry("reading", "table", "how", "arguments", "variable", by="how"),
    # The function follows from the expression.
    nodes.Request: _entry(
        "request",
        "variable",
        "accumulators",
        "side",
        IdentityField("expr", key="asked"),
        "reading",
        ignored=["function"],
    ),
    # The merge function follows from the name, of a monoid or of an aggregation (`Encoder`).
    monoids.Monoid: _entry(
        "monoid",
        "commutative",
        "idempotent",
        "parts",
        ignored=["name", "zero", "merge", "inverse"],
    ),
}

ENTRIES: Final[dict[type, Entry]] = {
    **_TYPES,
    **_EXPRESSIONS,
    **_INSIDE_EXPRESSIONS,
    **_DECLARED,
    **_TERMS,
    **_NODES,
}
"""How each class is encoded."""

MONOIDS: Final[dict[str, str]] = {
    monoids.COUNT.name: "count",
    monoids.SUM.name: "sum",
    monoids.FLOATS.name: "sum-of-doubles",
    monoids.PRODUCT.name: "product",
    monoids.MIN.name: "min",
    monoids.MAX.name: "max",
    monoids.AND.name: "and",
    monoids.OR.name: "or",
    monoids.BAG.name: "bag",
    monoids.LIST.name: "list",
    monoids.INVARIANT.name: "invariant",
}
"""The stable tags of monoids, by their printed names."""
