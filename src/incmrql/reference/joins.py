"""Joins by an index: the one optimisation of the reference evaluator.

    select … from x in R, y in S where x.a = y.b and c

pairs each row x only with those rows y for which `x.a = y.b` can be true: values are equal if their
canonical bytes are, and null equals nothing. The whole condition is still evaluated for these
pairs, so that an index that finds too many changes no answer.

It finds fewer than all pairs, so it is not used where it counts how often an expression is
evaluated: where one is random, shows its value, or may fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from incmrql.reference.environment import Bindings, Environment
from incmrql.types import typed
from incmrql.types.walk import bound_variables, conjuncts, is_random, nodes, used_variables
from incmrql.values import Value, encode

Equality = tuple[typed.Expr, typed.Expr]
"""Two sides of a condition `a = b`: over the rows before a generator, and over its elements."""

Index = dict[bytes, list[Bindings]]
"""What a pattern binds for each element, by the canonical bytes of its sides of equalities."""

_WITHOUT_EFFECT = (
    typed.Const, typed.Var, typed.Field, typed.Item, typed.Widen, typed.Cast, typed.Arithmetic,
    typed.Negate, typed.MakeTuple,
)  # fmt: skip


@dataclass(slots=True)
class Domain:
    """A domain that is the same for all rows, and the equalities that its index is by."""

    equalities: tuple[Equality, ...]
    last: tuple[list[Value] | None, Index | None] = None, None
    """The elements that were joined last, and their index if there was one."""

    def joined(
        self,
        rows: list[Environment],
        values: list[Value],
        matches: Callable[[], list[Bindings]],
        *,
        uses_index: bool,
    ) -> list[Environment]:
        """Each row with each match of the values for which the equalities can hold, in order.

        For a single row an index costs as much as it saves, unless the values are those of the
        last time: so a query inside of a query makes one for all rows around it.
        """
        last_values, index = self.last
        if not (uses_index and self.equalities and (last_values is values or len(rows) > 1)):
            self.last = values, None
            every = matches()
            return [row.extend(match) for row in rows for match in every]
        if index is None or last_values is not values:
            index = self._index(rows[0], matches())
            self.last = values, index
        return [
            row.extend(match)
            for row in rows
            for key in [_key([before for before, _ in self.equalities], row)]
            if key is not None
            for match in index.get(key, ())
        ]

    def _index(self, row: Environment, matches: list[Bindings]) -> Index:
        index: Index = {}
        for match in matches:
            key = _key([own for _, own in self.equalities], row.extend(match))
            if key is not None:
                index.setdefault(key, []).append(match)
        return index


def _key(exprs: list[typed.Expr], row: Environment) -> bytes | None:
    """The canonical bytes of some values of a row; None if one of them is null."""
    values = [row.world.evaluate(expr, row) for expr in exprs]
    return None if None in values else encode(values)


def domains(
    qualifiers: tuple[typed.Qualifier, ...], where: typed.Expr | None
) -> tuple[Domain | None, ...]:
    """For each qualifier its domain, if that uses no variable that the qualifiers before it bind.

    Such a domain is evaluated once: otherwise queries nested in from clauses would take time
    exponential in their depth.
    """
    conditions = [*(q.condition for q in qualifiers if isinstance(q, typed.Condition))]
    conditions += conjuncts(where)
    has_effects = any(map(_has_effect, [*conditions, *map(_value, qualifiers)]))
    return tuple(
        Domain(() if has_effects else tuple(_equalities(qualifiers, index, conditions)))
        if _is_the_same_for_all_rows(qualifiers, index)
        else None
        for index in range(len(qualifiers))
    )


def _is_the_same_for_all_rows(qualifiers: tuple[typed.Qualifier, ...], index: int) -> bool:
    qualifier = qualifiers[index]
    return isinstance(qualifier, typed.Generator) and not (
        used_variables(qualifier.domain) & bound_variables(qualifiers[:index])
        or is_random(qualifier.domain)
    )


def _value(qualifier: typed.Qualifier) -> typed.Expr:
    match qualifier:
        case typed.Generator(_, value) | typed.Binding(_, value) | typed.Condition(value):
            return value


def _has_effect(expr: typed.Expr) -> bool:
    """Whether it counts how often an expression is evaluated."""
    return is_random(expr) or any(isinstance(node, typed.Trace) for node in nodes(expr))


def _equalities(
    qualifiers: tuple[typed.Qualifier, ...], index: int, conditions: Iterable[typed.Expr]
) -> Iterator[Equality]:
    """The conditions `a = b` with a over what is bound before a generator, and b over its own."""
    generator = qualifiers[index]
    assert isinstance(generator, typed.Generator)
    own, unbound = bound_variables(generator.pattern), bound_variables(qualifiers[index:])
    for condition in conditions:
        if not isinstance(condition, typed.Compare) or condition.op != "=":
            continue
        if not all(isinstance(node, _WITHOUT_EFFECT) for node in _operands(condition)):
            continue
        left, right = condition.left, condition.right
        for before, element in ((left, right), (right, left)):
            used, others = used_variables(element), used_variables(before)
            if used and others and used <= own and not others & unbound:
                yield before, element
                break


def _operands(condition: typed.Compare) -> Iterator[typed.Expr]:
    yield from nodes(condition.left)
    yield from nodes(condition.right)
