"""Texts that are asked again: compiled once, and never answered from what was there before.

Every answer is compared with that of the reference evaluator, which compiles the text anew.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import incmrql
from incmrql.algebra.scripts import run_script
from incmrql.compiler import cache, compiled
from incmrql.reference import new_world
from incmrql.spark.batch import queries
from incmrql.spark.batch.queries import QueryRun
from incmrql.spark.batch.scripts import only_term
from incmrql.values import Value, identical, show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

SUMS = "select (x.A, sum(x.B)) from x in xs group by x.A"
ROWS = [{"A": 1, "B": 2}, {"A": 1, "B": 3}, {"A": 2, "B": 4}]


@pytest.fixture
def session(spark: SparkSession) -> incmrql.Session:
    return incmrql.Session(spark=spark)


@pytest.fixture
def stage_counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of calls of each stage."""
    counts: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(module, name)

        def count_call(*given: Any, **named: Any) -> Any:
            counts[name] += 1
            return original(*given, **named)

        monkeypatch.setattr(module, name, count_call)

    count(cache, "compile_script")
    count(compiled, "normal_form")
    count(queries, "statement")
    return counts


def agrees(session: incmrql.Session, text: str, arguments: tuple[str, ...] = ()) -> Value:
    """The answer of a session, once it is that of the reference over what is there now."""
    answer = session.query(text, arguments).collect()
    fresh = incmrql.Session(spark=session.spark)
    fresh._data, fresh._functions = session._data, session._functions
    script = fresh._compile(text, arguments).typed
    given = {name: rows for name, (rows, _) in session._data.items()}
    answers: list[Value] = []
    world = new_world(script, arguments=list(arguments), registered=given)
    run_script(script, world, lambda _, value: answers.append(value))
    assert identical(answer, answers[-1]), f"{show(answer)} is not {show(answers[-1])}"
    return answer


def test_every_stage_is_gone_through_once(
    session: incmrql.Session, stage_counts: Counter[str]
) -> None:
    session.register("xs", ROWS)
    answers = [session.query(SUMS).collect() for _ in range(3)]
    assert identical(answers[0], answers[2])
    assert stage_counts == {"compile_script": 1, "normal_form": 1, "statement": 1}


def test_other_rows_of_the_same_type(session: incmrql.Session, stage_counts: Counter[str]) -> None:
    session.register("xs", ROWS)
    before = agrees(session, SUMS)
    session.register("xs", ROWS[1:])
    assert not identical(agrees(session, SUMS), before)
    assert stage_counts["statement"] == 1


def test_rows_of_another_type(session: incmrql.Session) -> None:
    session.register("xs", ROWS)
    agrees(session, SUMS)
    session.register("xs", [{"A": "one", "B": 0.1}, {"A": "one", "B": 0.2}])
    agrees(session, SUMS)
    session.register("xs", ROWS, type="< A: int, B: int >")
    agrees(session, SUMS)


def test_a_function_that_is_defined_again(session: incmrql.Session) -> None:
    session.register("xs", ROWS)
    text = "select twice(x.B) from x in xs"
    answers = []
    for factor in (2, 3, 4):
        session.function(_times(factor))
        gc.collect()
        answers.append(agrees(session, text))
    assert not identical(answers[0], answers[1])
    assert not identical(answers[1], answers[2])


def _times(factor: int) -> Callable[[int], int]:
    def twice(x: int) -> int:
        return x * factor

    return twice


def test_a_function_that_says_something_else_each_time(session: incmrql.Session) -> None:
    said = [1]

    @session.function
    def offset() -> int:
        return said[0]

    session.register("xs", ROWS)
    before = agrees(session, "select x.B + offset() from x in xs")
    said[0] = 10
    assert not identical(agrees(session, "select x.B + offset() from x in xs"), before)


def test_a_function_of_a_module_is_looked_up_each_time(
    session: incmrql.Session, tmp_path: Path, stage_counts: Counter[str]
) -> None:
    (tmp_path / "helper_of_texts.py").write_text("def half(x: int) -> float:\n    return x / 2\n")
    script = tmp_path / "query.mrql"
    script.write_text("import half from 'helper_of_texts';\nselect half(x.B) from x in xs;")
    session.register("xs", ROWS)
    for _ in range(2):
        session.run(script)
    assert stage_counts["compile_script"] == 2


@pytest.mark.parametrize("type_", ["", ", type(< A: int, B: int >)"])
def test_files_that_are_added(session: incmrql.Session, tmp_path: Path, type_: str) -> None:
    text = f'select (x.A, sum(x.B)) from x in source(parquet, "{tmp_path}"{type_}) group by x.A'
    answers = []
    for number in range(3):
        columns = {"A": pa.array([1, number], pa.int32()), "B": pa.array([5, 6], pa.int32())}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
        answers.append(agrees(session, text))
    assert not identical(answers[0], answers[1])
    assert not identical(answers[1], answers[2])


def test_files_of_another_type(session: incmrql.Session, tmp_path: Path) -> None:
    text = f'select x.A + x.A from x in source(parquet, "{tmp_path}")'
    pq.write_table(pa.table({"A": pa.array([1, 2], pa.int32())}), tmp_path / "0.parquet")
    agrees(session, text)
    pq.write_table(pa.table({"A": pa.array([0.5, 2.0])}), tmp_path / "0.parquet")
    agrees(session, text)
    (tmp_path / "0.parquet").unlink()
    with pytest.raises(incmrql.QueryError):
        session.query(text)


def test_an_include_that_changes(session: incmrql.Session, tmp_path: Path) -> None:
    session.register("xs", ROWS)
    text = f'include "{tmp_path}/shared.mrql"; select more(x.B) from x in xs'
    (tmp_path / "shared.mrql").write_text("macro more(x) { x + 1 };")
    before = agrees(session, text)
    (tmp_path / "shared.mrql").write_text("macro more(x) { x + 2 };")
    assert not identical(agrees(session, text), before)


def test_other_arguments(session: incmrql.Session) -> None:
    session.register("xs", ROWS)
    text = "select x.B + toInt(args[0]) from x in xs"
    answers = [agrees(session, text, (argument,)) for argument in ("1", "2", "1")]
    assert identical(answers[0], answers[2])
    assert not identical(answers[0], answers[1])


def test_fast_and_exact_sums_have_texts_of_their_own(session: incmrql.Session) -> None:
    session.register("xs", [{"A": 1, "B": 0.1}])
    result, texts = session.query(SUMS), []
    for fast in (False, True, False):
        engine = result._prepare_engine()
        engine.fast_sums = fast
        query = engine.query(result.item.expr)
        assert query is not None
        term = only_term(query)
        assert term is not None
        with engine._query_context() as context:
            texts.append(QueryRun(context, query).statement(term).text)
    assert texts[0] == texts[2]
    assert texts[0] != texts[1]


def test_a_source_that_grows_is_no_longer_sent_to_all_tasks(
    session: incmrql.Session, tmp_path: Path, stage_counts: Counter[str]
) -> None:
    ours = session.private_spark()
    ours.conf.set("spark.sql.autoBroadcastJoinThreshold", "4000b")
    session.register("xs", ROWS)
    source = f'source(parquet, "{tmp_path}", type(< A: int >))'
    text = f"select (x.B, y.A) from x in xs, y in {source} where x.A = y.A"
    counts = []
    for number in range(2):
        column = pa.array(range(number * 10_000 + 2), pa.int32())
        pq.write_table(pa.table({"A": column}), tmp_path / f"{number}.parquet")
        for _ in range(2):
            agrees(session, text)
        counts.append(stage_counts["statement"])
    assert counts == [1, 2]


def test_so_many_texts_are_kept(session: incmrql.Session, stage_counts: Counter[str]) -> None:
    session.register("xs", ROWS)
    for number in range(cache.CAPACITY + 1):
        session.query(f"select x.B + {number} from x in xs")
    session.query("select x.B + 1 from x in xs")
    assert stage_counts["compile_script"] == cache.CAPACITY + 1
    session.query("select x.B + 0 from x in xs")
    assert stage_counts["compile_script"] == cache.CAPACITY + 2
    assert len(session._compile_cache._entries) == cache.CAPACITY


def test_frames_of_one_text_are_apart(session: incmrql.Session) -> None:
    session.register("xs", ROWS)
    text = "select < A: a, S: sum(x.B) > from x in xs group by a: x.A"
    one, other = (session.query(text).to_df() for _ in range(2))
    assert one.join(other, one.A == other.A).count() == 2
    assert not session.private_spark().catalog.listTables()
