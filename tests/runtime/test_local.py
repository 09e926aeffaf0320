"""The local engine: the same batches, checkpoints and bits as on Spark, without a JVM."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import incmrql
from incmrql.api.runs import Run
from incmrql.errors import DataError, DifferenceFound
from incmrql.runtime.local_replay import net_weights
from incmrql.values import Bag, Record, Value, decode, identical, show
from tests.runtime.here import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SALES = 'stream(line, "{data}", ",", type(< c: string, p: double >), deletes: "{gone}")'
BY_CITY = f"""incr select (s.c, count(s), avg(s.p), max(s.p)) from s in {SALES}
group by s.c;"""
LISTED = f"incr select s from s in {SALES} order by s.p desc limit 3;"
QUERIES = [BY_CITY, LISTED]


def local() -> incmrql.Session:
    return incmrql.Session(engine="local")


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    settle(path)


def text_of(query: str, folder: Path) -> str:
    (folder / "data").mkdir(exist_ok=True)
    (folder / "gone").mkdir(exist_ok=True)
    return query.format(data=folder / "data", gone=folder / "gone")


def batches(folder: Path, count: int = 4) -> Any:
    """Files of rows that come and of rows that go, one batch after the other."""
    chance = np.random.default_rng(7)
    there: list[str] = []
    for number in range(count):
        new = [
            f"{'abcé'[n % 4]},{chance.normal() * 10.0 ** int(n)!r}"
            for n in chance.integers(-9, 9, 30)
        ]
        put(folder / "data", f"{number}.csv", "\n".join(new) + "\n")
        gone = there[::3]
        there = [row for row in there if row not in gone] + new
        if gone:
            put(folder / "gone", f"{number}.csv", "\n".join(gone) + "\n")
        yield number


def state_of(run: Run) -> dict[str, Any]:
    """All that a checkpoint says of its tables."""
    state = run._driver.state
    return {name: (table.rows, len(table.segments)) for name, table in state.tables.items()}


# --- without Spark --------------------------------------------------------------------------


@pytest.mark.parametrize("query", QUERIES)
def test_every_batch_is_right(query: str, tmp_path: Path) -> None:
    with local() as session:
        run = session.query(text_of(query, tmp_path)).start(
            checkpoint=tmp_path / "ck", settle=0, keep_input="all"
        )
        for number in batches(tmp_path):
            batch = run.step()
            assert batch is not None
            assert (batch.number, batch.tasks, batch.rows_by_row) == (number, 1, 0)
            assert run.verify().batch == number
        assert run.step() is None


def test_a_stream_of_pushed_rows() -> None:
    with local() as session:
        points = session.stream("points", "< x: decimal(7,2), d: date >")
        run = session.query("select (k, sum(p.x)) from p in points group by k: p.d").start()
        points.insert([{"x": Decimal("1.50"), "d": date(1969, 12, 31)}] * 2)
        batch = run.step()
        assert batch is not None
        assert batch.changes() == [((date(1969, 12, 31), Decimal("3.00")), 1)]
        points.delete(pa.table({"x": [Decimal("1.50")], "d": [date(1969, 12, 31)]}))
        run.step()
        same(run.answer(), Bag([(date(1969, 12, 31), Decimal("1.50"))]))
        points.delete([{"x": Decimal("9.00"), "d": None}])
        with pytest.raises(DataError, match="not there") as refused:
            run.step()
        assert refused.value.code == "R205"
        assert run.step() is None
        assert len(points.set_aside) == 1
        run.verify()


def same(found: Value, expected: Value) -> None:
    assert identical(found, expected), f"{show(found)} is not {show(expected)}"


def test_earlier_answers_and_going_back(tmp_path: Path) -> None:
    checkpoint, output = tmp_path / "ck", tmp_path / "out"
    answers = []
    with local() as session:
        run = session.query(text_of(BY_CITY, tmp_path)).start(
            checkpoint=checkpoint, output=output, settle=0
        )
        for _ in batches(tmp_path, 3):
            run.step()
            answers.append(run.answer())
    saved = incmrql.open(checkpoint)
    same(saved.answer(as_of=1), answers[1])
    assert saved.roll_back(0).batch == 3
    same(saved.answer(), answers[0])
    with local() as session:
        run = session.query(text_of(BY_CITY, tmp_path)).start(
            checkpoint=checkpoint, output=output, settle=0
        )
        run.step()
        same(run.answer(), answers[2])
    (current,) = output.rglob("current.parquet")
    assert len(pq.read_table(current)) == len(answers[2] or ())


def test_an_answer_as_a_dataframe_is_refused() -> None:
    with local() as session:
        points = session.stream("points", "< x: int >")
        run = session.query("select p.x from p in points").start()
        points.insert([{"x": 1}])
        run.step()
        with pytest.raises(DataError, match="a DataFrame of the answer needs Spark") as refused:
            run.answer_df()
        assert refused.value.code == "R329"


def test_registered_data_and_batch_queries() -> None:
    with local() as session:
        session.register("names", [{"k": 1, "n": "one"}], "< k: int, n: string >")
        rows = session.stream("rows", "< k: int, v: double >")
        rows.insert([{"k": 1, "v": 2.0}, {"k": 2, "v": 3.0}])
        query = session.query("select (n.n, r.v) from r in rows, n in names where r.k = n.k")
        same(query.collect(), Bag([("one", 2.0)]))
        run = query.start()
        run.step()
        same(run.answer(), query.collect())


def test_verify_finds_a_wrong_answer_and_a_wrong_ledger(tmp_path: Path) -> None:
    with local() as session:
        run = session.query(text_of(BY_CITY, tmp_path)).start(
            checkpoint=tmp_path / "ck", settle=0, keep_input="all"
        )
        for _ in batches(tmp_path, 2):
            run.step()
        driver = run._driver
        tables = dict(driver.state.tables)
        ledger = next(name for name in tables if name.startswith("l"))
        empty = replace(tables[ledger], levels=(), bases=())
        driver.state = replace(driver.state, tables={**tables, ledger: empty})
        with pytest.raises(DifferenceFound, match="the ledger of"):
            run.verify()


def test_lineage_of_an_answer(tmp_path: Path) -> None:
    query = 'incr select s.p from s in stream(line, "{data}", ",", type(< c: string, p: double >));'
    put(tmp_path / "data", "1.csv", "a,1\n")
    with local() as session:
        run = session.query(text_of(query, tmp_path)).start(settle=0)
        run.step()
        ((value, leaves),) = run.lineage()
        assert value == 1.0
        ((_, row),) = leaves
        assert row == Record({"c": "a", "p": 1.0})


def test_two_runs_with_loops_of_their_own_in_one_process() -> None:
    """Their batches, and answers asked of them, run in several threads."""
    with local() as session:
        rows = session.stream("rows", "< k: int, v: double >")
        runs = [
            session.query(f"select (k, sum(r.v) * {n}.0) from r in rows group by k: r.k").start(
                trigger="1ms"
            )
            for n in (1, 2)
        ]
        done = threading.Event()
        wrong: list[Value] = []

        def ask() -> None:
            while not done.is_set():
                answers = [run.answer() for run in runs]
                wrong.extend(answer for answer in answers if len(answer or ()) > 3)

        asking = threading.Thread(target=ask)
        asking.start()
        for number in range(20):
            rows.insert([{"k": number % 3, "v": 1.0}])
        while any(total(run) < 20 * n for n, run in enumerate(runs, 1)):
            assert all(run.status.state == "running" for run in runs)
        done.set()
        asking.join()
        assert not wrong
        same(runs[0].answer(), Bag([(0, 7.0), (1, 7.0), (2, 6.0)]))


def total(run: Run) -> float:
    return float(sum(value for _, value in run.answer() or ()))


@pytest.mark.parametrize(
    ("what", "named"),
    [
        (lambda s: s.spark, "session.spark"),
        (lambda s: s.sql("select 1"), "the analysis of a SQL text"),
        (lambda s: s.script(Path("x.sql")), "the analysis of a SQL text"),
        (lambda s: s.stream("p", "< a: int >").df, "session.spark"),
        (lambda s: s.query("select x from x in {1}").to_df(), "a DataFrame of the answer"),
    ],
)
def test_what_needs_spark_is_refused_by_name(what: Any, named: str) -> None:
    with local() as session, pytest.raises(DataError) as refused:
        what(session)
    assert refused.value.code == "R329"
    assert refused.value.message == f'{named} needs Spark, and this is the engine "local"'


def test_the_engine_has_no_spark_to_set_up() -> None:
    with pytest.raises(DataError, match="no Spark to set up"):
        incmrql.Session(engine="local", master="local[1]")
    with pytest.raises(DataError, match='engine is "spark" or "local"'):
        incmrql.Session(engine="flink")  # type: ignore[arg-type]


def test_a_process_that_runs_batches_does_not_load_pyspark() -> None:
    program = """
import sys, incmrql
session = incmrql.Session(engine="local")
rows = session.stream("rows", "< k: int >")
run = session.query("select (k, count(r)) from r in rows group by k: r.k").start()
rows.insert([{"k": 1}])
run.step()
print(run.answer(), "pyspark" in sys.modules)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "Bag([(1, 1)]) False\n"


def test_net_weights_count_deletions(tmp_path: Path) -> None:
    with local() as session:
        run = session.query(text_of(BY_CITY, tmp_path)).start(settle=0)
        put(tmp_path / "data", "1.csv", "a,1\na,1\nb,2\n")
        put(tmp_path / "gone", "1.csv", "a,1\n")
        run.step()
        driver = run._driver
        (stream,) = driver.program.streams
        weights = net_weights(driver.compiled, stream, driver.ingested_files())
        shown = {decode(row).c: weight for row, weight in weights.items()}
        assert shown == {"a": 1, "b": 1}


# --- with Spark -----------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("first", ["spark", "local"])
def test_a_checkpoint_resumes_with_either_engine(
    first: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The engines take turns; answers, changes and tables are those of one engine alone."""

    def session_of(engine: str) -> incmrql.Session:
        return local() if engine == "local" else incmrql.Session(spark=spark)

    text = text_of(BY_CITY, tmp_path)
    told: list[Any] = []
    alone: list[Any] = []
    with local() as session:
        judge = session.query(text).start(checkpoint=tmp_path / "alone", settle=0)
        for number in batches(tmp_path):
            engine = first if number % 2 == 0 else {"spark": "local", "local": "spark"}[first]
            with session_of(engine) as turn:
                run = turn.query(text).start(checkpoint=tmp_path / "ck", settle=0)
                batch = run.step()
                assert batch is not None
                told.append((batch.changes(), run.answer(), state_of(run)))
                assert run.verify().batch == number
                run.stop()
            batch = judge.step()
            assert batch is not None
            alone.append((batch.changes(), judge.answer(), state_of(judge)))
    assert repr(told) == repr(alone)
