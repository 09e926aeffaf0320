"""The rules that pull kMaps out of a term do not change what it means."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from incmrql.algebra import rows as build
from incmrql.algebra.interpret import elements
from incmrql.algebra.rows import Names
from incmrql.algebra.term import Scan, element
from incmrql.paper.annotated import (
    Annotated,
    CoGrouped,
    Grouped,
    KMap,
    Mix,
    SMap1,
    SMap2,
    SMap3,
    Swap,
    below,
)
from incmrql.types import typed
from incmrql.types.model import LONG, Collection, Tuple, Type
from incmrql.values import Bag, identical
from tests.effort import fewer
from tests.generators.tables import tables
from tests.paper.annotated import expand
from tests.paper.kmaps import pull_out, pulled_out
from tests.paper.support import Case, Tables, case

NAMES = Names(10_000)
OF: Case = case("select (x.A, y.A) from x in R, y in R where x.B = y.B")


def scan() -> Scan:
    return next(term for term in OF.terms() if isinstance(term, Scan))


def values_of(term: Annotated) -> Type:
    pair = element(expand(term, NAMES))
    assert isinstance(pair, Tuple)
    return pair.items[1]


def pairs() -> SMap3:
    """(x.A, ((), x.B))."""
    row = NAMES.variable("x", element(scan()))
    fields = (build.field(build.var(row), name) for name in ("A", "B"))
    return SMap3(row, build.bag_of(build.tuple_of(*fields)), scan())


def with_lineage() -> Annotated:
    """((x.A, ()), {x.B})."""
    return Grouped(Swap(pairs()))


def marking_kmap(source: Annotated, mark: int) -> KMap:
    """A kMap that adds a mark to each value, so that its effect is visible."""
    value = NAMES.variable("v", values_of(source))
    return KMap(value, build.tuple_of(_const(mark), build.var(value)), source)


def tagged_under_key(source: Annotated, mark: int) -> KMap:
    """The same for values (θ, v) that lie under a key."""
    value = NAMES.variable("v", values_of(source))
    theta, own = (build.item(build.var(value), place) for place in (0, 1))
    return KMap(value, build.tuple_of(theta, build.tuple_of(_const(mark), own)), source)


def _const(number: int) -> typed.Expr:
    return typed.Const(number, type=LONG)


def keyed_by(kind: type[SMap1] | type[SMap2], source: Annotated) -> Annotated:
    """{(k, v)} or {(v, k)} of every (k, v)."""
    row = element(expand(source, NAMES))
    assert isinstance(row, Tuple)
    lineage, value = row.items
    assert isinstance(lineage, Tuple)
    group = NAMES.variable("group", Tuple((lineage.items[0], value)))
    key, own = (build.item(build.var(group), place) for place in (0, 1))
    return kind(group, build.bag_of(build.tuple_of(own, key)), source)


RULES: dict[str, Callable[[], Annotated]] = {
    "kMap of kMap": lambda: marking_kmap(marking_kmap(with_lineage(), 1), 2),
    "sMap1": lambda: keyed_by(SMap1, marking_kmap(with_lineage(), 1)),
    "sMap2": lambda: keyed_by(SMap2, marking_kmap(with_lineage(), 1)),
    "groupBy": lambda: Grouped(marking_kmap(Swap(pairs()), 1)),
    "coGroup": lambda: CoGrouped(marking_kmap(pairs(), 1), marking_kmap(pairs(), 2)),
    "swap": lambda: Swap(tagged_under_key(pairs(), 1)),
}


def rows(term: Annotated, data: Tables) -> Bag:
    return Bag(elements(expand(term, NAMES), OF.env(data)))


@pytest.mark.parametrize("rule", RULES)
@fewer
@given(data=tables())
def test_each_rule_keeps_the_meaning(rule: str, data: Tables) -> None:
    term = RULES[rule]()
    rewritten = pull_out(term, NAMES)
    assert rewritten is not None
    assert rewritten != term
    assert identical(rows(rewritten, data), rows(term, data))


def kmaps(term: Annotated) -> int:
    return isinstance(term, KMap) + sum(map(kmaps, below(term)))


WHOLE: dict[str, Callable[[], Annotated]] = {
    "below a group-by": lambda: Grouped(Swap(tagged_under_key(pairs(), 1))),
    "below a coGroup": lambda: keyed_by(
        SMap1,
        Mix(CoGrouped(tagged_under_key(pairs(), 1), tagged_under_key(pairs(), 2))),
    ),
    "twice": lambda: marking_kmap(Grouped(Swap(tagged_under_key(pairs(), 1))), 2),
    "under a map": lambda: keyed_by(
        SMap1, marking_kmap(Grouped(marking_kmap(Swap(pairs()), 1)), 2)
    ),
}


@pytest.mark.parametrize(
    ("name", "left"), [("below a group-by", 1), ("twice", 1), ("under a map", 0)]
)
@fewer
@given(data=tables())
def test_kmaps_end_at_the_top_or_in_what_is_above(name: str, left: int, data: Tables) -> None:
    term = WHOLE[name]()
    rewritten = pulled_out(term, NAMES)
    assert kmaps(rewritten) == left
    assert not any(map(kmaps, below(rewritten)))
    assert identical(rows(rewritten, data), rows(term, data))


@fewer
@given(data=tables())
def test_a_kmap_below_mix_stays(data: Tables) -> None:
    """The paper has no rule for mix: the kMap of both sides ends below it."""
    term = WHOLE["below a coGroup"]()
    rewritten = pulled_out(term, NAMES)
    assert kmaps(rewritten) == 1
    assert identical(rows(rewritten, data), rows(term, data))


def test_marks_are_seen() -> None:
    term = marking_kmap(with_lineage(), 1)
    data = {"R": OF.env({}).world.registered["R"]}
    assert rows(term, data) == Bag()
    assert isinstance(values_of(term), Tuple)
    assert isinstance(values_of(with_lineage()), Collection)
