"""What rules about joins share: the shape of a join, and the sides that an expression is about.

A join is a map over a coGroup that ranges over both sides:

    select head from a in group#1#0, b in group#1#1, conditions
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from incmrql.algebra import rows
from incmrql.algebra.comprehensions import comprehension, is_plain
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, GroupBy, Term
from incmrql.algebra.walk import distinct_variables, fingerprint, map_variables, same_term
from incmrql.types import typed
from incmrql.types.model import UNIT, Collection, Tuple
from incmrql.types.walk import (
    conjuncts,
    free_variables,
    is_random,
    map_children,
    rename_binders,
    substitute,
)

Path = tuple[int, ...]
"""Where a part of a group stands: `group#1#0` is (1, 0)."""


@dataclass(frozen=True, slots=True)
class JoinBody:
    """A join's body: a variable for each side, and what is made of each pair."""

    group: typed.Variable
    sides: tuple[typed.Variable, typed.Variable]
    conditions: tuple[typed.Expr, ...]
    head: typed.Expr

    def sides_of(self, expr: typed.Expr) -> set[int]:
        """The sides that an expression is about."""
        used = free_variables(expr)
        return {side for side in (0, 1) if self.sides[side] in used}


def at(group: typed.Variable, path: Path) -> typed.Expr:
    """The part of a group at a path."""
    part = rows.var(group)
    for index in path:
        part = rows.item(part, index)
    return part


def path_of(part: typed.Expr) -> Path:
    """The path from a group to a part of it, as far as it goes through tuples."""
    path: Path = ()
    while isinstance(part, typed.Item | typed.Field):
        path = (part.index, *path) if isinstance(part, typed.Item) else ()
        part = part.subject
    return path


def as_join(group: typed.Variable, body: typed.Expr) -> JoinBody | None:
    """A body over a coGroup as a join, if it is one.

    It goes through the pairs of both sides and may read nothing else but the key.
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
    conditions += [substitute(c, named) for c in conjuncts(body.where)]
    head = substitute(body.head, named)
    if not all(only_key(group, expr) for expr in (head, *conditions)):
        return None
    return JoinBody(group, (sides[0], sides[1]), tuple(conditions), head)


def only_key(group: typed.Variable, expr: typed.Expr) -> bool:
    """Whether an expression reads nothing of a group but its key."""
    return group not in free_variables(with_key(group, expr, rows.unit()))


def with_key(group: typed.Variable, expr: typed.Expr, key: typed.Expr) -> typed.Expr:
    """An expression with the group's key replaced."""
    return rows.replace_parts(expr, [(at(group, (0,)), key)])


def conditions_last(
    row: typed.Variable, qualifiers: Iterable[typed.Qualifier]
) -> tuple[tuple[typed.Qualifier, ...], tuple[typed.Condition, ...]]:
    """Qualifiers over a row: first the others, then all conjuncts in an order that names determine.

    Conditions may move: a row passes all of them or does not, whenever they are tested.
    """
    binds: list[typed.Qualifier] = []
    conditions: list[typed.Expr] = []
    for qualifier in qualifiers:
        if isinstance(qualifier, typed.Condition):
            conditions += conjuncts(qualifier.condition)
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


def is_unique(
    side: Term, member: typed.Variable, parts: Iterable[typed.Expr], names: Names
) -> bool:
    """Whether the key and some parts of the member are unique among the pairs of a side.

    Known of a map over groups whose pairs determine the key of the group.
    """
    if not (isinstance(side, CMap) and isinstance(side.source, GroupBy)):
        return False
    qualifiers, pair = comprehension(side.body, names)
    if not isinstance(pair, typed.MakeTuple):
        return False
    if any(isinstance(qualifier, typed.Generator) for qualifier in qualifiers):
        return False
    key, value = pair.items
    known = [key, *(rows.reduce_projections(substitute(part, {member: value})) for part in parts)]
    return is_determined(at(side.variable, (0,)), [leaf for expr in known for leaf in leaves(expr)])


def is_determined(wanted: typed.Expr, known: list[typed.Expr]) -> bool:
    """Whether the values of some expressions determine another one."""
    if wanted in known:
        return True
    if not isinstance(wanted.type, Tuple):
        return False
    return all(is_determined(rows.item(wanted, i), known) for i in range(len(wanted.type.items)))


# --- Two terms of pairs over the same rows ---


Qualifiers = tuple[typed.Qualifier, ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    """`cMap(row -> select (key, value) from qualifiers, source)`."""

    row: typed.Variable
    qualifiers: Qualifiers
    key: typed.Expr
    value: typed.Expr
    source: Term


def pairs_of(term: Term, names: Names) -> Pairs | None:
    """A term as `Pairs`, if it is a map to pairs."""
    if not isinstance(term, CMap) or is_random(term.body):
        return None
    qualifiers, pair = comprehension(term.body, names)
    if not isinstance(pair, typed.MakeTuple):
        return None
    key, value = pair.items
    return Pairs(term.variable, qualifiers, key, value, term.source)


class AlignedPairs:
    """Two terms of pairs over the same rows, in the same variables.

    Both start with the qualifiers `common`, which those of `outer` and `inner` follow.
    """

    def __init__(self, common: Qualifiers, outer: Pairs, inner: Pairs, names: Names) -> None:
        self.common = common
        self.outer = outer
        self.inner = inner
        self.names = names
        self.bound = set(distinct_variables(outer.row, common))
        self.key: list[tuple[typed.Expr, Path]] = []
        self.carried: list[typed.Expr] = []

    def rows(self, key: typed.Expr) -> Term:
        """Pairs of a key and what both terms need of a row."""
        self.key = [
            (leaf, path) for leaf, path in leaf_paths(key) if free_variables(leaf) & self.bound
        ]
        for pairs in (self.outer, self.inner):
            self._rewrite(rows.select(pairs.value, pairs.qualifiers), None, None)
        member = rows.key_of(self.carried)
        head = rows.tuple_of(key, member)
        return CMap(self.outer.row, rows.select(head, self.common), self.outer.source)

    def bag(self, pairs: Pairs, group: typed.Variable, path: Path = (1,)) -> typed.Expr:
        """The values of the outer or the inner pairs in a group, which has their rows at a path."""
        members = at(group, path)
        assert isinstance(members.type, Collection)
        member = self.names.variable("each", members.type.element)
        select = self._rewrite(rows.select(pairs.value, pairs.qualifiers), group, member)
        assert isinstance(select, typed.Select)
        if not select.qualifiers:
            return typed.MapOver(member, members, select.head, False, type=select.type)
        return rename_binders(rows.for_each(member, members, select.head, *select.qualifiers),
                       self.names.like)  # fmt: skip

    def _rewrite(
        self, expr: typed.Expr, group: typed.Variable | None, member: typed.Variable | None
    ) -> typed.Expr:
        """An expression over the rows as one over a group and one of its members.

        Parts of the key are read from the group, the rest from the member. Without a group, this
        only records what members have to carry.
        """

        def visit(node: typed.Expr) -> typed.Expr:
            path = next((path for leaf, path in self.key if leaf == node), None)
            if path is not None:
                return node if group is None else at(group, (0, *path))
            needed = free_variables(node)
            if not needed & self.bound:
                return node
            if isinstance(node, _TRANSPARENT) or not needed <= self.bound:
                return map_children(visit, node)
            if node not in self.carried:
                self.carried.append(node)
            if member is None or len(self.carried) == 1:
                return node if member is None else rows.var(member)
            return rows.item(rows.var(member), self.carried.index(node))

        return map_children(visit, expr)


_TRANSPARENT = (typed.MakeTuple, typed.MakeRecord, typed.Compare, typed.Logic, typed.Not)
"""Nodes that members do not carry whole: their parts may serve other expressions too."""


def align(outer: Pairs, inner: Pairs, names: Names) -> AlignedPairs | None:
    """Two terms of pairs over the same rows, if they are; None for the key `()`.

    Nothing is gained by grouping all rows under one key.
    """
    if outer.key.type == UNIT or not same_term(outer.source, inner.source):
        return None
    ours, our_tests = conditions_last(outer.row, outer.qualifiers)
    theirs, their_tests = conditions_last(inner.row, inner.qualifiers)
    count = max(
        n
        for n in range(1 + min(len(ours), len(theirs)))
        if fingerprint(outer.row, ours[:n]) == fingerprint(inner.row, theirs[:n])
    )
    common = ours[:count]
    bound = distinct_variables(outer.row, common)
    same = dict(zip(distinct_variables(inner.row, theirs[:count]), bound, strict=True))
    theirs, their_tests, key, value = map_variables(
        (theirs, their_tests, inner.key, inner.value), lambda v: same.get(v, v)
    )
    shared = [test for test in our_tests if test in their_tests]
    inner_rest = (*theirs[count:], *(test for test in their_tests if test not in shared))
    outer_rest = (*ours[count:], *(test for test in our_tests if test not in shared))
    inner = Pairs(outer.row, inner_rest, key, value, outer.source)
    outer = Pairs(outer.row, outer_rest, outer.key, outer.value, outer.source)
    return AlignedPairs((*common, *shared), outer, inner, names)
