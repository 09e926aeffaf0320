"""Loops from their beginning in the kernel: the rows that the meaning of the loop gives.

The inputs of loops are any rows of their types, with numbers that are null, not finite or zero
from below; what is remembered from one step of a loop to the next is seen to be used, and not
used where keys differ.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.algebra.interpret import elements
from incmrql.engine.columns.keys import Keys
from incmrql.engine.columns.layouts import Layout, Leaf, Struct
from incmrql.engine.columns.rows import Rows, of_values, to_values
from incmrql.engine.compile.program import compile_program
from incmrql.engine.context import BatchContext, environment
from incmrql.engine.loops.operator import LoopOp
from incmrql.engine.loops.recompute import columns as recompute_columns
from incmrql.engine.loops.recompute import joins
from incmrql.engine.loops.recompute.columns import (
    Numbering,
    SharedNumbering,
    gather,
    look_up,
    plain_column,
)
from incmrql.engine.loops.recompute.columns import Source as Keyed
from incmrql.engine.loops.recompute.steps import LoopStats, recompute_loop
from incmrql.engine.store.segments import OpenSegments
from incmrql.engine.store.tables import Reader
from incmrql.errors import DataError, SourceText
from incmrql.io.arrow.types import arrow_type
from incmrql.plan.assembly import program_of
from incmrql.plan.program import Program
from incmrql.reference import Environment
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import BOOL, DOUBLE, LONG, STRING, Tuple, Type
from incmrql.types.scope import Catalog
from incmrql.values import Bag, Value, encode
from tests.effort import fewer, mostly_slow

STREAMS = """
edges = stream(line, "e", ",", type((long,long)), deletes: "d");
roads = stream(line, "r", ",", type((long,long,double)), deletes: "d");
nodes = stream(line, "n", ",", type((long,string)), deletes: "d");
points = stream(line, "p", ",", type((double,double)), deletes: "d");
packed = stream(json, "j", type((double,double)), deletes: "d");
"""

PAGERANK = """
repeat x = (select (s, 1.0) from (s, d) in edges group by s) step
  (select (d, 0.15 + 0.85 * sum(z)) from (s, d) in edges, (t, r) in x,
     (u, n) in (select (s, count(d)) from (s, d) in edges group by s), z = r / n
   where s = t and s = u group by d) limit 4"""
FLAGGED = """
repeat x = (select (s, 1.0) from (s, d) in edges group by s) step
  (select ((d, sum(z)), sum(z) > 0.3) from (s, d) in edges, (t, r) in x, z = r * 0.4
   where s = t group by d)"""
FLAGGED_LIMIT = f"{FLAGGED} limit 2"
FLAGGED_BESIDE_PLAIN = """
repeat (x, y) = ({1L}, {2L}) step
  ((select (n + 1L, n < 4L) from n in x), (select a from (a, b) in edges, n in y where b = n))
  limit 9"""
KMEANS = """
repeat c = {(0.0,0.0),(1.0,1.0),(0.0,1.0)} step
  select (avg(p#0), avg(p#1)) from p in points
  group by k: (select m from m in c
    order by (m#0-p#0)*(m#0-p#0)+(m#1-p#1)*(m#1-p#1) limit 1) limit 3"""
KMEANS_FROM_ROWS = """
repeat c = (select p from p in points where p#0 > 0.0) step
  select (avg(p#0), avg(p#1)) from p in points
  group by k: (select m from m in c order by abs(m#0-p#0) desc, m#1 limit 1) limit 3"""
KMEANS_PACKED = KMEANS.replace("points", "packed")
AT = """
repeat c = (select (p#0, 1.0) from p in points where p#0 > 0.0) step
  select (avg(p#0), avg(p#1)) from p in points
  group by k: (select m from m in c
    order by (m#0-p#0)*(m#0-p#0)+(m#1-p#1)*(m#1-p#1))[0] limit 3"""
AT_ONE = """
repeat x = {0.5, 2.0} step
  select avg(p#0) from p in points group by k: (select y from y in x order by abs(y - p#0))[0]
  limit 3"""
TIED = """
repeat c = {(2L, "a", 0L), (1L, "c", 0L), (1L, "b", 0L), (3L, "d", 0L)} step
  select (k[0]#0, k[0]#1, count(n)) from (n, s) in nodes
  group by k: (select m from m in c order by (m#0 - n) * (m#0 - n) desc limit 1) limit 2"""
REACHED = """
repeat x = {1L} step select distinct y from y in
  (x union (select e#1 from e in edges, n in x where e#0 = n))"""
REACHED_LIMIT = f"{REACHED} limit 3"
PATHS = """
repeat x = {(1L,0.0)} step select (n, min(d)) from (n,d) in
  (x union (select (b, d + w) from (a,b,w) in roads, (n,d) in x where a = n)) group by n limit 4"""
FARTHEST = """
repeat x = {(1L, 0.0, 0L)} step select (n, max(d), count(d)) from (n,d) in
  (select (b, d + w) from (a,b,w) in roads, (n,d,c) in x where a = n) group by n limit 3"""
COMPONENTS = """
repeat x = (select (a, a) from (a,b) in edges group by a) step
  select (n, min(c)) from (n,c) in (x union
    (select (b, c) from (a,b) in edges, (n,c) in x where a = n)) group by n limit 4"""
TWO = """
repeat (x, y) = ({1L}, {(2L, "b")}) step
  ((select e#1 from e in edges, n in x where e#0 = n),
   (select (a, s) from (a, s) in nodes, n in x where a = n) union
   (select (b, s) from (a, b) in edges, (n, s) in y where a = n)) limit 3"""
NESTED = """
repeat x = {(1L, 1L)} step
  (select distinct (a, b) from (a, b) in (x union
    (select (a, c) from (a, b) in x, (d, c) in (repeat y = {(1L, 2L)} step
       (select distinct (p, q) from (p, q) in (y union (select (q, r) from (p, q) in y,
          (u, r) in edges where u = q))) limit 2) where b = d))) limit 2"""
FIRST = """
repeat x = {(1L, "a")} step
  select (e#1, s) from e in edges, (n, s) in x, (m, t) in nodes where e#0 = n and m = n
  order by s desc, e#1 limit 3 limit 3"""
TEXTS = """
repeat x = (select (s, n, 0L, n) from (n, s) in nodes) step
  select (s, sum(n), count(n), min(n)) from (s, n) in
    (select (t, n) from (s, n, i, j) in x, (m, t) in nodes where m = n) group by s limit 2"""
GREATEST_TEXT = """
repeat x = {(1L, "a")} step select (b, max(t)) from (a, b) in edges, (n, s) in x, (m, t) in nodes
  where a = n and m = b group by b limit 3"""
FIRST_TEXT = """
repeat x = {(1L, "a")} step
  select (b, (select u from u in t order by u desc)[0]) from (a, b) in edges, (n, s) in x,
    (m, t) in nodes where a = n and m = b group by b limit 3"""
WALKED = """
repeat x = {(1L, 1L)} step
  select (b, count(select distinct z from z in z)) from (a, b) in edges, (n, c) in x,
    z = (a + c) % 3L where a = n group by b limit 3"""
WHOLE = """
repeat x = {(1L, {1L})} step
  select (b, (select y from y in z where y > 1L)) from (a, b) in edges, (n, c) in x, z = a
  where a = n group by b limit 2"""
INNER = """
repeat x = {1L} step
  (repeat y = x step select distinct z from z in
     (y union (select e#1 from e in edges, n in y where e#0 = n)) limit 2) limit 2"""
GROWING = """
repeat x = {1L} step select e#1 from e in edges, n in x where e#0 = n limit 5"""
CONSTANT = "repeat x = (select d from (s, d) in edges) step {1L, 2L, 2L} limit 3"
CROSSED = """
repeat x = {2.0, 0.0} step
  select distinct max(z) from p in points, y in x, z = y * p#0 group by k: p#1 limit 3"""
FILTERED = """
repeat x = (select (a, w) from (a,b,w) in roads) step
  select (a, v + 1.0) from (a, v) in x, (n, s) in nodes where a = n and v > 0.0 limit 3"""
TOTAL = """
repeat x = {1.0} step {0.5 * sum(select y * p#0 from p in points, y in x where p#0 < 2.0)}
  limit 3"""
UNITS = """
repeat x = {()} step select () from y in x, e in edges where e#0 = 1L limit 2"""
AVERAGES = """
repeat x = (select (a, w) from (a,b,w) in roads) step
  select (b, avg(z)) from (a,b,w) in roads, (n,v) in x, z = v * w where a = n group by b limit 3"""

QUERIES = {
    name.lower(): text
    for name, text in list(globals().items())
    if name.isupper() and isinstance(text, str) and text.strip().startswith("repeat")
}


@cache
def program_and_loops(text: str) -> tuple[Program, list[LoopOp]]:
    """The program of a query, and its loops as the engine runs them."""
    script = infer_script(parse_script(SourceText(f"{STREAMS}incr {text};")), Catalog())
    program = program_of([script.items[-1]], script)
    return program, [step for step in compile_program(program).steps if isinstance(step, LoopOp)]


MOST_STEPS = 12
"""Of a loop without a limit."""

Given = list[list[tuple[Value, int]]]
"""The rows of each input, with weights."""


def world(program: Program) -> Environment:
    env = environment(program)
    env.world.max_steps = MOST_STEPS
    return env


def reference_result(program: Program, loop: LoopOp, inputs: Given) -> list[bytes] | str:
    env = world(program)
    for variable, rows in zip(loop.node.variables, inputs, strict=True):
        env = env.bind(variable, Bag([row for row, weight in rows for _ in range(weight)]))
    try:
        return sorted(map(encode, elements(loop.node.term, env)))
    except DataError as problem:
        return str(problem)


def run(program: Program, loop: LoopOp, inputs: Given) -> tuple[Rows, LoopStats]:
    given = [of_values(rows, layout) for rows, layout in zip(inputs, loop.layouts, strict=True)]
    context = BatchContext({}, Reader(Path(), OpenSegments()), world(program), is_first=False)
    return recompute_loop(loop, given, context)


def engine_result(program: Program, loop: LoopOp, inputs: Given) -> list[bytes] | str:
    try:
        rows, _ = run(program, loop, inputs)
    except DataError as problem:
        return str(problem)
    values = to_values(rows, loop.layout)
    assert all(weight > 0 for _, weight in values)
    assert len({encode(value) for value, _ in values}) == len(values)
    return sorted(encode(value) for value, weight in values for _ in range(weight))


NUMBERS = [0.0, 1.0, 0.5, 1.0, 0.1, -0.3, 2.5, 1e16, 1e-9, float("nan"), float("inf")]
SCALARS: dict[Type, st.SearchStrategy[Value]] = {
    LONG: st.integers(0, 4),
    DOUBLE: st.sampled_from([*NUMBERS, -float("inf"), -1e300]),
    STRING: st.sampled_from(["a", "b", "", "long text, and longer"]),
    BOOL: st.booleans(),
}


def of_layout(layout: Layout) -> st.SearchStrategy[Value]:
    """Values that a layout has columns for."""
    match layout:
        case Leaf(type_):
            usual = of_type(type_)
            return st.one_of(usual, usual, usual, usual, usual, st.none())
        case Struct(parts):
            return st.tuples(*map(of_layout, parts))
        case _:
            return st.none()


def of_type(type_: Type) -> st.SearchStrategy[Value]:
    if isinstance(type_, Tuple):
        return st.tuples(*map(of_type, type_.items))
    return SCALARS[type_]


@st.composite
def inputs_of(draw: st.DrawFn, loop: LoopOp) -> Given:
    """Different rows for each input, with weights."""
    inputs = []
    for layout in loop.layouts:
        rows = draw(st.lists(of_layout(layout), max_size=draw(st.sampled_from([0, 3, 12]))))
        different = {encode(row): row for row in rows}
        weight = st.sampled_from([1, 1, 1, 2])
        inputs.append([(row, draw(weight)) for row in different.values()])
    return inputs


@pytest.mark.parametrize("name", mostly_slow(QUERIES, 4))
@fewer
@given(st.data())
def test_rows_are_those_of_the_loop(name: str, data: st.DataObject) -> None:
    program, loops = program_and_loops(QUERIES[name])
    with deep_recursion():
        for loop in loops:
            inputs = data.draw(inputs_of(loop))
            assert engine_result(program, loop, inputs) == reference_result(program, loop, inputs)


@pytest.mark.parametrize("name", mostly_slow(QUERIES, 4))
@fewer
@given(st.data())
def test_many_pairs_in_chunks(name: str, data: st.DataObject) -> None:
    program, loops = program_and_loops(QUERIES[name])
    with deep_recursion(), mock.patch.object(joins, "MOST_PAIRS", 3):
        for loop in loops:
            inputs = data.draw(inputs_of(loop))
            assert engine_result(program, loop, inputs) == reference_result(program, loop, inputs)


# --- what is remembered ----------------------------------------------------------------------


def edges(*pairs: tuple[int, int]) -> list[tuple[Value, int]]:
    return [(pair, 1) for pair in pairs]


def calls(text: str, inputs: Given) -> tuple[LoopStats, int, int]:
    """How often keys are numbered and looked up in a loop."""
    program, (loop,) = program_and_loops(text)
    count = mock.Mock(wraps=recompute_columns.number_keys)
    asked = mock.Mock(wraps=look_up)
    with (
        deep_recursion(),
        mock.patch.object(recompute_columns, "number_keys", count),
        mock.patch.object(joins, "look_up", asked),
    ):
        _, ran = run(program, loop, inputs)
    assert engine_result(program, loop, inputs) == reference_result(program, loop, inputs)
    return ran, count.call_count, asked.call_count


CYCLE = [((s, (d, 1)), 1) for s, d in [(1, 2), (2, 3), (3, 1), (1, 3)]]


def test_keys_that_stay_are_looked_up_once() -> None:
    ranks = [((n, 1.0), 1) for n in (1, 2, 3)]
    ran, numbered_, looked_up = calls(PAGERANK, [ranks, CYCLE])
    assert ran.steps == 4
    assert ran.rows == 4 * 3
    # the edges by source, the pairs by target, the ranks twice: by node as given and as found
    assert numbered_ == 4
    # the ranks come in another order after the first step
    assert looked_up == 2


def test_keys_that_move_are_looked_up_again() -> None:
    chain_ = edges(*[(n, n + 1) for n in range(1, 6)])
    ran, numbered_, looked_up = calls(REACHED, [chain_])
    assert ran == LoopStats(6, 2 + 3 + 4 + 5 + 6 + 6, 5)
    assert looked_up == 6
    assert numbered_ >= 6


def test_steps_end_where_nothing_moves() -> None:
    program, (loop,) = program_and_loops(REACHED_LIMIT)
    _, ran = run(program, loop, [edges((1, 2))])
    assert ran == LoopStats(2, 4, 1)


def test_without_an_end() -> None:
    program, (loop,) = program_and_loops(FLAGGED)
    inputs: Given = [[((1, 1e300), 1)], [((1, (1,)), 3)]]
    with deep_recursion():
        assert "R202" in str(reference_result(program, loop, inputs))
        assert engine_result(program, loop, inputs) == reference_result(program, loop, inputs)


def test_rows_that_move_count_in_both_directions() -> None:
    program, (loop,) = program_and_loops(GROWING)
    _, ran = run(program, loop, [edges((1, 2), (1, 3), (2, 1), (3, 1))])
    assert ran == LoopStats(5, 2 + 1 + 2 + 1 + 2, 5 * 3)


# --- keys ------------------------------------------------------------------------------------

COLUMNS: dict[Type, tuple[list[Value], Any]] = {
    LONG: ([1, 2, 3, None], pa.int64()),
    DOUBLE: ([0.0, -0.0, 1.5, float("nan"), float("inf"), None], pa.float64()),
    STRING: (["", "a", "b\0", None], pa.string()),
    BOOL: ([True, False, None], pa.bool_()),
    Tuple((LONG, DOUBLE)): (
        [{"_1": 1, "_2": 0.5}, {"_1": 1, "_2": None}, None],
        arrow_type(Tuple((LONG, DOUBLE))),
    ),
}


@st.composite
def keys_of_two_sources(draw: st.DrawFn) -> tuple[tuple[Type, ...], Keyed, Keyed]:
    """The types of keys, and two sources of them."""
    types = tuple(draw(st.lists(st.sampled_from(list(COLUMNS)), max_size=3)))
    return types, draw(source(types)), draw(source(types))


@st.composite
def source(draw: st.DrawFn, types: tuple[Type, ...]) -> Keyed:
    """Columns of keys; sometimes each is gathered from a shorter one."""
    count = draw(st.integers(0, 8))
    size = draw(st.integers(1, 4))
    places = draw(st.one_of(st.none(), st.lists(st.integers(0, size - 1), max_size=8)))
    length = count if places is None else size
    columns = []
    for type_ in types:
        values, arrow = COLUMNS[type_]
        some = draw(st.lists(st.sampled_from(values), min_size=length, max_size=length))
        column = pa.array(some, arrow)
        if places is not None:
            column = gather(column, pa.array(places, pa.int64()))
        columns.append(column)
    return tuple(columns), count if places is None else len(places)


def bytes_of(types: tuple[Type, ...], given: Keyed) -> list[bytes]:
    columns, count = tuple(map(plain_column, given[0])), given[1]
    return Keys(columns, types, None, count).key_bytes().bytes_at(np.arange(count))


@given(keys_of_two_sources())
def test_same_numbers_for_the_same_keys(
    given: tuple[tuple[Type, ...], Keyed, Keyed],
) -> None:
    types, one, two = given
    first, second = bytes_of(types, one), bytes_of(types, two)
    numbers = Numbering(types).of(*one)
    assert len(set(zip(first, numbers.of_row.tolist(), strict=True))) == len(set(first))
    assert len(set(numbers.of_row.tolist())) == len(set(first))
    known = dict(zip(first, numbers.of_row.tolist(), strict=True))
    positions = look_up(numbers, two[0], two[1]).tolist()
    for key, number in zip(second, positions, strict=True):
        if key in known:
            assert number == known[key]
        else:
            assert number not in known.values()
    together = SharedNumbering(types)
    both = together.of([one, two, one])
    assert both.numbers[0].tolist() == both.numbers[2].tolist()
    everything = [*both.numbers[0].tolist(), *both.numbers[1].tolist()]
    pairs = set(zip(first + second, everything, strict=True))
    assert len(pairs) == len(set(first + second)) == len(set(everything))
    names = bytes_of(types, (both.columns, len(both.used)))
    assert set(zip(names, both.used.tolist(), strict=True)) == pairs
    assert together.of([one, two, one]) is both
