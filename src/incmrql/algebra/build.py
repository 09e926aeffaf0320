"""Small typed expressions that translation and rules are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from incmrql.types import typed
from incmrql.types.lattice import join
from incmrql.types.model import BOOL, NOTHING, Collection, Record, Tuple, Type, bag


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
    found = record.field(name) if isinstance(record, Record) else None
    assert found is not None, f"{name} is not in {record}"
    return typed.Field(subject, name, type=found)


def item(subject: typed.Expr, index: int) -> typed.Expr:
    """`e#i`."""
    assert isinstance(subject.type, Tuple), subject.type
    return typed.Item(subject, index, type=subject.type.items[index])


def when(condition: typed.Expr, rows: typed.Expr) -> typed.Expr:
    """`if c then rows else {}`."""
    assert isinstance(rows.type, Collection)
    return typed.If(condition, rows, empty(rows.type.element), type=rows.type)


def unless_null(subject: typed.Expr, rows: typed.Expr) -> typed.Expr:
    """`rows`, or nothing where the subject is null: `e = e` is true of everything but null."""
    return when(typed.Compare("=", subject, subject, type=BOOL), rows)


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


def conjuncts(condition: typed.Expr | None) -> list[typed.Expr]:
    """The parts of a condition that all have to hold."""
    match condition:
        case None:
            return []
        case typed.Logic("and", left, right):
            return [*conjuncts(left), *conjuncts(right)]
        case _:
            return [condition]


def conjunction(conditions: Sequence[typed.Expr]) -> typed.Expr | None:
    """All conditions as one."""
    whole = None
    for condition in conditions:
        whole = condition if whole is None else typed.Logic("and", whole, condition, type=BOOL)
    return whole


def unit() -> typed.Expr:
    """`()`."""
    return typed.MakeTuple((), type=Tuple(()))


def joined(types: Iterable[Type]) -> Type:
    """The least type of several that are known to fit."""
    common: Type = NOTHING
    for type_ in types:
        found = join(common, type_)
        assert found is not None
        common = found
    return common
