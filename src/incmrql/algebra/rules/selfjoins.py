"""A collection that meets itself by its own key is grouped by that key, once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from incmrql.algebra import build
from incmrql.algebra.alpha import fingerprint, places, same_term
from incmrql.algebra.rewrite import term_rule
from incmrql.algebra.rows import Names
from incmrql.algebra.rules.cmaps import comprehension
from incmrql.algebra.rules.joins import (
    Join,
    Path,
    as_join,
    at,
    in_order,
    leaf_paths,
    leaves,
    simple,
    tells,
    with_key,
)
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term, element
from incmrql.algebra.walk import with_variables
from incmrql.types import typed
from incmrql.types.model import BOOL, UNIT, Collection
from incmrql.types.walk import free, is_random, map_children, renamed, substitute

Qualifiers = tuple[typed.Qualifier, ...]


@dataclass(frozen=True, slots=True)
class _Pairs:
    """`cMap(row -> select (key, value) from qualifiers, source)`."""

    row: typed.Variable
    qualifiers: Qualifiers
    key: typed.Expr
    value: typed.Expr
    source: Term


@dataclass(frozen=True, slots=True)
class _Groups:
    """`cMap(group -> select (key, value) from qualifiers, groupBy(members))`, one pair a group."""

    group: typed.Variable
    qualifiers: Qualifiers
    key: typed.Expr
    value: typed.Expr
    members: _Pairs


def _pairs(term: Term, names: Names) -> _Pairs | None:
    if not isinstance(term, CMap) or is_random(term.body):
        return None
    qualifiers, pair = comprehension(term.body, names)
    if not isinstance(pair, typed.MakeTuple):
        return None
    key, value = pair.items
    return _Pairs(term.variable, qualifiers, key, value, term.source)


def _groups(term: Term, names: Names) -> _Groups | None:
    pairs = _pairs(term, names)
    if pairs is None or not isinstance(pairs.source, GroupBy):
        return None
    members = _pairs(pairs.source.source, names)
    if members is None or any(isinstance(q, typed.Generator) for q in pairs.qualifiers):
        return None
    if not tells(at(pairs.row, (0,)), leaves(pairs.key)):
        return None
    return _Groups(pairs.row, pairs.qualifiers, pairs.key, pairs.value, members)


@term_rule(
    "group-self-join",
    law="coGroup(cMap({(k, a)}, X), cMap(s -> {(k, F(s))}, groupBy(cMap({(k, c)}, X))))"
    "  =  cMap(s -> {(k, ({a | s}, {F({c | s})}))}, groupBy(cMap({(k, (a, c))}, X)))",
)
def group_self_join(term: Term, names: Names) -> Term | None:
    """Rows that meet an answer about the group they are in find it there.

    The filters that both sides share come before the grouping, the others after it.  The body
    must range over one of the sides, so that it makes nothing of a group that filters empty.
    """
    match term:
        case CMap(group, body, CoGroup(left, right)) if not is_random(body):
            for rows, side in ((left, 0), (right, 1)):
                found = _found(group, body, rows, (right, left)[side], side, names)
                if found is not None:
                    return found
    return None


def _found(
    group: typed.Variable, body: typed.Expr, rows: Term, other: Term, side: int, names: Names
) -> Term | None:
    """The map over one grouping, if `other` is made of the groups of the rows."""
    if not _ranges(group, body):
        return None
    one, groups = _pairs(rows, names), _groups(other, names)
    if one is None or groups is None:
        return None
    both = _aligned(one, groups.members, names)
    if both is None:
        return None
    key = simple(with_key(groups.group, groups.key, both.inner.key), names)
    if key != one.key:
        return None
    source = both.grouped(both.inner.key)
    fresh = names.variable(group.name, element(source))
    answer = _answer(groups, both, fresh, names)
    sides = [both.bag(both.outer, fresh), answer]
    own_key = with_key(groups.group, groups.key, at(fresh, (0,)))
    return _over(fresh, _with_sides(group, body, own_key, sides, side), source, names)


@term_rule(
    "group-self-cogroup",
    law="coGroup(cMap({(k, a)}, X), cMap({(k, c)}, X))"
    "  =  cMap(s -> {(k, ({a | s}, {c | s}))}, groupBy(cMap({(k, (a, c))}, X)))",
)
def group_self_cogroup(term: Term, names: Names) -> Term | None:
    """A sub-query about the rows that agree with an outer row of the same collection.

    A body that ranges over both sides is a join, which has ways of its own: that stays.
    """
    match term:
        case CMap(group, body, CoGroup(left, right)) if not is_random(body):
            if not _ranges(group, body) or as_join(group, body) is not None:
                return None
            one, other = _pairs(left, names), _pairs(right, names)
            both = None if one is None or other is None else _aligned(one, other, names)
            if both is None or both.inner.key != both.outer.key:
                return None
            source = both.grouped(both.outer.key)
            fresh = names.variable(group.name, element(source))
            sides = [both.bag(both.outer, fresh), both.bag(both.inner, fresh)]
            return _over(fresh, _with_sides(group, body, at(fresh, (0,)), sides, 0), source, names)
        case _:
            return None


@term_rule(
    "group-before-join",
    law="(A join B) join C  =  (A join C) join B, where C is about A alone and made of A's groups",
)
def group_before_join(term: Term, names: Names) -> Term | None:
    """Rows take along what their own group says before they meet another collection."""
    match term:
        case CMap(group, body, CoGroup(left, right)) if not is_random(body):
            outer = as_join(group, body)
            if outer is None:
                return None
            for rows, other, side in ((left, right, 0), (right, left, 1)):
                if isinstance(rows, CMap) and isinstance(rows.source, CoGroup):
                    found = _before(outer, rows, rows.source, other, side, names)
                    if found is not None:
                        return found
    return None


def _before(
    outer: Join, rows: CMap, both: CoGroup, other: Term, side: int, names: Names
) -> Term | None:
    inner = as_join(rows.variable, rows.body)
    if inner is None or not isinstance(inner.head, typed.MakeTuple) or is_random(rows.body):
        return None
    key, value = inner.head.items
    for place, below in enumerate((both.left, both.right)):
        if inner.sides_of(key) <= {place}:
            extended = _extended(inner, key, place, below, other, names)
            if extended is not None:
                break
    else:
        return None
    sides = [both.left, both.right]
    sides[place] = extended
    source = CoGroup(sides[0], sides[1])
    fresh = names.variable("group", element(source))
    ranges, values = [], dict[typed.Variable, typed.Expr]()
    for n, variable in enumerate(inner.sides):
        members = at(fresh, (1, n))
        assert isinstance(members.type, Collection)
        one = names.variable(variable.name, members.type.element)
        values[variable] = build.var(one)
        ranges.append(typed.Generator(typed.Bind(one), members))
    both_values = values[inner.sides[place]]
    values[inner.sides[place]], answer = (build.item(both_values, i) for i in (0, 1))

    def moved(expr: typed.Expr) -> typed.Expr:
        return with_key(inner.group, substitute(expr, values), at(fresh, (0,)))

    pair = {outer.sides[side]: moved(value), outer.sides[1 - side]: answer}

    def finished(expr: typed.Expr) -> typed.Expr:
        return substitute(with_key(outer.group, expr, moved(key)), pair)

    conditions = [*map(moved, inner.conditions), *map(finished, outer.conditions)]
    head = build.select(finished(outer.head), (*ranges, *map(typed.Condition, conditions)))
    return CMap(fresh, renamed(head, names.like), source)


def _extended(
    inner: Join, key: typed.Expr, place: int, below: Term, other: Term, names: Names
) -> Term | None:
    """One side of a join with the answers about its groups beside its values."""
    pairs = _pairs(below, names)
    if pairs is None:
        return None
    values = {inner.sides[place]: pairs.value}
    outer_key = simple(with_key(inner.group, substitute(key, values), pairs.key), names)
    row = build.tuple_of(pairs.key, pairs.value)
    head = build.tuple_of(outer_key, row)
    rows = CMap(pairs.row, build.select(head, pairs.qualifiers), pairs.source)
    both = CoGroup(rows, other)
    group = names.variable("group", element(both))
    a = names.variable("left", row.type)
    members = at(group, (1, 1))
    assert isinstance(members.type, Collection)
    b = names.variable("right", members.type.element)
    answered = build.tuple_of(build.item(build.var(a), 1), build.var(b))
    ranges = (
        typed.Generator(typed.Bind(a), at(group, (1, 0))),
        typed.Generator(typed.Bind(b), members),
    )
    body = build.select(build.tuple_of(build.item(build.var(a), 0), answered), ranges)
    return _found(group, body, rows, other, 0, names)


# --- two views of the same rows ------------------------------------------------------------


class _Both:
    """Two terms of pairs over the same rows, written with the same variables.

    `common` are the qualifiers that both start with; those of `outer` and `inner` follow.
    """

    def __init__(self, common: Qualifiers, outer: _Pairs, inner: _Pairs, names: Names) -> None:
        self.common = common
        self.outer = outer
        self.inner = inner
        self.names = names
        self.bound = set(places(outer.row, common))
        self.key: list[tuple[typed.Expr, Path]] = []
        self.carried: list[typed.Expr] = []

    def grouped(self, key: typed.Expr) -> GroupBy:
        """The rows with what both need of them, by their key."""
        self.key = [(leaf, path) for leaf, path in leaf_paths(key) if free(leaf) & self.bound]
        for pairs in (self.outer, self.inner):
            self._rewritten(build.select(pairs.value, pairs.qualifiers), None, None)
        member = build.key_of(self.carried)
        head = build.tuple_of(key, member)
        return GroupBy(CMap(self.outer.row, build.select(head, self.common), self.outer.source))

    def bag(self, pairs: _Pairs, group: typed.Variable) -> typed.Expr:
        """The values of the outer or the inner pairs in a group."""
        members = at(group, (1,))
        assert isinstance(members.type, Collection)
        each = self.names.variable("each", members.type.element)
        found = self._rewritten(build.select(pairs.value, pairs.qualifiers), group, each)
        assert isinstance(found, typed.Select)
        if not found.qualifiers:
            return typed.MapOver(each, members, found.head, False, type=found.type)
        return renamed(build.for_each(each, members, found.head, *found.qualifiers),
                       self.names.like)  # fmt: skip

    def _rewritten(
        self, expr: typed.Expr, group: typed.Variable | None, each: typed.Variable | None
    ) -> typed.Expr:
        """An expression over the rows as one over a group and one of its members.

        Parts of the key are read off the group, and the rest off the member; without them,
        what the member has to carry is noted.
        """

        def visit(node: typed.Expr) -> typed.Expr:
            path = next((path for leaf, path in self.key if leaf == node), None)
            if path is not None:
                return node if group is None else at(group, (0, *path))
            needed = free(node)
            if not needed & self.bound:
                return node
            if isinstance(node, _TRANSPARENT) or not needed <= self.bound:
                return map_children(visit, node)
            if node not in self.carried:
                self.carried.append(node)
            if each is None or len(self.carried) == 1:
                return node if each is None else build.var(each)
            return build.item(build.var(each), self.carried.index(node))

        return map_children(visit, expr)


_TRANSPARENT = (typed.MakeTuple, typed.MakeRecord, typed.Compare, typed.Logic, typed.Not)
"""What is made of parts that may be of use elsewhere."""


def _aligned(outer: _Pairs, inner: _Pairs, names: Names) -> _Both | None:
    """Two terms of pairs over the same rows, if they are; nothing is gained by the key `()`."""
    if outer.key.type == UNIT or not same_term(outer.source, inner.source):
        return None
    ours, our_tests = in_order(outer.row, outer.qualifiers)
    theirs, their_tests = in_order(inner.row, inner.qualifiers)
    count = max(
        n
        for n in range(1 + min(len(ours), len(theirs)))
        if fingerprint(outer.row, ours[:n]) == fingerprint(inner.row, theirs[:n])
    )
    common = ours[:count]
    bound = places(outer.row, common)
    same = dict(zip(places(inner.row, theirs[:count]), bound, strict=True))
    theirs, their_tests, key, value = with_variables(
        (theirs, their_tests, inner.key, inner.value), lambda v: same.get(v, v)
    )
    shared = [test for test in our_tests if test in their_tests]
    inner_rest = (*theirs[count:], *(test for test in their_tests if test not in shared))
    outer_rest = (*ours[count:], *(test for test in our_tests if test not in shared))
    inner = _Pairs(outer.row, inner_rest, key, value, outer.source)
    outer = _Pairs(outer.row, outer_rest, outer.key, outer.value, outer.source)
    return _Both((*common, *shared), outer, inner, names)


def _answer(groups: _Groups, both: _Both, fresh: typed.Variable, names: Names) -> typed.Expr:
    """The pair's value that the groups have for one group: a bag of one, or of none."""
    key, members = (at(groups.group, (i,)) for i in (0, 1))

    def visit(node: typed.Expr) -> typed.Expr:
        if node == key:
            return at(fresh, (0,))
        return both.bag(both.inner, fresh) if node == members else map_children(visit, node)

    tests: Qualifiers = groups.qualifiers
    found = visit(build.select(groups.value, tests))
    if both.inner.qualifiers:  # the group is there, but maybe for other rows alone
        there = typed.Exists(both.bag(both.inner, fresh), type=BOOL)
        found = build.when(there, found)
    return renamed(found, names.like)


def _ranges(group: typed.Variable, body: typed.Expr) -> bool:
    """Whether a body makes nothing of a group in which both sides are empty."""
    sides = [at(group, (1, side)) for side in (0, 1)]
    return isinstance(body, typed.Select) and any(_domain(q) in sides for q in body.qualifiers)


def _with_sides(
    group: typed.Variable, body: typed.Expr, key: typed.Expr, sides: list[typed.Expr], first: int
) -> typed.Expr:
    """A body over a coGroup with expressions in the places of its key and its sides.

    `sides[0]` stands for the side `first`.  What is one for the whole group comes first, so
    that it is not computed for every row.
    """
    parts = [(at(group, (0,)), key)]
    parts += [(at(group, (1, (place + first) % 2)), side) for place, side in enumerate(sides)]
    if isinstance(body, typed.Select):
        answer = at(group, (1, 1 - first))
        early = [q for q in body.qualifiers if _domain(q) == answer]
        late = [q for q in body.qualifiers if _domain(q) != answer]
        body = replace(body, qualifiers=(*early, *late))

    def visit(node: typed.Expr) -> typed.Expr:
        found = next((new for old, new in parts if node == old), None)
        return map_children(visit, node) if found is None else found

    return visit(body)


def _domain(qualifier: typed.Qualifier) -> typed.Expr | None:
    return qualifier.domain if isinstance(qualifier, typed.Generator) else None


def _over(fresh: typed.Variable, body: typed.Expr, source: Term, names: Names) -> Term:
    return CMap(fresh, renamed(body, names.like), source)


RULES = (group_self_join, group_self_cogroup, group_before_join)
