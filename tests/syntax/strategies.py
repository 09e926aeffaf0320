"""Random trees that the grammar can produce, of every node class."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

from hypothesis import strategies as st

from incmrql.syntax import ast
from incmrql.syntax.parser.patterns import pattern_of
from incmrql.syntax.parser.tokens import CONSTANTS, KEYWORDS, NUMBERS

Node = TypeVar("Node")
Strategy = st.SearchStrategy

DEPTH = 3
"""How deep random expressions go below their root."""

# Names that other readings could be made of, and ordinary ones.
_ODD = ["xml", "json", "e5", "L", "args", "PI", "xpaths", "decimals", "Selected", "partition"]
NAMES = st.sampled_from(["x", "y", "z", "A", "f_1", *_ODD]) | st.from_regex(
    r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True
).filter(lambda name: name.lower() not in KEYWORDS and name not in (*CONSTANTS, *NUMBERS))
WORDS = NAMES | st.sampled_from([*sorted(KEYWORDS), "FROM", "Xpath", *CONSTANTS, *NUMBERS])
LABELS = WORDS | st.sampled_from(["a b", "", "1", 'quo"te'])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["{{", "}}", "|]", "a\\b", "'\"", "{x}", "]]>", "/*", "//", "&lt;", "\n\t\r\0", "\u2028"]
)


@st.composite
def pick(draw: st.DrawFn, *choices: Strategy[Any]) -> Any:
    """Each choice as likely as the others; `one_of` would count the choices inside of them."""
    return draw(draw(st.sampled_from(choices)))


def tuples(of: Strategy[Node], least: int = 0, most: int = 3) -> Strategy[tuple[Node, ...]]:
    return st.lists(of, min_size=least, max_size=most).map(tuple)


def not_single(of: Strategy[Node]) -> Strategy[tuple[Node, ...]]:
    return st.just(()) | tuples(of, 2)


def labelled_parts(of: Strategy[Node], least: int = 0) -> Strategy[tuple[tuple[str, Node], ...]]:
    return tuples(st.tuples(LABELS, of), least)


# --- constants ---------------------------------------------------------------------------

_INTS = st.integers(-(2**31), 2**31 - 1)
_LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
# There is one zero: -0.0 is 0.0.
_DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)
_WORDS = st.sampled_from(
    [ast.Literal(None, "null"), ast.Literal(True, "bool"), ast.Literal(False, "bool")]
)
_STRINGS = TEXT.map(lambda text: ast.Literal(text, "string"))
LITERALS: Strategy[ast.Literal] = (
    _WORDS
    | _STRINGS
    | _INTS.map(lambda n: ast.Literal(n, "int"))
    | _LONGS.map(lambda n: ast.Literal(n, "long"))
    | _DOUBLES.map(lambda x: ast.Literal(x, "double"))
)
SPECIAL = st.sampled_from(
    [ast.Literal(value, "double") for value in (math.nan, math.inf, -math.inf)]
)
_JSON_LEAVES = (
    _WORDS
    | _STRINGS
    | _LONGS.map(lambda n: ast.Literal(n, "long"))
    | _DOUBLES.map(lambda x: ast.Literal(x, "double"))
).map(ast.JsonLeaf)


# --- types and patterns ------------------------------------------------------------------


@cache
def types(depth: int = 2) -> Strategy[ast.TypeTree]:
    leaves: Strategy[ast.TypeTree] = NAMES.map(ast.NamedType) | st.builds(
        ast.DecimalType, st.integers(0, 38), st.integers(0, 38)
    )
    if depth == 0:
        return leaves
    inner = types(depth - 1)
    return (
        leaves
        | not_single(inner).map(ast.TupleType)
        | labelled_parts(inner).map(ast.RecordType)
        | inner.map(ast.ListType)
        | inner.map(ast.BagType)
        | st.builds(ast.AppliedType, NAMES, tuples(inner, 1))
        | inner.map(ast.DistributedType)
    )


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> ast.Pattern:
    return draw(_patterns(depth))


@cache
def _patterns(depth: int) -> Strategy[ast.Pattern]:
    leaves: Strategy[ast.Pattern] = (
        NAMES.map(ast.NamePattern)
        | st.builds(ast.AnyPattern)
        | (LITERALS | SPECIAL).map(ast.LiteralPattern)
    )
    if depth == 0:
        return leaves
    inner = patterns(depth - 1)
    return (
        leaves
        | not_single(inner).map(ast.TuplePattern)
        | tuples(inner).map(ast.ListPattern)
        | st.builds(ast.DataPattern, NAMES, tuples(inner))
        | labelled_parts(inner).map(ast.RecordPattern)
        | st.builds(ast.TypedPattern, inner, types(1))
        | template_bodies(inner).map(ast.TemplatePattern)
    )


def _own_keys() -> Strategy[ast.Pattern]:
    """Patterns that are their own key: names and tuples of them."""
    names: Strategy[ast.Pattern] = NAMES.map(ast.NamePattern)
    return st.recursive(names, lambda own: not_single(own).map(ast.TuplePattern), max_leaves=4)


# --- templates and paths -----------------------------------------------------------------

_TAGS = st.sampled_from(["a", "b", "x-y.z", "n:tag", "if", "été", "_1"])


def template_bodies(held: Strategy[Any]) -> Strategy[Any]:
    return elements(held) | json_parts(held)


def elements(held: Strategy[Any], depth: int = 2) -> Strategy[ast.XmlElement[Any]]:
    holes: Strategy[Any] = st.builds(ast.Hole, held)
    values = st.tuples(_TAGS, _runs(holes, TEXT.filter(bool)))
    attributes = st.lists(values, max_size=2, unique_by=lambda pair: pair[0]).map(tuple)
    shown = TEXT.filter(lambda text: bool(text.strip()))
    parts = holes | elements(held, depth - 1) if depth else holes
    return st.builds(ast.XmlElement, _TAGS, attributes, _runs(parts, shown))


def _runs(parts: Strategy[Any], text: Strategy[str]) -> Strategy[tuple[Any, ...]]:
    """Parts and texts, no two texts side by side."""
    texts = text.map(ast.XmlText)
    return tuples(texts | parts).filter(
        lambda run: (
            not any(
                isinstance(a, ast.XmlText) and isinstance(b, ast.XmlText) for a, b in pairwise(run)
            )
        )
    )


def json_parts(held: Strategy[Any], depth: int = 2) -> Strategy[Any]:
    leaves = _JSON_LEAVES | st.builds(ast.Hole, held)
    if depth == 0:
        return leaves
    inner = json_parts(held, depth - 1)
    return (
        leaves
        | tuples(inner).map(ast.JsonArray)
        | tuples(st.tuples(TEXT, inner)).map(ast.JsonObject)
    )


_PATH_STRINGS = TEXT.filter(lambda text: not ("\n" in text or ('"' in text and "'" in text)))
_PATH_CONSTANTS = (
    _PATH_STRINGS.map(lambda text: ast.Literal(text, "string"))
    | _LONGS.map(lambda n: ast.Literal(n, "int" if -(2**31) <= n < 2**31 else "long"))
    | _DOUBLES.map(lambda x: ast.Literal(x, "double"))
)


@cache
def paths(depth: int = 2) -> Strategy[tuple[ast.Step, ...]]:
    conditions: Strategy[int | ast.PathCondition] = st.integers(1, 9)
    if depth:
        constants = st.none() | _PATH_CONSTANTS
        conditions |= st.builds(ast.PathCondition, paths(depth - 1), constants)
    held = tuples(conditions, most=2)
    names = st.sampled_from(["a", "n:b", "x-y", "a.b", "été", "*"])
    axes = st.sampled_from(["child", "descendant"])
    steps = st.builds(ast.Step, axes, names, st.booleans(), held)
    here = st.builds(ast.Step, st.just("self"), st.just("."), st.just(False), held)
    relative = st.builds(lambda first, rest: (first, *rest), here, tuples(steps, most=2))
    return tuples(steps, 1) | relative


# --- expressions -------------------------------------------------------------------------

_OPERATORS = st.sampled_from(
    ["+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "and", "or", "union", "intersect",
     "except"]
)  # fmt: skip


@st.composite
def exprs(draw: st.DrawFn, depth: int = DEPTH) -> ast.Expr:
    # A function, so that Hypothesis prints its call in messages and not the whole strategy.
    return draw(draw(st.sampled_from(_groups(depth))))


@cache
def _groups(depth: int) -> tuple[Strategy[ast.Expr], ...]:
    leaves: Strategy[ast.Expr] = LITERALS | NAMES.map(ast.Name)
    if depth == 0:
        return (leaves,)
    inner = exprs(depth - 1)
    return (leaves, _in_brackets(inner), _operations(inner), _postfixes(inner), _open(inner))


def _in_brackets(inner: Strategy[ast.Expr]) -> Strategy[ast.Expr]:
    functions = NAMES | st.sampled_from(["mod", "distinct", "some", "all"])
    arguments = st.builds(ast.Argument, st.none() | WORDS, inner)
    branches = st.builds(ast.Branch, patterns(1), inner)
    return pick(
        not_single(inner).map(ast.TupleExpr),
        tuples(inner).map(ast.BagExpr),
        tuples(inner).map(ast.ListExpr),
        labelled_parts(inner).map(ast.RecordExpr),
        st.builds(ast.Call, functions, tuples(arguments)),
        st.builds(ast.Case, inner, tuples(branches, 1)),
        paths().map(ast.XPath),
        types().map(ast.TypeExpr),
        inner.map(ast.Trace),
        template_bodies(inner).map(ast.Template),
    )


def _operations(inner: Strategy[ast.Expr]) -> Strategy[ast.Expr]:
    return pick(
        st.builds(ast.Binary, _OPERATORS, inner, inner),
        st.builds(ast.Binary, _OPERATORS, inner, inner),
        st.builds(ast.Unary, st.sampled_from(["+", "-", "not", "exists"]), inner),
        st.builds(ast.Cast, inner, types(1)),
        st.builds(ast.Range, inner, inner, st.booleans()),
    )


def _postfixes(inner: Strategy[ast.Expr]) -> Strategy[ast.Expr]:
    return pick(
        st.builds(ast.Project, inner, LABELS),
        inner.map(ast.ProjectAll),
        st.builds(ast.Attribute, inner, LABELS),
        inner.map(ast.AllAttributes),
        st.builds(ast.Component, inner, st.integers(0, 99)),
        st.builds(ast.Index, inner, inner),
        st.builds(ast.Slice, inner, inner, inner),
    )


def _open(inner: Strategy[ast.Expr]) -> Strategy[ast.Expr]:
    parameters = tuples(st.builds(ast.Parameter, NAMES, types(1)), most=2)
    one = st.builds(ast.Repeat, tuples(NAMES, 1, 1), inner, inner, st.none() | inner)
    several = st.builds(ast.Repeat, tuples(NAMES, 2), inner, inner, inner)
    return pick(
        st.builds(ast.If, inner, inner, inner),
        st.builds(ast.Let, patterns(1), inner, inner),
        st.builds(ast.Lambda, parameters, types(1), inner),
        one,
        several,
        st.builds(ast.Quantifier, st.sampled_from(["some", "all"]), _binds(inner), inner),
        selects(inner),
        selects(inner),
    )


def _binds(inner: Strategy[ast.Expr]) -> Strategy[tuple[ast.Bind, ...]]:
    generators: Strategy[ast.Bind] = st.builds(ast.Generator, patterns(1), inner)
    return tuples(generators | st.builds(ast.Binding, patterns(1), inner), 1, 2)


@st.composite
def selects(draw: st.DrawFn, inner: Strategy[ast.Expr]) -> ast.Select:
    maybe = st.none() | inner
    plain = inner.filter(lambda expr: pattern_of(expr) is None)
    keys = draw(
        tuples(
            st.builds(ast.Key, patterns(1), inner)
            | st.builds(ast.Key, _own_keys(), st.none())
            | st.builds(ast.Key, st.none(), plain),
            most=2,
        )
    )
    order = tuples(st.builds(ast.Order, inner, st.booleans()), most=2)
    return ast.Select(
        distinct=draw(st.booleans()),
        head=draw(inner),
        binds=draw(_binds(inner)),
        where=draw(maybe),
        keys=keys,
        having=draw(maybe) if keys else None,
        order=draw(order),
        limit=draw(maybe),
    )


# --- items -------------------------------------------------------------------------------


def items(depth: int = DEPTH) -> Strategy[ast.Item]:
    inner = exprs(depth)
    parameters = tuples(st.builds(ast.Parameter, NAMES, types(1)), most=2)
    return pick(
        inner.map(ast.Evaluate),
        st.builds(ast.Define, NAMES, inner),
        st.builds(ast.StoreValue, NAMES, inner),
        st.builds(ast.Output, st.sampled_from(["store", "dump"]), TEXT, st.booleans(), inner),
        inner.map(ast.Incremental),
        st.builds(ast.Inspect, st.sampled_from(["lineage", "debug"]), inner),
        st.builds(ast.DeclareType, NAMES, types()),
        st.builds(ast.DeclareData, NAMES, tuples(st.tuples(NAMES, types(1)), 1)),
        st.builds(ast.DeclareFunction, NAMES, parameters, types(1), inner),
        st.builds(ast.DeclareMacro, NAMES, tuples(NAMES), inner),
        st.builds(
            ast.DeclareAggregation, NAMES, inner, inner, st.none() | inner, st.none(), types(1)
        ),
        st.builds(ast.DeclareAggregation, NAMES, inner, inner, inner, inner, types(1)),
        st.builds(ast.Import, tuples(NAMES, 1), TEXT),
        st.builds(ast.DeclareParser, NAMES, TEXT),
        TEXT.map(ast.Include),
    )


def scripts() -> Strategy[ast.Script]:
    return tuples(items(2)).map(ast.Script)


# --- looking at trees --------------------------------------------------------------------


def children(node: object) -> Iterator[object]:
    """The nodes directly below a node, in the order of its fields."""
    if isinstance(node, tuple):
        for part in node:
            yield from [part] if is_dataclass(part) else children(part)
    elif is_dataclass(node):
        for field in fields(node):
            if field.compare:
                value = getattr(node, field.name)
                yield from [value] if is_dataclass(value) else children(value)


def nodes(root: object) -> Iterator[object]:
    """A node and all below it."""
    yield root
    for child in children(root):
        yield from nodes(child)
