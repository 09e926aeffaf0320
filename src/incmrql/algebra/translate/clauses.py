"""The clauses of a select as terms: joins, filters, groups, distinct.

A correlated sub-query starts from rows that exist already. They *carry* some variables, which
stay part of every key, so that each outer row can find its own part of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import Clauses, pattern_variables, used_after_group
from incmrql.algebra.rows import (
    NO_VARIABLES,
    RowsTerm,
    column,
    extend,
    filter_rows,
    join_rows,
    map_rows,
    row_of,
)
from incmrql.algebra.scope import Translator
from incmrql.algebra.term import CMap, GroupBy, Term, element
from incmrql.algebra.translate.ordering import InRow, JoinStep, join_steps
from incmrql.types import typed
from incmrql.types.model import Collection, bag, list_of
from incmrql.types.walk import conjuncts, is_random


def correlation_key(carried: Sequence[typed.Variable]) -> typed.Expr:
    """The correlation key of rows that carry some variables."""
    return build.tuple_of(*map(build.var, carried))


# --- from and where ----------------------------------------------------------------------


def from_where(t: Translator, clauses: Clauses, start: RowsTerm) -> RowsTerm:
    """The rows of the from clause for which the conditions hold, for each row of `start`."""
    steps, conditions = join_steps(t, clauses, start.variables)
    rows, pending = _filter(t, start, conditions)
    for step in steps:
        rows, pending = _apply_step(t, rows, step, pending)
        rows, pending = _filter(t, rows, pending)
    rows, pending = _filter(t, rows, pending, is_complete=True)
    assert not pending, pending
    return rows


def _filter(
    t: Translator, rows: RowsTerm, pending: list[typed.Expr], *, is_complete: bool = False
) -> tuple[RowsTerm, list[typed.Expr]]:
    """Filter rows by the pending conditions whose variables they have; also what stays pending.

    A random condition waits until the rows are those of the complete from clause.
    """
    later: list[typed.Expr] = []
    here = set(rows.variables)
    for condition in pending:
        if t.scope.row_variables(condition) <= here and (is_complete or not is_random(condition)):
            rows, ready = t.attach(rows, condition)
            rows = filter_rows(t.names, rows, ready)
        else:
            later.append(condition)
    return rows, later


def _apply_step(
    t: Translator, rows: RowsTerm, step: JoinStep, pending: list[typed.Expr]
) -> tuple[RowsTerm, list[typed.Expr]]:
    """The rows after one more qualifier, and the pending conditions."""
    match step.qualifier:
        case typed.Generator() as generator:
            return _apply_generator(t, rows, generator, step.parts, pending)
        case typed.Binding() as binding:
            return _bind(t, rows, binding), pending
        case typed.Condition(condition):
            return rows, [*pending, condition]


def _bind(t: Translator, rows: RowsTerm, binding: typed.Binding) -> RowsTerm:
    """Each row with the variables of a binding."""
    rows, ready = t.attach(rows, binding.value)
    bind = typed.Binding(binding.pattern, ready)
    return extend(t.names, rows, (bind,), pattern_variables(binding.pattern))


def _flatten(t: Translator, rows: RowsTerm, pattern: typed.Pattern, domain: typed.Expr) -> RowsTerm:
    """Each row with the elements of a collection inside of it."""
    rows, ready = t.attach(rows, domain)
    return extend(t.names, rows, (typed.Generator(pattern, ready),), pattern_variables(pattern))


def _with_part(t: Translator, rows: RowsTerm, part: InRow) -> RowsTerm:
    if isinstance(part, typed.Binding):
        return _bind(t, rows, part)
    return _flatten(t, rows, part.pattern, t.scope.resolve(part.domain, t.names))


def _apply_generator(
    t: Translator,
    rows: RowsTerm,
    generator: typed.Generator,
    parts: Sequence[InRow],
    pending: list[typed.Expr],
) -> tuple[RowsTerm, list[typed.Expr]]:
    """Each row with the elements of a domain: unnested inside the row, or joined.

    The parts are over elements of the domain alone, and evaluated before they are joined.
    """
    pattern = generator.pattern
    domain = t.scope.resolve(generator.domain, t.names)
    new = tuple(pattern_variables(pattern))
    # A tree (JSON, any) may hold elements although its type does not say so.
    is_tree = not isinstance(domain.type, Collection)
    if is_tree or t.scope.row_variables(domain) & set(rows.variables) or not t.scope.reads(domain):
        rows = _flatten(t, rows, pattern, domain)
        for part in parts:
            rows = _with_part(t, rows, part)
        return rows, pending
    term = t.term(domain)
    one = t.names.variable("x", element(term))
    matched = build.select(row_of(new), (typed.Binding(pattern, build.var(one)),))
    right, pending = _filter(t, RowsTerm(CMap(one, matched, term), new), pending)
    for part in parts:
        right, pending = _filter(t, _with_part(t, right, part), pending)
    if rows == NO_VARIABLES:
        return right, pending
    keys, rest = equalities(t, pending, set(rows.variables), set(right.variables))
    return join_rows(t.names, rows, right, keys), rest


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
        key = _equality(t, condition, left, right)
        if key is None:
            rest.append(condition)
        else:
            keys.append(key)
    return keys, rest


def _equality(
    t: Translator,
    condition: typed.Expr,
    left: set[typed.Variable],
    right: set[typed.Variable],
) -> tuple[typed.Expr, typed.Expr] | None:
    if not isinstance(condition, typed.Compare) or condition.op != "=":
        return None
    if t.scope.reads(condition) or is_random(condition):
        return None
    for a, b in ((condition.left, condition.right), (condition.right, condition.left)):
        first, second = t.scope.row_variables(a), t.scope.row_variables(b)
        if first and second and first <= left and second <= right:
            return a, b
    return None


# --- group by, having, head, distinct ----------------------------------------------------


def head_pairs(
    t: Translator, select: typed.Select, rows: RowsTerm, carried: Sequence[typed.Variable]
) -> Term:
    """Pairs (carried variables, head) of a select over the rows of its from and where clauses.

    If it has an order or a limit, pairs (carried variables, (sort keys, head)).
    """
    if select.group is not None:
        rows = _group(t, rows, select, select.group, carried)
    for condition in conjuncts(select.having):
        rows, ready = t.attach(rows, condition)
        rows = filter_rows(t.names, rows, ready)
    rows, head = t.attach(rows, select.head)
    orders: list[typed.Expr] = []
    for order in select.order:
        rows, ready = t.attach(rows, order.expr)
        orders.append(ready)
    key = correlation_key(carried)
    if select.distinct:
        return _distinct_pairs(t, rows, select, build.tuple_of(key, head), orders)
    value = build.tuple_of(build.tuple_of(*orders), head) if is_sorted(select) else head
    return map_rows(t.names, rows, build.bag_of(build.tuple_of(key, value)))


def is_sorted(select: typed.Select) -> bool:
    """Whether a select has an order or a limit."""
    return bool(select.order) or select.limit is not None


def _distinct_pairs(
    t: Translator, rows: RowsTerm, select: typed.Select, pair: typed.Expr, orders: list[typed.Expr]
) -> Term:
    """Distinct heads; if the select is sorted, each with the first of its sort keys."""
    keys = build.tuple_of(*orders)
    groups = GroupBy(map_rows(t.names, rows, build.bag_of(build.tuple_of(pair, keys))))
    group = t.names.variable("group", element(groups))
    both = build.item(build.var(group), 0)
    key, head = build.item(both, 0), build.item(both, 1)
    if not is_sorted(select):
        return CMap(group, build.bag_of(build.tuple_of(key, head)), groups)
    first = t.names.variable("keys", keys.type)
    order = tuple(
        typed.Order(build.item(build.var(first), i), o.descending)
        for i, o in enumerate(select.order)
    )
    domain = (typed.Generator(typed.Bind(first), build.item(build.var(group), 1)),)
    kind = list_of(keys.type) if order else bag(keys.type)
    ranked = typed.Select(False, build.var(first), domain, None, None, None, order, None, type=kind)
    value = build.tuple_of(typed.Builtin("elem", (ranked,), type=keys.type), head)
    return CMap(group, build.bag_of(build.tuple_of(key, value)), groups)


def _group(
    t: Translator,
    rows: RowsTerm,
    select: typed.Select,
    group: typed.Group,
    carried: Sequence[typed.Variable],
) -> RowsTerm:
    """One row for each group, with the variables that the query uses after grouping."""
    keys: list[typed.Expr] = []
    for key in group.keys:
        rows, ready = t.attach(rows, key)
        keys.append(ready)
    whole_key = build.tuple_of(*map(build.var, carried), *keys)
    pairs = build.bag_of(build.tuple_of(whole_key, row_of(group.rows)))
    groups = GroupBy(map_rows(t.names, rows, pairs))
    one = t.names.variable("group", element(groups))
    key_value, members = build.item(build.var(one), 0), build.item(build.var(one), 1)
    patterns = (*map(typed.Bind, carried), *group.patterns)
    binds: list[typed.Qualifier] = [
        typed.Binding(pattern, build.item(key_value, i)) for i, pattern in enumerate(patterns)
    ]
    wanted = used_after_group(select)
    for row, many in group.lifted:
        if many in wanted:
            binds.append(typed.Binding(typed.Bind(many), _column_of(t, members, row)))
    if group.partition in wanted:
        binds.append(typed.Binding(typed.Bind(group.partition), _partition_of(t, members, group)))
    variables = tuple(v for bind in binds for v in pattern_variables(bind))
    return RowsTerm(CMap(one, build.select(row_of(variables), binds), groups), variables)


def _column_of(t: Translator, members: typed.Expr, row: typed.Variable) -> typed.Expr:
    """The bag of one variable's values in a group."""
    assert isinstance(members.type, Collection)
    member = t.names.variable("each", members.type.element)
    body = build.field(build.var(member), column(row))
    return typed.MapOver(member, members, body, False, type=bag(body.type))


def _partition_of(t: Translator, members: typed.Expr, group: typed.Group) -> typed.Expr:
    """The bag of records of all variables in a group, under their own names."""
    assert isinstance(members.type, Collection)
    member = t.names.variable("each", members.type.element)
    fields = ((row.name, build.field(build.var(member), column(row))) for row in group.rows)
    body = build.record_of(fields)
    return typed.MapOver(member, members, body, False, type=bag(body.type))
