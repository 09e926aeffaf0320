"""Loops over streams of edges and points: the queries, random data, and the two sides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.errors import SourceText
from incmrql.plan.assembly import plan_items
from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import Input
from incmrql.plan.planner import plan_query
from incmrql.plan.program import LoopMode, LoopSettings, Program
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import DOUBLE, LONG, Tuple, Type
from incmrql.types.scope import Catalog
from incmrql.values import Value, identical, show
from tests.oracle.stepper import Stepper

ROWS: Final[dict[str, Type]] = {
    "E": Tuple((LONG, LONG)),
    "W": Tuple((LONG, LONG, LONG)),
    "P": Tuple((DOUBLE, DOUBLE)),
    "M": Tuple((LONG, LONG, DOUBLE)),
    "N": LONG,
}

REACHED = """repeat x = {1} step
  select distinct n from n in (x union (select b from (a, b) in E, a in x))"""
REACHED_FROM = """repeat x = (select distinct n from n in N) step
  select distinct n from n in (x union (select b from (a, b) in E, a in x))"""
SHORTEST = """repeat x = {(1, 0)} step
  select (n, min(d)) from (n, d) in
    (x union (select (b, d + w) from (a, b, w) in W, (a, d) in x)) group by n"""
COMPONENTS = """repeat x = (select distinct (n, n) from (a, b) in E, n in {a, b}) step
  select (n, min(c)) from (n, c) in
    (x union (select (b, c) from (a, b) in E, (a, c) in x)
       union (select (a, c) from (a, b) in E, (b, c) in x)) group by n"""
PAGERANK = """repeat x = (select distinct (n, 1.0) from (a, b) in E, n in {a, b})
  step select (b, 0.15 + 0.85 * sum(z)) from (a, b) in E, (a, r) in x,
         (a, k) in (select (a, count(b)) from (a, b) in E group by a), z = r / k
       group by b limit 4"""
PAGERANK_UNTIL = """repeat x = (select distinct (n, 1.0) from (a, b) in E, n in {a, b})
  step select ((n, s), abs(s - r) > 0.05) from (n, r) in x, (n, s) in
    (select (b, 0.15 + 0.85 * sum(z)) from (a, b) in E, (a, r) in x,
       (a, k) in (select (a, count(b)) from (a, b) in E group by a), z = r / k
       group by b) limit 6"""
COUNTDOWN = """repeat x = (select (n, n) from n in N) step
  select ((n, if m > 0 then m - 1 else m), m > 1) from (n, m) in x"""
MEANS = """repeat c = {(0.0, 0.0), (4.0, 4.0)} step
  select (avg(p#0), avg(p#1)) from p in P
  group by k: (select m from m in c
    order by (m#0 - p#0) * (m#0 - p#0) + (m#1 - p#1) * (m#1 - p#1) limit 1) limit 3"""
NEAREST = """repeat c = {(0.0, 0.0), (4.0, 4.0)} step
  select (avg(x), avg(y)) from (x, y) in P,
    d = min(select (m#0 - x) * (m#0 - x) + (m#1 - y) * (m#1 - y) from m in c),
    k in (select m from m in c where (m#0 - x) * (m#0 - x) + (m#1 - y) * (m#1 - y) = d)
  group by k limit 3"""
FACTORS = """repeat (u, v) = ((select (i, 1.0) from (i, j, m) in M group by i),
                    (select (j, 1.0) from (i, j, m) in M group by j))
  step ((select (i, avg(z) + avg(a)) from (i, j, m) in M, (i, a) in u, (j, b) in v,
           z = m - a * b group by i),
        (select (j, avg(z) + avg(b)) from (i, j, m) in M, (i, a) in u, (j, b) in v,
           z = m - a * b group by j))
  limit 3"""
GROWING = """repeat x = (select n from n in N) step
  select n from n in (x union (select b from (a, b) in E, a in x)) where n < 3 limit 2"""
COUNTED = """repeat x = {0} step select n + count(E) + count(N) from n in x limit 3"""
OUTSIDE = """repeat x = (select (n, 0) from n in N) step
  select (n, count(select b from (a, b) in E where a = n) + m) from (n, m) in x limit 3"""
ABSENT = """repeat x = (select distinct n from n in N) step
  select distinct n from n in x where not (some (a, b) in E: a = n and (some m in x: m = b))"""
TOTALS = """repeat x = (select (n, 1) from n in N) step
  select (n, m + total) from (n, m) in x, total = sum(select k from (o, k) in x) limit 3"""

EXACT: Final = {
    "reached": REACHED,
    "reached-from": REACHED_FROM,
    "shortest": SHORTEST,
    "components": COMPONENTS,
    "pagerank": PAGERANK,
    "pagerank-until": PAGERANK_UNTIL,
    "countdown": COUNTDOWN,
    "means": MEANS,
    "nearest": NEAREST,
    "factors": FACTORS,
    "growing": GROWING,
    "counted": COUNTED,
    "outside": OUTSIDE,
    "totals": TOTALS,
}
OTHERS: Final = {
    "nested": """repeat x = {1} step select distinct n from n in
      (repeat y = x step select distinct m from m in (y union (select b from (a, b) in E, a in y)))
      limit 2""",
    "first": "repeat x = {1} step select n from n in (x union (select b from (a, b) in E, a in x)) "
    "order by n limit 3 limit 2",
}

Batch = dict[str, list[tuple[Value, int]]]


class Loops:
    """A loop over streams that are pushed: stepper and evaluator side by side."""

    def __init__(
        self,
        text: str,
        iterate: LoopMode = "exact",
        rows: Mapping[str, Type] = ROWS,
        max_steps: int = 10_000,
        functions: Mapping[str, typed.PythonFunction] | None = None,
    ) -> None:
        registered = {name: (row, True) for name, row in rows.items()}
        self.text, self.max_steps = text, max_steps
        catalog = Catalog((), registered=registered, functions=functions or {})
        self.script = infer_script(parse_script(SourceText(f"{text};")), catalog)
        self.item = self.script.items[-1]
        self.data = {name: Weighted() for name in rows}
        self.normal, _ = normal_form(translate(self.item.expr, self.script))
        self.plan = plan_query(self.normal, self.script)
        self.iterate: LoopMode = iterate
        self.stepper = Stepper(self.plan, self.env(), iterate)
        self.names = {node.name for node in self.plan.nodes if isinstance(node, Input)}

    def program(self, iteration: LoopSettings) -> Program:
        """The program of the loop."""
        planned_items = plan_items([self.item], [self.normal], [None], self.script)
        return planned_items.program(iteration=iteration)

    def again(self) -> Loops:
        """The same loop before its first batch."""
        self.data = {name: Weighted() for name in self.data}
        self.stepper = Stepper(self.plan, self.env(), self.iterate)
        return self

    def env(self) -> Environment:
        bags = {name: rows.bag() for name, rows in self.data.items()}
        world = new_world(self.script, registered=bags)
        world.max_steps = self.max_steps
        return Environment(world)

    def evaluator_answer(self) -> Value:
        return evaluate(self.item.expr, self.env())

    def step(self, batch: Batch) -> Weighted:
        """One batch: the answer must be that of all the data so far."""
        known = {name: rows for name, rows in batch.items() if name in self.names}
        change = self.stepper.step(known)
        for name, rows in batch.items():
            self.data[name].merge(Weighted(rows))
        expected, got = self.evaluator_answer(), self.stepper.answer()
        assert identical(expected, got), f"{self.text}\n{show(expected)}\n{show(got)}"
        return change


def _rows(type_: Type) -> st.SearchStrategy[Value]:
    if isinstance(type_, Tuple):
        return st.tuples(*map(_rows, type_.items))
    if type_ == DOUBLE:
        return st.sampled_from([0.0, 1.0, 0.5, 3.25, 4.0, -2.0])
    return st.integers(0, 5)


@st.composite
def histories(draw: st.DrawFn, most: int = 5) -> list[Batch]:
    """Batches of rows that come, and that go again."""
    there: dict[str, list[Value]] = {name: [] for name in ROWS}
    batches: list[Batch] = []
    for _ in range(draw(st.integers(1, most))):
        batch: Batch = {}
        for name, type_ in ROWS.items():
            gone = draw(st.integers(0, min(2, len(there[name]))))
            rows = [
                (there[name].pop(draw(st.integers(0, len(there[name]) - 1))), -1)
                for _ in range(gone)
            ]
            fresh = draw(st.lists(_rows(type_), max_size=4))
            there[name] += fresh
            batch[name] = [*rows, *[(row, 1) for row in fresh]]
        batches.append(batch)
    return batches
