"""The rows of an operator, as the qualifiers of a comprehension and a value for each column.

    select (c1, c2, …) from qualifiers

A filter adds a condition, a projection changes the values, an inner join puts the qualifiers of its
sides one after the other: so a tree of these operators is one query.  What has to be a query of its
own (groups, distinct rows, sorted rows, unions) is *closed*: a bag of tuples, over which the next
relation ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import pattern_variables
from incmrql.algebra.rows import Names
from incmrql.types import typed
from incmrql.types.model import Collection, Record, Tuple, Type
from incmrql.types.walk import conjuncts, free_variables, nodes, rename_binders


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows of an operator.

    `columns` has the expression id and the value of each output column; an id may occur twice, and
    then its values are equal.  `order` has the sort keys if the operator is sorted.
    """

    qualifiers: tuple[typed.Qualifier, ...]
    columns: tuple[tuple[int, typed.Expr], ...]
    order: tuple[typed.Order, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        """The expression ids of the columns."""
        return tuple(expr_id for expr_id, _ in self.columns)

    @property
    def values(self) -> tuple[typed.Expr, ...]:
        """The values of the columns."""
        return tuple(value for _, value in self.columns)

    @property
    def by_id(self) -> Mapping[int, typed.Expr]:
        """The value of each expression id."""
        return dict(self.columns)

    @property
    def row(self) -> typed.Expr:
        """The tuple of all columns."""
        return build.tuple_of(*self.values)

    @property
    def bag(self) -> typed.Expr:
        """The bag of all rows."""
        return self.bag_of(self.row)

    def bag_of(self, head: typed.Expr) -> typed.Expr:
        """The bag of the values that an expression has for the rows."""
        match self.qualifiers:
            case (typed.Generator(typed.Bind(variable), domain),) if _is_whole(
                head, variable
            ) and _is_bag(domain):
                return domain
            case _:
                return build.select(head, self.qualifiers)

    @property
    def is_single(self) -> bool:
        """Whether there is at most one row, as the qualifiers only bind and test."""
        return not any(isinstance(q, typed.Generator) for q in self.qualifiers)

    @property
    def is_light(self) -> bool:
        """Whether the rows are those of one source at most, looked at one by one."""
        generators = [q for q in self.qualifiers if isinstance(q, typed.Generator)]
        values = [q.value for q in self.qualifiers if isinstance(q, typed.Binding)]
        tests = [q.condition for q in self.qualifiers if isinstance(q, typed.Condition)]
        domains = [generator.domain for generator in generators]
        is_row_by_row = not any(_has_query(expr) for expr in (*values, *tests))
        return is_row_by_row and len(generators) <= 1 and all(map(_is_plain, domains))

    def with_columns(self, columns: Iterable[tuple[int, typed.Expr]]) -> Relation:
        """The relation with other columns over the same rows."""
        return replace(self, columns=tuple(columns))

    def with_ids(self, ids: Sequence[int]) -> Relation:
        """The relation with other expression ids, by position."""
        return self.with_columns(zip(ids, self.values, strict=True))

    def binding(self, qualifiers: Iterable[typed.Qualifier]) -> Relation:
        """The relation with more qualifiers."""
        return replace(self, qualifiers=(*self.qualifiers, *qualifiers))

    def where(self, condition: typed.Expr) -> Relation:
        """The rows for which a condition is true; each conjunct stands where it can first."""
        qualifiers = list(self.qualifiers)
        for part in conjuncts(condition):
            wanted = free_variables(part)
            place = 0
            for index, qualifier in enumerate(qualifiers):
                # Never before another condition: the ones before it guard it.
                is_condition = isinstance(qualifier, typed.Condition) and place == index
                if is_condition or wanted & set(_bound_by(qualifier)):
                    place = index + 1
            qualifiers.insert(place, typed.Condition(part))
        return replace(self, qualifiers=tuple(qualifiers))

    def with_new_variables(self, names: Names) -> Relation:
        """The same relation with variables of its own, so that it can stand in a query twice."""
        whole = build.select(
            build.tuple_of(*self.values, *(order.expr for order in self.order)), self.qualifiers
        )
        renamed = rename_binders(whole, names.like)
        assert isinstance(renamed, typed.Select)
        assert isinstance(renamed.head, typed.MakeTuple)
        values = renamed.head.items[: len(self.columns)]
        keys = renamed.head.items[len(self.columns) :]
        order = tuple(replace(order, expr=key) for order, key in zip(self.order, keys, strict=True))
        columns = tuple(zip(self.ids, values, strict=True))
        return Relation(renamed.qualifiers, columns, order)


def _bound_by(qualifier: typed.Qualifier) -> list[typed.Variable]:
    return [] if isinstance(qualifier, typed.Condition) else pattern_variables(qualifier.pattern)


def _is_whole(head: typed.Expr, variable: typed.Variable) -> bool:
    """Whether a head is the row that a variable holds, taken apart and put together."""
    if not isinstance(head, typed.MakeTuple) or head.type != variable.type:
        return False
    return all(
        isinstance(part, typed.Item)
        and part.index == index
        and isinstance(part.subject, typed.Var)
        and part.subject.variable == variable
        for index, part in enumerate(head.items)
    )


def _is_bag(domain: typed.Expr) -> bool:
    return isinstance(domain.type, Collection) and domain.type.kind == "bag"


def _is_plain(domain: typed.Expr) -> bool:
    return isinstance(domain, typed.Read | typed.Global | typed.Const | typed.MakeCollection)


def _has_query(expr: typed.Expr) -> bool:
    return any(isinstance(node, typed.Read | typed.Global) for node in nodes(expr))


def over_bag(names: Names, bag: typed.Expr, ids: Sequence[int], name: str = "row") -> Relation:
    """The relation that ranges over a bag of rows, with these ids for their columns."""
    assert isinstance(bag.type, Collection)
    row = names.variable(name, bag.type.element)
    columns = zip(ids, components(build.var(row)), strict=True)
    return Relation((typed.Generator(typed.Bind(row), bag),), tuple(columns))


def naming(names: Iterable[tuple[typed.Variable, typed.Expr]]) -> list[typed.Qualifier]:
    """Qualifiers that bind variables to values: all at once, so that they are one step."""
    pairs = list(names)
    if len(pairs) < 2:
        return [typed.Binding(typed.Bind(variable), value) for variable, value in pairs]
    pattern = typed.TupleOf(tuple(typed.Bind(variable) for variable, _ in pairs))
    return [typed.Binding(pattern, build.tuple_of(*(value for _, value in pairs)))]


def components(row: typed.Expr) -> list[typed.Expr]:
    """The columns of a row: the components of a tuple, or the fields of a record."""
    match row.type:
        case Tuple(items):
            return [build.item(row, index) for index in range(len(items))]
        case Record() as record:
            return [build.field(row, name) for name in record.names]
        case other:
            raise AssertionError(f"a row is a tuple or a record, not {other}")


def null(type_: Type) -> typed.Expr:
    """The null of a type."""
    return typed.Const(None, type=type_)
