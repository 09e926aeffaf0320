"""From clauses are joined in an order in which equalities connect each join to those before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.errors import SourceText
from incmrql.plan.explain.text import show_plan
from incmrql.plan.nodes import Join, Plan, is_unit
from incmrql.plan.planner import plan_query
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import DATE, DOUBLE, INT, STRING, Record, Type
from incmrql.types.scope import Catalog
from incmrql.values import Bag, identical, show
from tests import golden
from tests.algebra.evaluating import evaluate_query
from tests.effort import fewer
from tests.generators.tables import tables
from tests.plan.stepping import ALL, Run, histories, query_plan, typed_script

GOLDEN = Path(__file__).with_name("join_order.golden")


def cross_products(plan: Plan) -> int:
    return sum(isinstance(node, Join) and is_unit(node.key) for node in plan.nodes)


# --- by name ---------------------------------------------------------------------------------


def joins(text: str, _args: Mapping[str, str]) -> str:
    """What flows where, and by what key."""
    lines = show_plan(query_plan(text)).splitlines()
    return "\n".join(line for line in lines if re.match(r" +(\d+: |key |warning)", line))


def test_joins_are_connected(update_golden: bool) -> None:
    golden.check(GOLDEN, {"joins": joins}, update=update_golden)


CONNECTED = {
    "the middle one last": "select x from x in R, y in S, z in R where x.A = z.B and z.C = y.D",
    "a chain from its end": "select x from x in R, y in R, z in R, w in R "
    "where w.A = z.A and z.B = y.B and w.B = x.A",
    "a key of what is computed": "select x from x in R, y in S, (k, t) in "
    "(select (z.A % 3, z.T) from z in S) where k = x.A and t = y.T",
    "a key that a function computes": "function f(n: int): int { n * n }; "
    "select x from x in R, k in (select f(z.A) from z in S) where k = x.A",
    "the elements of a row between": "select x from x in N, y in S, i in x.items where i.v = y.A",
    "elements of rows on both sides":
        "select x from x in N, i in x.items, y in N, j in y.items where i.v = j.v",
    "a key of elements of elements, by a name": "select x from x in R, y in N, "
        "l in [y.items], i in l, k = i.v + 1 where k = x.A",
    "a common condition of all choices": "select x from x in R, y in S where "
    "(x.A = y.A and x.B > 1) or (x.B < 3 and x.A = y.A and y.D > 2.0)",
    "choices in choices": "select x from x in R, y in S where "
    "(x.A = y.A and x.B > 1) or ((x.A = y.A and x.B = 1) or (x.A = y.A and x.B = 3))",
    "two keys at once": "select x from x in R, y in S, z in R where x.A = z.A and x.A + z.B = y.A",
    "a sub-query over three": "select x from x in R where exists "
    "(select y from y in S, z in R, w in S where w.A = x.A and z.A = w.A and y.D = z.C)",
    "over a group": "select x from x in R, y in S, (k, n) in "
    "(select (k, count(z)) from z in R group by k: z.A) where k = x.A and n = y.A",
}  # fmt: skip


@pytest.mark.parametrize("name", CONNECTED)
def test_no_join_is_a_cross_product(name: str) -> None:
    assert cross_products(query_plan(CONNECTED[name])) == 0


@pytest.mark.parametrize("name", CONNECTED)
@fewer
@given(data=st.data())
def test_answers_follow_connected_joins(name: str, data: st.DataObject) -> None:
    run = Run(CONNECTED[name])
    for batch in data.draw(histories(tables(), ALL)):
        run.step(batch)


UNCONNECTED = {
    "nothing connects": "select x from x in R, y in S, z in R where x.A = z.A",
    "an inequality": "select x from x in R, y in S where x.A < y.A",
    "one of the choices": "select x from x in R, y in S where x.A = y.A or x.B = y.A",
    "not all choices": "select x from x in R, y in S where (x.A = y.A and x.B = 1) or x.B = y.A",
    "a correlation that is no equality": "select x from x in R where exists "
    "(select y from y in S, z in R, w in S where w.A < x.A and z.A = w.A and y.D = z.C)",
    "negated": "select x from x in R, y in S where not (x.A <> y.A)",
    "random": "select x from x in R, y in S where x.A = y.A + (random(2) as int)",
}


@pytest.mark.parametrize("name", UNCONNECTED)
def test_a_cross_product_stays_where_nothing_connects(name: str) -> None:
    script = typed_script(f"{UNCONNECTED[name]};", ())
    plan = plan_query(normal_form(translate(script.items[0].expr, script))[0], script)
    assert cross_products(plan) == 1


def test_random_domains_keep_the_order_of_the_text() -> None:
    """Otherwise another number of random values is drawn."""
    text = (
        "select x from x in R, y in S, n in 1 ... {}, z in R "
        "where x.A = z.A and z.B = y.A and n = y.A"
    )
    kept, changed = (planned_batch(text.format(n)) for n in ("(random(3) as long)", "3"))
    assert cross_products(kept) == 1
    assert cross_products(changed) == 0


def planned_batch(text: str) -> Plan:
    script = typed_script(f"{text};", ())
    return plan_query(normal_form(translate(script.items[0].expr, script))[0], script)


# --- random from clauses -----------------------------------------------------------------------

FIELDS: Final = {"R": ("A", "B"), "S": ("A",)}


@st.composite
def from_clauses(draw: st.DrawFn) -> tuple[str, int]:
    """A query over some tables, and how many parts its equalities do not connect."""
    count = draw(st.integers(2, 5))
    domains = [draw(st.sampled_from(("R", "R", "S"))) for _ in range(count)]
    groups = list(range(count))
    conditions: list[str] = []

    def field(n: int) -> str:
        return f"x{n}.{draw(st.sampled_from(FIELDS[domains[n]]))}"

    for _ in range(draw(st.integers(0, count + 1))):
        one, other = (draw(st.integers(0, count - 1)) for _ in range(2))
        equality = f"{field(one)} = {field(other)}"
        kind = draw(st.sampled_from(("plain", "plain", "plain", "choices", "local", "or")))
        if kind == "local":
            conditions.append(f"{field(one)} > 0")
            continue
        if kind == "or":
            conditions.append(f"({equality} or {field(one)} = 1)")
            continue
        if kind == "choices":
            parts = [f"{equality} and {field(draw(st.integers(0, count - 1)))} < 2" for _ in "ab"]
            equality = f"({parts[0]} or {parts[1]})"
        conditions.append(equality)
        groups = [groups[one] if g == groups[other] else g for g in groups]
    binds = [f"x{n} in {name}" for n, name in enumerate(domains)]
    where = f" where {' and '.join(draw(st.permutations(conditions)))}" if conditions else ""
    head = ", ".join(f"x{n}.A" for n in range(count))
    return f"select ({head}) from {', '.join(binds)}{where}", len(set(groups))


@given(clause=from_clauses(), data=tables())
def test_as_few_cross_products_as_there_are_parts(
    clause: tuple[str, int], data: dict[str, Bag]
) -> None:
    text, parts = clause
    script = typed_script(f"{text};")
    query = translate(script.items[0].expr, script)
    plan = plan_query(normal_form(query)[0], script)
    assert cross_products(plan) < parts
    assert cross_products(plan_query(query, script)) < parts
    small = {name: Bag(rows[:4]) for name, rows in data.items()}
    env = Environment(new_world(script, registered=small))
    expected = evaluate(script.items[0].expr, env)
    for variant in (query, normal_form(query)[0]):
        got = evaluate_query(variant, env)
        assert identical(expected, got), f"{text}\n{show(expected)}\n{show(got)}"


# --- TPC-H -------------------------------------------------------------------------------------

KEYS = {"regionkey", "nationkey", "custkey", "suppkey", "partkey", "orderkey", "size", "quantity",
        "availqty", "linenumber"}  # fmt: skip
MONEY = {"acctbal", "retailprice", "supplycost", "totalprice", "extendedprice", "discount", "tax"}
COLUMNS: Final = {
    "region": "regionkey name comment",
    "nation": "nationkey name regionkey comment",
    "supplier": "suppkey name address nationkey phone acctbal comment",
    "customer": "custkey name address nationkey phone acctbal mktsegment comment",
    "part": "partkey name mfgr brand type size container retailprice comment",
    "partsupp": "partkey suppkey availqty supplycost comment",
    "orders": "orderkey custkey orderstatus totalprice orderdate orderpriority clerk",
    "lineitem": "orderkey partkey suppkey linenumber quantity extendedprice discount tax "
    "returnflag linestatus shipdate commitdate receiptdate shipinstruct shipmode",
}


def type_of(column: str) -> Type:
    if column in KEYS:
        return INT
    if column in MONEY:
        return DOUBLE
    return DATE if column.endswith("date") else STRING


CATALOG: Final = Catalog(
    registered={
        table: (Record(tuple((name, type_of(name)) for name in columns.split())), True)
        for table, columns in COLUMNS.items()
    }
)

TPCH: Final = {
    1: "select l from l in lineitem where l.shipdate <= l.commitdate",
    2: "select (s, p) from p in part, s in supplier, ps in partsupp, n in nation, r in region "
    "where p.partkey = ps.partkey and s.suppkey = ps.suppkey and p.size = 15 "
    "and s.nationkey = n.nationkey and n.regionkey = r.regionkey and r.name = 'EUROPE' "
    "and ps.supplycost = min(select q.supplycost from q in partsupp, t in supplier, m in nation, "
    "g in region where p.partkey = q.partkey and t.suppkey = q.suppkey "
    "and t.nationkey = m.nationkey and m.regionkey = g.regionkey and g.name = 'EUROPE')",
    3: "select (o, l) from c in customer, o in orders, l in lineitem where c.mktsegment = 'A' "
    "and c.custkey = o.custkey and l.orderkey = o.orderkey",
    4: "select o from o in orders where exists (select l from l in lineitem "
    "where l.orderkey = o.orderkey and l.commitdate < l.receiptdate)",
    5: "select n from c in customer, o in orders, l in lineitem, s in supplier, n in nation, "
    "r in region where c.custkey = o.custkey and l.orderkey = o.orderkey "
    "and l.suppkey = s.suppkey and c.nationkey = s.nationkey and s.nationkey = n.nationkey "
    "and n.regionkey = r.regionkey and r.name = 'ASIA'",
    6: "select l from l in lineitem where l.quantity < 24",
    7: "select l from s in supplier, l in lineitem, o in orders, c in customer, n in nation, "
    "m in nation where s.suppkey = l.suppkey and o.orderkey = l.orderkey "
    "and c.custkey = o.custkey and s.nationkey = n.nationkey and c.nationkey = m.nationkey "
    "and ((n.name = 'A' and m.name = 'B') or (n.name = 'B' and m.name = 'A'))",
    8: "select l from p in part, s in supplier, l in lineitem, o in orders, c in customer, "
    "n in nation, m in nation, r in region where p.partkey = l.partkey "
    "and s.suppkey = l.suppkey and l.orderkey = o.orderkey and o.custkey = c.custkey "
    "and c.nationkey = n.nationkey and n.regionkey = r.regionkey and r.name = 'AMERICA' "
    "and s.nationkey = m.nationkey and p.type = 'STEEL'",
    9: "select l from p in part, s in supplier, l in lineitem, ps in partsupp, o in orders, "
    "n in nation where s.suppkey = l.suppkey and ps.suppkey = l.suppkey "
    "and ps.partkey = l.partkey and p.partkey = l.partkey and o.orderkey = l.orderkey "
    "and s.nationkey = n.nationkey",
    10: "select c from c in customer, o in orders, l in lineitem, n in nation "
    "where c.custkey = o.custkey and l.orderkey = o.orderkey and l.returnflag = 'R' "
    "and c.nationkey = n.nationkey",
    11: "select ps from ps in partsupp, s in supplier, n in nation where ps.suppkey = s.suppkey "
    "and s.nationkey = n.nationkey and ps.supplycost > sum(select q.supplycost "
    "from q in partsupp, t in supplier, m in nation where q.suppkey = t.suppkey "
    "and t.nationkey = m.nationkey)",
    12: "select l from o in orders, l in lineitem where o.orderkey = l.orderkey "
    "and l.shipdate < l.commitdate",
    13: "select (c.custkey, count(select o from o in orders where o.custkey = c.custkey)) "
    "from c in customer",
    14: "select l from l in lineitem, p in part where l.partkey = p.partkey",
    15: "revenue = select < no: k, total: sum(l.extendedprice) > from l in lineitem "
    "group by k: l.suppkey; select s from s in supplier, r in revenue "
    "where s.suppkey = r.no and r.total = max(revenue.total)",
    16: "select p from ps in partsupp, p in part where p.partkey = ps.partkey "
    "and not member(ps.suppkey, (select s.suppkey from s in supplier where s.comment = 'no'))",
    17: "select l from l in lineitem, p in part where p.partkey = l.partkey "
    "and (l.quantity as double) < 0.2 * avg(select m.quantity from m in lineitem "
    "where m.partkey = p.partkey)",
    18: "select (c, o, l) from c in customer, o in orders, l in lineitem "
    "where member(o.orderkey, (select k from m in lineitem group by k: m.orderkey "
    "having sum(m.quantity) > 300)) and c.custkey = o.custkey and o.orderkey = l.orderkey",
    19: "select l from l in lineitem, p in part where "
    "(p.partkey = l.partkey and p.brand = 'A' and l.quantity < 11) or "
    "(p.partkey = l.partkey and p.brand = 'B' and l.quantity < 20) or "
    "(p.partkey = l.partkey and p.brand = 'C' and l.quantity < 30)",
    20: "select s from s in supplier, n in nation where member(s.suppkey, "
    "(select ps.suppkey from ps in partsupp where member(ps.partkey, "
    "(select p.partkey from p in part where p.name = 'forest')) "
    "and (ps.availqty as double) > 0.5 * sum(select (l.quantity as double) from l in lineitem "
    "where l.partkey = ps.partkey and l.suppkey = ps.suppkey))) "
    "and s.nationkey = n.nationkey and n.name = 'CANADA'",
    21: "select s from s in supplier, l in lineitem, o in orders, n in nation "
    "where s.suppkey = l.suppkey and o.orderkey = l.orderkey and o.orderstatus = 'F' "
    "and l.receiptdate > l.commitdate and exists (select m from m in lineitem "
    "where m.orderkey = l.orderkey and m.suppkey <> l.suppkey) "
    "and not exists (select m from m in lineitem where m.orderkey = l.orderkey "
    "and m.suppkey <> l.suppkey and m.receiptdate > m.commitdate) "
    "and s.nationkey = n.nationkey",
    22: "select c from c in customer where c.acctbal > avg(select d.acctbal from d in customer "
    "where d.acctbal > 0.0) and not exists (select o from o in orders "
    "where o.custkey = c.custkey)",
}
"""The from and where clauses of the benchmark's 22 queries, in the order of its texts."""


def tpch(number: int) -> Plan:
    script = infer_script(parse_script(SourceText(f"{TPCH[number]};")), CATALOG)
    return plan_query(normal_form(translate(script.items[-1].expr, script))[0], script)


@pytest.mark.parametrize("number", TPCH)
def test_no_query_of_tpch_is_joined_by_a_cross_product(number: int) -> None:
    assert cross_products(tpch(number)) == 0


def test_the_revenue_of_query_15_is_computed_once() -> None:
    assert [name for name, _ in tpch(15).views] == ["revenue"]
