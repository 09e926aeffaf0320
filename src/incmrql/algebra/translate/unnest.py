"""Sub-queries out of expressions: each becomes a variable of the rows around it.

A sub-query over a source becomes a coGroup that keeps the outer side: its rows meet the outer
rows by a correlation key, and the bag that was found takes the sub-query's place.

* correlated by equalities `outer = inner`: the key is the outer side's value;
* correlated in any other way: the key is the values of the outer variables it uses; the
  sub-query is translated over the distinct ones, as a query of its own;
* not correlated: the key is `()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from incmrql.algebra import rows as build
from incmrql.algebra.reading import Clauses, Translator, flattened, pattern_variables, refused
from incmrql.algebra.rows import (
    NO_VARIABLES,
    Rows,
    distinct_values,
    extended,
    over,
    row_of,
    with_partners,
)
from incmrql.algebra.term import CMap, Term, element
from incmrql.algebra.translate.clauses import (
    carried_key,
    equalities,
    finished,
    from_where,
    is_sorted,
    of_rows,
)
from incmrql.errors import NOWHERE
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, Tuple, list_of
from incmrql.types.walk import (
    bound_variables,
    free_variables,
    map_children,
    root_variable,
    used_variables,
)


def attach(t: Translator, rows: Rows, expr: typed.Expr) -> tuple[Rows, typed.Expr]:
    """The expression without sources: its sub-queries became variables of the rows."""
    held = rows

    def visit(node: typed.Expr) -> typed.Expr:
        nonlocal held
        if not t.reading.reads(node):
            return node
        node = t.reading.resolved(node, t.names)
        if not t.reading.reads(node):  # a name that is not used
            return node
        match node:
            case typed.Select() | typed.Read() | typed.Var():
                held, found = _attached(t, held, node)
                return found
            case typed.Case():
                held = _with_pattern_variables(t, held, node)
                return map_children(visit, node)
            case typed.Repeat() if loops_over_bags(t, node) and not of_rows(t, node):
                return _loop(node, visit_term)
            case _:
                return map_children(visit, node)

    def visit_term(term: Term) -> typed.Expr:
        nonlocal held
        held, found = _beside(t, held, term)
        return found

    def _loop(node: typed.Repeat, value: Callable[[Term], typed.Expr]) -> typed.Expr:
        whole = t.term(node) if len(node.variables) == 1 else None
        if whole is not None:
            return value(whole)
        raise refused("A001", node, "a loop of several variables stands inside a row")

    found = visit(expr)
    return held, found


def loops_over_bags(t: Translator, node: typed.Repeat) -> bool:
    """Whether all variables of a loop hold bags that are never null, which terms can be."""
    bags = all(isinstance(v.type, Collection) and v.type.kind == "bag" for v in node.variables)
    return bags and t.reading.is_never_null(node)


def as_select(t: Translator, expr: typed.MapOver) -> typed.Select:
    """`xs.A` as a query; over a list, in its order."""
    assert isinstance(expr.type, Collection)
    ordered = expr.type.kind == "list"
    first, orders = _ranged(t, expr.variable, expr.subject, ordered)
    qualifiers, head = [first], expr.body
    if expr.flatten:
        inner = t.names.variable("each", expr.type.element)
        second, more = _ranged(t, inner, expr.body, ordered)
        qualifiers, orders, head = [first, second], orders + more, build.var(inner)
    return typed.Select(
        False, head, tuple(qualifiers), None, None, None, tuple(orders), None, type=expr.type,
        span=expr.span,
    )  # fmt: skip


def _ranged(
    t: Translator, variable: typed.Variable, domain: typed.Expr, ordered: bool
) -> tuple[typed.Qualifier, list[typed.Order]]:
    """`variable in domain`, with its position as an order key where order counts."""
    if not ordered:
        return typed.Generator(typed.Bind(variable), domain), []
    position = t.names.variable("position", LONG)
    pairs = list_of(Tuple((variable.type, LONG)))
    numbered = typed.Builtin("index", (domain,), type=pairs)
    pattern = typed.TupleOf((typed.Bind(variable), typed.Bind(position)))
    return typed.Generator(pattern, numbered), [typed.Order(build.var(position), False)]


def _with_pattern_variables(t: Translator, rows: Rows, case: typed.Case) -> Rows:
    """The rows with what the patterns of a case bind, where a branch's sub-queries need it."""
    for branch in case.branches:
        if not t.reading.reads(branch.body):
            continue
        rows, subject = attach(t, rows, case.subject)
        here = set(rows.variables)
        needed = used_variables(branch.body) - here
        new = [v for v in pattern_variables(branch.pattern) if v in needed]
        binds = [
            typed.Binding(
                typed.Bind(v),
                typed.Case(subject, (typed.Branch(branch.pattern, build.var(v)),), type=v.type),
            )
            for v in new
        ]
        rows = extended(t.names, rows, binds, new)
    return rows


def _attached(t: Translator, rows: Rows, expr: typed.Expr) -> tuple[Rows, typed.Expr]:
    """A sub-query's collection as a variable of the rows."""
    outer = of_rows(t, expr)
    if not outer <= set(rows.variables):
        names = ", ".join(sorted(v.name for v in outer - set(rows.variables)))
        raise refused("A001", expr, f"this reads a source and depends on {names}, bound in a row")
    if not isinstance(expr, typed.Select):
        return _beside(t, rows, t.term(expr))
    found = _by_equalities(t, rows, expr, outer) if outer else None
    return found if found is not None else _by_values(t, rows, expr, outer)


def _beside(t: Translator, rows: Rows, term: Term) -> tuple[Rows, typed.Expr]:
    """The whole of a term beside every row."""
    one = t.names.variable("x", element(term))
    pairs = CMap(one, build.bag_of(build.tuple_of(build.unit(), build.var(one))), term)
    rows, many = with_partners(t.names, rows, [build.unit()], pairs)
    return rows, build.var(many)


def _by_values(
    t: Translator, rows: Rows, expr: typed.Select, outer: set[typed.Variable]
) -> tuple[Rows, typed.Expr]:
    """A sub-query translated over the distinct values of the outer variables it uses."""
    rows, limit = _limit(t, rows, expr)
    rows, expr = _with_parts(t, rows, replace(expr, limit=None), outer)
    expr = replace(expr, limit=limit)
    outer = set(rows.variables)
    unlimited = replace(expr, limit=None)
    carried = tuple(sorted(outer & free_variables(unlimited), key=lambda v: v.number))
    start = distinct_values(t.names, rows, carried) if carried else NO_VARIABLES
    inner = from_where(t, flattened(expr, t.reading, t.names), start)
    pairs = finished(t, expr, inner, carried)
    rows, many = with_partners(t.names, rows, [carried_key(carried)], pairs)
    return rows, _in_order(t, expr, build.var(many), limit)


def _with_parts(
    t: Translator, rows: Rows, expr: typed.Select, outer: set[typed.Variable]
) -> tuple[Rows, typed.Select]:
    """The parts `x.A` of outer variables that a sub-query uses, as variables of their own.

    Rows that agree on these parts then share one correlation value, whatever else they hold.
    """
    parts: dict[typed.Expr, typed.Variable] = {}

    def visit(node: typed.Expr) -> typed.Expr:
        if root_variable(node) not in outer:
            return map_children(visit, node)
        if isinstance(node, typed.Var):
            return node
        plain = replace(node, span=NOWHERE)
        if plain not in parts:
            parts[plain] = t.names.variable("part", node.type)
        return build.var(parts[plain])

    changed = map_children(visit, expr)
    assert isinstance(changed, typed.Select)
    binds = [typed.Binding(typed.Bind(variable), part) for part, variable in parts.items()]
    return extended(t.names, rows, binds, tuple(parts.values())), changed


def _by_equalities(
    t: Translator, rows: Rows, expr: typed.Select, outer: set[typed.Variable]
) -> tuple[Rows, typed.Expr] | None:
    """A sub-query whose only tie to the outer rows are conditions `outer = inner`."""
    clauses = flattened(expr, t.reading, t.names)
    inside = {v for q in clauses.qualifiers for v in pattern_variables(q)} | bound_variables(expr)
    keys, rest = equalities(t, clauses.conditions, outer, inside)
    if not keys or any(of_rows(t, other) & outer for other in [*rest, *_other_exprs(clauses)]):
        return None
    start = from_where(t, replace(clauses, conditions=tuple(rest)), NO_VARIABLES)
    carried = tuple(t.names.variable("key", b.type) for _, b in keys)
    binds = [typed.Binding(typed.Bind(v), b) for v, (_, b) in zip(carried, keys, strict=True)]
    start = _without_nulls(t, extended(t.names, start, binds, carried), carried)
    rows, limit = _limit(t, rows, expr)
    pairs = finished(t, expr, start, carried)
    rows, many = with_partners(t.names, rows, [build.tuple_of(*(a for a, _ in keys))], pairs)
    return rows, _in_order(t, expr, build.var(many), limit)


def _other_exprs(clauses: Clauses) -> list[typed.Expr]:
    """Everything that a query says besides its conditions and its limit."""
    select = clauses.select
    domains = [
        q.domain if isinstance(q, typed.Generator) else q.value
        for q in clauses.qualifiers
        if not isinstance(q, typed.Condition)
    ]
    keys = select.group.keys if select.group is not None else ()
    having = () if select.having is None else (select.having,)
    return [select.head, *domains, *keys, *having, *(order.expr for order in select.order)]


def _limit(t: Translator, rows: Rows, expr: typed.Select) -> tuple[Rows, typed.Expr | None]:
    return (rows, None) if expr.limit is None else attach(t, rows, expr.limit)


def _without_nulls(t: Translator, rows: Rows, variables: tuple[typed.Variable, ...]) -> Rows:
    """The rows in which none of the variables is null: null equals nothing."""
    kept = build.bag_of(row_of(rows.variables))
    for variable in variables:
        kept = build.unless_null(build.var(variable), kept)
    return Rows(over(t.names, rows, kept), rows.variables)


def _in_order(
    t: Translator, expr: typed.Select, found: typed.Expr, limit: typed.Expr | None
) -> typed.Expr:
    """The bag of (order keys, head) that was found as the query's own collection."""
    if not is_sorted(expr):
        return found
    assert isinstance(found.type, Collection)
    one = t.names.variable("ranked", found.type.element)
    keys, head = build.item(build.var(one), 0), build.item(build.var(one), 1)
    order = tuple(typed.Order(build.item(keys, i), o.descending) for i, o in enumerate(expr.order))
    domain = (typed.Generator(typed.Bind(one), found),)
    return typed.Select(False, head, domain, None, None, None, order, limit, type=expr.type)
