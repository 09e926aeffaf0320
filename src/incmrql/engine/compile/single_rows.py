"""What one row contributes to an aggregate: expressions over a group that has only this row.

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
        """The element under a further condition."""
        if condition is None:
            return self
        both = [*conjuncts(self.condition), *conjuncts(condition)]
        return ElementAtMost(self.head, build.conjunction(both))

    def value(self) -> typed.Expr:
        """The element, or null if there is no element."""
        return self.head if self.condition is None else _or_null(self.condition, self.head)


def group_of(
    group: typed.Variable, key: typed.Expr, rows: Sequence[typed.Expr | None]
) -> dict[typed.Variable, typed.Expr]:
    """Binds a group to this key, and to one row or no row (None) on each side."""
    assert isinstance(group.type, Tuple)
    sides = group.type.items[1]
    types = sides.items if isinstance(sides, Tuple) else (sides,)
    bags = [
        build.empty(_element(type_)) if row is None else build.bag_of(row)
        for row, type_ in zip(rows, types, strict=True)
    ]
    return {group: build.tuple_of(key, bags[0] if len(bags) == 1 else build.tuple_of(*bags))}


def inline_variables(expr: typed.Expr, known: dict[typed.Variable, typed.Expr]) -> typed.Expr:
    """An expression with variables replaced by expressions, simplified."""
    return simple(substitute(expr, known))


def simple(expr: typed.Expr) -> typed.Expr:
    """An expression in which `(a, b)#0` is replaced by `a`, and `< A: a >.A` by `a`."""
    expr = map_children(simple, expr)
    match expr:
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case typed.Field(typed.MakeRecord(items) as record, name):
            return items[[field for field, _ in record.type.fields].index(name)]  # type: ignore[union-attr]
        case _:
            return expr


def as_conditional(expr: typed.Expr) -> typed.Expr:
    """A bag of at most one element, written as that element under its condition."""
    element = single_element(expr)
    if element is None:
        return expr
    row = build.bag_of(element.head)
    return row if element.condition is None else build.when(element.condition, row)


def single_element(expr: typed.Expr) -> ElementAtMost | None:
    """The only element that a bag may have; None if it may have several."""
    match expr:
        case typed.MakeCollection((item,)):
            return ElementAtMost(item)
        case typed.MakeCollection(()):
            return ElementAtMost(_null(_element(expr.type)), typed.Const(False, type=BOOL))
        case typed.If(condition, then, typed.MakeCollection(())):
            element = single_element(then)
            if element is None:
                return None
            return ElementAtMost(element.head, condition).when(element.condition)
        case typed.Widen(operand) if isinstance(expr.type, Collection):
            element = single_element(operand)
            if element is None:
                return None
            type_ = _element(expr.type)
            is_same = element.head.type == type_
            head = element.head if is_same else typed.Widen(element.head, type=type_)
            return ElementAtMost(head, element.condition)
        case typed.MapOver(variable, subject, body, flatten):
            element = single_element(subject)
            if element is None:
                return None
            inner = inline_variables(body, {variable: element.head})
            if not flatten:
                return ElementAtMost(inner, element.condition)
            last = single_element(inner)
            if last is None:
                return None
            return ElementAtMost(last.head, element.condition).when(last.condition)
        case typed.Select(False, head, qualifiers, where, None, None, (), None):
            return _of_query(head, qualifiers, where)
        case _:
            return None


def _of_query(
    head: typed.Expr, qualifiers: Sequence[typed.Qualifier], where: typed.Expr | None
) -> ElementAtMost | None:
    known: dict[typed.Variable, typed.Expr] = {}
    conditions: list[typed.Expr] = []
    for qualifier in qualifiers:
        match qualifier:
            case typed.Generator(typed.Bind(variable), domain):
                element = single_element(inline_variables(domain, known))
                if element is None:
                    return None
                known[variable] = element.head
                conditions += conjuncts(element.condition)
            case typed.Binding(typed.Bind(variable), value):
                known[variable] = inline_variables(value, known)
            case typed.Condition(condition):
                conditions += conjuncts(inline_variables(condition, known))
            case _:
                return None
    conditions += [inline_variables(test, known) for test in conjuncts(where)]
    return ElementAtMost(inline_variables(head, known), build.conjunction(conditions))


def _or_null(condition: typed.Expr, head: typed.Expr) -> typed.Expr:
    return typed.If(condition, head, _null(head.type), type=head.type)


def _null(type_: Type) -> typed.Expr:
    return typed.Const(None, type=type_)


def _element(type_: Type) -> Type:
    assert isinstance(type_, Collection)
    return type_.element
