"""Small loops run inside one task, and others as steps: both end with what the reference has."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from incmrql import Session
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.term import Repeat, Scan
from incmrql.algebra.translate.queries import translate
from incmrql.engine.compile import program
from incmrql.errors import DataError, SourceText
from incmrql.reference import new_world
from incmrql.spark.batch.scripts import ScriptRunner
from incmrql.spark.loops import parts as loop_parts
from incmrql.spark.loops import placement, steps
from incmrql.spark.loops.parts import split_loop
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import DOUBLE, LONG, Tuple, Type
from incmrql.types.scope import Catalog
from incmrql.values import Bag, Value, identical
from tests.effort import sample
from tests.plan.loops import EXACT, OTHERS, ROWS
from tests.spark.answers import agree

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

CATALOG = Catalog(registered={name: (row, False) for name, row in ROWS.items()})
LOOPS = {**EXACT, **OTHERS}


@contextmanager
def ways(patch: pytest.MonkeyPatch, **bounds: int) -> Iterator[list[str]]:
    """Which way each loop went, with other bounds of what a task takes."""
    ways_taken: list[str] = []
    in_task, run_loop = placement._run_in_task, steps.run_loop

    def try_in_task(*given: Any) -> Any:
        held = in_task(*given)
        ways_taken.extend([] if held is None else ["task"])
        return held

    def take_steps(*given: Any) -> Any:
        ways_taken.append("steps")
        return run_loop(*given)

    with patch.context() as here:
        here.setattr(placement, "_run_in_task", try_in_task)
        here.setattr(placement, "run_loop", take_steps)
        for name, value in bounds.items():
            here.setattr(placement, name, value)
        yield ways_taken


def rows_of(type_: Type, chance: random.Random) -> Value:
    if isinstance(type_, Tuple):
        return tuple(rows_of(item, chance) for item in type_.items)
    if type_ == DOUBLE:
        return chance.choice([0.0, 1.0, 0.5, 3.25, 4.0, -2.0, 0.1, 1e16])
    return chance.randint(0, 5)


def tables(seed: int, *, with_nulls: bool = False) -> dict[str, list[Value]]:
    chance = random.Random(seed)
    data = {
        name: [rows_of(type_, chance) for _ in range(chance.choice([0, 3, 9]) if seed else 8)]
        for name, type_ in ROWS.items()
    }
    if with_nulls:
        data["E"] += [(None, 1), (1, None), (2, 1), (2, 1)]
        data["N"] += [None, 1]
        data["P"] += [(None, 0.5), (float("nan"), 1.0)]
        data["M"] += [(1, None, 2.0), (1, 1, None)]
    return data


@pytest.mark.parametrize("name", sample(LOOPS, 3))
def test_a_small_loop_is_run_by_one_task(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ways(monkeypatch) as taken:
        for seed in (0, 1):
            data = tables(seed, with_nulls=bool(seed) and name != "countdown")
            agree(f"{LOOPS[name]};", data, spark, CATALOG)
    assert set(taken) == {"task"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sample(["shortest", "pagerank", "countdown", "totals", "nested", "first"], 3)
)
def test_a_large_loop_is_run_in_steps(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ways(monkeypatch, MOST_BYTES=-1) as taken:
        agree(f"{LOOPS[name]};", tables(0), spark, CATALOG)
    assert set(taken) == {"steps"}


@pytest.mark.parametrize("name", ["means", "shortest"])
def test_a_loop_that_outgrows_the_task_goes_on_in_steps(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ways(monkeypatch, MOST_ROWS=3) as taken:
        agree(f"{LOOPS[name]};", tables(0), spark, CATALOG)
    assert set(taken) == {"steps"}


def test_inputs_that_turn_out_to_be_large_are_left_to_steps(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = spark.sparkContext.parallelize([(n, n + 1) for n in range(1, 2000)], 2)
    session = Session(spark)
    session.register("E", spark.createDataFrame(edges, "a long, b long").where("b < 6"))
    text = """repeat x = {1L} step
        select distinct n from n in (x union (select e.b from e in E, a in x where e.a = a))"""
    for most, way in ((1 << 20, "task"), (32, "steps")):
        with ways(monkeypatch, MOST_BYTES=most) as taken:
            assert session.query(text).collect() == Bag([1, 2, 3, 4, 5])
        assert taken == [way]


def jobs_of(spark: SparkSession, group: str, run: Any) -> tuple[int, Any]:
    context = spark.sparkContext
    context.setJobGroup(group, group)
    try:
        result = run()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    return len(context.statusTracker().getJobIdsForGroup(group)), result


PAGERANK = """
Links = source(line, "{path}", ",", type((int, int)));
Degrees = select (page, count(to)) from (page, to) in Links group by page;
n = count(Degrees);
repeat ranks = select (page, 1.0 / n) from (page, d) in Degrees
  step select (to, 0.15 / n + 0.85 * sum(share)) from (page, to) in Links,
         (page, rank) in ranks, (page, degree) in Degrees, share = rank / degree
       group by to
  limit 10;"""


def test_a_small_loop_takes_a_job_of_its_own_and_that_of_the_query(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    links = [(chance.randrange(40), chance.randrange(40)) for _ in range(400)]
    links += [(page, (page + 1) % 40) for page in range(40)]
    path = tmp_path / "links.csv"
    path.write_text("".join(f"{a},{b}\n" for a, b in links))
    text = PAGERANK.format(path=path)
    session = Session(spark)
    with ways(monkeypatch) as taken:
        few, inside = jobs_of(spark, "inside", lambda: session.run(text)[-1].value)
    with ways(monkeypatch, MOST_BYTES=-1) as stepped:
        many, outside = jobs_of(spark, "outside", lambda: session.run(text)[-1].value)
    assert (taken, stepped) == (["task"], ["steps"])
    assert identical(inside, outside)
    assert len(inside) == 40
    assert few == 2
    assert many > 10
    with ways(monkeypatch, MOST_READ=-1):
        read_by_many, again = jobs_of(spark, "many", lambda: session.run(text)[-1].value)
    assert identical(inside, again)
    assert read_by_many <= 3


# --- what a task needs, and what it leaves to steps --------------------------------------

DECLARED = Catalog(registered={"N": (LONG, False), "E": (Tuple((LONG, LONG)), False)})
NUMBERS: dict[str, list[Value]] = {"N": [1, 2, 2, 5], "E": [(1, 2), (2, 3), (3, 1), (2, 2)]}

INSIDE = {
    "a function": "function half (n: long): long { n / 2 };"
    " repeat x = (select n from n in N) step select distinct half(n) from n in x;",
    "a recursive function": "function down (n: long): long { if n > 1 then down(n - 1) else n };"
    " repeat x = (select n from n in N) step select distinct down(n) from n in x;",
    "a stored value": "store top := 3; store seen := {1, 2};"
    " repeat x = (select n from n in N) step select n + top from n in x where n < top"
    " and some s in seen: s = n limit 2;",
    "a stored value that is counted": "store counted := count(N);"
    " repeat x = (select n from n in N) step select n + counted from n in x limit 2;",
    "rows that are nested": "repeat x = (select (n, {n, 3, 1}) from n in N) step"
    " select (n, (select m + 1 from m in b)) from (n, b) in x limit 3;",
    "bags as keys": "repeat x = (select ({b, a}, 0) from (a, b) in E) step"
    " select (k, count(v)) from (k, v) in x group by k limit 2;",
    "records": "repeat x = (select < n: n, of: < s: 'a', d: 1.5 > > from n in N) step"
    " select < n: k, of: < s: 'b', d: sum(y.of.d) > > from y in x group by k: y.n limit 2;",
    "rows without columns": "repeat x = {()} step select () from y in x, (a, b) in E limit 2;",
    "a loop over another": "r = repeat y = {1} step"
    " select distinct m from m in (y union (select b from (a, b) in E, a in y));"
    " repeat x = (select n from n in N) step select n + count(r) from n in x limit 2;",
    "an order inside": "repeat x = (select n from n in N) step"
    " select n + 1 from n in x order by n desc limit 2 limit 2;",
    "a constant step": "repeat x = (select n from n in N) step select 1 from (a, b) in E limit 3;",
    "no step at all": "repeat x = (select n from n in N) step select n + 1 from n in x limit 0;",
    "an answer of it": "count(repeat x = (select n from n in N) step"
    " select n + 1 from n in x limit 2) + max(repeat x = (select n from n in N) step"
    " select n + 1 from n in x limit 2);",
    "a join with it": "select (n, m) from n in (repeat x = {1} step"
    " select distinct m from m in (x union (select b from (a, b) in E, a in x))),"
    " (n, m) in E;",
    "a union of constants": "repeat x = (select n from n in N) step"
    " select distinct n from n in (x union {7, 8} union (select b from (a, b) in E)) limit 2;",
}


@pytest.mark.parametrize("name", INSIDE)
def test_what_a_task_does_the_same(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ways(monkeypatch) as taken:
        agree(INSIDE[name], NUMBERS, spark, DECLARED)
    assert set(taken) == {"task"}


OUTSIDE = {
    "traces": "repeat x = (select n from n in N) step select trace(n) + 1 from n in x limit 2;",
    "chance": "repeat x = (select n from n in N) step"
    " select n + 0 * random(n + 3) from n in x limit 2;",
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_a_task_would_not_do_the_same(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ways(monkeypatch) as taken:
        agree(OUTSIDE[name], NUMBERS, spark, DECLARED)
    assert set(taken) == {"steps"}


def test_functions_of_python_and_arguments(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(spark)
    session.register("T", [("a", 1), ("bcd", 2)], "(string, long)")

    @session.function
    def longer(text: str, most: int) -> str:
        return text + "!" if len(text) < most else text

    @session.function
    def refuses(text: str, most: int) -> str:
        raise ValueError(f"not {text} of {most}")

    step = "repeat x = (select t from (t, n) in T) step select distinct {0}(t, {1}) from t in x"
    for most, way in ((1 << 20, "task"), (-1, "steps")):
        with ways(monkeypatch, MOST_BYTES=most) as taken:
            (answer,) = session.run(f"{step.format('longer', 'toLong(args[0])')};", ["4"])
            assert answer.value == Bag(["a!!!", "bcd!"])
            with pytest.raises(DataError) as raised:
                session.query(step.format("refuses", 4)).collect()
        assert raised.value.code == "R204"
        assert taken[0] == way


def adding(by: int) -> Callable[[int], int]:
    def shift(n: int) -> int:
        return n + by

    return shift


def compilations(patch: pytest.MonkeyPatch) -> list[int | None]:
    """The limits of the loops that are compiled from now on."""
    limits: list[int | None] = []
    compile_loop = program.compile_single_task_loop

    def compile_and_note(*given: Any) -> Any:
        limits.append(given[-1])
        return compile_loop(*given)

    patch.setattr(loop_parts, "compile_single_task_loop", compile_and_note)
    return limits


def test_a_query_that_runs_again_does_not_compile_its_loop_again(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, path = Session(spark), tmp_path / "numbers.csv"
    limits = compilations(monkeypatch)
    query = (
        f'N = source(line, "{path}", ",", type((int, int))); '
        "repeat x = (select a from (a, b) in N) "
        "step select distinct a + toInt(args[0]) from a in x limit toInt(args[1]);"
    )
    for rows, arguments, expected in (
        ("1,0\n2,0\n", ["1", "3"], [4, 5]),
        ("7,0\n", ["1", "3"], [10]),
        ("7,0\n", ["2", "3"], [13]),
        ("7,0\n", ["2", "4"], [15]),
    ):
        path.write_text(rows)
        assert session.run(query, arguments)[-1].value == Bag(expected)
    assert limits == [3, 3, 4]


def test_what_a_loop_is_compiled_with_is_not_kept_when_it_changes(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stored value that grows, and a function that is written again."""
    session, path = Session(spark), tmp_path / "numbers.csv"
    session.register("N", [1, 2], "long")
    limits = compilations(monkeypatch)
    stored = (
        f'M = source(line, "{path}", ",", type((int, int))); store k := count(M); '
        "repeat x = (select n from n in N) step select n + k from n in x limit 2;"
    )
    for k, expected in ((1, [3, 4]), (10, [21, 22])):
        path.write_text("0,0\n" * k)
        assert session.run(stored)[-1].value == Bag(expected)
    loop = "repeat x = (select n from n in N) step select shift(n) from n in x limit 2;"
    for by, expected in ((1, [3, 4]), (10, [21, 22])):
        session.function(adding(by))
        assert session.run(loop)[-1].value == Bag(expected)
    assert limits == [2] * 4


def test_a_loop_without_an_end(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "repeat x = (select n from n in N) step select n + 1 from n in x;"
    script = infer_script(parse_script(SourceText(text)), DECLARED)
    world = new_world(script, registered=NUMBERS, max_steps=7)
    for most in (1 << 20, -1):
        with ways(monkeypatch, MOST_BYTES=most), pytest.raises(DataError) as raised:
            ScriptRunner(world, lambda: spark).run_item(script.items[0], lambda _item, _value: None)
        assert raised.value.code == "R202"
        assert "7 steps" in str(raised.value)


def test_a_nested_loop_may_be_small_where_the_outer_one_is_not(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_task = placement._run_in_task
    outer: list[bool] = []

    def not_the_first(*given: Any) -> Any:
        outer.append(True)
        return None if len(outer) == 1 else in_task(*given)

    monkeypatch.setattr(placement, "_run_in_task", not_the_first)
    with ways(monkeypatch) as taken:
        agree(f"{OTHERS['nested']};", tables(0), spark, CATALOG)
    assert taken[0] == "steps"
    assert set(taken[1:]) == {"task"}


# --- parts -------------------------------------------------------------------------------


def test_what_is_read_by_several_is_sent_once() -> None:
    text = f"{LOOPS['pagerank']};"
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    query, _ = normal_form(translate(script.items[0].expr, script))
    (loop,) = [term for _, term in query.parts if isinstance(term, Repeat)]
    shared = {variable.number: term for variable, term in query.parts}
    parts = split_loop(loop, shared, script)
    assert parts is not None
    ((_, read),) = parts.inputs
    assert isinstance(read, Scan)
