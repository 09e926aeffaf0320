"""Unnesting: each sub-query over a source becomes a variable of the rows around it.

A sub-query becomes one side of a coGroup with the outer rows. They meet by a correlation key, and
the bag of partners of an outer row, possibly empty, takes the place of the sub-query.

* Correlated by equalities `outer = inner`: the key is the value of the outer side.
* Correlated in any other way: the key is the tuple of the outer variables that the sub-query
  uses; it is translated as a query over the distinct values of these.
* Not correlated: the key is `()`.
"""

from __future__ import annotations

from dataclasses import replace

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import (
    exprs_after_where,
    flatten_clauses,
    pattern_variables,
    qualifier_value,
)
from incmrql.algebra.rows import (
    NO_VARIABLES,
    RowsTerm,
    distinct_values,
    extend,
    map_rows,
    nest_join,
    row_of,
)
from incmrql.algebra.scope import Translator, translation_error
from incmrql.algebra.term import CMap, Term, element
from incmrql.algebra.translate.clauses import (
    correlation_key,
    equalities,
    from_where,
    head_pairs,
    is_sorted,
)
from incmrql.algebra.translate.semijoins import as_existence
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


def attach(t: Translator, rows: RowsTerm, expr: typed.Expr) -> tuple[RowsTerm, typed.Expr]:
    """Make each sub-query a variable of the rows: the new rows, the expression over them."""

    def visit(node: typed.Expr) -> typed.Expr:
        nonlocal rows
        if not t.scope.reads(node):
            return node
        node = t.scope.resolve(as_existence(t, node), t.names)
        if not t.scope.reads(node):  # its source was in a `let` that is not used
            return node
        match node:
            case typed.Select() | typed.Read() | typed.Var() | typed.Global():
                rows, collection = _unnest(t, rows, node)
                return collection
            case typed.Case():
                rows = _with_pattern_variables(t, rows, node)
                return map_children(visit, node)
            case typed.Repeat() if loops_over_bags(t, node) and not t.scope.row_variables(node):
                if len(node.variables) > 1:
                    problem = "a loop of several variables stands inside a row"
                    raise translation_error("A001", node, problem)
                rows, collection = _with_whole(t, rows, t.term(node))
                return collection
            case _:
                return map_children(visit, node)

    over_rows = visit(expr)
    return rows, over_rows


def loops_over_bags(t: Translator, node: typed.Repeat) -> bool:
    """Whether all variables of a loop hold bags that are never null, so that it can be a term."""
    bags = all(isinstance(v.type, Collection) and v.type.kind == "bag" for v in node.variables)
    return bags and t.scope.is_never_null(node)


def as_select(t: Translator, expr: typed.MapOver) -> typed.Select:
    """`xs.A` as a query; over a list, in its order."""
    assert isinstance(expr.type, Collection)
    ordered = expr.type.kind == "list"
    first, orders = _generator_over(t, expr.variable, expr.subject, ordered)
    qualifiers, head = [first], expr.body
    if expr.flatten:
        inner = t.names.variable("each", expr.type.element)
        second, more = _generator_over(t, inner, expr.body, ordered)
        qualifiers, orders, head = [first, second], orders + more, build.var(inner)
    return typed.Select(
        False, head, tuple(qualifiers), None, None, None, tuple(orders), None, type=expr.type,
        span=expr.span,
    )  # fmt: skip


def _generator_over(
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


def _with_pattern_variables(t: Translator, rows: RowsTerm, case: typed.Case) -> RowsTerm:
    """The rows with the pattern variables of a case that sub-queries in its branches use."""
    for branch in case.branches:
        if not t.scope.reads(branch.body):
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
        rows = extend(t.names, rows, binds, new)
    return rows


def _unnest(t: Translator, rows: RowsTerm, expr: typed.Expr) -> tuple[RowsTerm, typed.Expr]:
    """Make a sub-query a variable of the rows: the new rows, and its collection."""
    outer = t.scope.row_variables(expr)
    if not outer <= set(rows.variables):
        names = ", ".join(sorted(v.name for v in outer - set(rows.variables)))
        raise translation_error(
            "A001", expr, f"this reads a source and depends on {names}, bound in a row"
        )
    if not isinstance(expr, typed.Select):
        return _with_whole(t, rows, t.term(expr))
    by_equalities = _unnest_by_equalities(t, rows, expr, outer) if outer else None
    return by_equalities or _unnest_by_values(t, rows, expr, outer)


def _with_whole(t: Translator, rows: RowsTerm, term: Term) -> tuple[RowsTerm, typed.Expr]:
    """Each row with a variable that holds all elements of a term."""
    one = t.names.variable("x", element(term))
    pairs = CMap(one, build.bag_of(build.tuple_of(build.unit(), build.var(one))), term)
    rows, many = nest_join(t.names, rows, [build.unit()], pairs)
    return rows, build.var(many)


def _unnest_by_values(
    t: Translator, rows: RowsTerm, expr: typed.Select, outer: set[typed.Variable]
) -> tuple[RowsTerm, typed.Expr]:
    """Translate a sub-query over the distinct values of the outer variables that it uses."""
    rows, limit = _limit(t, rows, expr)
    rows, expr = _with_parts(t, rows, replace(expr, limit=None), outer)
    expr = replace(expr, limit=limit)
    outer = set(rows.variables)
    unlimited = replace(expr, limit=None)
    carried = tuple(sorted(outer & free_variables(unlimited), key=lambda v: v.number))
    start = distinct_values(t.names, rows, carried) if carried else NO_VARIABLES
    inner = from_where(t, flatten_clauses(expr, t.scope, t.names), start)
    pairs = head_pairs(t, expr, inner, carried)
    rows, many = nest_join(t.names, rows, [correlation_key(carried)], pairs)
    return rows, _in_order(t, expr, build.var(many), limit)


def _with_parts(
    t: Translator, rows: RowsTerm, expr: typed.Select, outer: set[typed.Variable]
) -> tuple[RowsTerm, typed.Select]:
    """Give the parts `x.A` of outer variables that a sub-query uses variables of their own.

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
    return extend(t.names, rows, binds, tuple(parts.values())), changed


def _unnest_by_equalities(
    t: Translator, rows: RowsTerm, expr: typed.Select, outer: set[typed.Variable]
) -> tuple[RowsTerm, typed.Expr] | None:
    """Translate a sub-query that depends on the outer rows only by conditions `outer = inner`."""
    clauses = flatten_clauses(expr, t.scope, t.names)
    inside = {v for q in clauses.qualifiers for v in pattern_variables(q)} | bound_variables(expr)
    keys, rest = equalities(t, clauses.conditions, outer, inside)
    values = map(qualifier_value, clauses.qualifiers)
    others = [*rest, *values, *exprs_after_where(expr)]
    if not keys or any(t.scope.row_variables(other) & outer for other in others):
        return None
    start = from_where(t, replace(clauses, conditions=tuple(rest)), NO_VARIABLES)
    carried = tuple(t.names.variable("key", b.type) for _, b in keys)
    binds = [typed.Binding(typed.Bind(v), b) for v, (_, b) in zip(carried, keys, strict=True)]
    start = _without_nulls(t, extend(t.names, start, binds, carried), carried)
    rows, limit = _limit(t, rows, expr)
    pairs = head_pairs(t, expr, start, carried)
    rows, many = nest_join(t.names, rows, [build.tuple_of(*(a for a, _ in keys))], pairs)
    return rows, _in_order(t, expr, build.var(many), limit)


def _limit(t: Translator, rows: RowsTerm, expr: typed.Select) -> tuple[RowsTerm, typed.Expr | None]:
    return (rows, None) if expr.limit is None else attach(t, rows, expr.limit)


def _without_nulls(
    t: Translator, rows: RowsTerm, variables: tuple[typed.Variable, ...]
) -> RowsTerm:
    """The rows in which none of the variables is null: null equals nothing."""
    body = build.bag_of(row_of(rows.variables))
    for variable in variables:
        body = build.unless_null(build.var(variable), body)
    return RowsTerm(map_rows(t.names, rows, body), rows.variables)


def _in_order(
    t: Translator, expr: typed.Select, pairs: typed.Expr, limit: typed.Expr | None
) -> typed.Expr:
    """The collection of a select from its bag of (sort keys, head), or of heads if unsorted."""
    if not is_sorted(expr):
        return pairs
    assert isinstance(pairs.type, Collection)
    one = t.names.variable("ranked", pairs.type.element)
    keys, head = build.item(build.var(one), 0), build.item(build.var(one), 1)
    order = tuple(typed.Order(build.item(keys, i), o.descending) for i, o in enumerate(expr.order))
    domain = (typed.Generator(typed.Bind(one), pairs),)
    return typed.Select(False, head, domain, None, None, None, order, limit, type=expr.type)
