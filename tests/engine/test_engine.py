"""The kernel does what the reference stepper does: the same changes, the same answers.

Every shape over every other, with and without deletions, nulls and inputs that stay empty, over
state tables in files; and the same batches in one place and in stages leave the same state.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from incmrql.engine import stages
from incmrql.engine.columns import pipelines
from incmrql.engine.columns.layouts import Layout
from incmrql.engine.columns.pipelines import ByRow
from incmrql.engine.columns.rows import of_values
from incmrql.engine.compile.physical import Physical
from incmrql.engine.compile.program import compile_program
from incmrql.engine.operators import joins, requests
from incmrql.engine.operators.groups import GroupOp
from incmrql.engine.operators.joins import JoinOp
from incmrql.engine.operators.source import SourceOp
from incmrql.engine.outputs import shown_values
from incmrql.engine.store import tables
from incmrql.errors import DataError, QueryError
from incmrql.plan.assembly import program_of
from incmrql.plan.changes import NegativeWeight, Weighted
from incmrql.plan.program import Program
from incmrql.syntax.depth import deep_recursion
from incmrql.values import Bag, Record, Value, identical, show
from tests.algebra.refusals import reject_if_refused
from tests.algebra.shapes import shape_queries
from tests.effort import fewer, sample, scale
from tests.engine.kernels import FileRun, KernelRun, StagedRun
from tests.generators.queries import queries, scripts
from tests.generators.stacked import over, stacked_shapes
from tests.plan.seeded import EVERY, PAIRWISE, Traits, history, some_tables
from tests.plan.stepping import ALL, Batch, Run, deletions, insertions, r, s
from tests.plan.test_coverage import STREAMS, Pair, pairs

TWICE = 16
"""Parts of the pairs, so that they can be tried side by side."""


@cache
def compile_query(text: str, streams: frozenset[str]) -> tuple[Run, Program, Physical]:
    run = Run(text, streams)
    program = run.program()
    return run, program, compile_program(program)


def compare(run: Run, kernel: KernelRun, batches: list[Batch], streams: frozenset[str]) -> None:
    """Step stepper and kernel through batches, and compare."""
    fixed = {name: rows for name, rows in run.tables.items() if name not in streams}
    for batch in batches:
        wanted = run.stepper.step(run.restrict(batch))
        (change,) = kernel.step(batch, fixed)
        assert change == wanted, f"{run.text}\n{wanted}\n{change}"
    wanted, answer = run.stepper.answer(), kernel.answer()
    assert identical(wanted, answer), f"{run.text}\n{show(wanted)}\n{show(answer)}"


def case(pair: Pair, streams: frozenset[str], traits: Traits, chance: Random) -> None:
    run, program, physical = compile_query(over(*pair), streams)
    fresh = run.fresh(some_tables(chance, traits, ALL - streams))
    with TemporaryDirectory() as folder:
        kernel = KernelRun(program, Path(folder), chance.choice([1, 3]), physical)
        compare(fresh, kernel, history(chance, traits, streams), streams)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(scale(2, TWICE)))
def test_shapes_over_shapes(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 2,000 cases in all parts, every other part as if its rows were many."""
    if part % 2:
        monkeypatch.setattr(pipelines, "FEW", -1)
    chance = Random(part)
    tried = 0
    with deep_recursion():
        for number, pair in enumerate(pairs()):
            if number % TWICE == part:
                streams = chance.choice(STREAMS)
                for traits in PAIRWISE:
                    case(pair, streams, traits, chance)
                    tried += 1
        compile_query.cache_clear()
    assert tried * TWICE > 2_000


@pytest.mark.slow
@pytest.mark.parametrize("few", [-1, pipelines.FEW])
def test_one_shape_of_each_kind_over_others(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "FEW", few)
    chance = Random(99)
    with deep_recursion():
        for pair in list(pairs())[:: scale(21, 7)]:
            case(pair, ALL, chance.choice(PAIRWISE), chance)


SHAPES = (
    "select (k, avg(x.C), count(x)) from x in R group by k: x.A",
    "select (x.B, avg(y.D)) from x in R, y in S where x.A = y.A group by x.B",
    "select (x.B, sum(y.D), count(y)) from x in R, y in S where x.A = y.A group by x.B",
    "select (c, count(k)) from (k, c) in (select (k, count(x)) from x in R group by k: x.A)"
    " group by c",
    "select x from x in R where x.B > sum(select y.D from y in S where y.A = x.A)",
    "select (k, min(x.B), max(x.S), median(x.C)) from x in R group by k: x.A",
    "select (k, count(distinct(x.S)), variance(x.B)) from x in R group by k: x.A",
    "select (x.A, (select y.T from y in S where y.A = x.A)) from x in R",
    "select x from x in R order by x.A desc, x.B limit 3",
    "select x.A from x in R order by x.B",
    "select (k, sum(x.B * x.C), avg(x.C + y.D), max(x.B - y.D), count(k)) from x in R, y in S"
    " where x.A = y.A group by k: x.B having sum(x.B * y.D) > 1",
    "(select x.A from x in R) + S.A + { 9, 9 }",
    "sum(select x.C from x in R)",
    "count(R) + count(S)",
    "select distinct x.S from x in R",
    "select distinct < A: t, q: a > from < A: a, T: t > in S limit 2",
    "(select x.A from x in R) union (select y.A from y in S)",
    "select x.A from x in R where not exists(select y from y in S where y.A = x.A)",
    "select (x.B, y.T) from x in R, y in S where x.A < y.A",
    "select (k, (select x.B from x in R where x.A = k order by x.B limit 2)) from x in R"
    " group by k: x.A",
)


LISTS_ADDED = (
    "(select x.S from x in R order by x.A) + [ 'z', 'a' ] + (select y.T from y in S order by y.D)"
)
"""Lists are values here, kept whole and made by Python."""


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bases, chunks and portions of a few rows."""
    monkeypatch.setattr(tables, "LEAST_BASE", 4)
    monkeypatch.setattr(joins, "MOST_PAIRS", 3)
    monkeypatch.setattr(stages, "_MOST_WAITING", 3)


@pytest.mark.slow
@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize("text", sample([*SHAPES, LISTS_ADDED], 2))
def test_stages_do_what_one_place_does(text: str, tmp_path: Path) -> None:
    """The same changes, answers and state, also when small and large batches take turns."""
    chance = Random(text)
    _, program, physical = compile_query(text, ALL)
    for traits in PAIRWISE:
        batches = history(chance, traits, ALL)
        folders = [tmp_path / f"{traits.deletions}{traits.nulls}{name}" for name in "abc"]
        one = FileRun(program, folders[0], 3, physical)
        many = StagedRun(program, folders[1], 3, physical)
        turns = StagedRun(program, folders[2], 3, physical)
        for number, batch in enumerate(batches):
            wanted = one.step(batch)
            assert many.step(batch) == wanted
            turns.staged = number % 2 == 1
            assert turns.step(batch) == wanted
        assert one.state() == many.state() == turns.state()
        assert identical(one.answer(), many.answer())


def test_positions_in_a_list_count_from_zero(tmp_path: Path) -> None:
    text = "select (x.A, p) from x in R, p in index([x.A, x.B])"
    run, program, physical = compile_query(text, ALL)
    batches = [insertions(R=[r(5, 6)]), deletions(R=[r(5, 6)])]
    compare(run.fresh(), KernelRun(program, tmp_path, 2, physical), batches, ALL)


def test_what_is_reached() -> None:
    """The shapes above reach all modes, joins that are fused with a fold, and native segments."""
    counts: Counter[str] = Counter()
    for text in SHAPES:
        for step in compile_query(text, ALL)[2].steps:
            if isinstance(step, GroupOp):
                counts[step.mode] += 1
                counts["by row"] += step.mode != "whole" and isinstance(step.body.how, ByRow)
                counts["different"] += any(b.table is not None for bs in step.blocks for b in bs)
            if isinstance(step, JoinOp):
                counts["fused" if step.fused else "not fused"] += 1
    assert {"fold", "linear", "whole", "fused", "not fused", "different"} <= set(+counts)
    assert counts["by row"] == 0


def test_a_partner_is_met_by_a_sum(tmp_path: Path) -> None:
    """In a fused join the rows of a key that change are added up before they meet partners."""
    _, program, physical = compile_query(SHAPES[2], ALL)
    kernel = KernelRun(program, tmp_path, 2, physical)
    kernel.step(insertions(R=[r(1, b) for b in range(50)]))
    (join,) = [n for n, step in enumerate(physical.steps) if isinstance(step, JoinOp)]
    kernel.step(insertions(S=[s(1, float(d)) for d in range(20)]))
    assert kernel.worked.read[join + 1] + kernel.worked.read[join] < 50 + 60
    (change,) = kernel.step(deletions(S=[s(1, 3.0)]))
    assert change == Weighted(
        [((b, 190.0, 20), -1) for b in range(50)] + [((b, 187.0, 19), 1) for b in range(50)]
    )


def test_a_batch_that_deletes_what_is_not_there_is_refused(tmp_path: Path) -> None:
    _, program, physical = compile_query(SHAPES[0], ALL)
    for kind in (FileRun, StagedRun):
        kernel = kind(program, tmp_path / kind.__name__, 2, physical)
        kernel.step(insertions(R=[r(1, 1), r(2, 2)]))
        before = kernel.state()
        with pytest.raises(DataError, match="not there: < A: 1, B: 5") as caught:
            kernel.step({"R": [(r(1, 5), -1), (r(7, 7), 1)]})
        assert caught.value.code == "R205"
        assert kernel.state() == before
        kernel.step(deletions(R=[r(1, 1)]))
        assert kernel.answer() == [(2, 0.0, 1)]


def test_answers_of_several_items_take_in_the_same_batches(tmp_path: Path) -> None:
    run = Run("incr select (k, count(x)) from x in R group by k: x.A; incr count(R); count(S)")
    items = [item for item in run.script.items if item.kind == "incr"]
    program = program_of(items, run.script)
    assert [stream.name for stream in program.streams] == ["R"]
    kernel = KernelRun(program, tmp_path)
    first, second = kernel.step(insertions(R=[r(1), r(1), r(2)]))
    assert first == Weighted([((1, 2), 1), ((2, 1), 1)])
    assert second == Weighted([(3, 1)])
    first, second = kernel.step(deletions(R=[r(1)]))
    assert first == Weighted([((1, 2), -1), ((1, 1), 1)])
    assert second == Weighted([(3, -1), (2, 1)])


@pytest.mark.parametrize("text", [SHAPES[8], SHAPES[9], "select x from x in R order by x.S desc"])
def test_a_list_follows_from_the_places_of_its_changes(text: str, tmp_path: Path) -> None:
    """Rows that went, from the last place on, and then those that came, from the first on."""
    chance = Random(7)
    _, program, physical = compile_query(text, ALL)
    moved = 0
    for number in range(12):
        kernel = KernelRun(program, tmp_path / str(number), 2, physical)
        answer = physical.answers[0]
        known: list[Value] = []
        for batch in history(chance, chance.choice(EVERY), ALL):
            given = {
                kernel.streams[name]: [of_values(rows, _layout(kernel, name))]
                for name, rows in kernel.rows(batch, {}).items()
            }
            (rows,) = kernel.run(given)
            places = rows.columns[-1].to_pylist()
            change = list(zip(shown_values(rows, answer), places, strict=True))
            gone = [(place, value, -weight) for (value, weight), place in change if weight < 0]
            came = [(place, value, weight) for (value, weight), place in change if weight > 0]
            for place, value, times in sorted(gone, key=lambda row: row[0], reverse=True):
                assert identical(known[place : place + times], [value] * times)
                del known[place : place + times]
            for place, value, times in sorted(came, key=lambda row: row[0]):
                known[place:place] = [value] * times
            moved += len(change)
            assert identical(known, kernel.answer())
    assert moved > 20


def _layout(kernel: KernelRun, name: str) -> Layout:
    step = kernel.physical.steps[kernel.streams[name]]
    assert isinstance(step, SourceOp)
    return step.layout


@fewer
@given(st.one_of(queries(), scripts(), stacked_shapes(), shape_queries()), st.integers(0, 10**6))
def test_random_queries(text: str, start: int) -> None:
    """Queries of every generator; one that the data forbid is refused by both."""
    chance = Random(start)
    streams, traits = chance.choice(STREAMS), chance.choice(EVERY)
    try:
        run = Run(text, streams, some_tables(chance, traits, ALL - streams))
    except QueryError as problem:
        reject_if_refused(problem)
    program = run.program()
    with deep_recursion(), TemporaryDirectory() as folder:
        try:
            compare(
                run, KernelRun(program, Path(folder)), history(chance, traits, streams), streams
            )
        except DataError:
            reject()


def test_an_answer_that_maps_the_keys_of_a_group_that_a_watch_reads(tmp_path: Path) -> None:
    """In stages such rows are answered by the task that has the group, through the map."""
    run = Run("select (n, k) from (k, n) in (select (k, sum(x.A)) from x in R group by k: x.S)")
    staged = StagedRun(run.program(watch=True), tmp_path)
    answer = staged.physical.answers[0]
    assert answer.main is not None
    assert answer.main.derived is not None
    assert answer.main.derived.maps
    assert answer.is_keyed
    rows = [r(1, 1, 0.0, "a"), r(2, 2, 0.0, "a"), r(5, 1, 0.0, "b")]
    assert staged.step(insertions(R=rows))[0] == Weighted([((3, "a"), 1), ((5, "b"), 1)])
    change = staged.step(deletions(R=rows[:1]))[0]
    assert change == Weighted([((3, "a"), -1), ((2, "a"), 1)])
    assert identical(staged.answer(), Bag([(2, "a"), (5, "b")]))


WIDE = (
    [2**63 - 1, 2**63 - 1],  # the sum is no long
    [553468892355352739 - 2, 1, 1],  # the sum as a double, divided, is another double
    [-(2**63), -(2**63), 5],
    [2**53 + 1],
    [1, 2],
)


def test_means_of_wide_integers_are_rounded_once(tmp_path: Path) -> None:
    run = Run("select (k, avg(x.id)) from x in W group by k: x.day", ALL)
    kernel = KernelRun(run.program(), tmp_path)
    days = [date(2026, 1, 1 + n) for n in range(len(WIDE))]
    rest: dict[str, Value] = {"at": None, "price": None, "pair": None, "marks": []}
    rows = [
        Record({"id": number, "flag": None, "day": day, **rest})
        for day, numbers in zip(days, WIDE, strict=True)
        for number in numbers
    ]
    kernel.step(insertions(W=rows))
    wanted = [
        (day, float(Fraction(sum(numbers), len(numbers))))
        for day, numbers in zip(days, WIDE, strict=True)
    ]
    assert identical(kernel.answer(), Bag(wanted))


def test_a_group_of_fewer_than_no_rows_is_an_error() -> None:
    with pytest.raises(NegativeWeight, match="a group holds -1 times 7"):
        requests._bag({b"": (7, -1)})


def test_a_join_adds_up_for_a_fold_that_is_its_only_reader() -> None:
    run = Run("select (x.B, sum(y.D)) from x in R, y in S where x.A = y.A group by x.B", ALL)
    steps = compile_program(run.program()).steps
    (join,) = [step for step in steps if isinstance(step, JoinOp)]
    assert join.fused is not None
