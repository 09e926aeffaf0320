"""What a query is made of: the names of the constructs in it, for tests of the generator."""

from __future__ import annotations

from collections.abc import Iterator

from incmrql.syntax import ast
from incmrql.types.builtins import AGGREGATES
from tests.generators.maker import names_in
from tests.generators.tables import TABLES

CLASSES = (
    ast.If, ast.Let, ast.Case, ast.Cast, ast.Repeat, ast.Lambda, ast.Range, ast.Slice,
    ast.Index, ast.Component, ast.Project, ast.RecordExpr, ast.TupleExpr, ast.ListExpr,
    ast.BagExpr, ast.Trace, ast.Quantifier, ast.NamePattern, ast.AnyPattern,
    ast.LiteralPattern, ast.TuplePattern, ast.ListPattern, ast.RecordPattern,
    ast.TypedPattern, ast.Binding,
)  # fmt: skip

FEATURES = frozenset(
    [
        *(class_.__name__ for class_ in CLASSES),
        *("where", "group by", "having", "order by", "descending", "two orders", "limit"),
        *("distinct", "no join", "cross join", "equality join", "theta join", "three domains"),
        *("self-join", "repeated variable", "correlated domain"),
        *("named key", "own key", "plain key", "tuple key", "two keys", "partition"),
        *("query in head", "query in where", "query in having", "query in key"),
        *("query in order", "query in domain", "query in query in query"),
        *("correlated query", "uncorrelated query", "hidden variable"),
        *(f"{name}(…)" for name in (*AGGREGATES, "member", "fold", "elem", "sort", "string")),
        *("min of two", "some quantifier", "all quantifier"),
        *(f"op {op}" for op in ("+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=")),
        *(f"op {op}" for op in ("and", "or", "not", "exists", "union", "intersect", "except")),
        *("null", "NaN", "empty collection"),
    ]
)
"""What random queries must show sooner or later."""

SCRIPT_FEATURES = frozenset(
    ["data", "function", "macro", "aggregation", "named query", "stored value", "DataPattern"]
)
"""What random scripts must use besides."""


def features(tree: object) -> set[str]:
    """The names of what is in a tree."""
    return set(_features(tree, frozenset(), 0))


def _features(node: object, outer: frozenset[str], depth: int) -> Iterator[str]:
    if isinstance(node, tuple):
        for part in node:
            yield from _features(part, outer, depth)
        return
    if isinstance(node, CLASSES):
        yield type(node).__name__
    match node:
        case ast.Select():
            yield from _select(node, outer, depth)
            inner, depth = outer | _bound_names(node.binds), depth + 1
        case ast.Quantifier(kind, binds, _):
            yield f"{kind} quantifier"
            inner = outer | _bound_names(binds)
        case _:
            yield from _small(node)
            inner = outer
    for name in getattr(node, "__dataclass_fields__", {}):
        if "span" not in name:
            yield from _features(getattr(node, name), inner, depth)


def _small(node: object) -> Iterator[str]:
    match node:
        case ast.Binary(op) | ast.Unary(op):
            yield f"op {op}"
        case ast.Literal(None, _):
            yield "null"
        case ast.Name("NaN" | "partition" as name):
            yield name
        case ast.Cast(ast.BagExpr(()), _):
            yield "empty collection"
        case ast.Call(name, arguments):
            yield "min of two" if name in ("min", "max") and len(arguments) == 2 else f"{name}(…)"
            if name in ("f", "m", "either", "Box"):
                yield {"f": "function", "m": "macro", "either": "aggregation"}.get(name, "data")
        case ast.Name("named" | "stored" as name):
            yield "named query" if name == "named" else "stored value"
        case ast.DataPattern():
            yield "DataPattern"
        case _:
            return


def _select(query: ast.Select, outer: frozenset[str], depth: int) -> Iterator[str]:
    own = _bound_names(query.binds)
    if depth > 0:
        free = names_in((query.head, query.where, query.binds)) - own - set(TABLES)
        yield "correlated query" if free & outer else "uncorrelated query"
    if depth == 2:
        yield "query in query in query"
    if own & outer:
        yield "hidden variable"
    yield from _joins(query, own)
    yield from _clauses(query)
    places = {
        "head": query.head,
        "where": query.where,
        "having": query.having,
        "key": query.keys,
        "order": query.order,
        "domain": query.binds,
    }
    for place, part in places.items():
        if _has_query(part):
            yield f"query in {place}"


def _has_query(node: object) -> bool:
    if isinstance(node, ast.Select):
        return True
    if isinstance(node, tuple):
        return any(map(_has_query, node))
    fields = getattr(node, "__dataclass_fields__", {})
    return any(_has_query(getattr(node, name)) for name in fields if "span" not in name)


def _clauses(query: ast.Select) -> Iterator[str]:
    shown = {
        "where": query.where is not None,
        "group by": query.keys,
        "having": query.having is not None,
        "order by": query.order,
        "two orders": len(query.order) > 1,
        "descending": any(order.descending for order in query.order),
        "limit": query.limit is not None,
        "distinct": query.distinct,
        "two keys": len(query.keys) > 1,
    }
    yield from (name for name, there in shown.items() if there)
    for key in query.keys:
        if key.pattern is None:
            yield "plain key"
        elif key.expr is None:
            yield "own key"
        else:
            yield "tuple key" if isinstance(key.pattern, ast.TuplePattern) else "named key"


def _joins(query: ast.Select, own: frozenset[str]) -> Iterator[str]:
    domains = [bind.domain for bind in query.binds if isinstance(bind, ast.Generator)]
    names = [domain.name for domain in domains if isinstance(domain, ast.Name)]
    if len(query.binds) == 1:
        yield "no join"
    if len(domains) > 2:
        yield "three domains"
    if len(domains) > 1 and query.where is None:
        yield "cross join"
    if len(set(names) & set(TABLES)) < len([name for name in names if name in TABLES]):
        yield "self-join"
    if any(names_in(domain) & own for domain in domains[1:]):
        yield "correlated domain"
    if len(_binders(query.binds)) > len(own):
        yield "repeated variable"
    match query.where:
        case ast.Binary(op, left, right) if len(names_in((left, right)) & own) > 1:
            yield "equality join" if op == "=" else "theta join"
        case _:
            return


def _bound_names(binds: tuple[ast.Bind, ...]) -> frozenset[str]:
    return frozenset(_binders(binds))


def _binders(node: object) -> list[str]:
    """The names that the patterns of a from clause bind, as often as they do."""
    match node:
        case ast.NamePattern(name):
            return [name]
        case ast.Generator(pattern, _) | ast.Binding(pattern, _):
            return _binders(pattern)
        case ast.TuplePattern(items) | ast.ListPattern(items):
            return _binders(items)
        case ast.RecordPattern(fields):
            return _binders(tuple(inner for _, inner in fields))
        case tuple():
            return [name for part in node for name in _binders(part)]
        case _:
            return []
