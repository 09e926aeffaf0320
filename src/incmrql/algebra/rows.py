"""Builders of typed expressions and of terms, for translation and rules.

`Rows(X, vs)` stands for a term X of records with one field for each variable in vs.  An
expression over variables becomes one over a row by reading each variable's field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term, Values, element
from incmrql.types import typed
from incmrql.types.lattice import join
from incmrql.types.model import BOOL, NOTHING, Collection, Record, Tuple, Type, bag
from incmrql.types.walk import map_children, substitute

# --- Small typed expressions ---


def var(variable: typed.Variable) -> typed.Expr:
    """A variable."""
    return typed.Var(variable, type=variable.type)


def tuple_of(*items: typed.Expr) -> typed.Expr:
    """`(a, b)`."""
    return typed.MakeTuple(tuple(items), type=Tuple(tuple(item.type for item in items)))


def key_of(items: Sequence[typed.Expr]) -> typed.Expr:
    """The key that several expressions form: the expression itself if it is one."""
    return items[0] if len(items) == 1 else tuple_of(*items)


def record_of(fields: Iterable[tuple[str, typed.Expr]]) -> typed.Expr:
    """`< A: a >`."""
    pairs = tuple(fields)
    types = Record(tuple((name, value.type) for name, value in pairs))
    return typed.MakeRecord(tuple(value for _, value in pairs), type=types)


def bag_of(*items: typed.Expr) -> typed.Expr:
    """`{a}`."""
    return typed.MakeCollection(tuple(items), type=bag(items[0].type))


def empty(element: Type) -> typed.Expr:
    """`{}`."""
    return typed.MakeCollection((), type=bag(element))


def field(subject: typed.Expr, name: str) -> typed.Expr:
    """`e.name`."""
    record = subject.type
    type_ = record.field(name) if isinstance(record, Record) else None
    assert type_ is not None, f"{name} is not in {record}"
    return typed.Field(subject, name, type=type_)


def item(subject: typed.Expr, index: int) -> typed.Expr:
    """`e#i`."""
    assert isinstance(subject.type, Tuple), subject.type
    return typed.Item(subject, index, type=subject.type.items[index])


def projected_part(expr: typed.Expr) -> typed.Expr | None:
    """`a`, if the expression is `< A: a, … >.A` or `(a, …)#0`: what it takes of what it makes."""
    match expr:
        case typed.Field(typed.MakeRecord(items) as record, name) if isinstance(
            record.type, Record
        ):
            return items[record.type.names.index(name)]
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case _:
            return None


def reduce_projections(expr: typed.Expr) -> typed.Expr:
    """The expression without fields and components of records and tuples that it has just made."""
    inner = map_children(reduce_projections, expr)
    part = projected_part(inner)
    return inner if part is None else part


def replace_parts(expr: typed.Expr, parts: Sequence[tuple[typed.Expr, typed.Expr]]) -> typed.Expr:
    """The expression with the second of each pair wherever the first occurs."""
    for old, new in parts:
        if expr == old:
            return new
    return map_children(lambda child: replace_parts(child, parts), expr)


def when(condition: typed.Expr, rows: typed.Expr) -> typed.Expr:
    """`if c then rows else {}`."""
    assert isinstance(rows.type, Collection)
    return typed.If(condition, rows, empty(rows.type.element), type=rows.type)


def is_present(expr: typed.Expr) -> typed.Expr:
    """True where a value is not null: `e = e` is true of everything but null."""
    return typed.Compare("=", expr, expr, type=BOOL)


def unless_null(subject: typed.Expr, rows: typed.Expr) -> typed.Expr:
    """`rows`, or `{}` where the subject is null."""
    return when(is_present(subject), rows)


def for_each(
    variable: typed.Variable, domain: typed.Expr, head: typed.Expr, *more: typed.Qualifier
) -> typed.Expr:
    """`select head from variable in domain, more`, inside a row."""
    qualifiers = (typed.Generator(typed.Bind(variable), domain), *more)
    return select(head, qualifiers)


def select(head: typed.Expr, qualifiers: Iterable[typed.Qualifier]) -> typed.Expr:
    """`select head from qualifiers`, inside a row."""
    return typed.Select(
        False, head, tuple(qualifiers), None, None, None, (), None, type=bag(head.type)
    )


def conjunction(conditions: Sequence[typed.Expr]) -> typed.Expr | None:
    """All conditions as one."""
    whole = None
    for condition in conditions:
        whole = condition if whole is None else typed.Logic("and", whole, condition, type=BOOL)
    return whole


def unit() -> typed.Expr:
    """`()`."""
    return typed.MakeTuple((), type=Tuple(()))


def least_type(types: Iterable[Type]) -> Type:
    """The narrowest type that all of some types widen to; there must be one."""
    common: Type = NOTHING
    for type_ in types:
        wider = join(common, type_)
        assert wider is not None
        common = wider
    return common


# --- Terms over rows of variables ---


class Names:
    """A supply of fresh variables."""

    def __init__(self, last: int) -> None:
        self.last = last

    def variable(self, name: str, type_: Type) -> typed.Variable:
        """A new variable."""
        self.last += 1
        return typed.Variable(name, self.last, type_)

    def like(self, variable: typed.Variable) -> typed.Variable:
        """A new variable of the same name and type as another."""
        return self.variable(variable.name, variable.type)


@dataclass(frozen=True, slots=True)
class RowsTerm:
    """A term of rows, and the variables that are their fields."""

    term: Term
    variables: tuple[typed.Variable, ...]


NO_VARIABLES = RowsTerm(Values(bag_of(record_of(()))), ())
"""One row without variables: what a query that depends on nothing starts from."""


def column(variable: typed.Variable) -> str:
    """The field that holds a variable."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', variable.name)}_{variable.number}"


def row_of(variables: Iterable[typed.Variable]) -> typed.Expr:
    """The record of variables that are in scope."""
    return record_of((column(variable), var(variable)) for variable in variables)


def map_rows(names: Names, rows: RowsTerm, body: typed.Expr) -> CMap:
    """The elements of `body`, an expression over the variables, for each row."""
    row = names.variable("row", element(rows.term))
    return CMap(row, substitute(body, fields_of(rows, var(row))), rows.term)


def fields_of(rows: RowsTerm, row: typed.Expr) -> dict[typed.Variable, typed.Expr]:
    """What each variable is in a row."""
    return {variable: field(row, column(variable)) for variable in rows.variables}


def extend(
    names: Names,
    rows: RowsTerm,
    qualifiers: Sequence[typed.Qualifier],
    new: Sequence[typed.Variable],
) -> RowsTerm:
    """Add the variables that qualifiers over each row bind: a row for each match."""
    variables = (*rows.variables, *new)
    return RowsTerm(map_rows(names, rows, select(row_of(variables), qualifiers)), variables)


def filter_rows(names: Names, rows: RowsTerm, condition: typed.Expr) -> RowsTerm:
    """The rows for which a condition is true."""
    body = when(condition, bag_of(row_of(rows.variables)))
    return RowsTerm(map_rows(names, rows, body), rows.variables)


def keyed_pairs(
    names: Names, rows: RowsTerm, keys: Sequence[typed.Expr], value: typed.Expr, *, nulls: bool
) -> Term:
    """Pairs (key, value) of each row; unless `nulls`, rows with a null key are left out."""
    pairs = bag_of(tuple_of(key_of(list(keys)), value))
    if not nulls:
        for key in keys:
            pairs = unless_null(key, pairs)
    return map_rows(names, rows, pairs)


def join_rows(
    names: Names, left: RowsTerm, right: RowsTerm, keys: Sequence[tuple[typed.Expr, typed.Expr]]
) -> RowsTerm:
    """All pairs of rows whose keys are equal and not null; without keys, all pairs."""
    first = keyed_pairs(names, left, [a for a, _ in keys], row_of(left.variables), nulls=False)
    second = keyed_pairs(names, right, [b for _, b in keys], row_of(right.variables), nulls=False)
    both = CoGroup(first, second)
    group = names.variable("group", element(both))
    sides = item(var(group), 1)
    a = names.variable("left", element(left.term))
    b = names.variable("right", element(right.term))
    variables = (*left.variables, *right.variables)
    values = {**fields_of(left, var(a)), **fields_of(right, var(b))}
    head = substitute(row_of(variables), values)
    more = typed.Generator(typed.Bind(b), item(sides, 1))
    return RowsTerm(CMap(group, for_each(a, item(sides, 0), head, more), both), variables)


def nest_join(
    names: Names, rows: RowsTerm, keys: Sequence[typed.Expr], partners: Term
) -> tuple[RowsTerm, typed.Variable]:
    """Each row with a new variable: the bag of the values that `partners` has for the row's key.

    `partners` are pairs (key, value). A row without partners gets an empty bag.
    """
    outer = keyed_pairs(names, rows, keys, row_of(rows.variables), nulls=True)
    both = CoGroup(outer, partners)
    group = names.variable("group", element(both))
    sides = item(var(group), 1)
    one = names.variable("left", element(rows.term))
    many = names.variable("many", item(sides, 1).type)
    variables = (*rows.variables, many)
    values = {**fields_of(rows, var(one)), many: item(sides, 1)}
    head = substitute(row_of(variables), values)
    body = for_each(one, item(sides, 0), head)
    return RowsTerm(CMap(group, body, both), variables), many


def distinct_values(names: Names, rows: RowsTerm, variables: Sequence[typed.Variable]) -> RowsTerm:
    """The distinct values of some variables."""
    pairs = map_rows(names, rows, bag_of(tuple_of(row_of(variables), unit())))
    return RowsTerm(_distinct_keys(names, pairs), tuple(variables))


def distinct_elements(names: Names, term: Term) -> Term:
    """The distinct elements of a term."""
    one = names.variable("x", element(term))
    return _distinct_keys(names, CMap(one, bag_of(tuple_of(var(one), unit())), term))


def _distinct_keys(names: Names, pairs: Term) -> Term:
    groups = GroupBy(pairs)
    group = names.variable("group", element(groups))
    return CMap(group, bag_of(item(var(group), 0)), groups)
