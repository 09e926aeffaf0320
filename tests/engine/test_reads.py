"""Every node reads no more than its scope says, at two sizes of history; and a code is deserved.

| scope | more keys | more rows of the touched key |
|---|---|---|
| change | as many rows read | no more than rows in, partners and rows out |
| groups (W105) | no more than rows in, partners and rows out | reads grow with the group |
| tables (W101 to W104) | or: reads grow with one of the two | |
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Final

import pytest

from incmrql.engine.compile.physical import Physical
from incmrql.engine.operators.groups import GroupOp
from incmrql.engine.operators.joins import JoinOp
from incmrql.plan.access import Scope
from incmrql.plan.explain.nodes import program_shapes
from incmrql.plan.program import LoopMode, Program
from tests.effort import sample
from tests.engine.reads import Work, compiled_program, histories, works_of_changes
from tests.generators.stacked import BILINEAR, PARTNERS, SHAPES, TABLES_BELOW, TOPS, over
from tests.plan import test_folds, test_shapes_named, test_work
from tests.plan.stepping import ALL

STACKED: Final = {name: over(name, "R", "N") for name in SHAPES | TOPS}
"""The shapes of the coverage tests, with a table beside them in which values differ."""

NAMED: Final = {
    f"named: {name}": text.replace("x.B = 2", "x.B > 2")  # which most rows here have
    for name, text in test_shapes_named.SHAPES.items()
}
SPELLED: Final = {
    f"spelled: {name}": text for name, text in (test_folds.FOLDED | test_folds.BY_VALUE).items()
}
WORKED: Final = {
    f"work: {name}": case.text.replace("x.A = 3 and x.B < 4 and ", "").replace("= '7'", "<> 'a'")
    for name, case in (test_work.UNTOUCHED | test_work.IN_ORDER).items()
}

XOR: Final = (
    "aggregation parity(\\(a: bool, b: bool): bool. a <> b, false, "
    "\\(n: int): bool. n % 2 <> 0, \\(a: bool): bool. a): bool;"
)
PRODUCT: Final = "aggregation product(\\(x: int, y: int): int. x * y, 1): int;"

MORE: Final = {
    "no member of a query": "select x from x in R where not member(x.B, (select y.A from y in S))",
    "a member of groups": "select x from x in R where member(x.A, "
        "(select k from y in S group by k: y.A having sum(y.D) > 1.0))",
    "a quantifier with more conditions":
        "select x from x in R where all y in S: y.A <> x.A or y.D < 1.0",
    "a bag beside its key": "select (k, x) from x in R group by k: x.A",
    "a bag of values": "select (k, x.B, count(x)) from x in R group by k: x.A",
    "a bag beside a condition": "select (k, x.B) from x in R group by k: x.A having count(x) > 1",
    "a bag of some values":
        "select (k, (select y.B from y in x where y.C > 1.0)) from x in R group by k: x.A",
    "all in order":
        "select (k, (select y.S from y in x order by y.C)) from x in R group by k: x.A",
    "all in order, then less":
        "select (k, count(select v from v in (select y.S from y in x order by y.C) "
        "where v <> 'a')) from x in R group by k: x.A",
    "all but the last":
        "select (k, sum((select y.B from y in x order by y.C)[0:-2])) from x in R group by k: x.A",
    "the first two":
        "select (k, sum((select y.B from y in x order by y.C)[0:1])) from x in R group by k: x.A",
    "a median of different values":
        "select (k, median(distinct(x.C))) from x in R group by k: x.A",
    "partners, many or few":
        "select x.S from x in R where count(select y from y in S where y.A = x.A) > 3",
    "partners in two tables":
        "select x.S from x in R where exists (select y from y in S where y.A = x.A) "
        "and exists (select z from z in N where z.K = x.A)",
    "the total of its group beside each row":
        "select (x.S, sum(select z.C from z in R where z.A = x.A)) from x in R",
    "partners as a bag": "select (x.S, (select y.D from y in S where y.A = x.A)) from x in R",
    "a total beside each row, of another table": "select (x.S, count(S)) from x in R",
    "rows by a total": "select x.S from x in R, t in { sum(S.D) } where x.C < t",
    "the greatest of each group, by row":
        "select x from x in R where x.C = max(select z.C from z in R where z.A = x.A)",
    "a user's aggregation, with an inverse":
        f"{XOR} select (k, parity(x.B)) from x in R group by k: x.A",
    "a user's aggregation": f"{PRODUCT} select (k, product(x.B)) from x in R group by k: x.A",
    "a user's aggregation of all": f"{PRODUCT} product(R.B)",
    "a value with all rows": "(count(R), (select x.S from x in R where x.B > 0))",
    "a value with some rows": "(count(R), (select x.S from x in R order by x.C limit 3))",
}  # fmt: skip

EXACT: Final = {
    "exact: loop": SHAPES["loop"].replace("XX", "R").replace("YY", TABLES_BELOW["S"]),
    "exact: flagged loop": SHAPES["flagged loop"].replace("XX", "R"),
    "exact: totals": "repeat v = (select (x.A, x.C) from x in R) "
        "step select (k, sum(c)) from (k, c) in v group by k limit 3",
    "exact: the greatest": "repeat v = (select (x.A, x.C) from x in R) "
        "step select (k, max(c)) from (k, c) in v group by k limit 3",
    "exact: a join": "repeat v = (select (x.A, x.C) from x in R) "
        "step select (y.A, c) from (k, c) in v, y in S where y.A = k limit 3",
    "exact: the least of all": "repeat v = (select x.C from x in R) "
        "step { min(select c from c in v) } limit 2",
}  # fmt: skip
"""Loops that are kept from step to step."""

QUERIES: Final = STACKED | NAMED | SPELLED | WORKED | MORE | EXACT

SIZES: Final = (200, 2_000)
SMALL: Final = (40, 200)
"""For queries that produce pairs of rows, and so many more rows than their input has."""
IN_PAIRS: Final = frozenset(
    (*BILINEAR, *PARTNERS, "pairs of a group", "choice", "null or rows", "named: cross product")
)
NOISE: Final = 120
"""Rows that are read to find a place in a run, and rows of several runs that are one."""
FACTOR: Final = 4
LEAST_PER_SCOPE: Final = 2


def sizes(name: str) -> tuple[int, int]:
    return (
        SMALL if name in IN_PAIRS or name.startswith(("named: k-means", "named: Page")) else SIZES
    )


@cache
def compiled_query(name: str) -> tuple[Program, Physical]:
    way: LoopMode = "exact" if name in EXACT else "default"
    streams = test_shapes_named.NOW_STATIC if name in NAMED else ALL
    return compiled_program(QUERIES[name], streams, way)


@cache
def growth(name: str) -> tuple[Physical, dict[str, tuple[list[Work], list[Work]]]]:
    """The work of all changes at two sizes, by kind of history."""
    program, physical = compiled_query(name)
    few, many = sizes(name)
    works_by_kind = {
        kind: (
            works_of_changes(program, physical, kind, few),
            works_of_changes(program, physical, kind, many),
        )
        for kind in histories(program)
    }
    return physical, works_by_kind


def is_local(physical: Physical, place: int, kind: str, work: Work, most: int) -> bool:
    """Whether a step read no more than what came in, its partners, and what went out."""
    step = physical.steps[place]
    tables = 1 + len(step.rankings) if isinstance(step, GroupOp) else 1
    allowed = FACTOR * tables * (work.taken[place] + work.sent[place]) + NOISE
    if isinstance(step, JoinOp) and kind != "spread":
        allowed += most  # the rows of the touched key are its partners
    return work.read[place] <= allowed


def grows(few: list[Work], many: list[Work], place: int, ratio: int) -> bool:
    pairs = zip(few, many, strict=True)
    return any(b.read[place] > max(ratio / 3 * a.read[place], NOISE / 4) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(QUERIES, 10))
def test_no_more_is_read_than_is_said(name: str) -> None:
    physical, works_by_kind = growth(name)
    few, many = sizes(name)
    for place, scope in enumerate(physical.scopes):
        grew = {kind: grows(*works, place, many // few) for kind, works in works_by_kind.items()}
        if scope == "tables":
            assert any(grew.values()), (name, place, "reads too little for its code")
            continue
        if scope == "groups":
            hot = [kind for kind, grown in grew.items() if grown and kind != "spread"]
            assert hot, (name, place, "reads too little for its code")
        for kind, works in works_by_kind.items():
            if scope == "groups" and kind != "spread":
                continue
            for work in works[1]:
                said = (name, place, kind, work.read[place], work.taken[place], work.sent[place])
                assert is_local(physical, place, kind, work, many), said


@pytest.mark.slow
def test_every_scope_is_reached() -> None:
    """Each by several queries; and none is all that there is."""
    reached: dict[Scope, set[str]] = defaultdict(set)
    codes: dict[str, set[str]] = defaultdict(set)
    for name in QUERIES:
        program, physical = compiled_query(name)
        for scope, shape in zip(physical.scopes, program_shapes(program), strict=True):
            reached[scope].add(name)
            for warned in shape.warnings:
                codes[warned.code].add(name)
    assert set(codes) == {"W101", "W102", "W103", "W104", "W105"}
    for names in (*reached.values(), *codes.values()):
        assert len(names) >= LEAST_PER_SCOPE


THE_ISSUE: Final = (
    "select (k, sum(b), avg(b), sum(a)) from (k, a, b) in "
    "(select (l.A, l.B, l.C) from l in R) group by k"
)
DECIMALS: Final = (
    "select (f, sum(p), avg(p), sum(p * (1 - d)), avg(p * d), sum(q * p), avg(q), count(p)) "
    "from (f, p, d, q) in (select (w.flag, w.price, w.price, w.id) from w in W "
    "where w.id > 1) group by f"
)


@pytest.mark.parametrize("text", [THE_ISSUE, DECIMALS, *test_folds.FOLDED.values()])
def test_totals_read_nothing_but_totals_however_they_are_written(text: str) -> None:
    _, physical = compiled_program(text)
    assert set(physical.scopes) == {"change"}


MEMBERS: Final = (
    "select x from x in R where {}member(x.A, (select y.A from y in S where y.D > 1.0))",
    "select x from x in R where {}(some y in S: y.A = x.A)",
    "select x from x in R where {}(all y in S: y.A <> x.A)",
    "select (x.S, {}member(x.A, (select k from y in S group by k: y.A))) from x in R",
)


@pytest.mark.parametrize("negated", ["", "not "])
@pytest.mark.parametrize("text", MEMBERS)
def test_membership_reads_partners_only(text: str, negated: str) -> None:
    """A change meets the rows of its key, however many others there are."""
    program, physical = compiled_program(text.format(negated))
    assert set(physical.scopes) == {"change"}
    for work in works_of_changes(program, physical, "spread", 1_000):
        assert sum(work.read) <= 5


def test_the_group_by_of_the_issue_reads_a_total() -> None:
    program, physical = compiled_program(THE_ISSUE)
    for work in works_of_changes(program, physical, "R.A", 2_000):
        assert sum(work.read) <= 4
