"""A collection that meets itself by its own key is grouped by that key, once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import comprehension, is_plain
from incmrql.algebra.normalize.rewrite import term_rule
from incmrql.algebra.normalize.rules.joins import (
    AlignedPairs,
    JoinBody,
    Pairs,
    Qualifiers,
    align,
    as_join,
    at,
    is_determined,
    leaves,
    pairs_of,
    with_key,
)
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term, element
from incmrql.types import typed
from incmrql.types.model import BOOL, Collection
from incmrql.types.walk import free_variables, is_random, map_children, rename_binders, substitute


@dataclass(frozen=True, slots=True)
class _GroupPairs:
    """`cMap(group -> select (key, value) from qualifiers, groupBy(members))`, one pair a group."""

    group: typed.Variable
    qualifiers: Qualifiers
    key: typed.Expr
    value: typed.Expr
    members: Pairs


def _group_pairs(term: Term, names: Names) -> _GroupPairs | None:
    pairs = pairs_of(term, names)
    if pairs is None or not isinstance(pairs.source, GroupBy):
        return None
    members = pairs_of(pairs.source.source, names)
    if members is None or any(isinstance(q, typed.Generator) for q in pairs.qualifiers):
        return None
    if not is_determined(at(pairs.row, (0,)), leaves(pairs.key)):
        return None
    return _GroupPairs(pairs.row, pairs.qualifiers, pairs.key, pairs.value, members)


@term_rule(
    "group-self-join",
    law="coGroup(cMap({(k, a)}, X), cMap(s -> {(k, F(s))}, groupBy(cMap({(k, c)}, X))))"
    "  =  cMap(s -> {(k, ({a | s}, {F({c | s})}))}, groupBy(cMap({(k, (a, c))}, X)))",
)
def group_self_join(term: Term, names: Names) -> Term | None:
    """Rows that are joined with an aggregate of their own group read it from the group.

    Filters that both sides share stay before the grouping, the others come after it.  The body
    must range over one of the sides, so that it makes nothing of a group that a filter empties.
    """
    match term:
        case CMap(group, body, CoGroup(left, right)) if not is_random(body):
            for rows, side in ((left, 0), (right, 1)):
                joined = _join_own_groups(group, body, rows, (right, left)[side], side, names)
                if joined is not None:
                    return joined
    return None


def _join_own_groups(
    group: typed.Variable, body: typed.Expr, rows: Term, other: Term, side: int, names: Names
) -> Term | None:
    """The map over one grouping, if `other` is made of the groups of the rows."""
    if not _ranges_over_side(group, body):
        return None
    one, groups = pairs_of(rows, names), _group_pairs(other, names)
    if one is None or groups is None:
        return None
    both = align(one, groups.members, names)
    if both is None:
        return None
    key = build.reduce_projections(with_key(groups.group, groups.key, both.inner.key))
    if key != one.key:
        return None
    source = GroupBy(both.rows(both.inner.key))
    fresh = names.variable(group.name, element(source))
    answer = _answer(groups, both, fresh, names)
    sides = [both.bag(both.outer, fresh), answer]
    own_key = with_key(groups.group, groups.key, at(fresh, (0,)))
    return _map_over(fresh, _replace_sides(group, body, own_key, sides, side), source, names)


@term_rule(
    "group-self-cogroup",
    law="coGroup(cMap({(k, a)}, X), cMap({(k, c)}, X))"
    "  =  cMap(s -> {(k, ({a | s}, {c | s}))}, groupBy(cMap({(k, (a, c))}, X)))",
)
def group_self_cogroup(term: Term, names: Names) -> Term | None:
    """A sub-query about the rows that agree with an outer row of the same collection.

    A body that ranges over both sides is a join, which is left as it is.
    """
    match term:
        case CMap(group, body, CoGroup(left, right)) if not is_random(body):
            if not _ranges_over_side(group, body) or as_join(group, body) is not None:
                return None
            one, other = pairs_of(left, names), pairs_of(right, names)
            both = None if one is None or other is None else align(one, other, names)
            if both is None or both.inner.key != both.outer.key:
                return None
            source = GroupBy(both.rows(both.outer.key))
            fresh = names.variable(group.name, element(source))
            sides = [both.bag(both.outer, fresh), both.bag(both.inner, fresh)]
            return _map_over(
                fresh, _replace_sides(group, body, at(fresh, (0,)), sides, 0), source, names
            )
        case _:
            return None


@term_rule(
    "group-before-join",
    law="(A join B) join C  =  (A join C) join B, where C is about A alone and made of A's groups",
)
def group_before_join(term: Term, names: Names) -> Term | None:
    """Rows get the aggregates of their own group before they are joined with another collection."""
    match term:
        case CMap(group, body, CoGroup(left, right)) if not is_random(body):
            outer = as_join(group, body)
            if outer is None:
                return None
            for rows, other, side in ((left, right, 0), (right, left, 1)):
                if isinstance(rows, CMap) and isinstance(rows.source, CoGroup):
                    joined = _join_groups_first(outer, rows, rows.source, other, side, names)
                    if joined is not None:
                        return joined
    return None


def _join_groups_first(
    outer: JoinBody, rows: CMap, both: CoGroup, other: Term, side: int, names: Names
) -> Term | None:
    inner = as_join(rows.variable, rows.body)
    if inner is None or not isinstance(inner.head, typed.MakeTuple) or is_random(rows.body):
        return None
    key, value = inner.head.items
    for place, below in enumerate((both.left, both.right)):
        if inner.sides_of(key) <= {place}:
            extended = _with_answers(inner, key, place, below, other, names)
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

    def over_inner(expr: typed.Expr) -> typed.Expr:
        return with_key(inner.group, substitute(expr, values), at(fresh, (0,)))

    pair = {outer.sides[side]: over_inner(value), outer.sides[1 - side]: answer}

    def over_outer(expr: typed.Expr) -> typed.Expr:
        return substitute(with_key(outer.group, expr, over_inner(key)), pair)

    conditions = [*map(over_inner, inner.conditions), *map(over_outer, outer.conditions)]
    head = build.select(over_outer(outer.head), (*ranges, *map(typed.Condition, conditions)))
    return CMap(fresh, rename_binders(head, names.like), source)


def _with_answers(
    inner: JoinBody, key: typed.Expr, place: int, below: Term, other: Term, names: Names
) -> Term | None:
    """One side of a join with the answers about its groups beside its values."""
    pairs = pairs_of(below, names)
    if pairs is None:
        return None
    values = {inner.sides[place]: pairs.value}
    outer_key = build.reduce_projections(with_key(inner.group, substitute(key, values), pairs.key))
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
    return _join_own_groups(group, body, rows, other, 0, names)


@term_rule(
    "meet-once",
    law="cMap(f, coGroup(cMap(g, coGroup(X, cMap({(k, a)}, Y))), cMap({(k, c)}, Y)))"
    "  =  cMap(f after g, coGroup(X, cMap({(k, (a, c))}, Y))) where g keeps the keys of X",
)
def meet_once(term: Term, names: Names) -> Term | None:
    """Two sub-queries about the rows of one collection that agree with an outer row share a join.

    Filters that both share stay before the grouping, the others come after it.
    """
    match term:
        case CMap(upper, f, CoGroup(CMap(lower, g, CoGroup(left, first)), second)) if not (
            is_random(f) or is_random(g)
        ):
            one, other = pairs_of(first, names), pairs_of(second, names)
            both = None if one is None or other is None else align(one, other, names)
            step = _outer_step(lower, g, names)
            if both is None or both.inner.key != both.outer.key or step is None:
                return None
            if not _keeps_key(lower, step, left, names):
                return None
            source = CoGroup(left, both.rows(both.outer.key))
            fresh = names.variable(upper.name, element(source))
            members = [both.bag(pairs, fresh, (1, 1)) for pairs in (both.outer, both.inner)]
            body = _compose(upper, f, lower, step, fresh, members)
            return None if body is None else _map_over(fresh, body, source, names)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Step:
    """`select (key, value) from row in group#1#0, rest`: what becomes of an outer row."""

    row: typed.Variable
    rest: Qualifiers
    key: typed.Expr
    value: typed.Expr


def _outer_step(group: typed.Variable, body: typed.Expr, names: Names) -> _Step | None:
    """A body over a coGroup as a step, if it goes through the outer rows one by one."""
    qualifiers, pair = comprehension(body, names)
    match qualifiers:
        case (typed.Generator(typed.Bind(row), domain), *rest) if domain == at(group, (1, 0)):
            if not isinstance(pair, typed.MakeTuple):
                return None
            if not all(isinstance(q, typed.Condition | typed.Binding) for q in rest):
                return None
            return _Step(row, tuple(rest), *pair.items)
        case _:
            return None


def _keeps_key(group: typed.Variable, step: _Step, left: Term, names: Names) -> bool:
    """Whether a row leaves a step with the key that it came with."""
    if step.key == at(group, (0,)):
        return True
    rows = pairs_of(left, names)
    if rows is None:
        return False
    key = with_key(group, substitute(step.key, {step.row: rows.value}), rows.key)
    return build.reduce_projections(key) == rows.key


def _compose(
    upper: typed.Variable,
    body: typed.Expr,
    lower: typed.Variable,
    step: _Step,
    fresh: typed.Variable,
    members: list[typed.Expr],
) -> typed.Expr | None:
    """A body over the outer rows composed with the step before it, both over one coGroup."""
    if not isinstance(body, typed.Select) or not is_plain(body):
        return None
    outer = [q for q in body.qualifiers if _domain(q) == at(upper, (1, 0))]
    match outer:
        case [typed.Generator(typed.Bind(row)) as only]:
            named = typed.Binding(typed.Bind(row), step.value)
        case _:
            return None
    start = typed.Generator(typed.Bind(step.row), at(fresh, (1, 0)))
    others = [q for q in body.qualifiers if q is not only]
    whole = replace(body, qualifiers=(start, *step.rest, named, *others))
    parts = [(at(group, (0,)), at(fresh, (0,))) for group in (upper, lower)]
    parts += [(at(lower, (1, 1)), members[0]), (at(upper, (1, 1)), members[1])]

    composed = build.replace_parts(whole, parts)
    return None if free_variables(composed) & {upper, lower} else composed


def _answer(
    groups: _GroupPairs, both: AlignedPairs, fresh: typed.Variable, names: Names
) -> typed.Expr:
    """The value of a group's pair, as a bag of one element or none."""
    key, members = (at(groups.group, (i,)) for i in (0, 1))

    def visit(node: typed.Expr) -> typed.Expr:
        if node == key:
            return at(fresh, (0,))
        return both.bag(both.inner, fresh) if node == members else map_children(visit, node)

    tests: Qualifiers = groups.qualifiers
    answer = visit(build.select(groups.value, tests))
    if both.inner.qualifiers:  # the group exists, but perhaps only for rows of the other side
        answer = build.when(typed.Exists(both.bag(both.inner, fresh), type=BOOL), answer)
    return rename_binders(answer, names.like)


def _ranges_over_side(group: typed.Variable, body: typed.Expr) -> bool:
    """Whether a body makes nothing of a group in which both sides are empty."""
    sides = [at(group, (1, side)) for side in (0, 1)]
    return isinstance(body, typed.Select) and any(_domain(q) in sides for q in body.qualifiers)


def _replace_sides(
    group: typed.Variable, body: typed.Expr, key: typed.Expr, sides: list[typed.Expr], first: int
) -> typed.Expr:
    """A body over a coGroup with its key and its sides replaced.

    `sides[0]` replaces the side `first`.  Generators over the other side, which is one value for
    the whole group, come first, so that it is not computed for every row.
    """
    parts = [(at(group, (0,)), key)]
    parts += [(at(group, (1, (index + first) % 2)), side) for index, side in enumerate(sides)]
    if isinstance(body, typed.Select):
        answer = at(group, (1, 1 - first))
        early = [q for q in body.qualifiers if _domain(q) == answer]
        late = [q for q in body.qualifiers if _domain(q) != answer]
        body = replace(body, qualifiers=(*early, *late))
    return build.replace_parts(body, parts)


def _domain(qualifier: typed.Qualifier) -> typed.Expr | None:
    return qualifier.domain if isinstance(qualifier, typed.Generator) else None


def _map_over(fresh: typed.Variable, body: typed.Expr, source: Term, names: Names) -> Term:
    return CMap(fresh, rename_binders(body, names.like), source)


RULES = (group_self_join, group_self_cogroup, group_before_join, meet_once)
