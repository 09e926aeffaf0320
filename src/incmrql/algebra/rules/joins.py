"""What rules about joins share: how a join looks, and which side an expression is about.

A join is a map over a coGroup that ranges over both sides:

    select head from a in group#1#0, b in group#1#1, conditions
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from incmrql.algebra import build
from incmrql.algebra.alpha import fingerprint
from incmrql.algebra.rows import Names
from incmrql.algebra.rules.cmaps import comprehension
from incmrql.algebra.rules.expressions import field_of_record, is_plain, item_of_tuple
from incmrql.algebra.term import CMap, GroupBy, Term
from incmrql.types import typed
from incmrql.types.model import Tuple
from incmrql.types.walk import free, map_children, substitute

Path = tuple[int, ...]
"""Where a part of a group stands: `group#1#0` is (1, 0)."""


@dataclass(frozen=True, slots=True)
class Join:
    """A join's body: a variable for each side, and what is made of each pair."""

    group: typed.Variable
    sides: tuple[typed.Variable, typed.Variable]
    conditions: tuple[typed.Expr, ...]
    head: typed.Expr

    def sides_of(self, expr: typed.Expr) -> set[int]:
        """The sides that an expression is about."""
        used = free(expr)
        return {side for side in (0, 1) if self.sides[side] in used}


def at(group: typed.Variable, path: Path) -> typed.Expr:
    """The part of a group at a path."""
    found = build.var(group)
    for index in path:
        found = build.item(found, index)
    return found


def path_of(part: typed.Expr) -> Path:
    """The path from a group to a part of it, as far as it goes through tuples."""
    path: Path = ()
    while isinstance(part, typed.Item | typed.Field):
        path = (part.index, *path) if isinstance(part, typed.Item) else ()
        part = part.subject
    return path


def as_join(group: typed.Variable, body: typed.Expr) -> Join | None:
    """The join that a body over a coGroup is, if it is one.

    Besides the two sides, pair by pair, it may only look at the key.
    """
    if not isinstance(body, typed.Select) or not is_plain(body):
        return None
    sides: dict[int, typed.Variable] = {}
    named: dict[typed.Variable, typed.Expr] = {}
    conditions: list[typed.Expr] = []
    for qualifier in body.qualifiers:
        match qualifier:
            case typed.Generator(typed.Bind(variable), domain):
                side = next((s for s in (0, 1) if domain == at(group, (1, s))), None)
                if side is None or side in sides:
                    return None
                sides[side] = variable
            case typed.Binding(typed.Bind(variable), value):
                named[variable] = substitute(value, named)
            case typed.Condition(condition):
                conditions.append(substitute(condition, named))
            case _:
                return None
    if len(sides) < 2:
        return None
    conditions += [substitute(c, named) for c in build.conjuncts(body.where)]
    head = substitute(body.head, named)
    if not all(only_key(group, expr) for expr in (head, *conditions)):
        return None
    return Join(group, (sides[0], sides[1]), tuple(conditions), head)


def only_key(group: typed.Variable, expr: typed.Expr) -> bool:
    """Whether an expression takes nothing of a group but its key."""
    return group not in free(with_key(group, expr, build.unit()))


def with_key(group: typed.Variable, expr: typed.Expr, key: typed.Expr) -> typed.Expr:
    """An expression with another one in the place of the group's key."""
    old = at(group, (0,))

    def visit(node: typed.Expr) -> typed.Expr:
        return key if node == old else map_children(visit, node)

    return visit(expr)


def simple(expr: typed.Expr, names: Names) -> typed.Expr:
    """An expression that takes no field or component of what it has just made."""
    expr = map_children(lambda child: simple(child, names), expr)
    for rule in (field_of_record, item_of_tuple):
        shorter = rule.rewrite(expr, names)
        if shorter is not None:
            return simple(shorter, names)
    return expr


def in_order(
    row: typed.Variable, qualifiers: Iterable[typed.Qualifier]
) -> tuple[tuple[typed.Qualifier, ...], tuple[typed.Condition, ...]]:
    """Qualifiers over a row with the conditions last, one by one, in an order of their own.

    A row passes all conditions or does not, whenever they are asked.
    """
    binds: list[typed.Qualifier] = []
    conditions: list[typed.Expr] = []
    for qualifier in qualifiers:
        if isinstance(qualifier, typed.Condition):
            conditions += build.conjuncts(qualifier.condition)
        else:
            binds.append(qualifier)
    conditions.sort(key=lambda condition: fingerprint(row, tuple(binds), condition))
    return tuple(binds), tuple(map(typed.Condition, conditions))


def leaves(expr: typed.Expr) -> list[typed.Expr]:
    """The expressions that a tuple or record, of any depth, is made of."""
    if isinstance(expr, typed.MakeTuple | typed.MakeRecord):
        return [leaf for item in expr.items for leaf in leaves(item)]
    return [expr]


def leaf_paths(expr: typed.Expr, path: Path = ()) -> list[tuple[typed.Expr, Path]]:
    """The parts that a tuple is made of, and where they stand in it."""
    if isinstance(expr, typed.MakeTuple):
        return [leaf for i, e in enumerate(expr.items) for leaf in leaf_paths(e, (*path, i))]
    return [(expr, path)]


def is_once(side: Term, member: typed.Variable, parts: Iterable[typed.Expr], names: Names) -> bool:
    """Whether no two pairs of a side agree on the key and on some parts of the member.

    Known of a map over groups whose pairs tell the key of the group.
    """
    if not (isinstance(side, CMap) and isinstance(side.source, GroupBy)):
        return False
    qualifiers, pair = comprehension(side.body, names)
    if not isinstance(pair, typed.MakeTuple):
        return False
    if any(isinstance(qualifier, typed.Generator) for qualifier in qualifiers):
        return False
    key, value = pair.items
    told = [key, *(simple(substitute(part, {member: value}), names) for part in parts)]
    return tells(at(side.variable, (0,)), [leaf for expr in told for leaf in leaves(expr)])


def tells(wanted: typed.Expr, told: list[typed.Expr]) -> bool:
    """Whether a value is known when some expressions are."""
    if wanted in told:
        return True
    if not isinstance(wanted.type, Tuple):
        return False
    return all(tells(build.item(wanted, i), told) for i in range(len(wanted.type.items)))
