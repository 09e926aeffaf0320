"""Work goes with the change: rows read do not depend on what the change does not touch.

Each shape is measured at a history of one size and of ten times that size: more keys that are not
touched, and where values are read in order, more rows of the touched key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest

from incmrql.values import Value
from tests.oracle.states.base import Work
from tests.plan.stepping import Batch, Run, deletions, insertions, planned_run, r, s

SIZES = (20, 200)
OUTER = (
    "select (x.S, d) from x in R, d in (if exists (select y from y in S where y.A = x.A) "
    "then (select y.D from y in S where y.A = x.A) else {0.0})"
)


@dataclass(frozen=True)
class Case:
    """A query, a change, and the most rows that it may read."""

    text: str
    most: int
    change: Callable[[], Batch] = lambda: insertions(R=[r(3, 3, 0.5, "new")])


def keys(size: int) -> dict[str, list[Value]]:
    """Two rows and a partner for every key."""
    return {
        "R": [r(n, n, float(n % 7 + m), f"{n} {m}") for n in range(size) for m in (1, 2)],
        "S": [s(n, float(n % 3), "t") for n in range(size)],
    }


def one_key(size: int) -> dict[str, list[Value]]:
    """Many rows of the key that is touched."""
    return {
        "R": [r(3, n, float(n), str(n)) for n in range(1, size)],
        "S": [s(3, float(n), str(n)) for n in range(1, size)],
    }


def work(run: Run) -> Work:
    done = run.stepper.work
    return Work(sum(w.taken for w in done), sum(w.read for w in done), sum(w.sent for w in done))


def back(batch: Batch) -> Batch:
    return {name: [(row, -weight) for row, weight in rows] for name, rows in batch.items()}


def work_of_change_and_back(case: Case, history: dict[str, list[Value]]) -> list[Work]:
    """The work of a change and of undoing it; the answers are tested elsewhere."""
    run = planned_run(case.text).fresh()
    run.stepper.step(run.restrict(insertions(**history)))
    works = []
    for batch in (case.change(), back(case.change())):
        run.stepper.step(run.restrict(batch))
        works.append(work(run))
    return works


def partner() -> Batch:
    return insertions(S=[s(3, 9.0, "new")])


def swap_in_s() -> Batch:
    """Replace a row of S by another one with the same totals."""
    return {"S": [(s(3, 0.0, "t"), -1), (s(3, 0.0, "other"), 1)]}


UNTOUCHED = {
    "linear": Case("select x.A + 1 from x in R where x.B > 2", 0),
    "fold": Case("select (k, avg(x.C), count(x)) from x in R group by k: x.A", 1),
    "total": Case("(count(R), avg(R.C))", 6),
    "bilinear": Case("select (x.C, y.D) from x in R, y in S where x.A = y.A", 1),
    "bilinear, other side": Case(
        "select (x.C, y.D) from x in R, y in S where x.A = y.A", 2, partner
    ),
    "self-join": Case("select (x.S, y.S) from x in R, y in R where x.A = y.B", 6),
    "three tables": Case(
        "select (x.S, z.S) from x in R, y in S, z in R where x.A = y.A and y.A = z.B", 7
    ),
    "grouped join": Case(
        "select (k, sum(y.D)) from x in R, y in S where x.A = y.A group by k: x.B", 4
    ),
    "semi": Case("select x from x in R where exists (select y from y in S where y.A = x.A)", 1),
    "semi, partner": Case(
        "select x.S from x in R where exists (select y from y in S where y.A = x.A)", 1, partner
    ),
    "anti": Case("select x from x in R where not exists (select y from y in S where y.A = x.A)", 1),
    "outer": Case(OUTER, 9),
    "outer, partner": Case(OUTER, 9, partner),
    "correlated": Case(
        "select x from x in R where x.C > sum(select y.D from y in S where x.A = y.A)", 1
    ),
    "correlated, partner": Case(
        "select x.S from x in R where x.C > sum(select y.D from y in S where x.A = y.A)",
        5,
        partner,
    ),
    "distinct": Case("select distinct x.A from x in R", 1),
    "count distinct": Case("select (k, count(distinct(x.B))) from x in R group by k: x.A", 1),
    "count distinct of all": Case("count(distinct(R.A))", 2),
    "min and max": Case("select (k, min(x.C), max(x.B)) from x in R group by k: x.A", 5),
    "median": Case("select (k, median(x.C)) from x in R group by k: x.A", 4),
    "top of groups": Case(
        "select (k, (select y.S from y in x order by y.C desc limit 2)) from x in R "
        "group by k: x.A",
        5,
    ),
    "argmin": Case(
        "select (k, (select y.S from y in x order by y.C)[0]) from x in R group by k: x.A", 3
    ),
    "nested collect": Case("select (k, x) from x in R group by k: x.A", 7),
    "nested bags": Case("select (x.S, (select y.D from y in S where y.A = x.A)) from x in R", 9),
    "scalar sub-query": Case("select x.A from x in R where x.C > avg(S.D)", 2),
    "scalar sub-query that stays": Case(
        "select x.A from x in R where x.C > avg(S.D)", 2, swap_in_s
    ),
    "groups of groups": Case(
        "select (n, count(k)) from (k, n) in (select (k, count(x)) from x in R group by k: x.A) "
        "group by n",
        3,
    ),
    "top of groups of groups": Case(
        "select (k, n) from (k, n) in (select (k, count(x)) from x in R group by k: x.A) "
        "order by n desc limit 2",
        5,
    ),
    "union": Case("R.A union S.A", 0),
    "groups of a union": Case("select (k, count(z)) from z in R.A union S.A group by k: z", 1),
    "order by": Case("select x.A from x in R order by x.C desc, x.B", 0),
    "order by, limit": Case("select (x.A, x.C) from x in R order by x.C, x.S limit 2", 4),
    "limit alone": Case("select x.A from x in R limit 2", 4),
    "intersect": Case("R.A intersect S.A", 5),
    "except": Case("R.A except S.A", 5),
    "having": Case("select (k, count(x)) from x in R group by k: x.A having sum(x.B) > 1", 1),
}


@pytest.mark.parametrize("case", UNTOUCHED.values(), ids=UNTOUCHED)
def test_untouched_keys_are_not_read(case: Case) -> None:
    few, many = (work_of_change_and_back(case, keys(size)) for size in SIZES)
    assert few == many
    assert max(done.read for done in few) <= case.most
    assert few[0].sent > 0


IN_ORDER = {
    "least": Case("select (k, min(x.C)) from x in R group by k: x.A", 3),
    "greatest": Case("select (k, max(x.B)) from x in R group by k: x.A", 3),
    "first": Case("select (k, first(x.S)) from x in R group by k: x.A", 3),
    "median": Case("select (k, median(x.C)) from x in R group by k: x.A", 5),
    "percentile": Case("select (k, percentile(x.C, 0.9)) from x in R group by k: x.A", 5),
    "top": Case(
        "select (k, (select y.S from y in x order by y.C limit 3)) from x in R group by k: x.A", 7
    ),
    "argmin": Case(
        "select (k, (select y.S from y in x order by y.C)[0]) from x in R group by k: x.A", 3
    ),
    "argmax": Case(
        "select (k, (select y.S from y in x order by y.C)[-1]) from x in R group by k: x.A", 3
    ),
    "slice": Case(
        "select (k, (select y.S from y in x order by y.C)[1:2]) from x in R group by k: x.A", 5
    ),
    "some": Case("select (k, (select y.S from y in x limit 2)) from x in R group by k: x.A", 5),
    "count distinct": Case("select (k, count(distinct(x.B))) from x in R group by k: x.A", 1),
    "sum of the distinct": Case(
        "select (k, sum(select distinct y.C from y in x)) from x in R group by k: x.A", 1
    ),
    "sum of the first": Case(
        "select (k, sum(select y.B from y in x order by y.C limit 2)) from x in R group by k: x.A",
        5,
    ),
    "least of all": Case("(min(R.C), max(R.C))", 8),
    "median of all": Case("median(R.C)", 6),
    "first of all": Case("(select x.S from x in R order by x.C)[0]", 5),
    "first rows": Case("select x.S from x in R order by x.C limit 3", 6),
    "greatest partner": Case(
        "select x.C from x in R where x.A = 3 and x.B < 4 and "
        "x.B < max(select y.D from y in S where y.A = x.A and y.T = '7')",
        3,
    ),
    "greatest partner, with a partner less": Case(
        "select x.B from x in R where x.B < max(select y.D from y in S where y.A = x.A)",
        3,
        lambda: insertions(S=[s(3, 0.0, "least")]),
    ),
    "semi, another partner": Case(
        "select x.B from x in R where exists (select y from y in S where y.A = x.A)",
        1,
        partner,
    ),
    "fold": Case("select (k, avg(x.C), count(x), sum(x.B)) from x in R group by k: x.A", 1),
}


@pytest.mark.parametrize("case", IN_ORDER.values(), ids=IN_ORDER)
def test_the_touched_group_is_read_as_far_as_is_answered(case: Case) -> None:
    few, many = (work_of_change_and_back(case, one_key(size)) for size in SIZES)
    assert [done.read for done in few] == [done.read for done in many]
    assert max(done.read for done in few) <= case.most


def test_the_touched_group_of_an_extreme_that_is_deleted() -> None:
    for function, extreme in (("min", 1), ("max", 199), ("median", 100)):
        run = Run(f"select (k, {function}(x.B)) from x in R group by k: x.A")
        rows = one_key(200)["R"]
        run.stepper.step(insertions(R=rows))
        run.stepper.step(deletions(R=[rows[extreme - 1]]))
        assert work(run).read <= 5


def test_correlated_without_equality_reads_the_different_values_only() -> None:
    """The distinct correlation values meet the other side, and not the rows that have them."""
    text = "select x.S from x in R where x.A > count(select y from y in S where y.A < x.B)"
    done = []
    for size in SIZES:
        run = Run(text)
        rows = [r(n, n % 5, 1.0, str(n)) for n in range(size)]
        run.stepper.step(insertions(R=rows, S=[s(n) for n in range(9)]))
        run.stepper.step(insertions(R=[r(4, 3, 1.0, "known")]))
        known = work(run)
        run.stepper.step(insertions(S=[s(99)]))
        done.append((known.read, work(run).read))
    assert done[0] == done[1]
    assert done[0] == (2, 5)


def test_recomputing_a_group_would_be_seen() -> None:
    """The measure itself: what goes through its group reads more of a larger one."""
    case = Case("select (k, median(distinct(x.C))) from x in R group by k: x.A", 0)
    few, many = (work_of_change_and_back(case, one_key(size)) for size in SIZES)
    assert many[0].read > 5 * few[0].read


def test_every_shape_is_measured() -> None:
    named: Iterable[str] = (*UNTOUCHED, *IN_ORDER)
    wanted = {
        "fold", "bilinear", "self-join", "semi", "anti", "outer", "distinct", "median", "top",
        "argmin", "nested collect", "scalar sub-query", "groups of groups", "union",
        "order by, limit", "min and max", "correlated",
    }  # fmt: skip
    assert wanted <= set(named)
