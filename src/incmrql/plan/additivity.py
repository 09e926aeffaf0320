"""Of which sides of a group an expression is a sum over the rows.

A judgment says for an expression that makes a bag: it is additive in each of these sides,
that is, e(X + X', Y) = e(X, Y) + e(X', Y).  Additive in both sides is a join, in one side a
map, in none (judged empty) the same whatever the rows are.

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
    """Judges expressions over a group: (key, bag), or (key, (bag, bag)) of two sides."""

    group: typed.Variable
    count: int
    """How many sides the group has."""

    def side(self, expr: typed.Expr) -> int | None:
        """The side whose rows an expression names."""
        match expr:
            case typed.Item(typed.Var(variable), 1) if variable == self.group and self.count == 1:
                return 0
            case typed.Item(typed.Item(typed.Var(variable), 1), place) if (
                variable == self.group and self.count == 2
            ):
                return place
            case _:
                return None

    def read(self, expr: typed.Expr) -> Sides:
        """The sides whose rows an expression reads in any way."""
        match expr:
            case typed.Var(variable):
                return frozenset(range(self.count)) if variable == self.group else NO_SIDE
            case typed.Item(typed.Var(variable), 0) if variable == self.group:
                return NO_SIDE
            case _:
                found = self.side(expr)
                if found is not None:
                    return frozenset((found,))
                return NO_SIDE.union(*map(self.read, children(expr)))

    def columns(self, exprs: Sequence[typed.Expr], side: int) -> Columns:
        """The components or fields that expressions read of the rows of a side; None: all."""
        rows = self.loops(exprs, side)
        read = None if rows is None else [components(expr, rows) for expr in exprs]
        if read is None or any(each is None for each in read):
            return None
        return tuple(sorted({name for each in read for name in each or ()}, key=str))

    def loops(self, exprs: Sequence[typed.Expr], side: int) -> frozenset[typed.Variable] | None:
        """The variables that go through the rows of a side; None if these are used otherwise."""
        found: set[typed.Variable] = set()
        only = all(self._loops(expr, side, found) for expr in exprs)
        return frozenset(found) if only else None

    def _loops(self, expr: typed.Expr, side: int, found: set[typed.Variable]) -> bool:
        """Whether rows of a side are only ever gone through; adds the variables that do so."""
        parts: list[typed.Expr]
        match expr:
            case typed.Var(variable):
                return variable != self.group
            case typed.Item(typed.Var(variable), 0) if variable == self.group:
                return True
            case typed.MapOver(variable, subject, body) if self.side(subject) == side:
                found.add(variable)
                parts = [body]
            case typed.Select():
                parts = []
                for each in children(expr):
                    parts += [] if self._bound(expr, each, side, found) else [each]
            case _ if (other := self.side(expr)) is not None:
                return other != side
            case _:
                parts = list(children(expr))
        return all(self._loops(part, side, found) for part in parts)

    def _bound(
        self, query: typed.Select, part: typed.Expr, side: int, found: set[typed.Variable]
    ) -> bool:
        """Whether a part of a query is the side that a generator with one variable goes through."""
        for each in query.qualifiers:
            if isinstance(each, typed.Generator) and each.domain is part:
                if self.side(part) != side or not isinstance(each.pattern, typed.Bind):
                    return False
                found.add(each.pattern.variable)
                return True
        return False

    def additive(self, expr: typed.Expr) -> Sides | None:
        """The sides that a bag is additive in; None if it reads rows in another way."""
        if not self.read(expr):
            return NO_SIDE
        if not isinstance(expr.type, Collection) or expr.type.kind != "bag":
            return None
        found = self.side(expr)
        if found is not None:
            return frozenset((found,))
        match expr:
            case typed.If(condition, then, otherwise):
                return None if self.read(condition) else self._alike(then, otherwise)
            case typed.Combine("union", left, right):
                return self._alike(left, right)
            case typed.Widen(operand):
                return self.additive(operand)
            case typed.MapOver(_, subject, body, flatten):
                if flatten:
                    return self._product((subject, body))
                return None if self.read(body) else self.additive(subject)
            case typed.Select(False, head, qualifiers, where, None, None, (), None):
                rest = [head] if where is None else [head, where]
                rest += [q.value for q in qualifiers if isinstance(q, typed.Binding)]
                rest += [q.condition for q in qualifiers if isinstance(q, typed.Condition)]
                if any(map(self.read, rest)):
                    return None
                domains = [q.domain for q in qualifiers if isinstance(q, typed.Generator)]
                return self._product(domains)
            case _:
                return None

    def _alike(self, one: typed.Expr, other: typed.Expr) -> Sides | None:
        """The sides that both are additive in; nothing at all is additive in every side."""
        for nothing, rest in ((one, other), (other, one)):
            if _is_nothing(nothing):
                return self.additive(rest)
        found = self.additive(one)
        return found if found == self.additive(other) else None

    def _product(self, exprs: Sequence[typed.Expr]) -> Sides | None:
        """The sides of bags that are gone through one inside the other."""
        found = NO_SIDE
        for expr in exprs:
            sides = self.additive(expr)
            if sides is None or found & sides:
                return None
            found |= sides
        return found


def components(expr: typed.Expr, rows: frozenset[typed.Variable]) -> frozenset[int | str] | None:
    """What an expression reads of rows, given the variables that hold one; None: whole rows."""
    match expr:
        case typed.Var(variable):
            return None if variable in rows else frozenset()
        case typed.Item(typed.Var(variable), name) | typed.Field(typed.Var(variable), name) if (
            variable in rows
        ):
            return frozenset((name,))
        case typed.Select(group=typed.Group() as group) if rows & _collected(group):
            return None
        case _:
            found = [components(part, rows) for part in children(expr)]
            if any(each is None for each in found):
                return None
            return frozenset(name for each in found for name in each or ())


def _collected(group: typed.Group) -> frozenset[typed.Variable]:
    """The variables whose values a group collects."""
    return frozenset(group.rows).union(variable for variable, _ in group.lifted)


def _is_nothing(expr: typed.Expr) -> bool:
    """Whether a collection is written as empty."""
    match expr:
        case typed.MakeCollection(()):
            return True
        case typed.Widen(operand):
            return _is_nothing(operand)
        case _:
            return False
