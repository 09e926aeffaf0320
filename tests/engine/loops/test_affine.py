"""Affine loops that are diffused in the kernel, beside the reference and the batch loop."""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incmrql.engine.columns.layouts import leaves
from incmrql.engine.columns.rows import concat_rows, of_values, to_values
from incmrql.engine.compile.loops import LoopCompiler
from incmrql.engine.compile.program import ProgramCompiler
from incmrql.engine.context import BatchContext, consolidate_rows
from incmrql.engine.loops.affine.compile import compile_affine
from incmrql.engine.loops.affine.operator import affine_follow, affine_reset
from incmrql.engine.loops.affine.tables import AffineTables
from incmrql.engine.loops.operator import LoopOp
from incmrql.engine.store.segments import OpenSegments, write_segments
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import Reader, StateTable, plan_writes
from incmrql.plan.assembly import program_of
from incmrql.plan.changes import Weighted
from incmrql.plan.diffusion.shape import require_diffusion
from incmrql.plan.diffusion.ways import Affine
from incmrql.plan.nodes import Repeated
from incmrql.values import Record, encode
from tests.effort import fewer, sample
from tests.oracle.diffusion.state import Error, Settings
from tests.plan.diffusion import test_diffuse as known
from tests.plan.diffusion.test_diffuse import edge, graph, insertions, node, rings, weighing
from tests.plan.stepping import Batch

BUCKETS = 2
FIXED = """
repeat r = {(1, 1.0), (2, 1.0)}
step (select (k, sum(x)) from (k, x) in ({(1, 0.3), (7, 0.5)}
        union (select (e.dst, 0.2 * x) from (n, x) in r, e in E where e.src = n))
      group by k) limit 6"""
PLACED = """
repeat r = (select ("p", 1.0, v.id) from v in V)
step (select ("p", 0.15 + 0.85 * sum(c), d)
      from (d, c) in (select (e.dst, x / count(o)) from (p, x, n) in r, e in E,
                             o = (select f from f in E where f.src = n) where e.src = n)
      group by d) limit 10"""
MIXED = """
repeat r = (select (v.id, v.start) from v in V)
step (select (k, 0.1 + 0.5 * sum(x))
      from (k, x) in ((select (v.id, v.start) from v in V where v.id < 3)
                union (select (e.dst, 0.3 * e.w * x) from (n, x) in r, e in W where e.src = n))
      group by k) limit 5"""
ENDLESS = """
repeat r = (select (v.id, 1.0) from v in V)
step (select (k, sum(x)) from (k, x) in (select (n + 1, 0.5 * x) from (n, x) in r) group by k)
limit 3"""
LOOPS = {**known.LOOPS, "fixed": FIXED, "placed": PLACED, "mixed": MIXED}


@lru_cache
def compile_loop(
    text: str, limit: int | None = 10
) -> tuple[ProgramCompiler, LoopOp, AffineTables | str]:
    """Compile a loop; returns how it is diffused, or why it is not."""
    script = known.typed_script(text)
    program = program_of([script.items[-1]], script)
    compiler = ProgramCompiler(program)
    compiler.all_steps()
    (place,) = [p for p, step in enumerate(compiler.steps) if isinstance(step, LoopOp)]
    node, step = program.nodes[place], compiler.steps[place]
    assert isinstance(node, Repeated)
    assert isinstance(step, LoopOp)
    shape = require_diffusion(node, script, program.edges)
    assert isinstance(shape, Affine)
    loop = LoopCompiler(compiler, place, node)
    return compiler, step, compile_affine(loop, shape, step.plain, step.layouts, limit)


class Kernel:
    """A loop in the kernel, and its tables on disk."""

    def __init__(self, text: str, folder: Path, limit: int | None, tolerance: float) -> None:
        self.compiler, self.step, tables = compile_loop(text)
        assert isinstance(tables, AffineTables)
        self.plan, self.tolerance = replace(tables, limit=limit), tolerance
        self.tables = {name: StateTable(name, schema, BUCKETS) for name, schema in tables.own}
        self.reader = Reader(folder, OpenSegments())
        self.inputs = [concat_rows([], leaves(layout)) for layout in self.step.layouts]
        self.result = concat_rows([], tables.types)
        self.ready = False
        self.number = 0
        self.read = 0
        """Rows that the last batch looked up."""

    def advance(
        self, changes: Sequence[Weighted], own: Weighted, *, again: bool = False
    ) -> dict[str, Any]:
        """A batch; `own` is the loop's own result after it."""
        given = [
            of_values(list(rows), layout)
            for rows, layout in zip(changes, self.step.layouts, strict=True)
        ]
        self.inputs = [
            consolidate_rows(TableSchema(leaves(layout)), concat_rows([old, new], leaves(layout)))
            for old, new, layout in zip(self.inputs, given, self.step.layouts, strict=True)
        ]
        context = BatchContext(
            self.tables, self.reader, self.compiler.env, is_first=self.number == 0
        )
        result = None
        if self.ready and not again:
            result = affine_follow(self.plan, given, context, self.tolerance)
        if result is None:
            error: dict[str, Any] = {"kind": "resynchronised", "figure": 0.0, "parts": {}}
            self.result = of_values(list(own), self.plan.row)
            self.ready = affine_reset(self.plan, self.inputs, self.result, context)
        else:
            change, stated = result
            error = {"kind": stated.kind, "figure": stated.figure, "parts": dict(stated.parts)}
            whole = concat_rows([self.result, change], self.plan.types)
            self.result = consolidate_rows(TableSchema(self.plan.types), whole)
        self._write(context)
        self.read = self.reader.tally.rows
        self.reader = Reader(self.reader.folder, OpenSegments())
        self.number += 1
        return error

    def rows(self) -> Weighted:
        return Weighted(to_values(self.result, self.plan.row))

    def _write(self, context: BatchContext) -> None:
        for name, content in context.deltas.items():
            done = plan_writes(
                context.committed_table(name), self.reader, content, self.number, range(BUCKETS)
            )
            contents = [(segment.content, segment.counts) for segment in done.written]
            folder = self.reader.folder
            runs = write_segments(folder, f"{uuid.uuid4().hex}.run", contents) if contents else []
            pairs = list(zip(runs, done.written, strict=True))
            self.tables[name] = done.kept.with_segments(
                [run for run, written in pairs if not written.base],
                [run for run, written in pairs if written.base],
            )


class Beside(known.Run):
    """The reference, and the kernel fed with the same changes."""

    def __init__(
        self, text: str, folder: Path, asked: Settings | None = None, limit: int | None = 10
    ) -> None:
        asked = asked or Settings()
        super().__init__(text, asked, limit)
        self.kernel = Kernel(text, folder, limit, asked.tolerance)
        self.given: list[Weighted] = []
        self.both.exact = Spied(self.both.exact, self.given)  # type: ignore[assignment]

    def step_both(self, batch: Batch) -> tuple[Error, dict[str, Any]]:
        """What both say of their errors; nothing for the kernel if nothing came."""
        self.given.clear()
        error = self.step(batch)
        if self.kernel.number and not any(self.given):
            return error, {}
        state = self.both.diffused
        again = state.settings.every is not None and state.since == 0
        return error, self.kernel.advance(self.given, self.both.exact.result, again=again)

    def vector(self, rows: Weighted) -> dict[bytes, float]:
        vector: dict[bytes, float] = {}
        for row, weight in rows:
            parts = list(row.values_ if isinstance(row, Record) else row)
            (place,) = [n for n, part in enumerate(parts) if isinstance(part, float)]
            value = parts.pop(place)
            label = encode(tuple(parts))
            vector[label] = vector.get(label, 0.0) + weight * value
        return vector

    @property
    def kept(self) -> dict[bytes, float]:
        """The result of the kernel."""
        return self.vector(self.kernel.rows())

    @property
    def off(self) -> float:
        """How far it is from the loop's own."""
        return far(self.kept, self.wanted)


class Spied:
    """A state whose changes are looked at."""

    def __init__(self, state: Any, given: list[Weighted]) -> None:
        self.state, self.given = state, given

    def advance(self, changes: Sequence[Weighted]) -> Any:
        self.given.extend(changes)
        return self.state.advance(changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.state, name)


def far(one: Mapping[bytes, float], other: Mapping[bytes, float]) -> float:
    return sum(abs(one.get(k, 0.0) - other.get(k, 0.0)) for k in {*one, *other})


def covers(run: Beside, note: dict[str, Any]) -> None:
    """What is stated of the error holds."""
    if note["kind"] == "resynchronised":
        assert run.off == 0.0
    if note["kind"] == "bound":
        assert run.off <= note["figure"]
        assert run.off <= note["parts"]["by the fixed point"]
        assert run.off <= note["parts"]["by differences"]


def agrees(run: Beside, expected: Error, note: dict[str, Any]) -> None:
    """The kernel says the same as the reference, up to what each allows for rounding."""
    scale = max(run.norm, 1.0)
    assert run.kept.keys() == run.got.keys()
    assert far(run.kept, run.got) <= 1e-9 * scale
    assert note["figure"] == pytest.approx(expected.figure, rel=1e-9, abs=1e-10 * scale)
    assert note["parts"] == {
        name: pytest.approx(figure, rel=1e-9, abs=1e-10 * scale) for name, figure in expected.parts
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(LOOPS, 3))
def test_the_kernel_diffuses_as_the_reference_does(name: str, tmp_path: Path) -> None:
    """And what it states covers the error, in every batch."""
    seen: Counter[str] = Counter()

    @settings(max_examples=max(12, fewer.max_examples))
    @given(st.integers(0, 1 << 32))
    def run_history(seed: int) -> None:
        chance = Random(seed)
        limit = chance.choice((1, 3, 4, 8, 10))
        tolerance = chance.choice((1e-9, 1e-6, 1.03e-3, 0.0507, 0.307))
        asked = Settings(tolerance, every=chance.choice((None, None, 3)))
        run = Beside(LOOPS[name], tmp_path, asked, limit)
        for number, batch in enumerate(known.history(chance)):
            was_twice = is_twice(run.both.exact.result)
            expected, note = run.step_both(batch)
            if not note:
                continue
            covers(run, note)
            seen[note["kind"]] += number > 0
            if note["kind"] != expected.kind:
                assert note["kind"] == "resynchronised"
                assert was_twice or is_twice(run.both.exact.result)
                return
            agrees(run, expected, note)

    run_history()
    assert seen["bound"]


def is_twice(rows: Weighted) -> bool:
    """Whether a row is there more than once, which the kernel does not diffuse."""
    return any(weight > 1 for _, weight in rows)


def test_a_loop_until_nothing_changes(tmp_path: Path) -> None:
    text = known.OUTER.replace("0.85", "0.25").replace("0.15", "1.0")
    run = Beside(text, tmp_path, Settings(1e-3), limit=None)
    run.step_both(rings(3))
    for batch in (
        graph([(1, 4)], []),
        {"E": [(edge(2, 3), -1)]},
        insertions(V=[node(12)], E=[edge(12, 0)]),
        {"E": [(edge(1, 4), -1), (edge(5, 6), -1)]},
    ):
        expected, note = run.step_both(batch)
        assert note["kind"] == "bound"
        covers(run, note)
        agrees(run, expected, note)


@pytest.mark.parametrize("name", ["outer", "nested"])
def test_a_loop_of_many_steps(name: str, tmp_path: Path) -> None:
    run = Beside(LOOPS[name].replace("0.85", "0.5"), tmp_path, limit=100)
    run.step_both(rings(3))
    for batch in (graph([(1, 4)], []), {"E": [(edge(2, 3), -1)]}):
        expected, note = run.step_both(batch)
        assert note["parts"]["by differences"] == math.inf
        covers(run, note)
        agrees(run, expected, note)


def test_a_page_that_is_there_twice_is_not_diffused(tmp_path: Path) -> None:
    run = Beside(known.OUTER.replace("0.85", "0.4"), tmp_path)
    kinds = []
    for batch in (
        graph([(1, 2), (2, 1)], [1, 2]),
        insertions(V=[node(2)]),
        graph([(2, 3)], [3]),
        {"V": [(node(2), -1)]},
        graph([(3, 1)], []),
    ):
        _, note = run.step_both(batch)
        covers(run, note)
        kinds.append(note["kind"])
    assert kinds == [*["resynchronised"] * 4, "bound"]


def test_values_that_are_no_numbers_are_not_diffused(tmp_path: Path) -> None:
    run = Beside(known.HEAT, tmp_path)
    run.step_both(insertions(V=[node(1), node(2)], W=[weighing(edge(1, 2), 1.0)]))
    assert run.step_both(insertions(W=[weighing(edge(2, 1), math.inf)]))[1]["kind"] != "bound"
    assert not run.kernel.ready
    assert run.step_both({"W": [(weighing(edge(2, 1), math.inf), -1)]})[1]["kind"] != "bound"
    _, note = run.step_both(insertions(V=[node(3)]))
    assert note["kind"] == "bound"
    covers(run, note)


def test_rows_that_may_not_be_missed_without_a_norm_below_one(tmp_path: Path) -> None:
    text = known.OUTER.replace("0.85", "1.0").replace("0.15", "0.0")
    run = Beside(text, tmp_path, limit=12)
    run.step_both(graph([(1, 2), (2, 3), (3, 2)], [1, 2, 3]))
    assert run.step_both({"E": [(edge(1, 2), -1)]})[1]["kind"] == "resynchronised"
    assert run.off == 0.0


def test_labels_without_end_are_not_diffused(tmp_path: Path) -> None:
    run = Beside(ENDLESS, tmp_path, limit=3)
    _, note = run.step_both(graph([], [1, 5]))
    assert note["kind"] == "resynchronised"
    assert not run.kernel.ready
    assert run.off == 0.0


@pytest.mark.parametrize("name", ["nested", "outer", "records"])
def test_what_differences_do_not_reach_is_not_read(name: str, tmp_path: Path) -> None:
    done = []
    for many in (3, 12):
        run = Beside(LOOPS[name], tmp_path, limit=6)
        run.step_both(rings(many))
        read = []
        for batch in (graph([(1, 3)], []), {"E": [(edge(1, 3), -1)]}):
            run.step_both(batch)
            read.append(run.kernel.read)
        assert min(read) > 0
        done.append(read)
    assert done[0] == done[1]


@pytest.mark.parametrize(
    ("text", "limit", "reason"),
    [
        (known.OUTER, 0, "the loop has no steps"),
        (known.NESTED, 1_000, "rows come and go in more than 200 steps"),
        (
            f"repeat r = {known.START} step (select (n, 0.5 * x) from (n, x) in r) limit 3",
            3,
            "the rows of a step have no key",
        ),
    ],
)
def test_steps_that_are_not_fit(text: str, limit: int, reason: str) -> None:
    assert compile_loop(text, limit)[2] == reason
