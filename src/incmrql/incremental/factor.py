"""Factoring: what an answer asks of a group, as sums over the values of the group.

    F(k, s)  =  F'(k, e1(s), ..., en(s))        ei(s + t) = ei(s) + ei(t)

An aggregate over the group's bag, mapped, widened or filtered element by element, becomes a
column over one value (null where the element is left out: aggregates skip nulls), accumulators
over that column, and a variable in F'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from incmrql.algebra import build
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap
from incmrql.diagnostics import NOWHERE, Span
from incmrql.incremental.program import Accumulator, Aggregate, Kind
from incmrql.types import typed
from incmrql.types.model import BOOL, Basic, Collection, Decimal, Type, is_float, is_integer
from incmrql.types.walk import map_children, substitute, used

Function: TypeAlias = Literal["count", "sum", "avg"]


class NotYet(Exception):
    """A form that has no node yet, in plain words, and where it stands."""

    def __init__(self, what: str, span: Span = NOWHERE) -> None:
        super().__init__(what)
        self.what, self.span = what, span


@dataclass(frozen=True, slots=True)
class Factored:
    """The columns over one value, the sums over them, and the answer over the sums."""

    columns: tuple[typed.Expr, ...]
    accumulators: tuple[Accumulator, ...]
    aggregates: tuple[Aggregate, ...]
    results: tuple[typed.Variable, ...]
    body: typed.Expr


def factor(
    answer: CMap, keys: Sequence[typed.Variable], value: typed.Variable, names: Names
) -> Factored:
    """The parts of an answer over (key, bag of values), with the key in variables of its own."""
    factoring = _Factoring(answer.variable, tuple(keys), value, names)
    body = factoring.rewritten(answer.body)
    if answer.variable in used(body):
        raise NotYet("an answer that uses a group other than by count, sum and avg")
    return Factored(
        tuple(factoring.columns),
        tuple(factoring.accumulators),
        tuple(aggregate for aggregate, _ in factoring.results),
        tuple(variable for _, variable in factoring.results),
        body,
    )


class _Factoring:
    """One pass over an answer; what is found twice is kept once."""

    def __init__(
        self,
        group: typed.Variable,
        keys: tuple[typed.Variable, ...],
        value: typed.Variable,
        names: Names,
    ) -> None:
        self.group, self.keys, self.value, self.names = group, keys, value, names
        self.columns: list[typed.Expr] = []
        self.accumulators: list[Accumulator] = []
        self.results: list[tuple[Aggregate, typed.Variable]] = []

    def rewritten(self, expr: typed.Expr) -> typed.Expr:
        """The expression with variables for the key's parts and for the aggregates."""
        match expr:
            case typed.Item(typed.Item(typed.Var(variable), 0), i) if variable == self.group:
                return build.var(self.keys[i])
            case typed.Item(typed.Var(variable), 0) if variable == self.group:
                return build.tuple_of(*map(build.var, self.keys))
            case typed.Aggregate(function, operand, None) if self.group in used(operand):
                column = self.each(operand)
                if column is None or function not in ("count", "sum", "avg"):
                    raise NotYet(f"{function} of a group", expr.span)
                return build.var(self.aggregate(function, column, expr.type))
            case typed.Select(False, _, qualifiers, _, None, None, (), None) if _is_let(qualifiers):
                return self.rewritten(_without_lets(expr))
            case _:
                return map_children(self.rewritten, expr)

    def each(self, operand: typed.Expr) -> typed.Expr | None:
        """What one value of the group contributes to a bag that is made element by element."""
        match operand:
            case typed.Item(typed.Var(variable), 1) if variable == self.group:
                return build.var(self.value)
            case typed.Widen(inner) if isinstance(operand.type, Collection):
                one = self.each(inner)
                return None if one is None else _widened(one, operand.type.element)
            case typed.MapOver(variable, subject, body, False):
                one = self.each(subject)
                return None if one is None else self.closed(substitute(body, {variable: one}))
            case typed.Select(
                False, head, (typed.Generator(typed.Bind(variable), domain), *rest), where, None,
                None, (), None,
            ):  # fmt: skip
                one, tests = self.each(domain), _conditions(rest)
                if one is None or tests is None:
                    return None
                condition = build.conjunction([*tests, *build.conjuncts(where)])
                kept = head if condition is None else _when(condition, head)
                return self.closed(substitute(kept, {variable: one}))
            case _:
                return None

    def closed(self, expr: typed.Expr) -> typed.Expr | None:
        """The expression, if it is one over a value alone."""
        return None if self.group in used(expr) else expr

    def aggregate(self, function: str, column: typed.Expr, type_: Type) -> typed.Variable:
        """The variable that holds an aggregate of a column."""
        kinds: list[Kind] = [] if function == "count" else [_sum_kind(column.type)]
        if function != "sum":
            kinds.append("count")
        places = tuple(self.accumulator(kind, column) for kind in kinds)
        wanted = Aggregate(cast(Function, function), places, type_)
        for known, variable in self.results:
            if known == wanted:
                return variable
        variable = self.names.variable(function, type_)
        self.results.append((wanted, variable))
        return variable

    def accumulator(self, kind: Kind, column: typed.Expr) -> int:
        """The place of an accumulator; a count of anything but scalars asks what is null."""
        if kind == "count" and not isinstance(column.type, Basic | Decimal):
            column = typed.Compare("=", column, column, type=BOOL)
        if column not in self.columns:
            self.columns.append(column)
        scale = column.type.scale if isinstance(column.type, Decimal) and kind != "count" else 0
        wanted = Accumulator(kind, self.columns.index(column), scale)
        if wanted not in self.accumulators:
            self.accumulators.append(wanted)
        return self.accumulators.index(wanted)


def _conditions(qualifiers: Sequence[typed.Qualifier]) -> list[typed.Expr] | None:
    """The conditions that qualifiers are, if they are nothing else."""
    found = [each.condition for each in qualifiers if isinstance(each, typed.Condition)]
    return found if len(found) == len(qualifiers) else None


def _is_let(qualifiers: tuple[typed.Qualifier, ...]) -> bool:
    """Whether qualifiers only name values."""
    return all(isinstance(each, typed.Binding) and isinstance(each.pattern, typed.Bind)
               for each in qualifiers)  # fmt: skip


def _without_lets(query: typed.Select) -> typed.Expr:
    """`select e from x = a, y = b where c`: what is named in the places of the names."""
    named: dict[typed.Variable, typed.Expr] = {}
    for each in query.qualifiers:
        assert isinstance(each, typed.Binding)
        assert isinstance(each.pattern, typed.Bind)
        named[each.pattern.variable] = substitute(each.value, named)
    rows = build.bag_of(substitute(query.head, named))
    return rows if query.where is None else build.when(substitute(query.where, named), rows)


def _sum_kind(type_: Type) -> Kind:
    if is_float(type_):
        return "floats"
    if is_integer(type_):
        return "integers"
    if isinstance(type_, Decimal):
        return "decimals"
    raise NotYet(f"a sum of values of type {type_}")


def _widened(expr: typed.Expr, type_: Type) -> typed.Expr:
    return expr if expr.type == type_ else typed.Widen(expr, type=type_)


def _when(condition: typed.Expr, head: typed.Expr) -> typed.Expr:
    """`head` where the condition holds, else null."""
    return typed.If(condition, head, typed.Const(None, type=head.type), type=head.type)
