"""The productions of the grammar, each with a test of whether a syntax tree uses it.

Productions that are nodes of their own need no entry here: the nodes are counted by class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from incmrql.syntax import ast


def nodes(tree: object) -> Iterator[Any]:
    """All nodes of a tree, from the top down."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from nodes(part)
    elif is_dataclass(tree) and not isinstance(tree, type):
        yield tree
        for field in fields(tree):
            if field.name not in ("span", "name_span"):
                yield from nodes(getattr(tree, field.name))


def names(tree: object) -> set[str]:
    """The productions of the table that a tree uses."""
    all_nodes = list(nodes(tree))
    return {name for name, uses in PRODUCTIONS.items() if any(map(uses, all_nodes))}


def _is(kind: type, test: Callable[[Any], object] = lambda _: True) -> Callable[[Any], bool]:
    return lambda node: isinstance(node, kind) and bool(test(node))


def _binary(op: str) -> Callable[[Any], bool]:
    return _is(ast.Binary, lambda node: node.op == op)


def _literal(kind: str) -> Callable[[Any], bool]:
    return _is(ast.Literal, lambda node: node.kind == kind)


PRODUCTIONS: Final[dict[str, Callable[[Any], bool]]] = {
    # items
    "store to a file": _is(ast.Output, lambda n: n.kind == "store"),
    "dump to a file": _is(ast.Output, lambda n: n.kind == "dump" and not n.incremental),
    "dump of an incremental answer": _is(ast.Output, lambda n: n.incremental),
    "lineage": _is(ast.Inspect, lambda n: n.kind == "lineage"),
    "debug": _is(ast.Inspect, lambda n: n.kind == "debug"),
    "a data type with several constructors": _is(ast.DeclareData, lambda n: n.constructors[1:]),
    "a function of several parameters": _is(ast.DeclareFunction, lambda n: n.parameters[1:]),
    "an aggregation without unit": _is(ast.DeclareAggregation, lambda n: n.unit is None),
    "an aggregation with unit": _is(ast.DeclareAggregation, lambda n: n.unit is not None),
    "an aggregation with inverse": _is(ast.DeclareAggregation, lambda n: n.inverse is not None),
    "an import of several functions": _is(ast.Import, lambda n: n.names[1:]),
    # expressions
    **{f"operator {op}": _binary(op) for op in ast.BinaryOp.__args__},  # type: ignore[attr-defined]
    **{f"{kind} constant": _literal(kind) for kind in ast.LiteralKind.__args__},  # type: ignore[attr-defined]
    "minus": _is(ast.Unary, lambda n: n.op == "-"),
    "plus": _is(ast.Unary, lambda n: n.op == "+"),
    "not": _is(ast.Unary, lambda n: n.op == "not"),
    "exists": _is(ast.Unary, lambda n: n.op == "exists"),
    "the empty tuple": _is(ast.TupleExpr, lambda n: not n.items),
    "the empty bag": _is(ast.BagExpr, lambda n: not n.items),
    "the empty list": _is(ast.ListExpr, lambda n: not n.items),
    "the empty record": _is(ast.RecordExpr, lambda n: not n.fields),
    "a quoted field": _is(ast.Project, lambda n: " " in n.name),
    "a range": _is(ast.Range, lambda n: not n.distributed),
    "a distributed range": _is(ast.Range, lambda n: n.distributed),
    "a case of several branches": _is(ast.Case, lambda n: n.branches[1:]),
    "a lambda of several parameters": _is(ast.Lambda, lambda n: n.parameters[1:]),
    "repeat with a limit": _is(ast.Repeat, lambda n: n.limit is not None),
    "repeat without a limit": _is(ast.Repeat, lambda n: n.limit is None),
    "repeat of several variables": _is(ast.Repeat, lambda n: n.names[1:]),
    "a named argument": _is(ast.Argument, lambda n: n.name is not None),
    # queries
    "select distinct": _is(ast.Select, lambda n: n.distinct),
    "several binds": _is(ast.Select, lambda n: n.binds[1:]),
    "where": _is(ast.Select, lambda n: n.where is not None),
    "group by": _is(ast.Select, lambda n: n.keys and n.having is None),
    "having": _is(ast.Select, lambda n: n.having is not None),
    "order by": _is(ast.Select, lambda n: n.order and n.limit is None),
    "order by after group by": _is(ast.Select, lambda n: n.order and n.keys),
    "limit": _is(ast.Select, lambda n: n.limit is not None and not n.order),
    "limit after order by": _is(ast.Select, lambda n: n.limit is not None and n.order),
    "distinct with limit": _is(ast.Select, lambda n: n.limit is not None and n.distinct),
    "several orders": _is(ast.Select, lambda n: n.order[1:]),
    "order desc": _is(ast.Order, lambda n: n.descending),
    "order asc": _is(ast.Order, lambda n: not n.descending),
    "a key with a pattern": _is(ast.Key, lambda n: n.pattern and n.expr),
    "a key that is a pattern": _is(ast.Key, lambda n: n.pattern and not n.expr),
    "a key that is an expression": _is(ast.Key, lambda n: not n.pattern),
    "a key that is a tuple": _is(ast.Key, lambda n: isinstance(n.pattern, ast.TuplePattern)),
    "several keys": _is(ast.Select, lambda n: n.keys[1:]),
    "some": _is(ast.Quantifier, lambda n: n.kind == "some"),
    "all": _is(ast.Quantifier, lambda n: n.kind == "all"),
    "a quantifier of several binds": _is(ast.Quantifier, lambda n: n.binds[1:]),
    "a quantifier of a query": _is(
        ast.Call,
        lambda n: n.function == "some" and isinstance(n.arguments[0].value, ast.Select),
    ),
    # patterns and types
    "the empty tuple pattern": _is(ast.TuplePattern, lambda n: not n.items),
    "the empty list pattern": _is(ast.ListPattern, lambda n: not n.items),
    "a pattern of a constructor without values": _is(ast.DataPattern, lambda n: not n.arguments),
    "the empty tuple type": _is(ast.TupleType, lambda n: not n.items),
    "a type that is a set": _is(ast.AppliedType, lambda n: n.name == "set"),
    # paths and templates
    "a path from the element itself": _is(ast.Step, lambda n: n.axis == "self"),
    "a path to descendants": _is(ast.Step, lambda n: n.axis == "descendant"),
    "a path to an attribute": _is(ast.Step, lambda n: n.attribute and n.name != "*"),
    "a path to all attributes": _is(ast.Step, lambda n: n.attribute and n.name == "*"),
    "a path to all children": _is(ast.Step, lambda n: not n.attribute and n.name == "*"),
    "a path with a position": _is(
        ast.Step, lambda n: any(isinstance(c, int) for c in n.conditions)
    ),
    "a path with a condition": _is(ast.PathCondition, lambda n: n.equals is None),
    "a path with an equality": _is(ast.PathCondition, lambda n: n.equals is not None),
    "an xml template": _is(ast.Template, lambda n: isinstance(n.body, ast.XmlElement)),
    "a json template": _is(ast.Template, lambda n: isinstance(n.body, ast.JsonObject)),
    "an xml pattern": _is(ast.TemplatePattern, lambda n: isinstance(n.body, ast.XmlElement)),
    "a json pattern": _is(ast.TemplatePattern, lambda n: isinstance(n.body, ast.JsonObject)),
    "a hole in an attribute": _is(
        ast.XmlElement,
        lambda n: any(isinstance(part, ast.Hole) for _, parts in n.attributes for part in parts),
    ),
}
