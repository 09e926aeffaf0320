"""Every query of docs/language.md, with its sources turned into streams, and its bags too.

A bag that is written out is as good as a source: its elements may come one by one.  The rows
come in random batches, some go again, some come back; after each batch the stepper answers as
the evaluator does over the rows so far.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from incmrql import api
from incmrql.errors import DataError, QueryError
from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import Input, Plan
from incmrql.plan.planner import plan_of
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.sources import read_source
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.types.show import show_expr
from incmrql.types.walk import free_variables, map_children, nodes
from incmrql.values import Bag, Value, identical, show
from tests.docs.conftest import DOCS
from tests.docs.examples import Example, examples, page
from tests.oracle.stepper import Stepper

FEWEST_SOURCES, FEWEST_BAGS = 30, 100
"""The queries of the page that read sources, and those that have bags written out in them."""
HISTORIES = 4
MOST_ROWS = 12
GONE = ("deletes", "gone")


@dataclass(frozen=True, slots=True)
class Query:
    """An item of an example whose sources are streams, and the rows that they have."""

    example: Example
    script: typed.Script
    item: typed.ScriptItem
    rows: dict[str, Bag]
    arguments: tuple[str, ...]


class Streams:
    """Turns what a script reads into streams that can delete, and remembers their rows."""

    def __init__(self, script: typed.Script, env: Environment, *, bags: bool) -> None:
        self.rows: dict[str, Bag] = {}
        self.env, self.bags = env, bags
        queries = {name: self.expr(query) for name, query in script.queries.items()}
        functions = {
            name: replace(function, body=self.expr(function.body))
            for name, function in script.functions.items()
        }
        items = tuple(replace(item, expr=self.expr(item.expr)) for item in script.items)
        self.script = replace(script, items=items, queries=queries, functions=functions)

    def expr(self, expr: typed.Expr) -> typed.Expr:
        match expr:
            case typed.Read(source):
                stream = as_stream(source)
                self.rows.setdefault(repr(stream), read_source(source, self.env))
                return replace(expr, source=stream)
            case typed.MakeCollection() if self.bags and is_bag(expr):
                return self.stream_of_bag(expr)
            case _:
                return map_children(self.expr, expr)

    def stream_of_bag(self, expr: typed.MakeCollection) -> typed.Expr:
        """A stream in place of a bag that is written out."""
        assert isinstance(expr.type, Collection)
        source = typed.Source("text", True, None, expr.type.element, name=show_expr(expr),
                              options=(GONE,))  # fmt: skip
        self.rows[repr(source)] = evaluate(expr, self.env)
        return typed.Read(source, type=expr.type, span=expr.span)


def is_bag(expr: typed.MakeCollection) -> bool:
    """Whether rows that nothing else decides are written out."""
    type_ = expr.type
    return (
        isinstance(type_, Collection)
        and type_.kind == "bag"
        and len(expr.items) > 1
        and not free_variables(expr)
        and not any(isinstance(node, OUTSIDE) for node in nodes(expr))
    )


OUTSIDE = (typed.Read, typed.Global, typed.Stored, typed.Call, typed.ScriptArguments)


def as_stream(source: typed.Source) -> typed.Source:
    own = ("deletes", "sign", "insert_only", "trusted_deletes", "key")
    options = [(name, value) for name, value in source.options if name not in own]
    return replace(source, streaming=True, options=(*options, GONE))


NOT_HERE = {"R206", "R101"}
"""A socket, and a file that an item of the script would write first."""


def queries(example: Example, *, bags: bool) -> Iterator[Query]:
    """The items of an example that answer, over streams."""
    words = tuple(word for word in example.script.words if not word.startswith("--"))
    script = api.compiled(example.script.text, words).typed
    env = Environment(new_world(script, arguments=list(words), quarantine=None))
    try:
        streams = Streams(script, env, bags=bags)
    except DataError as error:
        if error.code not in NOT_HERE:
            raise
        return
    for item in streams.script.items:
        if item.kind in ("print", "incr"):
            yield Query(example, streams.script, item, streams.rows, words)


def streams_of(plan: Plan) -> list[Input]:
    return [node for node in plan.nodes if isinstance(node, Input) and node.source.streaming]


def environment(query: Query, data: dict[str, Bag]) -> Environment:
    """A world in which streams have come so far."""

    def read(source: typed.Source, _env: Environment) -> Bag:
        return data[repr(source)]

    settings = {"arguments": list(query.arguments), "quarantine": None, "read": read}
    world = new_world(query.script, **settings)
    for item in query.script.items:
        if item.kind == "store-value":
            world.stored[item.target] = evaluate(item.expr, Environment(world))
    return Environment(world)


def batches(rows: Bag, chance: random.Random, count: int) -> list[list[tuple[Value, int]]]:
    """Rows over several batches; a third of them go again, some come back."""
    changes: list[list[tuple[Value, int]]] = [[] for _ in range(count)]
    for row in list(rows)[:MOST_ROWS]:
        start = chance.randrange(count)
        changes[start].append((row, 1))
        end, back = start + chance.randrange(1, 3 * count), start + chance.randrange(1, 4 * count)
        if end < count:
            changes[end].append((row, -1))
            if end <= back < count:
                changes[back].append((row, 1))
    return changes


def step_through(query: Query, plan: Plan, chance: random.Random) -> int:
    """Step through a random history; how many answers were compared."""
    inputs = streams_of(plan)
    count = chance.randrange(2, 6)
    history = {node.name: batches(query.rows[repr(node.source)], chance, count) for node in inputs}
    so_far = {key: Weighted() for key in query.rows}
    # What is stored is fixed before the first batch; over streams it is stored over nothing.
    stepper = Stepper(plan, environment(query, {key: Bag() for key in query.rows}))
    stored = dict(stepper.env.world.stored)
    for number in range(count):
        batch = {node.name: history[node.name][number] for node in inputs}
        stepper.step(batch)
        for node in inputs:
            so_far[repr(node.source)].merge(Weighted(batch[node.name]))
        env = environment(query, {key: rows.bag() for key, rows in so_far.items()})
        env.world.stored.update(stored)
        expected, got = evaluate(query.item.expr, env), stepper.answer()
        assert identical(expected, got), f"{query.item.span.text}\n{show(expected)}\n{show(got)}"
    return count


@pytest.fixture
def in_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DOCS / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)


NO_PLAN = {"A001", "A002"}
"""A loop or a fold over sources inside a row, a function that calls itself: no term."""


@pytest.mark.usefixtures("in_docs")
@pytest.mark.parametrize(("bags", "fewest"), [(False, FEWEST_SOURCES), (True, FEWEST_BAGS)])
def test_every_example_of_the_docs_follows_what_it_reads(bags: bool, fewest: int) -> None:
    stepped, compared = 0, 0
    with deep_recursion():
        for example in examples(page(DOCS / "language.md")):
            if example.fails:
                continue
            for query in queries(example, bags=bags):
                try:
                    plan = plan_of(query.item, query.script)
                except QueryError as error:
                    if error.code not in NO_PLAN:
                        raise
                    continue
                if not streams_of(plan):
                    continue
                chance = random.Random(f"{example.place} {query.item.span.start}")
                stepped += 1
                compared += sum(step_through(query, plan, chance) for _ in range(HISTORIES))
    assert stepped >= fewest
    assert compared >= 3 * HISTORIES * fewest
