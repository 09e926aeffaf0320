"""Each shape of query over streams that Apache MRQL answered wrongly or refused, by its name.

A fixed history goes through every one of them: batches in which nothing comes, partners that come
alone, nulls, ties, duplicates, deletions of the extreme and of the last row of a group, and the
way back to nothing.  `Run.step` compares stepper and evaluator after each batch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.values import Bag, Record, Value, encode
from tests.effort import fewest
from tests.generators.tables import TABLES, tables
from tests.plan.stepping import ALL, Batch, Run, deletions, histories, insertions, one_by_one, r, s

DEGREES = "select (page, count(to)) from (page, to) in LINKS group by page"
RANKS = """
    repeat ranks = select (page, 1.0) from (page, d) in (DEGREES)
      step select (to, 0.15 + 0.85 * sum(share))
           from (page, to) in LINKS, (page, rank) in ranks, (page, degree) in (DEGREES),
                share = rank / degree
           group by to
      limit 3
""".replace("DEGREES", DEGREES).replace("LINKS", "(select (x.A, x.B) from x in R)")
CENTROIDS = """
    repeat centroids = { < X: 0.0, Y: 0.0 >, < X: 2.0, Y: 9.0 > }
      step select < X: avg(p.X), Y: avg(p.Y) >
           from p in (select < X: x.C, Y: x.B as double > from x in R)
           group by k: (select c from c in centroids
                        order by (c.X - p.X) * (c.X - p.X) + (c.Y - p.Y) * (c.Y - p.Y))[0]
      limit 3
"""

WRONG: Final = {
    "join + group by":
        "select (k, sum(y.D), count(x)) from x in R, y in S where x.A = y.A group by k: x.B",
    "self-join": "select (x.S, y.S) from x in R, y in R where x.A = y.B",
    "plain join": "select (x.B, y.D) from x in R, y in S where x.A = y.A",
    "correlated sub-query":
        "select (x.S, sum(select y.D from y in S where y.A = x.A)) from x in R",
    "order by with ties": "select (x.A, x.S) from x in R order by x.A",
    "group by + order by":
        "select (k, count(x)) from x in R group by k: x.A order by count(x) desc",
    "group by over group by":
        "select (n, count(k)) from (k, n) in "
        "(select (k, count(x)) from x in R group by k: x.A) group by n",
    "an aggregate over a grouped query":
        "max(select avg(x.C) from x in R group by x.A)",
    "a static source counted inside":
        "select (x.A, count(select y from y in W where y.id > 0)) from x in R",
    "iteration (double counting)":
        "repeat v = select (x.A, x.B) from x in R "
        "step select (k, sum(b)) from (k, b) in v union (select (y.A, 1) from y in S) "
        "group by k limit 2",
    "k-means": CENTROIDS,
    "PageRank": RANKS,
}  # fmt: skip

REFUSED: Final = {
    "filter without group by": "select x from x in R where x.B > 1",
    "projection without group by": "select (x.A, x.S) from x in R",
    "distinct": "select distinct x.A from x in R",
    "having": "select (k, sum(x.C)) from x in R group by k: x.A having count(x) > 1",
    "exists over a stream":
        "select x.S from x in R where exists (select y from y in S where y.A = x.A and y.D > 1.0)",
    "cross product": "select (x.A, y.A) from x in R, y in S",
    "a join of a stream with a static source":
        "select (x.S, y.flag) from x in R, y in W where x.B = y.id",
    "group by over a union":
        "select (k, count(z), sum(z.V)) from z in (select < K: x.A, V: x.C > from x in R) union "
        "(select < K: y.A, V: y.D > from y in S) group by k: z.K",
    "order by + limit": "select (x.A, x.C) from x in R order by x.C desc limit 2",
    "total aggregates": "(count(R), sum(R.C), avg(R.B), min(R.C), max(S.D))",
    "records of queries":
        "< n: count(R), rows: (select x.A from x in R where x.B = 2), last: "
        "(select y.D from y in S order by y.D desc limit 1) >",
}  # fmt: skip

SHAPES: Final = WRONG | REFUSED

NOW_STATIC: Final = frozenset("RSN")
"""W does not change, so that there is a static source."""


def static_rows() -> Bag:
    flags = ((1, True), (2, False), (2, True), (0, None))
    names = TABLES["W"].names
    return Bag([Record.of(names, (key, flag, None, None, None, None, None)) for key, flag in flags])


HISTORY: Final[tuple[Batch, ...]] = (
    {},
    insertions(R=[r(1, 2, 1.5, "a"), r(1, 2, 1.5, "a"), r(2, 1, 2.5, "b"), r(None, 1, None, "n")]),
    insertions(S=[s(1, 2.0, "t"), s(2, 0.5), s(None, 9.0), s(3, None)]),
    {},
    insertions(R=[r(1, None, 2.5, "c"), r(2, 2, float("nan"), "d"), r(3, 1, -0.0, "e")],
             S=[s(1, 3.0, "u"), s(1, 2.0, "t")]),
    deletions(R=[r(1, 2, 1.5, "a"), r(2, 2, float("nan"), "d")], S=[s(1, 3.0, "u")]),
    deletions(S=[s(1, 2.0, "t"), s(1, 2.0, "t"), s(None, 9.0)]),
    {"R": [(r(1, 2, 1.5, "a"), -1), (r(1, 2, 7.5, "a"), 1)], "S": [(s(2, 0.5), -1)]},
    deletions(R=[r(1, 2, 7.5, "a"), r(2, 1, 2.5, "b"), r(None, 1, None, "n"),
               r(1, None, 2.5, "c"), r(3, 1, -0.0, "e")], S=[s(3, None)]),
    {},
    insertions(R=[r(1, 2, 1.5, "a"), r(1, 2, 1.5, "a"), r(2, 2, 2.5, "b")], S=[s(1, 2.0, "t")]),
)  # fmt: skip


@lru_cache
def planned_run(name: str) -> Run:
    return Run(SHAPES[name], NOW_STATIC, {"W": static_rows()})


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_that_was_wrong_or_refused(name: str) -> None:
    run = planned_run(name).fresh()
    answers: list[Value] = []
    for batch in HISTORY:
        run.step(batch)
        answers.append(run.stepper.answer())
    seen = [encode(answer) for answer in answers]
    assert len(set(seen)) >= 3, "the history shows too little"
    assert seen[0] == seen[-2] != seen[-1], "nothing is left of what is gone"


@pytest.mark.parametrize("name", SHAPES)
@fewest
@given(data=st.data())
def test_a_shape_over_any_history(name: str, data: st.DataObject) -> None:
    run = planned_run(name).fresh({"W": data.draw(tables())["W"]})
    history = data.draw(histories(tables(), NOW_STATIC))
    for batch in history:
        run.step(batch)
    again = run.again(one_by_one(history))
    assert encode(again.answer()) == encode(run.stepper.answer())


def test_the_history_has_all_that_is_hard() -> None:
    rows = [row for batch in HISTORY for rows in batch.values() for row in rows]
    assert any(not batch for batch in HISTORY)
    assert any(weight < 0 for _, weight in rows)
    assert any(None in row.values_ for row, _ in rows)
    assert any(rows.count(row) > 1 for row in rows)
    assert ALL > NOW_STATIC
