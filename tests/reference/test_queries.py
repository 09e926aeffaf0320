"""Select queries: from, where, group by, having, distinct, order by, limit; sub-queries."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.types.model import INT, STRING, Record, Tuple
from incmrql.values import Bag, sort_values
from tests.reference.running import Registered, answer_text, value

ROW = Record((("A", INT), ("B", STRING)))
ROWS = st.lists(
    st.fixed_dictionaries(
        {"A": st.none() | st.integers(0, 3), "B": st.none() | st.sampled_from("xyz")}
    ),
    max_size=8,
)


TABLE: list[tuple[str, str]] = [
    # from
    ("select (x, y) from x in {1, 2}, y in {x, 3}", "{ (1,1), (1,3), (2,2), (2,3) }"),
    ("select y from x in {1, 2}, y = x * 10", "{ 10, 20 }"),
    ("select x from x in (if false then {1} else null)", "{ }"),
    ("select x from (x, 1) in {(5, 1), (6, 2)}", "{ 5 }"),
    ("select (x, y) from (x, i) in {(1, 7), (2, 8)}, (y, i) in {(3, 8), (4, 9)}", "{ (2,3) }"),
    ("select (x, y) from (x, i) in {(1, null)}, (y, i) in {(3, null)}", "{ }"),
    ("select x from <A: x, B: \"b\"> in {<A: 1, B: \"b\">, <A: 2, B: \"c\">}", "{ 1 }"),
    ("select (x, y) from x in {1}, (x, y) in {(2, 3)}", "{ }"),
    ("select x from x in {1, 1}", "{ 1, 1 }"),
    ("select x from x in [3, 1]", "{ 1, 3 }"),
    ("select x from x in {}", "{ }"),
    ("select (select x from x in {x}) from x in {1, 2}", "{ { 1 }, { 2 } }"),
    ("select x as int from x in [json| [1, 2] |]", "{ 1, 2 }"),
    ("select x from x in [json| {\"a\": 1} |]", "{ }"),
    # group by
    ("select (k, count(x)) from x in {1, 2, 3} group by k: x % 2", "{ (0,1), (1,2) }"),
    ("select (k, x) from x in {1, null, null} group by k: x",
     "{ (null,{ null, null }), (1,{ 1 }) }"),
    ("select k from x in {{1, 2}, {2, 1}} group by k: x", "{ { 1, 2 } }"),
    ("select k from x in {0.0, -0.0, NaN, NaN} group by k: x", "{ 0.0, NaN }"),
    ("select (a, sum(y)) from (x, y) in {(1, 2), (1, 3)} group by a: x", "{ (1,5) }"),
    ("select (x, sum(y)) from (x, y) in {(1, 2), (1, 3)} group by x", "{ (1,5) }"),
    ("select (i, j, count(z)) from (i, j, z) in {(1, 2, 3), (1, 2, 4)} group by (i, j)",
     "{ (1,2,2) }"),
    ("select (x.A, sum(x.B)) from x in {<A: 1, B: 2>, <A: 1, B: 3>} group by x.A", "{ (1,5) }"),
    ("select (a, b) from x in {1, 2, 3, 4} group by (a, b): (x % 2, x > 2)",
     "{ (0,false), (0,true), (1,false), (1,true) }"),
    ("select k from x in {1, 2} group by (k, 1): (x, x)", "{ 1 }"),
    ("select partition from x in {1, 2}, y in {3} group by k: y",
     "{ { < x: 1, y: 3 >, < x: 2, y: 3 > } }"),
    ("select k from x in {} group by k: x", "{ }"),
    # aggregates row by row
    ("select (k, sum(x * y), avg(x + y)) from (k, x, y) in {(1, 2, 3), (1, 4, 5), (2, null, 7)} "
     "group by k", "{ (1,26,7.0), (2,0,null) }"),
    ("select (k, sum(x * k), count(k), sum(1)) from (k, x) in {(1, 2), (3, 4), (3, 5), (null, 6)} "
     "group by k", "{ (null,0,0,1), (1,2,1,1), (3,27,2,2) }"),
    ("select (k, sum(x * y)) from x in {1, 2, 3}, y in {1, 10} where x < y group by k: x % 2",
     "{ (0,20), (1,40) }"),
    ("select (x.A, max(x.B - x.A)) from x in {<A: 1, B: 2>, <A: 1, B: 5>} group by x.A",
     "{ (1,4) }"),
    ("select (k, some(x > y), all(x > y)) from (k, x, y) in {(1, 2, 3), (1, 4, 3), (2, 5, 3)} "
     "group by k", "{ (1,true,false), (2,true,true) }"),
    ("select k from (k, x, y) in {(1, 2, 3), (2, 4, 5)} group by k having sum(x * y) > 6 "
     "order by sum(x * y)", "[ 2 ]"),
    ("select (k, let x = 5 in sum(x * y)) from (k, x, y) in {(1, 2, 3)} group by k", "{ (1,15) }"),
    ("select (k, count(x + {9, 8})) from (k, x) in {(1, 2), (1, 3)} group by k", "{ (1,4) }"),
    ("select (k, count(x + y)) from (k, x, y) in {(1, 2, 3), (1, 3, 4)} group by k", "{ (1,2) }"),
    ("select (k, count(x union y)) from (k, x, y) in {(1, 2, 3), (1, 3, 4)} group by k",
     "{ (1,4) }"),
    # bags and lists added
    ("[2, 1] + [1]", "[ 2, 1, 1 ]"),
    ("{2, 1} + {1}", "{ 1, 1, 2 }"),
    ("[1] + {2.5}", "{ 1.0, 2.5 }"),
    ("[1] + null", "[ 1 ]"),
    ("[] + ['a']", '[ "a" ]'),
    ("(select x from x in {3, 1} order by x) + [9, 8]", "[ 1, 3, 9, 8 ]"),
    ("select (k, count(x)) from x in {1, 2, 3} group by k: x % 2 having count(x) > 1", "{ (1,2) }"),
    ("select (k, sum(select y from y in x where y > 1)) from x in {1, 2, 3} group by k: x % 2",
     "{ (0,2), (1,3) }"),
    # order by, limit, distinct
    ("select x from x in {3, null, 1} order by x", "[ null, 1, 3 ]"),
    ("select x from x in {3, null, 1} order by x desc", "[ 3, 1, null ]"),
    ("select (x, y) from (x, y) in {(1, 1), (2, 1), (1, 2)} order by y desc, x",
     "[ (1,2), (1,1), (2,1) ]"),
    ("select (x, y) from (x, y) in {(2, 1), (1, 1), (3, 0)} order by y desc",
     "[ (1,1), (2,1), (3,0) ]"),
    ("select x from x in {3, 1, 2} order by x limit 2", "[ 1, 2 ]"),
    ("select x from x in {3, 1, 2} limit 2", "{ 1, 2 }"),
    ("select x from x in {3, 1, 2} limit 0", "{ }"),
    ("select x from x in {3, 1, 2} limit 9", "{ 1, 2, 3 }"),
    ("select x from x in {3, 1, 2} limit -1", "{ }"),
    ("select x from x in {3, 1, 2} limit (null as int)", "{ }"),
    ("select distinct x from x in {2, 1, 2, null, null}", "{ null, 1, 2 }"),
    ("select distinct x from x in {2, 1, 2} order by x limit 2", "[ 1, 2 ]"),
    ("select distinct x % 2 from x in {1, 2, 3, 4} order by x % 2 desc", "[ 1, 0 ]"),
    ("select (k, count(x)) from x in {1, 2, 3} group by k: x % 2 order by count(x) desc limit 1",
     "[ (1,2) ]"),
    ("select x from x in {NaN, 1.0, Infinity} order by x desc", "[ NaN, Infinity, 1.0 ]"),
    # sub-queries
    ("select x from x in {1, 2, 3} where member(x, {2, 3})", "{ 2, 3 }"),
    ("select (x, (select y from (y, z) in {(5, 1), (6, 1)} where z = x)) from x in {1, 2, null}",
     "{ (null,{ }), (1,{ 5, 6 }), (2,{ }) }"),
    ("select x from x in {1, 1, 2} where some y in {1, 1}: x = y", "{ 1, 1 }"),
    ("select x from x in {1, 1} where exists (select y from y in {1, 1} where y = x)", "{ 1, 1 }"),
    ("select x from x in {1, 2, 3} where x > avg({1, 2, 3})", "{ 3 }"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_queries(text: str, expected: str) -> None:
    assert answer_text(text) == expected


def tables(**rows: list[dict[str, object]]) -> Registered:
    return {name: (ROW, given_rows) for name, given_rows in rows.items()}


@given(ROWS, ROWS)
def test_a_join_matches_no_nulls(
    left: list[dict[str, object]], right: list[dict[str, object]]
) -> None:
    text = "select (x.B, y.B) from x in L, y in R where x.A = y.A"
    expected = [
        (x["B"], y["B"]) for x, y in product(left, right) if x["A"] is not None and x["A"] == y["A"]
    ]
    assert value(text, tables(L=left, R=right)) == Bag(expected)


@given(ROWS)
def test_groups_are_those_of_a_dictionary(rows: list[dict[str, object]]) -> None:
    text = "select (x.A, x.B, count(x)) from x in R group by x.A, x.B"
    groups = Counter((row["A"], row["B"]) for row in rows)
    assert value(text, tables(R=rows)) == Bag([(a, b, n) for (a, b), n in groups.items()])


@given(ROWS, st.integers(0, 4))
def test_order_and_limit(rows: list[dict[str, object]], n: int) -> None:
    text = f"select (x.A, x.B) from x in R order by x.A desc limit {n}"
    pairs = [(row["A"], row["B"]) for row in rows]
    first = sorted(sort_values(pairs), key=lambda p: (p[0] is None, -(p[0] or 0)))
    assert value(text, tables(R=rows)) == first[:n]


@given(ROWS)
def test_several_sort_keys(rows: list[dict[str, object]]) -> None:
    text = "select (x.A, x.B) from x in R order by x.B desc, x.A"
    pairs = sort_values([(row["A"], row["B"]) for row in rows])
    pairs.sort(key=lambda p: (p[0] is not None, p[0] or 0))
    assert value(text, tables(R=rows)) == sorted(
        pairs, key=lambda p: (p[1] is not None, p[1] or ""), reverse=True
    )


@given(ROWS)
def test_distinct(rows: list[dict[str, object]]) -> None:
    answer = value("select distinct (x.A, x.B) from x in R", tables(R=rows))
    assert answer == Bag({(row["A"], row["B"]) for row in rows})


def test_registered_tuples_and_named_queries() -> None:
    pairs: Registered = {"P": (Tuple((INT, STRING)), [(1, "a"), (2, "b")])}
    text = "Q = select x from (x, *) in P; select (x, y) from x in Q, y in Q where x < y"
    assert answer_text(text, pairs) == "{ (1,2) }"


def test_a_named_query_does_not_see_where_it_is_used() -> None:
    assert answer_text("x = 5; q = x + 1; select (x, q) from x in {1}") == "{ (1,6) }"
