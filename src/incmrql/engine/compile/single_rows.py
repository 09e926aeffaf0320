"""What one row of a group brings: expressions over a group, for a group of that row alone.

e((key, {row}))  =  {h}            always one element
=  {h} if c       one element where a condition holds
=  a bag          anything else
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from incmrql.algebra import rows as build
from incmrql.types import typed
from incmrql.types.model import BOOL, Collection, Tuple, Type
from incmrql.types.walk import conjuncts, map_children, substitute


@dataclass(frozen=True, slots=True)
class ElementAtMost:
    """At most one element: `head`, where the condition holds."""

    head: typed.Expr
    condition: typed.Expr | None = None

    def when(self, condition: typed.Expr | None) -> ElementAtMost:
        """The element where another condition holds too."""
        if condition is None:
            return self
        both = [*conjuncts(self.condition), *conjuncts(condition)]
        return ElementAtMost(self.head, build.conjunction(both))

    def value(self) -> typed.Expr:
        """The element, or null where there is none."""
        return self.head if self.condition is None else _or_null(self.condition, self.head)


def group_of(
    group: typed.Variable, key: typed.Expr, rows: Sequence[typed.Expr | None]
) -> dict[typed.Variable, typed.Expr]:
    """A group with this key, and with one row or none on each side."""
    assert isinstance(group.type, Tuple)
    sides = group.type.items[1]
    types = sides.items if isinstance(sides, Tuple) else (sides,)
    bags = [
        build.empty(_element(type_)) if row is None else build.bag_of(row)
        for row, type_ in zip(rows, types, strict=True)
    ]
    return {group: build.tuple_of(key, bags[0] if len(bags) == 1 else build.tuple_of(*bags))}


def inline_variables(expr: typed.Expr, known: dict[typed.Variable, typed.Expr]) -> typed.Expr:
    """An expression with variables replaced, and parts of what is made on the spot taken."""
    return simple(substitute(expr, known))


def simple(expr: typed.Expr) -> typed.Expr:
    """Fields and components of what is made on the spot, taken at once."""
    expr = map_children(simple, expr)
    match expr:
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case typed.Field(typed.MakeRecord(items) as record, name):
            return items[[field for field, _ in record.type.fields].index(name)]  # type: ignore[union-attr]
        case _:
            return expr


def as_conditional(expr: typed.Expr) -> typed.Expr:
    """A bag of at most one element, as that element under its condition."""
    found = single_element(expr)
    if found is None:
        return expr
    row = build.bag_of(found.head)
    return row if found.condition is None else build.when(found.condition, row)


def single_element(expr: typed.Expr) -> ElementAtMost | None:
    """The one element of a bag, if that is what it has at most."""
    match expr:
        case typed.MakeCollection((item,)):
            return ElementAtMost(item)
        case typed.MakeCollection(()):
            return ElementAtMost(_null(_element(expr.type)), typed.Const(False, type=BOOL))
        case typed.If(condition, then, typed.MakeCollection(())):
            found = single_element(then)
            return (
                None
                if found is None
                else ElementAtMost(found.head, condition).when(found.condition)
            )
        case typed.Widen(operand) if isinstance(expr.type, Collection):
            found = single_element(operand)
            if found is None:
                return None
            element = _element(expr.type)
            same = found.head.type == element
            head = found.head if same else typed.Widen(found.head, type=element)
            return ElementAtMost(head, found.condition)
        case typed.MapOver(variable, subject, body, flatten):
            found = single_element(subject)
            if found is None:
                return None
            inner = inline_variables(body, {variable: found.head})
            if not flatten:
                return ElementAtMost(inner, found.condition)
            made = single_element(inner)
            return (
                None
                if made is None
                else ElementAtMost(made.head, found.condition).when(made.condition)
            )
        case typed.Select(False, head, qualifiers, where, None, None, (), None):
            return _of_query(head, qualifiers, where)
        case _:
            return None


def _of_query(
    head: typed.Expr, qualifiers: Sequence[typed.Qualifier], where: typed.Expr | None
) -> ElementAtMost | None:
    known: dict[typed.Variable, typed.Expr] = {}
    conditions: list[typed.Expr] = []
    for each in qualifiers:
        match each:
            case typed.Generator(typed.Bind(variable), domain):
                found = single_element(inline_variables(domain, known))
                if found is None:
                    return None
                known[variable] = found.head
                conditions += conjuncts(found.condition)
            case typed.Binding(typed.Bind(variable), value):
                known[variable] = inline_variables(value, known)
            case typed.Condition(condition):
                conditions += conjuncts(inline_variables(condition, known))
            case _:
                return None
    conditions += [inline_variables(each, known) for each in conjuncts(where)]
    return ElementAtMost(inline_variables(head, known), build.conjunction(conditions))


def _or_null(condition: typed.Expr, head: typed.Expr) -> typed.Expr:
    return typed.If(condition, head, _null(head.type), type=head.type)


def _null(type_: Type) -> typed.Expr:
    return typed.Const(None, type=type_)


def _element(type_: Type) -> Type:
    assert isinstance(type_, Collection)
    return type_.element
