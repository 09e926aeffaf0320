"""Terms as indented text: the form people read and golden tests compare.

Variables are numbered anew in the order they are met, so that the text of a term does not
depend on what else was translated before it.
"""

from __future__ import annotations

import itertools
from typing import assert_never

from incmrql.algebra import rows
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Query,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
)
from incmrql.algebra.walk import map_variables, variables_of
from incmrql.types import typed
from incmrql.types.show import show_expr, show_source, show_variable


def show_query(query: Query) -> str:
    """The terms of a query and what is made of them."""
    numbers = itertools.count(1)
    names: dict[typed.Variable, typed.Variable] = {}
    for variable in [v for part, t in query.parts for v in (part, *variables_of(t))]:
        if variable not in names:
            names[variable] = typed.Variable(variable.name, next(numbers), variable.type)
    renumbered = map_variables(Query(query.parts, query.result), lambda v: names.get(v, v))
    lines = [
        f"{show_variable(variable)} =\n{show_term(term, 1)}" for variable, term in renumbered.parts
    ]
    is_last = bool(query.parts) and query.result == rows.var(query.parts[-1][0])
    return "\n".join(lines if is_last else [*lines, show_expr(renumbered.result)])


def show_term(term: Term, depth: int = 0) -> str:
    """`term`, one node a line, children indented under parents."""
    head, children = _parts(term)
    return "\n".join(["  " * depth + head, *(show_term(child, depth + 1) for child in children)])


def _parts(term: Term) -> tuple[str, tuple[Term, ...]]:
    match term:
        case Scan(source):
            return f"scan {show_source(source)}", ()
        case Values(expr):
            return f"values {show_expr(expr)}", ()
        case Loop(variable):
            return f"loop {show_variable(variable)}", ()
        case Shared(variable):
            return f"shared {show_variable(variable)}", ()
        case CMap(variable, body, source):
            return f"cMap {show_variable(variable)} -> {show_expr(body)}", (source,)
        case GroupBy(source):
            return "groupBy", (source,)
        case CoGroup(left, right):
            return "coGroup", (left, right)
        case Union(parts):
            return "union", parts
        case Sort(source, descending, limit, ordered):
            keys = ", ".join("desc" if d else "asc" for d in descending)
            most = "" if limit is None else f" limit {show_expr(limit)}"
            return f"{'sort' if ordered else 'first'} ({keys}){most}", (source,)
        case Repeat(variables, initial, step, _, limit, chosen):
            most = "" if limit is None else f" limit {show_expr(limit)}"
            names = ", ".join(map(show_variable, variables))
            head = f"repeat ({names}){most} -> {show_variable(variables[chosen])}"
            return head, (*initial, *step)
        case _:
            assert_never(term)
