"""The types of queries: what the names mean before and after grouping, aggregates, loops."""

from __future__ import annotations

import pytest

from incmrql.types import typed
from tests.types.inference import infer, type_of

ITEM = "< v: int, w: double >"
ROW = "< A: int, B: int, C: double, S: string >"

SELECTS = [
    ("select x from x in R;", f"{{{ROW}}}"),
    ("select distinct x.A from x in R;", "{int}"),
    ("select (x.K, y.v) from x in N, y in x.items;", "{(int, int)}"),
    ("select (x, i) from (x, i) in P;", "{(int, string)}"),
    ("select (a, b) from (a, i) in P, (b, i) in P;", "{(int, int)}"),
    ("select a from (a, i) in {(1, 2)}, i in {2.5};", "{int}"),
    ("select a from <A: a, S: 'x'> in R;", "{int}"),
    ("select 1 from * in R;", "{int}"),
    ("select s from (1, s) in P;", "{string}"),
    ("select y from x in R, y = x.A + 1.5;", "{double}"),
    ("select y from x in R, (y, *) = (x.A, x.B) where y > 1;", "{int}"),
    ("select x from x in 1..3;", "{long}"),
    ("select x from x in {};", "{null}"),
    ("select x from x in null;", "{null}"),
    ("select x.A from x in R order by x.B;", "[int]"),
    ("select x.A from x in R order by x.B desc, x.A asc limit 3;", "[int]"),
    ("select x.A from x in R limit 3L;", "{int}"),
    ("select (select y.A from y in R where y.A = x.A) from x in R;", "{{int}}"),
    ("select x from x in (select y from y in (select z.A from z in R));", "{int}"),
    ("select x from x in R where exists (select y from y in R where y.A = x.B);", f"{{{ROW}}}"),
    ("select x.A from x in R where x.B = count(select y from y in R where y.A = x.A);", "{int}"),
    ("select x from x in source(R);", f"{{{ROW}}}"),
    ("select x from x in (select x.A from x in R where x.A > 1);", "{int}"),
    ("let x = 'a' in (select x from x in {1});", "{int}"),
    ("let x = {1} in (select x from x in x);", "{int}"),
]

GROUPS = [
    ("select (k, count(x)) from x in R group by k: x.A;", "{(int, long)}"),
    ("select x from x in R group by k: x.A;", f"{{{{{ROW}}}}}"),
    ("select x.B from x in R group by k: x.A;", "{{int}}"),
    ("select (a, b, sum(x.C)) from x in R group by (a, b): (x.A, x.B);", "{(int, int, double)}"),
    ("select (a, b, sum(x.C)) from x in R group by a: x.A, b: x.B;", "{(int, int, double)}"),
    ("select (i, sum(x)) from (x, i) in P group by i;", "{(string, long)}"),
    ("select (x, i) from (x, i) in P group by (x, i);", "{(int, string)}"),
    ("select (x.A, sum(x.B)) from x in R group by x.A;", "{(int, long)}"),
    ("select (x.A, x.B, sum(x.C)) from x in R group by x.A, x.B;", "{(int, int, double)}"),
    ("select (x.A, x.B, sum(x.C)) from x in R group by (x.A, x.B);", "{(int, int, double)}"),
    ("select x.A + 1 from x in R group by x.A;", "{int}"),
    ("select (x.A + 1) * 2 from x in R group by x.A + 1;", "{int}"),
    ("select x.A from x in R group by x.A + 1;", "{{int}}"),
    ("select k from x in R group by k: x.A having count(x) > 1 and k > 2;", "{int}"),
    ("select x.A from x in R group by x.A having x.A > 2 and sum(x.B) > 1;", "{int}"),
    ("select x.A from x in R group by x.A order by x.A, count(x) desc;", "[int]"),
    ("select x + 1 from x in R group by x: x.A;", "{int}"),
    ("select partition from x in R, (a, *) in P group by k: x.A;",
     f"{{{{< x: {ROW}, a: int >}}}}"),
    ("select partition.x.A from x in R group by k: x.B;", "{{int}}"),
    ("select partition from partition in R group by k: partition.A;", f"{{{{{ROW}}}}}"),
    ("select 1 from * in R group by k: 1;", "{int}"),
    ("select c from c in (select count(x) from x in R group by k: x.A) group by c;", "{long}"),
    ("select (k, (select y.B from y in x)) from x in R group by k: x.A;", "{(int, {int})}"),
    ("select (k, (select max(y.C) from y in x group by j: y.B)) from x in R group by k: x.A;",
     "{(int, {double})}"),
    ("select k from x in R group by k: (select y.B from y in R where y.A = x.A);", "{{int}}"),
    ("select (select y from y in {x.A}) from x in R group by x.A;", "{{int}}"),
    # The inner x is another variable, so its x.A is not the key.
    ("select (select x.A from x in {<A: 'a'>}) from x in R group by x.A;", "{{string}}"),
    ("select (x.A, (let x = <A: 'a'> in x.A)) from x in R group by x.A;", "{(int, string)}"),
    ("select (x.A, (case <A: 'a'> { x: x.A })) from x in R group by x.A;", "{(int, string)}"),
    ("select all x in {<A: 'a'>}: x.A = 'a' from x in R group by x.A;", "{bool}"),
    ("select (select x.A from x in x) from x in R group by x.B;", "{{int}}"),
    ("select (select (x.A, y.A) from y in R group by y.A) from x in R group by x.A;",
     "{{(int, int)}}"),
    ("let y = <A: 1> in (select (x.A, y.A) from x in R group by x.A);", "{(int, int)}"),
    ("let y = 2 in (select count(x) from x in R group by k: x.A limit y);", "{long}"),
]  # fmt: skip

QUANTIFIERS = [
    ("some x in R: x.A > 1;", "bool"),
    ("all x in R, y in P: x.A = y#0;", "bool"),
    ("some(select x.A > 1 from x in R);", "bool"),
    ("all({true, null});", "bool"),
    ("some (x, *) in P: x = 1;", "bool"),
    ("select x from x in R where some y in N: some i in y.items: i.v = x.A;", f"{{{ROW}}}"),
]

AGGREGATES = [
    ("count(R);", "long"),
    ("count({});", "long"),
    ("sum(R.A);", "long"),
    ("sum(R.C);", "double"),
    ("sum({});", "long"),
    ("sum([1, null]);", "long"),
    ("sum(V.f);", "double"),
    ("sum(V.s);", "long"),
    ("sum(V.d);", "decimal(20,2)"),
    ("avg(R.A);", "double"),
    ("avg(V.d);", "decimal(14,6)"),
    ("avg({});", "double"),
    ("min(R.A);", "int"),
    ("max(R.S);", "string"),
    ("max(R);", ROW),
    ("min({});", "null"),
    ("max({(1, 'a')});", "(int, string)"),
    ("min(1, 2.5);", "double"),
    ("max('a', null);", "string"),
    ("some({true});", "bool"),
    ("all(select x.A > 1 from x in R);", "bool"),
    ("variance(R.A);", "double"),
    ("stddev(R.C);", "double"),
    ("median(R.A);", "double"),
    ("median(V.d);", "double"),
    ("percentile(R.A, 0.9);", "double"),
    ("percentile(R.C, 1);", "double"),
    ("first(R.S);", "string"),
    ("collect([1]);", "{int}"),
    (r"fold(\(s: string, x: int): string. s + string(x), '', R.A);", "string"),
    (r"fold(\(s: double, x: double): double. s + x, 0, {1, 2});", "double"),
    ("function add(a: long, b: int): long { a + b }; fold(add, 0, R.A);", "long"),
]

BUILTINS = [
    ("abs(-1);", "int"),
    ("abs(1L);", "long"),
    ("abs(1.5);", "double"),
    ("elem(select abs(v.d) from v in V);", "decimal(10,2)"),
    ("elem(select abs(v.s) from v in V);", "int"),
    *[(f"{name}(1);", "double") for name in (
        "sin", "cos", "tan", "asin", "acos", "atan", "sqrt", "log", "exp", "ceil", "floor",
        "rint")],
    ("pow(2, 3);", "double"),
    ("round(1.5);", "long"),
    ("round(1);", "long"),
    ("round(1.55, 1);", "double"),
    ("elem(select round(v.d) from v in V);", "long"),
    ("elem(select round(v.d, 1) from v in V);", "decimal(10,2)"),
    ("random(10);", "long"),
    ("contains('ab', 'a');", "bool"),
    ("startsWith('ab', 'a');", "bool"),
    ("endsWith('ab', 'a');", "bool"),
    ("matches('ab', 'a.*');", "bool"),
    ("length('ab');", "int"),
    ("substring('ab', 1);", "string"),
    ("select x from (x, NaN) in {(1, NaN), (2, 1.0)};", "{int}"),
    ("case elem(V).f { NaN: 1 | Infinity: 2 | -Infinity: 3 };", "int"),
    ("substring('ab', 1L);", "string"),
    ("substring('ab', 0, count(R));", "string"),
    ("round(1.5, count(R));", "double"),
    ("round(decimal('1.55'), 1L);", "decimal(3,2)"),
    ("date_add(date('2026-01-31'), sum(R.A));", "date"),
    ("substring('ab', 0, 1);", "string"),
    ("replace('ab', 'a', 'b');", "string"),
    ("replaceAll('ab', 'a', 'b');", "string"),
    ("replaceFirst('ab', 'a', 'b');", "string"),
    ("toLowerCase('A');", "string"),
    ("toUpperCase('A');", "string"),
    ("trim(' A ');", "string"),
    ("split('a,b', ',');", "[string]"),
    ("concat('a', 'b');", "string"),
    ("concat('a', 'b', 'c', null);", "string"),
    ("date('2026-01-31');", "date"),
    ("date(2026, 1, 31);", "date"),
    ("date(timestamp('2026-01-31T10:00:00Z'));", "date"),
    ("timestamp(date('2026-01-31'));", "timestamp"),
    *[(f"{name}(date('2026-01-31'));", "int") for name in ("year", "month", "day")],
    *[(f"{name}(timestamp('2026-01-31T10:00:00Z'));", "int") for name in (
        "year", "month", "day", "hour", "minute", "second")],
    ("date_add(date('2026-01-31'), 1);", "date"),
    ("date_add(timestamp('2026-01-31T10:00:00Z'), 1);", "timestamp"),
    ("date_diff(date('2026-01-31'), date('2026-01-30'));", "int"),
    ("date_trunc('month', date('2026-01-31'));", "date"),
    ("date_trunc('hour', timestamp('2026-01-31T10:00:00Z'));", "timestamp"),
    ("member(1, {1.5});", "bool"),
    ("member(1, {});", "bool"),
    ("elem(R);", ROW),
    ("elem([1]);", "int"),
    ("distinct([1, 1]);", "{int}"),
    ("sort({2, 1});", "[int]"),
    ("reverse([2, 1]);", "[int]"),
    ("flatten({[1], [2]});", "{int}"),
    ("flatten([[1], [2]]);", "[int]"),
    ("flatten(N.items);", f"{{{ITEM}}}"),
    ("zip([1], {'a'});", "[(int, string)]"),
    ("index({'a'});", "[(string, long)]"),
    ("range(1, 3);", "[long]"),
    ("inv(1);", "int"),
    ("exists(R);", "bool"),
    ("shout('a');", "string"),
]  # fmt: skip

LOOPS = [
    ("repeat x = 1 step x + 1 limit 3;", "int"),
    ("repeat x = 1 step x * 1.5 limit 3;", "double"),
    ("repeat x = 1 step x + 1L limit 3;", "long"),
    ("repeat x = {} step x union {1} limit 3;", "{int}"),
    ("repeat x = {1} step (select y + 1.5 from y in x) limit 3;", "{double}"),
    ("repeat x = {1} step (select (y + 1, y < 5) from y in x);", "{int}"),
    ("repeat x = {1} step (select (y + 1.5, y < 5) from y in x) limit 9;", "{double}"),
    ("repeat x = {(1, true)} step (select (a, not b) from (a, b) in x) limit 2;", "{(int, bool)}"),
    ("repeat x = R step select y from y in x where y.A > 1;", f"{{{ROW}}}"),
    ("repeat (x, y) = (1, {}) step (x + 1.5, y union {x}) limit 3;", "(double, {double})"),
    ("repeat (x, y) = ({1}, 2) step ((select (a, a < y) from a in x), y) limit 3;", "({int}, int)"),
    ("let t = (1, 2.5) in repeat (x, y) = t step (x, y) limit 1;", "(int, double)"),
    ("repeat x = [1] step (select y from y in x) limit 2;", "{int}"),
    ("select (repeat y = x.A step y + 1 limit x.B) from x in R;", "{int}"),
]


@pytest.mark.parametrize(
    ("script", "type_"),
    [*SELECTS, *GROUPS, *QUANTIFIERS, *AGGREGATES, *BUILTINS, *LOOPS],
)
def test_type(script: str, type_: str) -> None:
    assert type_of(script) == type_


def select_of(text: str) -> typed.Select:
    query = infer(text).items[-1].expr
    assert isinstance(query, typed.Select)
    return query


def test_a_plain_key_stands_for_the_key_wherever_it_is_written_in_the_group() -> None:
    query = select_of("select (x.A, -x.A) from x in R group by x.A having x.A > 1 order by x.A;")
    assert query.group is not None
    (pattern,) = query.group.patterns
    assert isinstance(pattern, typed.Bind)
    key = typed.Var(pattern.variable, type=pattern.variable.type)
    assert query.head == typed.MakeTuple(
        (key, typed.Negate(key, type=key.type)), type=query.head.type
    )
    assert query.order[0].expr == key


def test_a_variable_that_occurs_twice_is_a_condition_between_two() -> None:
    query = select_of("select a from (a, i) in P, (b, i) in P;")
    first, second, condition = query.qualifiers
    assert isinstance(first, typed.Generator)
    assert isinstance(second, typed.Generator)
    assert isinstance(condition, typed.Condition)
    assert isinstance(condition.condition, typed.Compare)


def test_a_variable_of_an_inner_query_hides_the_outer_one() -> None:
    query = select_of("select (select x from x in {1}) from x in R where x.A = 1;")
    assert isinstance(query.head, typed.Select)
    assert len(query.head.qualifiers) == 1


def test_flags_are_told_from_rows() -> None:
    flagged = infer("repeat x = {1} step (select (y, y < 5) from y in x);").items[0].expr
    plain = infer("repeat x = {(1, true)} step x limit 2;").items[0].expr
    assert isinstance(flagged, typed.Repeat)
    assert isinstance(plain, typed.Repeat)
    assert (flagged.flagged, plain.flagged) == ((True,), (False,))
