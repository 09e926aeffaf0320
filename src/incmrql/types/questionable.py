"""Warnings for parts of a script that are valid but probably not intended.

| code | |
|---|---|
| W301 | `order by 2`, `group by 1`: a constant sorts nothing and groups everything |
| W302 | `x = null`: a comparison with null is never true |
"""

from __future__ import annotations

from collections.abc import Iterator

from incmrql.errors import Diagnostic, Span, in_text_order
from incmrql.types import typed
from incmrql.types.walk import nodes

_IS_NULL = "To find nulls write case x { null: true | *: false }."
_NO_POSITIONS = "Columns have no numbers here: write the expression itself"


def query_warnings(script: typed.Script) -> list[Diagnostic]:
    """A warning for every part of a script that is probably not intended."""
    exprs = [item.expr for item in script.items]
    exprs += [function.body for function in script.functions.values()]
    exprs += script.queries.values()
    problems = [problem for expr in exprs for node in nodes(expr) for problem in _warnings_of(node)]
    return in_text_order(problems)


def _warnings_of(node: typed.Expr) -> Iterator[Diagnostic]:
    match node:
        case typed.Select(order=order, group=group):
            for key in order:
                if _is_constant(key.expr):
                    message = "order by a constant does not order the rows"
                    hint = f"{_NO_POSITIONS}, order by x.A."
                    yield _warning("W301", message, key.expr.span, hint)
            for constant in () if group is None else _constant_keys(group):
                message = "group by a constant puts all rows into one group"
                hint = (
                    f"{_NO_POSITIONS}, group by x.A; for one group of all rows name the key, k: 1."
                )
                yield _warning("W301", message, constant.span, hint)
        case typed.Compare(op, left, right) if _is_null(left) or _is_null(right):
            message = f'"{op}" with null is null for every row, so the condition never holds'
            yield _warning("W302", message, node.span, _IS_NULL)
        case _:
            pass


def _warning(code: str, message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(code, message, span, "here", hint, severity="warning")


def _constant_keys(group: typed.Group) -> Iterator[typed.Expr]:
    """The keys that are constants and have no name."""
    for key, pattern in zip(group.keys, group.patterns, strict=True):
        named = isinstance(pattern, typed.Bind) and pattern.variable.name == key.span.text
        if named and _is_constant(key):
            yield key


def _is_constant(expr: typed.Expr) -> bool:
    while isinstance(expr, typed.Widen | typed.Negate):
        expr = expr.operand
    return isinstance(expr, typed.Const)


def _is_null(expr: typed.Expr) -> bool:
    while isinstance(expr, typed.Widen | typed.Cast):
        expr = expr.operand
    return isinstance(expr, typed.Const) and expr.value is None
