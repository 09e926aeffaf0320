"""Shapes of queries on Spark: unnesting at any place, joins of every kind, order, nested bags.

The shapes of the algebra's tests, and those where the SQL of a group could go wrong.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from incmrql import Session
from incmrql.values import Bag, Record, identical
from tests.algebra.test_shapes import DATA, SHAPES
from tests.effort import sample, scale
from tests.spark.answers import agree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


def r(a: int | None, b: int | None, c: float | None, s: str | None) -> Record:
    return Record({"A": a, "B": b, "C": c, "S": s})


def s(a: int | None, d: float | None, t: str | None) -> Record:
    return Record({"A": a, "D": d, "T": t})


def n(key: int | None, *items: tuple[int | None, float | None]) -> Record:
    return Record({"K": key, "items": Bag([Record({"v": v, "w": w}) for v, w in items])})


TABLES = {
    "R": Bag([
        r(1, 2, 0.5, "x"), r(2, 3, 1e16, "y"), r(2, 3, 1e16, "y"), r(2, 1, 1.0, "'`\"\\"),
        r(3, 1, -1e16, ""), r(3, 1, math.nan, "ß\U00010000"), r(None, 1, -math.inf, "x"),
        r(1, None, None, None), r(None, None, None, None),
    ]),
    "S": Bag([
        s(2, 1.0, "x"), s(2, 2.0, "y"), s(2, None, "y"), s(5, 0.0, None), s(None, 3.0, "x"),
        s(3, 5e-324, ""), s(3, 1.7e308, ""), s(3, 1.7e308, "x"),
    ]),
    "N": Bag([
        n(1, (1, 0.5), (2, 1.5), (2, 1.5)), n(1, (2, 1.5), (1, 0.5), (2, 1.5)), n(2),
        n(3, (None, None), (3, math.nan)), n(None, (2, 2.0)),
    ]),
    "W": Bag(),
}  # fmt: skip

NESTED = {
    "in the head": "select (x.A, sum(select y.D from y in S where y.A = x.A)) from x in R",
    "in where": "select x.S from x in R where x.B < count(select y from y in S where y.A = x.A)",
    "in having": "select k from x in R group by k: x.A "
    "having count(x) > count(select y from y in S where y.A = k)",
    "in a group-by key": "select (k, count(x)) from x in R "
    "group by k: count(select y from y in S where y.A = x.A)",
    "in order by": "select x.S from x in R "
    "order by max(select y.D from y in S where y.A = x.A) desc",
    "inside an aggregate": "max(select count(select y from y in S where y.A = x.A) from x in R)",
    "three levels": "select (x.A, (select (y.T, (select z.B from z in R where z.A = y.A "
    "and z.S = x.S)) from y in S where y.A = x.A)) from x in R",
    "by another predicate": "select (x.A, count(select y from y in S where y.A < x.A)) from x in R",
    "not correlated": "select (x.A, count(select y from y in S where y.D > 1.0)) from x in R",
    "of a nested bag": "select (m.K, (select (i.v, count(select y from y in S where y.A = i.v)) "
    "from i in m.items)) from m in N",
    "some": "select x.S from x in R where some y in S: y.A = x.A and y.D > 1.5",
    "all": "select x.S from x in R where all y in S: y.A <> x.A",
    "exists": "select x from x in R where exists (select y from y in S where y.A = x.A)",
    "not exists": "select x from x in R where not exists (select y from y in S where y.A = x.A)",
    "member": "select x.S from x in R where member(x.A, S.A)",
    "an outer join by hand": "select (x.S, d) from x in R, "
    "d in (let ds = (select y.D from y in S where y.A = x.A) "
    "in if exists ds then ds else {null as double})",
}  # fmt: skip

GROUPED = {
    "all aggregates": "select (k, count(x), sum(x.C), avg(x.C), min(x.C), max(x.C), min(x.S), "
    "max(x.S), sum(x.B), avg(x.B), first(x.B)) from x in R group by k: x.A",
    "spreads": "select (k, variance(x.B), stddev(x.B), variance(x.C), median(x.C), "
    "percentile(x.B, 0.3)) from x in R group by k: x.S",
    "of doubles of all sizes": "select (k, sum(y.D), avg(y.D), variance(y.D)) "
    "from y in S group by k: y.A",
    "of two parts of a row": "select (x.K, max(case x.K { 1: x.items.v | *: x.items.v })) "
    "from x in N, y in R",
    "of the least long": "select (k, avg(z), variance(z), sum(z)) "
    "from x in R, z = -9223372036854775807 - x.A where x.A < 3 group by k: x.A",
    "different ones": "select (k, count(distinct(x.S)), count(x)) from x in R group by k: x.A",
    "some of its rows": "select (k, sum(select z.B from z in x where z.C > 0.0), "
    "count(select z from z in x where z.S = \"y\")) from x in R group by k: x.A",
    "its rows beside an aggregate": "select (k, z.S, n) from (k, n, zs) in "
    "(select (k, count(x), x) from x in R group by k: x.A), z in zs",
    "by two keys": "select (k, l, count(x)) from x in R group by (k, l): (x.A, x.B)",
    "by a bag": "select (k, count(m)) from m in N group by k: m.items",
    "by a record": "select (k.a, count(x)) from x in R group by k: < a: x.A, s: x.S >",
    "of groups": "select (c, sum(k)) from (k, c) in (select (a, count(x)) from x in R "
    "group by a: x.A) group by c",
    "twice joined": "select (k, m, l) from (k, m) in (select (a, max(x.B)) from x in R "
    "group by a: x.A), (k, l) in (select (b, min(y.D)) from y in S group by b: y.A)",
    "in a row": "select (m.K, (select (v, sum(i.w)) from i in m.items group by v: i.v)) "
    "from m in N",
    "with nothing left": "select (k, count(x)) from x in R where x.A > 100 group by k: x.A",
    "its best row": "select (k, elem(select z.S from z in x order by z.C desc, z.S)) "
    "from x in R group by k: x.A",
    "its best row, upward": "select (k, (select z from z in x order by z.C)[0].S, "
    "elem(select z.S from z in x where z.B > 0 order by z.B desc, z.C)) "
    "from x in R group by k: x.A",
    "rows beside an average": "select (k, (select z.C - avg(x.C) from z in x)) "
    "from x in R group by k: x.A",
    "its first rows": "select (k, (select z.S from z in x order by z.C limit 2)) "
    "from x in R group by k: x.A",
}  # fmt: skip

ORDERED = {
    "downward": "select (x.A, x.S) from x in R order by x.A desc, x.S",
    "with a limit": "select x.C from x in R order by x.C limit 4",
    "limit alone": "select x from x in R limit 3",
    "limit of nothing": "select x.A from x in R limit -1",
    "by a bag": "select m.K from m in N order by m.items desc",
    "distinct": "select distinct (x.A, x.B) from x in R order by x.B desc",
    "distinct bags": "select distinct m.items from m in N",
    "distinct in a row": "select distinct i.v from m in N, i in m.items order by i.v",
    "sums in a row": "select (m.K, sum(m.items.w), avg(m.items.v), (select (i.v, "
    "sum(select j.w from j in m.items where j.v = i.v)) from i in m.items)) from m in N",
    "an order in a row": "select (m.K, (select i.w from i in m.items order by i.w desc, i.v), "
    "(select (i.v, j.w) from i in m.items, j in m.items order by j.w desc, i.v desc)[0]) "
    "from m in N",
    "the least of no rows": "min(select < a: < c: x.C, e: \"e\" >, s: x.S > from x in R "
    "where x.A > 100)",
    "a member that is computed": "select (k, member(avg(x.A), {2.0, 3.0})) "
    "from x in R group by k: x.B",
    "a union": "select z from z in R.A union S.A union {7, null} order by z",
    "intersect": "R.A intersect S.A",
    "except": "R.A except S.A",
    "intersect in a row": "select (m.K, m.items.v intersect {2, 2, 9}) from m in N",
    "except in a row": "select (m.K, m.items.v except {2, 1}) from m in N",
    "self-join of three": "select (x.S, y.S, z.S) from x in R, y in R, z in R "
    "where x.A = y.B and y.A = z.B",
    "self-join on the group": "select (x.A, y.A) from x in R, y in R where x.A = y.A",
    "an index into an ordered query": "(select x.S from x in R order by x.C)[1]",
}  # fmt: skip

ALL = {
    f"{kind} {name}": text
    for kind, texts in {"nested": NESTED, "grouped": GROUPED, "ordered": ORDERED}.items()
    for name, text in texts.items()
}


@pytest.mark.parametrize("name", sample(SHAPES, 2))
def test_shape_of_the_algebra(name: str, spark: SparkSession) -> None:
    agree(SHAPES[name], DATA["rows"], spark)


@pytest.mark.parametrize("name", sample(ALL, 2))
def test_shape(name: str, spark: SparkSession) -> None:
    agree(ALL[name], TABLES, spark)


def test_shapes_over_nothing(spark: SparkSession) -> None:
    for text in [*SHAPES.values(), *ALL.values()][:: scale(7, 3)]:
        agree(text, DATA["nothing"], spark)


def test_a_group_of_a_million_rows_is_summed_as_one_of_a_single_row(spark: SparkSession) -> None:
    session = Session(spark)
    for rows in (1, 1_000_000):
        numbers = spark.range(rows).selectExpr("id % 1000 / 1024D - 0.25D AS x", "id")
        session.register("numbers", numbers)
        query = session.query(
            "select (sum(n.x), avg(n.x), variance(n.x), stddev(n.id), count(n)) "
            "from n in numbers group by ()"
        )
        values = [Fraction(i % 1000, 1024) - Fraction(1, 4) for i in range(min(rows, 1000))]
        times = max(rows // 1000, 1)
        total, squares = times * sum(values), times * sum(value**2 for value in values)
        spread = None if rows == 1 else float((squares - total**2 / rows) / (rows - 1))
        ids = None if rows == 1 else math.sqrt(Fraction(rows * (rows + 1), 12))
        expected = (float(total), float(total) / rows, spread, ids, rows)
        assert identical(query.collect(), Bag([expected]))
