"""Additivity: over which sides of a group an expression is a sum of its rows.

An expression e that makes a bag is additive in a side if e(X + X', Y) = e(X, Y) + e(X', Y).  Then
each change of that side can be put through e on its own.  An expression that is additive in both
sides is a join, in one side a map.  One without sides is the same for all rows.

    group#1                           its own side
    if c then e else {}               the sides of e                     c without rows
    map(v -> b, e)                    the sides of e                     b without rows
    flatMap(v -> b, e)                those of e and of b                no side twice
    select h from v in e, w in d      those of e and of d                no side twice, h, c
      where c                                                            without rows
    e union d                         the sides of both                  the same
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from incmrql.plan.nodes import Columns
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.types.walk import children

Sides: TypeAlias = frozenset[int]

NO_SIDE: Sides = frozenset()


@dataclass(frozen=True, slots=True)
class Additivity:
    """Decides the additivity of expressions over `group`: (key, bag) or (key, (bag, bag))."""

    group: typed.Variable
    count: int
    """The number of sides of the group."""

    def side(self, expr: typed.Expr) -> int | None:
        """The side whose rows an expression is, as in `group#1`; None for other expressions."""
        match expr:
            case typed.Item(typed.Var(variable), 1) if variable == self.group and self.count == 1:
                return 0
            case typed.Item(typed.Item(typed.Var(variable), 1), side) if (
                variable == self.group and self.count == 2
            ):
                return side
            case _:
                return None

    def sides_read(self, expr: typed.Expr) -> Sides:
        """The sides whose rows an expression reads in any way."""
        match expr:
            case typed.Var(variable):
                return frozenset(range(self.count)) if variable == self.group else NO_SIDE
            case typed.Item(typed.Var(variable), 0) if variable == self.group:
                return NO_SIDE
            case _:
                side = self.side(expr)
                if side is not None:
                    return frozenset((side,))
                return NO_SIDE.union(*map(self.sides_read, children(expr)))

    def columns(self, exprs: Sequence[typed.Expr], side: int) -> Columns:
        """The components or fields of a side's rows that expressions read; None: whole rows."""
        rows = self.row_variables(exprs, side)
        if rows is None:
            return None
        names: set[int | str] = set()
        for expr in exprs:
            used = components(expr, rows)
            if used is None:
                return None
            names |= used
        return tuple(sorted(names, key=str))

    def row_variables(
        self, exprs: Sequence[typed.Expr], side: int
    ) -> frozenset[typed.Variable] | None:
        """The variables that iterate over the rows of a side; None if its bag is used otherwise."""
        variables: set[typed.Variable] = set()
        only = all(self._collect_row_variables(expr, side, variables) for expr in exprs)
        return frozenset(variables) if only else None

    def _collect_row_variables(
        self, expr: typed.Expr, side: int, variables: set[typed.Variable]
    ) -> bool:
        """Whether the rows of a side are only iterated over; adds the variables that do so."""
        parts: list[typed.Expr]
        match expr:
            case typed.Var(variable):
                return variable != self.group
            case typed.Item(typed.Var(variable), 0) if variable == self.group:
                return True
            case typed.MapOver(variable, subject, body) if self.side(subject) == side:
                variables.add(variable)
                parts = [body]
            case typed.Select():
                parts = []
                for child in children(expr):
                    parts += [] if self._is_row_generator(expr, child, side, variables) else [child]
            case _ if (named_side := self.side(expr)) is not None:
                return named_side != side
            case _:
                parts = list(children(expr))
        return all(self._collect_row_variables(part, side, variables) for part in parts)

    def _is_row_generator(
        self, query: typed.Select, part: typed.Expr, side: int, variables: set[typed.Variable]
    ) -> bool:
        """Whether a part of a query is the domain of a generator over a side, with one variable."""
        for qualifier in query.qualifiers:
            if isinstance(qualifier, typed.Generator) and qualifier.domain is part:
                if self.side(part) != side or not isinstance(qualifier.pattern, typed.Bind):
                    return False
                variables.add(qualifier.pattern.variable)
                return True
        return False

    def additive(self, expr: typed.Expr) -> Sides | None:
        """The sides that a bag is additive in; None if it reads rows in a different way."""
        if not self.sides_read(expr):
            return NO_SIDE
        if not isinstance(expr.type, Collection) or expr.type.kind != "bag":
            return None
        own_side = self.side(expr)
        if own_side is not None:
            return frozenset((own_side,))
        match expr:
            case typed.If(condition, then, otherwise):
                return None if self.sides_read(condition) else self._common_sides(then, otherwise)
            case typed.Combine("union", left, right):
                return self._common_sides(left, right)
            case typed.Widen(operand):
                return self.additive(operand)
            case typed.MapOver(_, subject, body, flatten):
                if flatten:
                    return self._joint_sides((subject, body))
                return None if self.sides_read(body) else self.additive(subject)
            case typed.Select(False, head, qualifiers, where, None, None, (), None):
                rest = [head] if where is None else [head, where]
                rest += [q.value for q in qualifiers if isinstance(q, typed.Binding)]
                rest += [q.condition for q in qualifiers if isinstance(q, typed.Condition)]
                if any(map(self.sides_read, rest)):
                    return None
                domains = [q.domain for q in qualifiers if isinstance(q, typed.Generator)]
                return self._joint_sides(domains)
            case _:
                return None

    def _common_sides(self, left: typed.Expr, right: typed.Expr) -> Sides | None:
        """The sides that two bags are both additive in; None if they differ."""
        # The empty bag is additive in every side, so only the other bag counts.
        for nothing, rest in ((left, right), (right, left)):
            if _is_nothing(nothing):
                return self.additive(rest)
        sides = self.additive(left)
        return sides if sides == self.additive(right) else None

    def _joint_sides(self, exprs: Sequence[typed.Expr]) -> Sides | None:
        """The sides of nested iterations over bags; None if two of them share a side.

        Iterating twice over one side is quadratic in it: (X + X')² has the product X·X' twice.
        """
        sides = NO_SIDE
        for expr in exprs:
            more = self.additive(expr)
            if more is None or sides & more:
                return None
            sides |= more
        return sides


def components(expr: typed.Expr, rows: frozenset[typed.Variable]) -> frozenset[int | str] | None:
    """The components or fields that an expression reads of rows; None if it reads whole rows.

    `rows` are the variables that hold a row.
    """
    match expr:
        case typed.Var(variable):
            return None if variable in rows else frozenset()
        case typed.Item(typed.Var(variable), name) | typed.Field(typed.Var(variable), name) if (
            variable in rows
        ):
            return frozenset((name,))
        case typed.Select(group=typed.Group() as group) if rows & {
            *group.rows,
            *(variable for variable, _ in group.lifted),
        }:
            return None
        case _:
            names: set[int | str] = set()
            for part in children(expr):
                used = components(part, rows)
                if used is None:
                    return None
                names |= used
            return frozenset(names)


def _is_nothing(expr: typed.Expr) -> bool:
    """Whether an expression is the empty collection."""
    match expr:
        case typed.MakeCollection(()):
            return True
        case typed.Widen(operand):
            return _is_nothing(operand)
        case _:
            return False
