"""What hides behind calls and names: streams, and `random`, which over a stream has no answer."""

from __future__ import annotations

from collections.abc import Iterator

from incmrql.algebra.term import CMap, Query, Repeat, Scan, Sort, Term, Values
from incmrql.algebra.walk import terms
from incmrql.diagnostics import Diagnostic, QueryError, Span
from incmrql.types import typed
from incmrql.types.walk import nodes


def refuse_chance(query: Query, script: typed.Script, span: Span) -> None:
    """Raise A102 if a query over a stream asks for random numbers."""
    found = [term for _, part in query.parts for term in terms(part)]
    if not any(isinstance(term, Scan) and term.source.streaming for term in found):
        return
    for expr in [query.result, *(expr for term in found for expr in _exprs(term))]:
        for node in reached(expr, script, set()):
            if isinstance(node, typed.Builtin) and node.function == "random":
                where = node.span if node.span.text else span
                message = "random has another value each time, and an answer over a stream has one"
                hint = "Keep the value first: store x := random(9); and use x."
                problem = Diagnostic("A102", message, where, "not a function of the data", hint)
                raise QueryError(problem)


def follows_streams(expr: typed.Expr, script: typed.Script) -> bool:
    """Whether an expression reads a stream, itself or through what it calls and names."""
    every = reached(expr, script, set())
    return any(isinstance(node, typed.Read) and node.source.streaming for node in every)


def _exprs(term: Term) -> Iterator[typed.Expr]:
    """The expressions of a term itself."""
    match term:
        case CMap(body=expr) | Values(expr):
            yield expr
        case Sort(limit=limit) | Repeat(limit=limit):
            if limit is not None:
                yield limit
        case _:
            pass


def reached(expr: typed.Expr, script: typed.Script, seen: set[str]) -> Iterator[typed.Expr]:
    """All expressions inside, those of called functions, aggregations and named queries too."""
    for node in nodes(expr):
        yield node
        inner: tuple[typed.Expr, ...] = ()
        match node:
            case typed.Call(name):
                key, inner = f"function {name}", (script.functions[name].body,)
            case typed.Global(name):
                key, inner = f"query {name}", (script.queries[name],)
            case typed.UserAggregate(name):
                made = script.aggregations[name]
                unit = () if made.unit is None else (made.unit.body,)
                key, inner = f"aggregation {name}", (made.merge.body, made.zero, *unit)
            case _:
                continue
        if key not in seen:
            seen.add(key)
            for each in inner:
                yield from reached(each, script, seen)
