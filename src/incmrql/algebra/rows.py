"""Terms whose elements are rows of variables, and the steps that translation builds them with.

`Rows(X, vs)` stands for a term X of records with one field for each variable in vs.  An
expression over variables becomes one over a row by reading each variable's field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from incmrql.algebra import build
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term, Values, element
from incmrql.types import typed
from incmrql.types.model import Type
from incmrql.types.walk import substitute


class Names:
    """A supply of variables that no binder has."""

    def __init__(self, last: int) -> None:
        self.last = last

    def variable(self, name: str, type_: Type) -> typed.Variable:
        """A new variable."""
        self.last += 1
        return typed.Variable(name, self.last, type_)

    def like(self, variable: typed.Variable) -> typed.Variable:
        """A new variable of the same name and type."""
        return self.variable(variable.name, variable.type)


@dataclass(frozen=True, slots=True)
class Rows:
    """A term of rows, and the variables that are their fields."""

    term: Term
    variables: tuple[typed.Variable, ...]


NO_VARIABLES = Rows(Values(build.bag_of(build.record_of(()))), ())
"""One row without variables: what a query that depends on nothing starts from."""


def column(variable: typed.Variable) -> str:
    """The field that holds a variable."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', variable.name)}_{variable.number}"


def row_of(variables: Iterable[typed.Variable]) -> typed.Expr:
    """The record of variables that are in scope."""
    return build.record_of((column(variable), build.var(variable)) for variable in variables)


def over(names: Names, rows: Rows, body: typed.Expr) -> CMap:
    """The elements of `body`, an expression over the variables, for every row."""
    row = names.variable("row", element(rows.term))
    return CMap(row, substitute(body, fields_of(rows, build.var(row))), rows.term)


def fields_of(rows: Rows, row: typed.Expr) -> dict[typed.Variable, typed.Expr]:
    """What each variable is in a row."""
    return {variable: build.field(row, column(variable)) for variable in rows.variables}


def extended(
    names: Names, rows: Rows, qualifiers: Sequence[typed.Qualifier], new: Sequence[typed.Variable]
) -> Rows:
    """Each row with the variables that qualifiers over it bind, as often as they match."""
    variables = (*rows.variables, *new)
    return Rows(over(names, rows, build.select(row_of(variables), qualifiers)), variables)


def filtered(names: Names, rows: Rows, condition: typed.Expr) -> Rows:
    """The rows for which the condition is true."""
    kept = build.when(condition, build.bag_of(row_of(rows.variables)))
    return Rows(over(names, rows, kept), rows.variables)


def keyed(
    names: Names, rows: Rows, keys: Sequence[typed.Expr], value: typed.Expr, *, nulls: bool
) -> Term:
    """Pairs (key, value); without `nulls`, none for a row that has a null among its keys."""
    pairs = build.bag_of(build.tuple_of(build.key_of(list(keys)), value))
    if not nulls:
        for key in keys:
            pairs = build.unless_null(key, pairs)
    return over(names, rows, pairs)


def joined(
    names: Names, left: Rows, right: Rows, keys: Sequence[tuple[typed.Expr, typed.Expr]]
) -> Rows:
    """All pairs of rows whose keys are equal and not null; without keys, all pairs."""
    first = keyed(names, left, [a for a, _ in keys], row_of(left.variables), nulls=False)
    second = keyed(names, right, [b for _, b in keys], row_of(right.variables), nulls=False)
    both = CoGroup(first, second)
    group = names.variable("group", element(both))
    sides = build.item(build.var(group), 1)
    a = names.variable("left", element(left.term))
    b = names.variable("right", element(right.term))
    variables = (*left.variables, *right.variables)
    values = {**fields_of(left, build.var(a)), **fields_of(right, build.var(b))}
    head = substitute(row_of(variables), values)
    more = typed.Generator(typed.Bind(b), build.item(sides, 1))
    return Rows(CMap(group, build.for_each(a, build.item(sides, 0), head, more), both), variables)


def with_partners(
    names: Names, rows: Rows, keys: Sequence[typed.Expr], partners: Term
) -> tuple[Rows, typed.Variable]:
    """Each row with a new variable: the bag of what `partners`, pairs, has for its key.

    A row without partners keeps an empty bag.
    """
    outer = keyed(names, rows, keys, row_of(rows.variables), nulls=True)
    both = CoGroup(outer, partners)
    group = names.variable("group", element(both))
    sides = build.item(build.var(group), 1)
    one = names.variable("left", element(rows.term))
    many = names.variable("many", build.item(sides, 1).type)
    variables = (*rows.variables, many)
    values = {**fields_of(rows, build.var(one)), many: build.item(sides, 1)}
    head = substitute(row_of(variables), values)
    body = build.for_each(one, build.item(sides, 0), head)
    return Rows(CMap(group, body, both), variables), many


def distinct_values(names: Names, rows: Rows, variables: Sequence[typed.Variable]) -> Rows:
    """The different values that some variables take, each once."""
    return _keys_of(names, over(names, rows, _keyed_alone(row_of(variables))), variables)


def _keyed_alone(key: typed.Expr) -> typed.Expr:
    return build.bag_of(build.tuple_of(key, build.unit()))


def _keys_of(names: Names, pairs: Term, variables: Sequence[typed.Variable]) -> Rows:
    groups = GroupBy(pairs)
    group = names.variable("group", element(groups))
    body = build.bag_of(build.item(build.var(group), 0))
    return Rows(CMap(group, body, groups), tuple(variables))


def distinct_elements(names: Names, term: Term) -> Term:
    """Each element once."""
    one = names.variable("x", element(term))
    pairs = CMap(one, _keyed_alone(build.var(one)), term)
    return _keys_of(names, pairs, ()).term
