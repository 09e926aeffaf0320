"""The clauses of a select as terms: joins, filters, groups, distinct.

Rows may start from rows that are there already (a correlated sub-query): these *carry* some
variables, which stay part of every key, so that the answer can be told apart by them.
"""

from __future__ import annotations

from collections.abc import Sequence

from incmrql.algebra import rows as build
from incmrql.algebra.reading import Clauses, Translator, pattern_variables
from incmrql.algebra.rows import (
    NO_VARIABLES,
    Rows,
    column,
    extended,
    filtered,
    joined,
    over,
    row_of,
)
from incmrql.algebra.term import CMap, GroupBy, Term, element
from incmrql.types import typed
from incmrql.types.model import Collection, bag, list_of
from incmrql.types.walk import free_variables, is_random, used_variables


def of_rows(t: Translator, expr: typed.Expr) -> set[typed.Variable]:
    """The variables of rows that an expression depends on."""
    return free_variables(expr) - t.reading.loops


def carried_key(carried: Sequence[typed.Variable]) -> typed.Expr:
    """The correlation key of rows that carry these variables."""
    return build.tuple_of(*map(build.var, carried))


# --- from and where ----------------------------------------------------------------------


def from_where(t: Translator, clauses: Clauses, start: Rows) -> Rows:
    """The rows of the from clause for which the conditions hold, for each row of `start`."""
    rows, pending = _applied(t, start, list(clauses.conditions))
    for qualifier in clauses.qualifiers:
        rows, pending = _qualified(t, rows, qualifier, pending)
        rows, pending = _applied(t, rows, pending)
    rows, pending = _applied(t, rows, pending, is_whole=True)
    assert not pending, pending
    return rows


def _applied(
    t: Translator, rows: Rows, pending: list[typed.Expr], *, is_whole: bool = False
) -> tuple[Rows, list[typed.Expr]]:
    """The rows filtered by the conditions whose variables are all there.

    One that is random is asked for each row of the whole from clause.
    """
    later: list[typed.Expr] = []
    here = set(rows.variables)
    for condition in pending:
        if of_rows(t, condition) <= here and (is_whole or not is_random(condition)):
            rows, ready = t.attach(rows, condition)
            rows = filtered(t.names, rows, ready)
        else:
            later.append(condition)
    return rows, later


def _qualified(
    t: Translator, rows: Rows, qualifier: typed.Qualifier, pending: list[typed.Expr]
) -> tuple[Rows, list[typed.Expr]]:
    """The rows after one more qualifier."""
    match qualifier:
        case typed.Generator():
            return _generated(t, rows, qualifier, pending)
        case typed.Binding(pattern, value):
            rows, ready = t.attach(rows, value)
            bind = typed.Binding(pattern, ready)
            return extended(t.names, rows, (bind,), pattern_variables(pattern)), pending
        case typed.Condition(condition):
            return rows, [*pending, condition]


def _generated(
    t: Translator, rows: Rows, generator: typed.Generator, pending: list[typed.Expr]
) -> tuple[Rows, list[typed.Expr]]:
    """Each row with the elements of a domain: inside the row, or by a join."""
    pattern = generator.pattern
    domain = t.reading.resolved(generator.domain, t.names)
    new = tuple(pattern_variables(pattern))
    in_row = not isinstance(domain.type, Collection) or of_rows(t, domain) & set(rows.variables)
    if in_row or not t.reading.reads(domain):  # JSON and any hold elements without saying so
        rows, ready = t.attach(rows, domain)
        return extended(t.names, rows, (typed.Generator(pattern, ready),), new), pending
    term = t.term(domain)
    one = t.names.variable("x", element(term))
    matched = build.select(row_of(new), (typed.Binding(pattern, build.var(one)),))
    right, pending = _applied(t, Rows(CMap(one, matched, term), new), pending)
    if rows == NO_VARIABLES:
        return right, pending
    keys, rest = equalities(t, pending, set(rows.variables), set(new))
    return joined(t.names, rows, right, keys), rest


def equalities(
    t: Translator,
    conditions: Sequence[typed.Expr],
    left: set[typed.Variable],
    right: set[typed.Variable],
) -> tuple[list[tuple[typed.Expr, typed.Expr]], list[typed.Expr]]:
    """The conditions `a = b` with a of the left variables and b of the right; and the others."""
    keys: list[tuple[typed.Expr, typed.Expr]] = []
    rest: list[typed.Expr] = []
    for condition in conditions:
        found = _equality(t, condition, left, right)
        if found is None:
            rest.append(condition)
        else:
            keys.append(found)
    return keys, rest


def _equality(
    t: Translator,
    condition: typed.Expr,
    left: set[typed.Variable],
    right: set[typed.Variable],
) -> tuple[typed.Expr, typed.Expr] | None:
    if not isinstance(condition, typed.Compare) or condition.op != "=":
        return None
    if t.reading.reads(condition):
        return None
    for a, b in ((condition.left, condition.right), (condition.right, condition.left)):
        first, second = of_rows(t, a), of_rows(t, b)
        if first and second and first <= left and second <= right:
            return a, b
    return None


# --- group by, having, head, distinct ----------------------------------------------------


def finished(
    t: Translator, select: typed.Select, rows: Rows, carried: Sequence[typed.Variable]
) -> Term:
    """Pairs (carried variables, head); of an ordered query (carried, (order keys, head))."""
    if select.group is not None:
        rows = _grouped(t, rows, select, select.group, carried)
    for condition in build.conjuncts(select.having):
        rows, ready = t.attach(rows, condition)
        rows = filtered(t.names, rows, ready)
    rows, head = t.attach(rows, select.head)
    orders: list[typed.Expr] = []
    for order in select.order:
        rows, ready = t.attach(rows, order.expr)
        orders.append(ready)
    key = carried_key(carried)
    if select.distinct:
        return _distinct(t, rows, select, build.tuple_of(key, head), orders)
    value = build.tuple_of(build.tuple_of(*orders), head) if is_sorted(select) else head
    return over(t.names, rows, build.bag_of(build.tuple_of(key, value)))


def is_sorted(select: typed.Select) -> bool:
    """Whether the order of the rows matters, or which come first."""
    return bool(select.order) or select.limit is not None


def _distinct(
    t: Translator, rows: Rows, select: typed.Select, pair: typed.Expr, orders: list[typed.Expr]
) -> Term:
    """Each head once; of an ordered query, with the first of its order keys."""
    keys = build.tuple_of(*orders)
    groups = GroupBy(over(t.names, rows, build.bag_of(build.tuple_of(pair, keys))))
    group = t.names.variable("group", element(groups))
    both = build.item(build.var(group), 0)
    key, head = build.item(both, 0), build.item(both, 1)
    if not is_sorted(select):
        return CMap(group, build.bag_of(build.tuple_of(key, head)), groups)
    best = t.names.variable("keys", keys.type)
    order = tuple(
        typed.Order(build.item(build.var(best), i), o.descending)
        for i, o in enumerate(select.order)
    )
    domain = (typed.Generator(typed.Bind(best), build.item(build.var(group), 1)),)
    kind = list_of(keys.type) if order else bag(keys.type)
    ranked = typed.Select(False, build.var(best), domain, None, None, None, order, None, type=kind)
    first = typed.Builtin("elem", (ranked,), type=keys.type)
    value = build.tuple_of(first, head)
    return CMap(group, build.bag_of(build.tuple_of(key, value)), groups)


def _grouped(
    t: Translator,
    rows: Rows,
    select: typed.Select,
    group: typed.Group,
    carried: Sequence[typed.Variable],
) -> Rows:
    """One row for each group, with the variables that the query uses after grouping."""
    keys: list[typed.Expr] = []
    for key in group.keys:
        rows, ready = t.attach(rows, key)
        keys.append(ready)
    every = build.tuple_of(*map(build.var, carried), *keys)
    pairs = build.bag_of(build.tuple_of(every, row_of(group.rows)))
    groups = GroupBy(over(t.names, rows, pairs))
    one = t.names.variable("group", element(groups))
    found, members = build.item(build.var(one), 0), build.item(build.var(one), 1)
    patterns = (*map(typed.Bind, carried), *group.patterns)
    binds: list[typed.Qualifier] = [
        typed.Binding(pattern, build.item(found, i)) for i, pattern in enumerate(patterns)
    ]
    wanted = _used_after(select)
    for row, many in group.lifted:
        if many in wanted:
            binds.append(typed.Binding(typed.Bind(many), _column_of(t, members, row)))
    if group.partition in wanted:
        binds.append(typed.Binding(typed.Bind(group.partition), _records(t, members, group)))
    variables = tuple(v for bind in binds for v in pattern_variables(bind))
    return Rows(CMap(one, build.select(row_of(variables), binds), groups), variables)


def _used_after(select: typed.Select) -> set[typed.Variable]:
    """The variables that head, having and order by use."""
    exprs = [select.head, *(order.expr for order in select.order)]
    if select.having is not None:
        exprs.append(select.having)
    return set().union(*map(used_variables, exprs))


def _column_of(t: Translator, members: typed.Expr, row: typed.Variable) -> typed.Expr:
    """The bag of one variable's values in a group."""
    assert isinstance(members.type, Collection)
    each = t.names.variable("each", members.type.element)
    body = build.field(build.var(each), column(row))
    return typed.MapOver(each, members, body, False, type=bag(body.type))


def _records(t: Translator, members: typed.Expr, group: typed.Group) -> typed.Expr:
    """The bag of records of all variables in a group, under their own names."""
    assert isinstance(members.type, Collection)
    each = t.names.variable("each", members.type.element)
    fields = ((row.name, build.field(build.var(each), column(row))) for row in group.rows)
    body = build.record_of(fields)
    return typed.MapOver(each, members, body, False, type=bag(body.type))
