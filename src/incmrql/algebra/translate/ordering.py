"""The order in which the collections of a from clause are joined, without statistics.

    from R, S, T where R.a = T.a and T.b = S.b    is joined as    (R, T), S

The order of the text is kept, but for joins: a collection that no equality connects to those before
it waits, if an equality can connect it to those after it. So a join is a cross product only where
no order connects all collections. An order that makes no difference is never changed.

Bags have no order, so that the rows stay the same. Each qualifier comes after those that bind its
variables. Where a qualifier is random or shows values, it counts how often it is evaluated, and the
order of the text is kept as a whole.

A condition `a = b and c or a = b and d` can only be true where `a = b` is: that holds with nulls
too, since `and` is true only if both sides are, and `or` only if one is. Equalities that hold by
transitivity are not added: if `a = b` and `b = c` connect three collections, they do so without
`a = c`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from incmrql.algebra.comprehensions import Clauses, pattern_variables, qualifier_value
from incmrql.algebra.scope import Translator
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.types.walk import conjuncts, is_random

Variables = frozenset[typed.Variable]
InRow: TypeAlias = typed.Binding | typed.Generator
"""A binding, or a generator over a collection inside of a row."""


@dataclass(frozen=True)
class JoinStep:
    """A qualifier, and what of the others its join key needs: they use its variables alone."""

    qualifier: typed.Qualifier
    parts: tuple[InRow, ...] = ()


@dataclass(frozen=True, eq=False)
class _Element:
    """A qualifier, what it binds and uses, and whether it is joined with the rows before it."""

    qualifier: typed.Qualifier
    binds: Variables
    uses: Variables
    is_join: bool


def join_steps(
    t: Translator, clauses: Clauses, start: Sequence[typed.Variable]
) -> tuple[list[JoinStep], list[typed.Expr]]:
    """The qualifiers in the order in which they are joined with rows of some variables.

    And the conditions: those of the clauses, and equalities that hold where one of them does.
    """
    conditions = [*clauses.conditions]
    for condition in clauses.conditions:
        for equality in implied_equalities(condition):
            sides = _sides(t, equality)
            if sides is not None and sides[0].isdisjoint(sides[1]) and equality not in conditions:
                conditions.append(equality)
    ordering = _Ordering(t, clauses.qualifiers, conditions, frozenset(start))
    steps = list(ordering.steps())
    as_written = [JoinStep(qualifier) for qualifier in clauses.qualifiers]
    if steps != as_written and any(
        _counts_evaluations(t, qualifier_value(qualifier)) for qualifier in clauses.qualifiers
    ):
        steps = as_written
    return steps, conditions


def implied_equalities(condition: typed.Expr) -> list[typed.Expr]:
    """The equalities that all sides of an `or` have among their conditions."""
    if not isinstance(condition, typed.Logic) or condition.op != "or":
        return []
    first, *others = (_equalities(side) for side in _disjuncts(condition))
    return [equality for equality in first if all(equality in other for other in others)]


def _disjuncts(condition: typed.Expr) -> list[typed.Expr]:
    match condition:
        case typed.Logic("or", left, right):
            return [*_disjuncts(left), *_disjuncts(right)]
        case _:
            return [condition]


def _equalities(condition: typed.Expr) -> list[typed.Expr]:
    equalities: list[typed.Expr] = []
    for part in conjuncts(condition):
        equalities += implied_equalities(part)
        if isinstance(part, typed.Compare) and part.op == "=":
            equalities.append(part)
    return equalities


def _sides(t: Translator, condition: typed.Expr) -> tuple[Variables, Variables] | None:
    """The variables on both sides of an equality between rows; None for other conditions."""
    if not isinstance(condition, typed.Compare) or condition.op != "=":
        return None
    if t.scope.reads(condition) or is_random(condition):
        return None
    left, right = (
        frozenset(t.scope.row_variables(side)) for side in (condition.left, condition.right)
    )
    return (left, right) if left and right else None


def _counts_evaluations(t: Translator, expr: typed.Expr) -> bool:
    """Whether it makes a difference how often an expression is evaluated."""
    return any(
        isinstance(node, typed.Trace)
        or (isinstance(node, typed.Builtin) and node.function == "random")
        for node in t.scope.reachable(expr)
    )


@dataclass
class _Ordering:
    """Chooses one qualifier after the other."""

    t: Translator
    qualifiers: Sequence[typed.Qualifier]
    conditions: Sequence[typed.Expr]
    start: Variables

    def steps(self) -> Iterator[JoinStep]:
        """The qualifiers in the order in which they are joined."""
        remaining, bound = list(self.elements), self.start
        while remaining:
            ready = [e for e in remaining if not e.uses & self.bound_inside - bound]
            chosen = next((e for e in ready if self._may_be_next(e, bound)), ready[0])
            parts = self._needed_parts(chosen, bound)
            if not parts and self._is_unconnected(chosen, bound):
                chosen, parts = self._connected_by_elements(chosen, ready, bound)
            yield JoinStep(
                chosen.qualifier,
                tuple(e.qualifier for e in parts if isinstance(e.qualifier, InRow)),
            )
            for element in (chosen, *parts):
                remaining.remove(element)
                bound |= element.binds

    def _connected_by_elements(
        self, chosen: _Element, ready: Sequence[_Element], bound: Variables
    ) -> tuple[_Element, list[_Element]]:
        """A generator that is connected by the elements of its rows; the chosen one without any."""
        for element in (chosen, *ready):
            parts = self._needed_parts(element, bound, flatten=True)
            if parts:
                return element, parts
        return chosen, []

    def _is_unconnected(self, element: _Element, bound: Variables) -> bool:
        """Whether no equality connects the rows of a generator to what is bound."""
        return element.is_join and bool(bound) and not self._is_connected(element.binds, bound)

    def _is_connected(self, own: Variables, bound: Variables) -> bool:
        return any(there <= bound and here <= own for here, there in self.links)

    @cached_property
    def elements(self) -> list[_Element]:
        """The qualifiers with what they bind and use."""
        return [self._element(qualifier) for qualifier in self.qualifiers]

    def _element(self, qualifier: typed.Qualifier) -> _Element:
        value = qualifier_value(qualifier)
        binds = () if isinstance(qualifier, typed.Condition) else qualifier.pattern
        uses = frozenset(self.t.scope.row_variables(value))
        is_join = (
            isinstance(qualifier, typed.Generator)
            and isinstance(value.type, Collection)
            and not uses
            and self.t.scope.reads(value)
        )
        return _Element(qualifier, frozenset(pattern_variables(binds)), uses, is_join)

    @cached_property
    def bound_inside(self) -> Variables:
        """The variables that the qualifiers bind."""
        return frozenset(variable for element in self.elements for variable in element.binds)

    @cached_property
    def links(self) -> list[tuple[Variables, Variables]]:
        """The variables of both sides of each equality that may be a join key, either way round."""
        links: list[tuple[Variables, Variables]] = []
        for condition in self.conditions:
            sides = _sides(self.t, condition)
            if sides is not None:
                links += [sides, (sides[1], sides[0])]
        return links

    def _may_be_next(self, element: _Element, bound: Variables) -> bool:
        """Whether an element need not wait for others: nothing connects it better later."""
        if not element.is_join or not bound:
            return True
        own = self._own_variables(element)
        if self._is_connected(own, bound):
            return True
        depending = self._depending_on(element)
        return not any(here <= own and not there & depending for here, there in self.links)

    def _own_variables(self, element: _Element) -> Variables:
        """The variables that depend on a generator alone."""
        own = element.binds
        for other in self._own_parts(element):
            own |= other.binds
        return own

    def _own_parts(self, element: _Element, *, flatten: bool = False) -> list[_Element]:
        """The bindings that use variables of a generator alone; with `flatten` generators too."""
        own, parts = element.binds, list[_Element]()
        for other in self.elements:
            if other.uses and other.uses <= own and self._is_in_row(other.qualifier, flatten):
                own |= other.binds
                parts.append(other)
        return parts

    def _is_in_row(self, qualifier: typed.Qualifier, flatten: bool) -> bool:
        match qualifier:
            case typed.Binding():
                return True
            case typed.Generator(_, domain):
                return flatten and not self.t.scope.reads(domain)
            case _:
                return False

    def _depending_on(self, element: _Element) -> Variables:
        """The variables of a generator, and all that depend on them."""
        depending = element.binds
        for other in self.elements:
            if other.uses & depending:
                depending |= other.binds
        return depending

    def _needed_parts(
        self, element: _Element, bound: Variables, *, flatten: bool = False
    ) -> list[_Element]:
        """The parts without which no equality connects a generator to what is bound."""
        if not self._is_unconnected(element, bound):
            return []
        parts = self._own_parts(element, flatten=flatten)
        own = element.binds.union(*(part.binds for part in parts))
        keys = (here for here, there in self.links if there <= bound)
        needed = next((here for here in keys if here <= own), frozenset[typed.Variable]())
        chosen: list[_Element] = []
        for other in reversed(parts):
            if other.binds & needed:
                chosen.insert(0, other)
                needed |= other.uses
        return chosen
