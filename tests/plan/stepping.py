"""Queries as plans, run by the stepper, against the reference evaluator at every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import TypeAlias

from hypothesis import strategies as st

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.errors import SourceText
from incmrql.plan.assembly import plan_items, program_of
from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import Groups, Input, Node, Plan
from incmrql.plan.planner import plan_query
from incmrql.plan.program import LoopSettings, Program
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.scope import Catalog
from incmrql.values import Bag, Record, Value, identical, show
from tests.generators.tables import TABLES, values
from tests.oracle.stepper import Stepper

Batch: TypeAlias = Mapping[str, Sequence[tuple[Value, int]]]
Tables: TypeAlias = dict[str, Bag]

ALL = frozenset(TABLES)
EMPTY: Tables = {name: Bag() for name in TABLES}


def r(a: int | None, b: int | None = 0, c: float | None = 0.0, s: str = "") -> Record:
    """A row of R."""
    return Record({"A": a, "B": b, "C": c, "S": s})


def s(a: int | None, d: float | None = 0.0, t: str = "") -> Record:
    """A row of S."""
    return Record({"A": a, "D": d, "T": t})


def typed_script(text: str, streams: Collection[str] = ALL) -> typed.Script:
    registered = {name: (row, name in streams) for name, row in TABLES.items()}
    return infer_script(parse_script(SourceText(text)), Catalog((), registered=registered))


def query_plan(text: str, streams: Collection[str] = ALL) -> Plan:
    """The plan of a query."""
    script = typed_script(f"{text};", streams)
    return plan_query(normal_form(translate(script.items[-1].expr, script))[0], script)


class Run:
    """A query over streams: stepper and evaluator side by side."""

    def __init__(
        self,
        text: str,
        streams: Collection[str] = ALL,
        tables: Tables | None = None,
        *,
        normal: bool = True,
    ) -> None:
        self.text = text
        self.script = typed_script(text if text.endswith(";") else f"{text};", streams)
        self.tables = {**EMPTY, **(tables or {})}
        self.data = weighted_tables(self.tables)
        self.stored: dict[str, Value] = {}
        self.item = self.script.items[-1]
        env = self.env()
        for item in self.script.items[:-1]:
            if item.kind == "store-value":
                self.stored[item.target] = evaluate(item.expr, env)
                env = self.env()
        query = translate(self.item.expr, self.script)
        self.normal = normal_form(query)[0] if normal else None
        self.plan = plan_query(self.normal or query, self.script)
        self.start = env
        self.stepper = Stepper(self.plan, env)
        self.seen: Weighted | None = None

    def program(self, iteration: LoopSettings | None = None, *, watch: bool = False) -> Program:
        """The program of the query, with the normal form that is known already."""
        if watch or self.normal is None:
            return program_of(
                [self.item], self.script, stored=self.stored, iteration=iteration, watch=watch
            )
        planned_items = plan_items([self.item], [self.normal], [None], self.script)
        return planned_items.program((), self.stored, iteration)

    def fresh(self, tables: Tables | None = None) -> Run:
        """The same query before its first batch, maybe over other tables."""
        other = copy(self)
        other.tables = {**self.tables, **(tables or {})}
        other.data, other.seen = weighted_tables(other.tables), None
        other.start = other.env()
        other.stepper = Stepper(self.plan, other.start)
        return other

    def again(self, batches: Sequence[Batch]) -> Stepper:
        """The same plan from the start, over other batches."""
        stepper = Stepper(self.plan, self.start)
        for batch in batches:
            stepper.step(self.restrict(batch))
        return stepper

    def restrict(self, batch: Batch) -> Batch:
        """A batch without the streams that the query does not read."""
        read = {node.name for node in self.plan.nodes if isinstance(node, Input)}
        return {name: rows for name, rows in batch.items() if name in read}

    def env(self) -> Environment:
        """A world with the data so far."""
        data = {name: rows.bag() for name, rows in self.data.items()}
        return Environment(new_world(self.script, registered=data, stored=dict(self.stored)))

    def evaluator_answer(self) -> Value:
        return evaluate(self.item.expr, self.env())

    def step(self, batch: Batch) -> Weighted:
        """One batch: the answer must be right, and the changes add up to it."""
        change = self.stepper.step(self.restrict(batch))
        for name, rows in batch.items():
            self.data[name].merge(Weighted(rows))
        expected, got = self.evaluator_answer(), self.stepper.answer()
        assert identical(expected, got), f"{self.text}\n{show(expected)}\n{show(got)}"
        self._add_up(change, got)
        return change

    def _add_up(self, change: Weighted, got: Value) -> None:
        self.seen = self.seen or Weighted()
        self.seen.merge(change)
        if isinstance(self.plan.result, typed.Var):
            assert self.seen == Weighted((row, 1) for row in got)
        else:
            assert self.seen == Weighted([(got, 1)])


@lru_cache
def planned_run(text: str, streams: frozenset[str] = ALL) -> Run:
    return Run(text, streams)


def rows_of(name: str, most: int) -> st.SearchStrategy[Bag]:
    """Rows with few values, so that many agree."""
    row = values(TABLES[name]).filter(lambda value: value is not None)
    return st.lists(row, max_size=most).map(Bag)


def weighted_tables(tables: Tables) -> dict[str, Weighted]:
    return {name: Weighted((row, 1) for row in rows) for name, rows in tables.items()}


def kinds(of: Plan) -> Counter[str]:
    """How many nodes of each kind a plan has."""
    return Counter(map(kind, of.nodes))


def kind(node: Node) -> str:
    if isinstance(node, Groups):
        return "fold" if node.is_fold else "per key"
    return type(node).__name__.lower()


def insertions(**tables: Iterable[Value]) -> Batch:
    return {name: [(row, 1) for row in rows] for name, rows in tables.items()}


def deletions(**tables: Iterable[Value]) -> Batch:
    return {name: [(row, -1) for row in rows] for name, rows in tables.items()}


@st.composite
def histories(
    draw: st.DrawFn, contents: st.SearchStrategy[Tables], streams: Collection[str], most: int = 4
) -> list[Batch]:
    """Rows that come in random batches, and some of them go in later ones."""
    rows = draw(contents)
    count = draw(st.integers(1, most))
    batches: list[dict[str, list[tuple[Value, int]]]] = [{} for _ in range(count)]
    for name in sorted(streams):
        for row in rows[name]:
            start = draw(st.integers(0, count - 1))
            batches[start].setdefault(name, []).append((row, 1))
            end = draw(st.integers(0, 2 * count))
            if start < end < count:
                batches[end].setdefault(name, []).append((row, -1))
    return list(batches)


def one_by_one(batches: Sequence[Batch]) -> list[Batch]:
    """The same changes, each in a batch of its own."""
    return [{name: [row]} for batch in batches for name, rows in batch.items() for row in rows]


def all_at_once(batches: Sequence[Batch]) -> list[Batch]:
    """The same changes in one batch."""
    names = {name for batch in batches for name in batch}
    return [{name: [row for batch in batches for row in batch.get(name, ())] for name in names}]
