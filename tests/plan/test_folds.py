"""However a group-by with aggregates is written, it keeps totals and reads no rows of its groups.

Each spelling is stepped through histories with deletions and nulls and compared with the
evaluator; its plan has no node that keeps rows of a group; and a change reads as much of a group
of 20 rows as of one of 200.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from incmrql.plan.nodes import Groups
from tests.plan.seeded import PAIRWISE, history
from tests.plan.stepping import ALL, insertions, planned_run, r, s
from tests.plan.test_work import work

ROWS: Final = "(select (x.A, x.B, x.C, x.S) from x in R)"
COLLECTED: Final = f"(select (a, c) from (a, b, c, t) in {ROWS} group by a)"

FOLDED: Final = {
    "the columns of a pattern":
        f"select (a, sum(c), avg(c), sum(b)) from (a, b, c, t) in {ROWS} group by a",
    "one variable": "select (k, sum(x.C), avg(x.C), sum(x.B)) from x in R group by k: x.A",
    "TPC-H Q1, one generator":
        "select (a, t, sum(b), sum(p), sum(q), avg(b), avg(c), avg(p), count(b)) "
        f"from (a, b, c, t) in {ROWS}, p = b * (1 - c), q = p * (1 + c) where b < 9 "
        "group by (a, t)",
    "TPC-H Q1, nested":
        "select < a: a, b: sum(b), c: sum(c), p: sum(p), q: sum(q), m: avg(b), n: avg(c), "
        "o: avg(p), r: count(p) > from (a, b, c, p, q) in (select (a, b, c, p, p * (1 + c)) "
        "from (a, b, c, p) in (select (x.A, x.B, x.C, x.B * (1 - x.C)) from x in R "
        "where x.S <> 'b')) group by a",
    "TPC-H Q1, over the group":
        "select (k, sum(select y.B * (1 - y.C) from y in x), avg(select y.B * (1 - y.C) "
        "from y in x), sum(x.B), avg(x.B), avg(x.C), count(x)) from x in R group by k: x.A",
    "bindings": "select (k, sum(p), avg(p), sum(q), avg(q), count(p)) from x in R, "
        "p = x.B * (1 - x.C), q = p * (1 + x.C) group by k: x.A",
    "TPC-H Q1, row by row":
        "select (k, sum(x.B * (1 - x.C)), avg(x.B * (1 - x.C)), sum(x.B * (1 - x.C) * (1 + x.C)), "
        "sum(x.B), avg(x.C), count(x)) from x in R group by k: x.A",
    "row by row, several variables":
        "select (k, sum(x.B * y.D), avg(x.C + y.D), count(x.B - y.A), sum(y.D)) "
        "from x in R, y in S where x.A = y.A group by k: x.S",
    "row by row, columns and the key":
        f"select (a, sum(b * c), avg(a * b), count(a), sum(1)) from (a, b, c, t) in {ROWS} "
        "group by a",
    "row by row, conditions":
        "select (k, some(x.B > x.C), all(x.B > x.C), sum(if x.S = 'a' then x.B else 0)) "
        "from x in R group by k: x.A having sum(x.B * x.C) > 1",
    "several keys":
        f"select (k, l, sum(c), avg(c), sum(b), count(b)) from (a, b, c, t) in {ROWS} "
        "group by (k, l): (a, t)",
    "a key of several parts":
        f"select (k, sum(c), avg(c), sum(b)) from (a, b, c, t) in {ROWS} group by k: (a, t)",
    "having": f"select (a, sum(c), avg(c)) from (a, b, c, t) in {ROWS} group by a "
        "having avg(c) > 0 and count(b) > 1",
    "where above": "select u from u in (select (a, sum(c), avg(c), sum(b)) "
        f"from (a, b, c, t) in {ROWS} group by a) where u#1 > 0",
    "wildcards": f"select (a, sum(c), avg(c), count(c)) from (a, *, c, *) in {ROWS} group by a",
    "a record pattern":
        "select (a, sum(c), avg(c), sum(b)) from < A: a, B: b, C: c > in R group by a",
    "a nested pattern":
        "select (a, sum(c), avg(c), sum(b)) from ((a, b), (c, t)) in "
        "(select ((x.A, x.B), (x.C, x.S)) from x in R) group by a",
    "records": "select < k: k, s: sum(x.C), a: avg(x.C), n: count(x) > from x in "
        "(select < A: y.A, C: y.C, D: y.B > from y in R) group by k: x.A",
    "components":
        "select (k, sum(u#2), avg(u#2), sum(u#1)) from u in (select (x.A, x.B, x.C) from x in R) "
        "group by k: u#0",
    "spread":
        f"select (a, variance(c), stddev(c), avg(b)) from (a, b, c, t) in {ROWS} group by a",
    "quotients": f"select (a, sum(c) / count(c), sum(b) / sum(c)) from (a, b, c, t) in {ROWS} "
        "group by a",
    "a choice of totals": f"select (a, if count(c) > 1 then avg(c) else sum(b) + sum(c)) "
        f"from (a, b, c, t) in {ROWS} group by a",
    "a case of totals": f"select (a, case sum(b) {{ 0: avg(c) | *: sum(c) }}) "
        f"from (a, b, c, t) in {ROWS} group by a",
    "totals by name": f"select (a, m, m * m, n) from (a, c) in {COLLECTED}, m = avg(c), n = sum(c)",
    "a group by name": "select (k, sum(v), avg(v)) from (k, g) in "
        "(select (k, x) from x in R group by k: x.A), v = (select y.C from y in g)",
    "parts of a group by name": "select (k, sum(v), avg(v), count(w)) from (k, g) in "
        "(select (k, x) from x in R group by k: x.A), v = (select y.C from y in g where y.B > 1), "
        "w = (select y from y in g where y.B > 2)",
    "filtered columns": f"select (a, sum(select v from v in c where v > 0), "
        f"count(select v from v in c where v > 0), sum(c)) from (a, b, c, t) in {ROWS} group by a",
    "let": f"let u = {ROWS} in select (a, sum(c), avg(c), sum(b)) from (a, b, c, t) in u "
        "group by a",
    "a binding of the rows":
        f"select (a, sum(c), avg(c), sum(b)) from u = {ROWS}, (a, b, c, t) in u group by a",
    "a function": "function mean(v: {double}): double { sum(v) / count(v) }; "
        f"select (a, mean(c), sum(c), sum(b)) from (a, b, c, t) in {ROWS} group by a",
    "a macro": "macro mean(v) { sum(v) / count(v) }; "
        f"select (a, mean(c), mean(b)) from (a, b, c, t) in {ROWS} group by a",
    "a join": "select (u, sum(p), avg(p), sum(q), avg(q), count(p)) from (a, p, q) in "
        "(select (x.A, x.B, x.C) from x in R), (a, u) in (select (y.A, y.T) from y in S) "
        "group by u",
    "a union": "select (k, sum(c), avg(c), sum(d)) from (k, c, d) in (select (x.A, x.C, x.B) "
        "from x in R) union (select (y.A, y.D, y.A) from y in S) group by k",
    "members of rows": "select (k, sum(w), avg(w), sum(v)) from (k, v, w) in "
        "(select (x.K, i.v, i.w) from x in N, i in x.items) group by k",
    "groups of groups": "select (k, sum(v), avg(v), sum(n)) from (k, v, n) in (select (a, sum(c), "
        f"count(c)) from (a, b, c, t) in {ROWS} group by (a, b)) group by k",
    "order by": f"select (a, sum(c), avg(c), sum(b)) from (a, b, c, t) in {ROWS} group by a "
        "order by sum(c) desc",
    "all rows": f"let u = {ROWS} in (sum(select c from (a, b, c, t) in u), "
        "avg(select c from (a, b, c, t) in u), sum(select b from (a, b, c, t) in u))",
    "some and all": "select (a, some(p), all(p), exists(p), count(p)) from (a, p) in "
        "(select (x.A, x.B > 1) from x in R) group by a",
}  # fmt: skip
"""Ways to write a group-by all of whose aggregates are totals."""

BY_VALUE: Final = {
    "extremes": f"select (a, min(c), max(c), min(b)) from (a, b, c, t) in {ROWS} group by a",
    "row by row, extremes": "select (k, min(x.B * x.C), max(x.B - y.D), median(x.B * x.C)) "
        "from x in R, y in S where x.A = y.A group by k: x.A",
    "different values": f"select (a, count(v), sum(v), sum(c)) from (a, c) in {COLLECTED}, "
        "v = distinct(c)",
    "ranks": f"select (a, median(c), percentile(c, 0.9), avg(c), sum(b)) from (a, b, c, t) in "
        f"{ROWS} group by a",
}  # fmt: skip
"""Ways to write one that keeps values in order beside totals, and reads a few of them."""

each_spelling = pytest.mark.parametrize("text", FOLDED.values(), ids=FOLDED)
any_spelling = pytest.mark.parametrize("text", (FOLDED | BY_VALUE).values(), ids=FOLDED | BY_VALUE)


@each_spelling
def test_totals_are_all_that_is_kept(text: str) -> None:
    plan = planned_run(text).plan
    groups = [node for node in plan.nodes if isinstance(node, Groups)]
    assert groups
    for node in groups:
        assert node.is_fold
        assert all(plan.edges[node.inputs[side]].constant for side in node.kept)
        assert not node.tables


@any_spelling
def test_answers_are_right_after_every_batch(text: str) -> None:
    chance, run = Random(text), planned_run(text)
    for traits in PAIRWISE:
        fresh = run.fresh()
        for batch in history(chance, traits, ALL):
            fresh.step(batch)


@any_spelling
def test_a_change_reads_as_much_of_a_large_group_as_of_a_small_one(text: str) -> None:
    read = []
    for size in (20, 200):
        run = planned_run(text).fresh()
        rows = [r(3, n % 5 + 2, n / 8, "a") for n in range(size)]
        run.stepper.step(run.restrict(insertions(R=rows, S=[s(3, 1.0, "t")])))
        run.stepper.step(run.restrict(insertions(R=[r(3, 4, 0.5, "a")])))
        read.append(work(run).read)
    assert read[0] == read[1]


def test_a_value_of_pairs_of_rows_keeps_its_name() -> None:
    """It goes through its group; written out it would do so for each use."""
    text = (
        "select (k, count(p), sum(select u.B from (u, w) in p)) from (k, g) in "
        "(select (k, x) from x in R group by k: x.A), "
        "p = (select (y, z) from y in g, z in g where y.B < z.B)"
    )
    (node,) = (n for n in planned_run(text).plan.nodes if isinstance(n, Groups))
    assert not node.is_fold
    assert not [request for request in node.requests if request.reads_rows]
    run = planned_run(text).fresh()
    run.step(insertions(R=[r(1, n, 0.0) for n in range(4)]))
    run.step(insertions(R=[r(1, 9, 0.0)]))


def test_a_function_that_calls_itself_stays_a_call() -> None:
    text = (
        "function f(v: {double}, n: int): double { if n = 0 then sum(v) else f(v, n - 1) }; "
        "select (k, f(x.C, 2)) from x in R group by k: x.A"
    )
    run = planned_run(text).fresh()
    run.step(insertions(R=[r(1, n, 0.5) for n in range(4)]))
    run.step(insertions(R=[r(1, 9, 0.25)]))


def test_a_let_whose_name_is_not_used_reads_nothing() -> None:
    run = planned_run("select (let j = S.A in x.B) from x in R").fresh()
    run.step(insertions(R=[r(1, 7), r(1, 7), r(2, None)], S=[s(1)]))
    run.step(insertions(R=[r(4, 7)]))
