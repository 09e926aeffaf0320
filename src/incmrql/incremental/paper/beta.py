"""Small simplifications of expressions that are put together from others.

map(x → e, {a, b})                    =  {e[x := a], e[x := b]}
map(x → e, if c then s else t)        =  if c then map(x → e, s) else map(x → e, t)
map(x → e, select h from …)           =  select e[x := h] from …
(a, b)#1                              =  b
"""

from __future__ import annotations

from dataclasses import replace

from incmrql.types import typed
from incmrql.types.model import Collection, bag
from incmrql.types.walk import map_children, substitute


def mapped(variable: typed.Variable, head: typed.Expr, rows: typed.Expr) -> typed.Expr:
    """`map(variable → head, rows)`, for a bag of rows."""
    type_ = bag(head.type)
    match rows:
        case typed.MakeCollection(items) if len(items) < 2:
            made = tuple(taken_apart(substitute(head, {variable: item})) for item in items)
            return replace(rows, items=made, type=type_)
        case typed.If(condition, then, otherwise):
            both = (mapped(variable, head, each) for each in (then, otherwise))
            return typed.If(condition, *both, type=type_)
        case typed.Select(False, own, _, _, None, None, (), None):
            made_head = taken_apart(substitute(head, {variable: own}))
            return replace(rows, head=made_head, type=type_)
        case typed.MapOver(inner, subject, own, False) if _is_bag(subject):
            made_head = taken_apart(substitute(head, {variable: own}))
            return typed.MapOver(inner, subject, made_head, False, type=type_)
        case _:
            return typed.MapOver(variable, rows, head, False, type=type_)


def _is_bag(expr: typed.Expr) -> bool:
    return isinstance(expr.type, Collection) and expr.type.kind == "bag"


def taken_apart(expr: typed.Expr) -> typed.Expr:
    """Components of tuples that are written out, taken."""
    match map_children(taken_apart, expr):
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case other:
            return other
