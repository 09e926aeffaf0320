"""Rules on terms that no query is translated to, but that other rules may make some day."""

from __future__ import annotations

from incmrql.algebra import rows as build
from incmrql.algebra.interpret import elements
from incmrql.algebra.normalize.rewrite import TermRule
from incmrql.algebra.normalize.rules.filters import filter_before_join, filter_groups_early
from incmrql.algebra.normalize.rules.joins import as_join, at, is_unique
from incmrql.algebra.normalize.rules.selfjoins import group_self_join
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term, Values, element
from incmrql.reference import Environment, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.types import typed
from incmrql.types.model import BOOL, INT, LONG, bag
from incmrql.values import Bag


def number(value: int) -> typed.Expr:
    return typed.Const(value, type=INT)


def rows_of(*rows: tuple[int, ...]) -> Term:
    """A term of tuples of integers."""
    return Values(build.bag_of(*(build.tuple_of(*map(number, row)) for row in rows)))


def value_of(term: Term) -> Bag:
    return Bag(elements(term, Environment(new_world(EMPTY_SCRIPT))))


def rewrite_with(rule: TermRule, term: Term) -> Term:
    """Apply a rule to a term, if it applies, and check that the elements stay the same."""
    after = rule.rewrite(term, Names(100))
    if after is None:
        return term
    assert value_of(after) == value_of(term)
    return after


LEFT, RIGHT = rows_of((1, 1), (1, 5), (2, 1), (2, 7)), rows_of((1, 8), (3, 9))
BOTH = CoGroup(LEFT, RIGHT)
GROUP = typed.Variable("group", 1, element(BOTH))
A, B = typed.Variable("a", 2, INT), typed.Variable("b", 3, INT)
LEFTS, RIGHTS = at(GROUP, (1, 0)), at(GROUP, (1, 1))
ABOVE_2 = typed.Condition(typed.Compare(">", build.var(A), number(2), type=BOOL))


def ranging(head: typed.Expr, *more: typed.Qualifier) -> Term:
    return CMap(GROUP, build.for_each(A, LEFTS, head, *more), BOTH)


def count(rows: typed.Expr) -> typed.Expr:
    return typed.Aggregate("count", rows, type=LONG)


def test_a_condition_goes_below_the_side_it_is_about() -> None:
    both = build.tuple_of(build.var(A), count(RIGHTS))
    assert rewrite_with(filter_before_join, ranging(both, ABOVE_2)) != ranging(both, ABOVE_2)


def test_a_condition_stays_if_the_side_is_used_otherwise() -> None:
    """Counted after the filter, the left rows would be fewer."""
    for head in (count(LEFTS), build.var(GROUP), build.item(build.var(GROUP), 1)):
        term = ranging(head, ABOVE_2)
        assert rewrite_with(filter_before_join, term) is term


def test_a_condition_on_the_key_goes_below_both_sides() -> None:
    late = typed.Condition(typed.Compare("<", at(GROUP, (0,)), number(2), type=BOOL))
    term = ranging(build.tuple_of(count(LEFTS), count(RIGHTS)), late)
    assert rewrite_with(filter_groups_early, term) is not term


def test_a_condition_on_the_members_is_none_on_the_key() -> None:
    late = typed.Condition(typed.Exists(RIGHTS, type=BOOL))
    term = ranging(build.var(A), late)
    assert rewrite_with(filter_groups_early, term) is term


def test_two_ranges_over_one_side_are_no_join() -> None:
    again = typed.Generator(typed.Bind(B), LEFTS)
    assert as_join(GROUP, build.for_each(A, LEFTS, build.var(B), again)) is None
    third = typed.Generator(typed.Bind(typed.Variable("c", 4, INT)), RIGHTS)
    assert as_join(GROUP, build.for_each(A, LEFTS, build.var(B), again, third)) is None


TRIPLES = rows_of((1, 1, 10), (1, 2, 20), (1, 2, 30))
TRIPLE = typed.Variable("x", 10, element(TRIPLES))


def test_groups_by_more_than_the_key_of_the_join() -> None:
    """Two groups have the key 1: they are not the one group of the rows."""
    first, second, third = (at(TRIPLE, (i,)) for i in range(3))
    finer = GroupBy(
        CMap(TRIPLE, build.bag_of(build.tuple_of(build.tuple_of(first, second), third)), TRIPLES)
    )
    group = typed.Variable("group", 11, element(finer))
    counted = build.tuple_of(at(group, (0, 0)), count(at(group, (1,))))
    groups = CMap(group, build.bag_of(counted), finer)
    rows = CMap(TRIPLE, build.bag_of(build.tuple_of(first, third)), TRIPLES)
    both = CoGroup(rows, groups)
    pair = typed.Variable("pair", 12, element(both))
    answers = typed.Variable("n", 13, LONG)
    more = typed.Generator(typed.Bind(answers), at(pair, (1, 1)))
    head = build.tuple_of(build.var(A), build.var(answers))
    term = CMap(pair, build.for_each(A, at(pair, (1, 0)), head, more), both)
    assert rewrite_with(group_self_join, term) is term
    assert not is_unique(groups, answers, [], Names(100))
    assert bag(INT) == at(pair, (1, 0)).type
