"""Streams from Python: pushed rows, folders, the life of a run."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import incmrql
from incmrql.api.runs import Run
from incmrql.runtime.report import Batch
from incmrql.values import Bag, Record, Value, encode, identical, show
from tests.runtime.streaming import changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

AVERAGES = "select (k, avg(p.Y)) from p in points group by k: p.X"
FOLDER = (
    'select (k, sum(x.V)) from x in stream(line, "{folder}", ",", type(< K: int, V: int >)) '
    "group by k: x.K"
)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[incmrql.Session]:
    with incmrql.Session(spark=spark) as opened:
        yield opened


def same(actual: Value, expected: Value) -> None:
    assert identical(actual, expected), f"{show(actual)} is not {show(expected)}"


def step(run: Run) -> Batch:
    batch = run.step()
    assert batch is not None
    return batch


def put(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    os.utime(path, (1_000_000, 1_000_000))
    return path


def test_the_public_face(session: incmrql.Session) -> None:
    """What other people's scripts rely on, line by line."""
    points = session.stream("points", "<X: double, Y: double>")
    run = session.query("select (k, avg(p.Y)) from p in points group by k: p.X").start(
        checkpoint=None
    )
    points.insert([{"X": 1.0, "Y": 2.0}])
    points.delete([])
    batch = run.step()
    assert batch is not None
    assert (batch.number, batch.rows_in) == (0, 1)
    assert batch.changes() == [((1.0, 2.0), 1)]
    assert batch.seconds > 0
    assert batch.state_rows > 0
    same(run.answer(), Bag([(1.0, 2.0)]))
    assert run.answer_df().count() == 1
    report = run.verify()
    assert (report.batch, report.rows) == (0, 1)
    assert run.checkpoint.exists()
    run.stop()
    assert not run.checkpoint.exists()


def test_every_batch_has_the_answer_of_all_rows_so_far(session: incmrql.Session) -> None:
    chance = random.Random(3)
    points = session.stream("points", "< X: double, Y: double >")
    run = session.query(AVERAGES).start()
    there: list[tuple[float, float]] = []
    total: Counter[bytes] = Counter()
    for number in range(4):
        new = [(float(chance.randrange(3)), chance.random() * 1e16) for _ in range(20)]
        assert points.insert(new) == 20
        there += new
        chance.shuffle(there)
        gone, there = there[:5], there[5:]
        points.delete(gone)
        batch = step(run)
        assert (batch.number, batch.inserted, batch.deleted) == (number, 20, 5)
        assert (batch.jobs, batch.stages, batch.tasks) == (1, 1, 1)
        assert batch.state_bytes > 0
        assert min(batch.job, batch.commit, batch.publish, batch.kernel) >= 0
        for row, weight in batch.changes():
            total[encode(row)] += weight
        same(run.answer(), session.query(AVERAGES).collect())
        assert total == Counter(map(encode, run.answer()))
    assert run.step() is None
    assert run.verify().rows == len(run.answer())


@pytest.mark.parametrize("form", ["records", "pandas", "arrow", "iterator"])
def test_rows_come_in_many_forms(session: incmrql.Session, form: str) -> None:
    rows = [{"A": 1, "B": "x"}, {"A": 2, "B": None}]
    given: Any = {
        "records": [Record([("A", 1), ("B", "x")]), (2, None)],
        "pandas": pd.DataFrame(rows),
        "arrow": pa.Table.from_pylist(rows),
        "iterator": iter(rows),
    }[form]
    stream = session.stream("rows", "< A: int, B: string >")
    with session.query("select r from r in rows").start() as run:
        stream.insert(given)
        step(run)
        same(run.answer(), Bag([Record([("A", 1), ("B", "x")]), Record([("A", 2), ("B", None)])]))
        same(session.query("rows").collect(), run.answer())
        assert sorted(map(tuple, run.answer_df().collect()), key=str) == [(1, "x"), (2, None)]


@pytest.mark.parametrize(
    ("type_", "rows"),
    [
        ("(int, string)", [(1, "a"), (1, "a")]),
        ("double", [0.1, float("nan"), -0.0]),
        ("< A: bag(int), T: (int, double) >", [{"A": [2, 1], "T": (1, 0.5)}]),
        ("JSON", [{"a": [1, None]}, "x"]),
        ("< value: int >", [{"value": 1}]),
    ],
)
def test_rows_of_any_type(session: incmrql.Session, type_: str, rows: list[Any]) -> None:
    stream = session.stream("rows", type_)
    stream.insert(rows)
    with session.query("select x from x in rows").start() as run:
        step(run)
        same(run.answer(), session.query("rows").collect())
        assert run.answer_df().count() == len(rows)
        assert run.verify().rows == len(rows)


def test_rows_from_before_the_start_are_in_batch_0_of_every_run(session: incmrql.Session) -> None:
    points = session.stream("points", "< X: double, Y: double >")
    points.insert([(1.0, 1.0)])
    one = session.query("count(points)").start()
    points.insert([(1.0, 2.0)])
    assert step(one).rows_in == 2
    two = session.query("sum(points.Y)").start()
    points.insert([(1.0, 4.0)])
    assert step(two).rows_in == 3
    assert step(one).rows_in == 1
    assert (one.answer(), two.answer()) == (3, 7.0)
    one.stop()
    points.insert([(1.0, 8.0)])
    step(two)
    assert two.answer() == 15.0
    assert session.query("count(points)").collect() == 4


def test_rows_that_are_not_kept_go_to_one_start_only(session: incmrql.Session) -> None:
    rows = session.stream("rows", "int", keep=False)
    rows.insert([1, 2])
    one = session.query("count(rows)").start()
    two = session.query("count(rows)").start()
    rows.insert([3])
    assert (step(one).rows_in, step(two).rows_in) == (3, 1)
    with pytest.raises(incmrql.DataError, match="are not kept"):
        session.query("count(rows)").collect()


def test_a_run_goes_on_from_its_checkpoint(session: incmrql.Session, tmp_path: Path) -> None:
    rows = session.stream("rows", "int")
    query = session.query("sum(rows)")
    rows.insert([1])
    with query.start(checkpoint=tmp_path / "ck") as run:
        step(run)
        rows.insert([2])  # arrived, but not ingested
    rows.insert([4])  # nobody is there
    with query.start(checkpoint=str(tmp_path / "ck")) as run:
        batch = step(run)
        assert (batch.number, batch.rows_in) == (1, 2)
        assert run.answer() == 7
        assert run.verify().rows == 1
        assert run.step() is None
    with pytest.raises(incmrql.CheckpointError, match="a different query"):
        session.query("max(rows)").start(checkpoint=tmp_path / "ck")
    with session.query("max(rows)").start(checkpoint=tmp_path / "ck", on_change="rebuild") as run:
        assert run.answer() == 4


def test_a_refused_batch_changes_nothing_and_the_run_goes_on(session: incmrql.Session) -> None:
    rows = session.stream("rows", "< K: int, V: int >")
    other = session.stream("other", "int")
    run = session.query("(sum(rows.V), count(other))").start()
    rows.insert([(1, 5)])
    step(run)
    rows.delete([(9, 9)])
    other.insert([1])
    with pytest.raises(incmrql.DataError, match=r"< K: 9, V: 9 >") as caught:
        run.step()
    assert caught.value.code == "R205"
    assert "set aside" in caught.value.__notes__[0]
    assert run.answer() == (5, 0)
    assert run.status.batch == 0
    rows.insert([(1, 6)])
    assert step(run).number == 1
    assert run.answer() == (11, 1)
    assert run.verify().batch == 1
    assert session.query("count(rows)").collect() == 2
    kinds = [type(event.problem).__name__ for event in run.events()]
    assert kinds == ["NoneType", "DataError", "NoneType"]


def test_wrong_rows_are_refused_at_the_call(session: incmrql.Session) -> None:
    rows = session.stream("rows", "< K: int, V: int >", insert_only=True)
    with session.query("count(rows)").start() as run:
        with pytest.raises(incmrql.DataError, match='row 1, field "V"'):
            rows.insert([(1, 1), (1, "x")])
        with pytest.raises(incmrql.DataError, match="insert_only"):
            rows.delete([(1, 1)])
        assert step(run).rows_in == 0
    assert session.query("count(rows)").collect() == 0


def test_declared_keys_are_checked(session: incmrql.Session) -> None:
    rows = session.stream("rows", "< K: int, V: int >", key="K")
    with session.query("sum(rows.V)").start() as run:
        rows.insert([(1, 1)])
        step(run)
        rows.insert([(1, 2)])
        with pytest.raises(incmrql.DataError) as caught:
            run.step()
        assert caught.value.code == "R304"
        rows.delete([(1, 1)])
        rows.insert([(1, 2)])
        step(run)
        assert run.answer() == 2


def test_trusted_deletes_need_no_ledger(session: incmrql.Session) -> None:
    checked = session.stream("checked", "int")
    trusted = session.stream("trusted", "int", trusted_deletes=True)
    one, two = (session.query(f"sum({name})").start() for name in ("checked", "trusted"))
    checked.insert([1, 2])
    trusted.insert([1, 2])
    assert step(one).state_rows > step(two).state_rows
    trusted.delete([2])
    step(two)
    assert two.answer() == 1


def test_each_batch_alone(session: incmrql.Session, tmp_path: Path) -> None:
    names = put(tmp_path / "names", "1.csv", "1,one\n2,two\n")
    session.register("extra", [(1, 10), (2, 20)], type="(int, int)")
    rows = session.stream("rows", "int")
    text = (
        f'select (n, e, count(r)) from r in rows, (i, n) in source(line, "{names}", ",", '
        "type((int, string))), (j, e) in extra where r = i and r = j group by (n, e)"
    )
    run = session.query(text).start(window=True, checkpoint=tmp_path / "ck")
    for batch in ([1, 1, 2], [2], [1]):
        rows.insert(batch)
        published = step(run)
        wanted = Bag([({1: "one", 2: "two"}[i], 10 * i, batch.count(i)) for i in set(batch)])
        same(run.answer(), wanted)
        same(Bag([row for row, _ in published.changes()]), wanted)
        assert run.verify().rows == len(wanted)
    assert run.step() is None
    run.stop()
    with session.query(text).start(window=True, checkpoint=tmp_path / "ck") as run:
        rows.insert([2, 2])
        step(run)
        same(run.answer(), Bag([("two", 20, 2)]))
    with pytest.raises(incmrql.CheckpointError):
        session.query(text).start(checkpoint=tmp_path / "ck")


def test_folders_and_output(session: incmrql.Session, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(folder, "1.csv", "1,2\n2,3\n")
    query = session.query(FOLDER.format(folder=folder))
    with query.start(output=tmp_path / "out", format="parquet", mode="changes") as run:
        assert step(run).number == 0
        assert run.step() is None
        put(folder, "2.csv", "1,5\n")
        batch = step(run)
        assert sorted(batch.changes()) == [((1, 2), -1), ((1, 7), 1)]
        assert batch.outputs == (tmp_path / "out" / "batch=000001",)
        assert run.verify().rows == 2
        assert changes(tmp_path / "out")["batch=000001"] == Counter({(1, 7): 1, (1, 2): -1})
    with query.start(settle="300ms") as run:
        (folder / "3.csv").write_text("3,1\n")  # a moment ago: waited for
        assert step(run).rows_in == 4


def test_a_loop_in_the_background(session: incmrql.Session) -> None:
    rows = session.stream("rows", "int")
    seen: list[Batch] = []
    arrived = threading.Condition()

    def note(batch: Batch) -> None:
        with arrived:
            seen.append(batch)
            arrived.notify()

    run = session.query("sum(rows)").start(trigger="20ms", on_batch=note, verify=2)
    before = run.status
    assert before.state == "running"
    with pytest.raises(incmrql.DataError, match="has a loop that runs its batches"):
        run.step()
    for number in range(3):
        with arrived:
            rows.insert([10**number])
            assert arrived.wait_for(lambda: sum(batch.rows_in for batch in seen) > number, 60)  # noqa: B023
    assert not run.await_termination(timeout=0.01)
    assert run.answer() == 111
    run.stop()
    assert run.await_termination()
    assert run.status.state == "stopped"
    reports = [event.report for event in run.events()]
    assert [batch.report for batch in seen] == reports
    total: Counter[int] = Counter()
    for batch in seen:
        for value, weight in batch.changes():
            total[value] += weight
    assert +total == Counter({111: 1})


def test_what_is_there_now(session: incmrql.Session, tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path / "in", f"{number}.csv", f"1,{number}\n")
    query = session.query(FOLDER.format(folder=tmp_path / "in"))
    with query.start(available_now=True, max_files_per_batch=1) as run:
        assert run.await_termination(timeout=60)
        assert run.status.state == "finished"
        assert run.status.batch == 2
        same(run.answer(), Bag([(1, 3)]))
        put(tmp_path / "in", "3.csv", "1,1\n")
        assert step(run).number == 3
    with query.start(trigger=0.0, max_batches=1) as run:
        assert run.await_termination(timeout=60)
        assert run.status.batch == 0


def test_an_exception_in_a_callback(session: incmrql.Session) -> None:
    def fail(batch: Batch) -> None:
        raise ZeroDivisionError(batch.number)

    rows = session.stream("rows", "int")
    rows.insert([1])
    run = session.query("sum(rows)").start(on_batch=fail)
    with pytest.raises(ZeroDivisionError):
        run.step()
    assert run.answer() == 1  # the batch has happened
    rows.insert([2])
    with pytest.raises(ZeroDivisionError):
        run.step()
    assert run.answer() == 3
    loop = session.query("count(rows)").start(on_batch=fail, trigger=0.0)
    with pytest.raises(ZeroDivisionError):
        loop.await_termination(timeout=60)
    assert loop.status.state == "failed"
    assert isinstance(loop.status.problem, ZeroDivisionError)
    with pytest.raises(incmrql.DataError, match="has failed") as caught:
        loop.answer()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert loop.step() is None
    assert loop.answer() == 2


def test_a_loop_that_has_failed_can_be_stepped_on(session: incmrql.Session, tmp_path: Path) -> None:
    bad = put(tmp_path / "in", "1.csv", "1,1\n2,2\n")
    text = FOLDER.format(folder=tmp_path / "in")
    with session.query(text).start(trigger=0.0, checkpoint=tmp_path / "ck") as run:
        while run.status.batch < 0:
            run.await_termination(timeout=0.01)
        bad.write_text("1,2\n")
        with pytest.raises(incmrql.DataError, match="changed after it was ingested"):
            run.await_termination(timeout=60)
        assert run.status.state == "failed"
        with pytest.raises(incmrql.DataError, match="has failed"):
            run.answer()
        bad.write_text("1,1\n2,2\n")
        put(tmp_path / "in", "2.csv", "1,4\n")
        step(run)
        same(run.answer(), Bag([(1, 5), (2, 2)]))


def test_batches_keep_their_changes(session: incmrql.Session) -> None:
    rows = session.stream("rows", "int")
    run = session.query("select x from x in rows").start()
    batches = []
    for number in range(3):
        rows.insert([number])
        batches.append(step(run))
    run.stop()
    assert [batch.changes() for batch in batches] == [[(n, 1)] for n in range(3)]
    assert batches[0].rewritten == 0
    assert repr(batches[0]).startswith("Batch(number=0, rows_in=1, changed=1")
    with pytest.raises(AttributeError):
        batches[0].nonsense  # noqa: B018


def test_a_frame_of_the_answer_stays_as_it_was(session: incmrql.Session) -> None:
    rows = session.stream("rows", "< K: int, V: int >")
    text = "select < key: k, total: sum(r.V) > from r in rows group by k: r.K"
    run = session.query(text).start(buckets=4)
    rows.insert([(k, 1) for k in range(50)])
    step(run)
    frame = run.answer_df()
    assert frame.columns == ["key", "total"]
    rows.insert([(k, 1) for k in range(60)])
    step(run)
    assert {tuple(row) for row in frame.collect()} == {(k, 1) for k in range(50)}
    after = {(k, 2 if k < 50 else 1) for k in range(60)}
    assert {tuple(row) for row in run.answer_df().collect()} == after
    ordered = session.query("select r.K from r in rows order by r.K desc limit 2").start()
    step(ordered)
    assert [row.value for row in ordered.answer_df().collect()] == [59, 58]
    assert ordered.verify().rows == 2


def test_stored_values_and_the_last_query(session: incmrql.Session) -> None:
    rows = session.stream("rows", "int")
    session.register("limits", [10, 20])
    run = session.query(
        "store most := max(limits); count(rows); sum(select x from x in rows where x < most)"
    ).start()
    rows.insert([1, 15, 25])
    step(run)
    assert run.answer() == 16
    assert run.verify().rows == 1


def test_what_makes_no_sense_is_refused(session: incmrql.Session) -> None:
    session.register("table", [1])
    with pytest.raises(incmrql.DataError, match="reads no stream"):
        session.query("sum(table)").start()
    rows = session.stream("rows", "int")
    query = session.query("sum(rows)")
    cases: list[tuple[str, Any]] = [
        ("no option", lambda: query.start(nonsense=1)),  # type: ignore[call-arg]
        ("not a time", lambda: query.start(trigger="soon")),
        ("follow", lambda: session.query("lineage select x from x in rows").start()),
        ("already", lambda: session.stream("rows", "int")),
        ("already", lambda: session.stream("table", "int")),
        ("already", lambda: session.register("rows", [1])),
        ("cannot be the name", lambda: session.stream("a b", "int")),
        ("not a type", lambda: session.stream("more", "integral")),
        ("no option", lambda: session.stream("more", "int", header=True)),
        ("is not a column", lambda: session.stream("more", "< A: int >", key=("A", "B"))),
        ("Keys need", lambda: session.stream("more", "int", key="A")),
        ("no sign", lambda: session.stream("more", "int", sign="A")),
        ("must be a list", lambda: rows.insert({"A": 1})),
    ]
    for match, call in cases:
        with pytest.raises(incmrql.DataError, match=match):
            call()
    run = query.start()
    with pytest.raises(incmrql.DataError, match="no loop"):
        run.await_termination()
    run.stop()
    run.stop()
    for ask in (run.step, run.answer, run.answer_df, run.verify):
        with pytest.raises(incmrql.DataError, match="is stopped"):
            ask()
    assert run.await_termination()
    assert run.status.state == "stopped"


def test_stopping_from_a_callback_and_with_the_session(spark: SparkSession) -> None:
    session = incmrql.Session(spark=spark)
    rows = session.stream("rows", "int")
    ended = threading.Event()

    def stop(_batch: Batch) -> None:
        run.stop()
        ended.set()

    run = session.query("count(rows)").start(trigger="1s", on_batch=stop)
    assert ended.wait(60)
    assert run.await_termination(timeout=10)
    other = session.query("count(rows)").start()
    session.stop()
    assert other.status.state == "stopped"
    with pytest.raises(incmrql.DataError, match="stopped"):
        rows.insert([1])


def test_an_answer_that_is_not_kept(session: incmrql.Session, tmp_path: Path) -> None:
    """Changes are right, the whole is refused; what follows from other state is there anyway."""
    rows = session.stream("rows", "< K: int, V: int >")
    rows.insert([(1, 2), (2, 3)])
    text = "select (r.K, r.V) from r in rows where r.V > 2"
    place = tmp_path / "ck"
    with session.query(text).start(checkpoint=place, keep_answer=False) as run:
        assert step(run).changes() == [((2, 3), 1)]
        rows.delete([(2, 3)])
        assert step(run).changes() == [((2, 3), -1)]
        for asked in (run.answer, run.answer_df):
            with pytest.raises(incmrql.DataError) as caught:
                asked()
            assert caught.value.code == "R312"
        assert run.verify().rows == 0
    with pytest.raises(incmrql.CheckpointError, match="was created with keep_answer=False"):
        session.query(text).start(checkpoint=place)
    with pytest.raises(incmrql.DataError, match="not kept"):
        session.query(text).start(keep_answer=False, output=tmp_path / "out", mode="snapshot")
    counts = "select (k, count(r)) from r in rows group by k: r.K"
    with session.query(counts).start(keep_answer=False) as run:
        step(run)
        same(run.answer(), Bag([(1, 1)]))


def test_bad_rows_of_a_run_are_a_warning_that_says_how_many_and_the_first(
    session: incmrql.Session, tmp_path: Path
) -> None:
    put(tmp_path / "in", "1.csv", "1,2\nbad\nworse\n")
    run = session.query(FOLDER.format(folder=tmp_path / "in")).start()
    with pytest.warns(incmrql.IncmrqlWarning, match=r"2 lines of .*1\.csv were dropped: line 2:"):
        step(run)
    assert run.answer() == Bag([(1, 2)])


def test_bad_rows_of_a_run_go_to_quarantine_and_to_whoever_asks_for_reports(
    spark: SparkSession, tmp_path: Path
) -> None:
    reports: list[tuple[int, str]] = []
    put(tmp_path / "in", "1.csv", "1,2\nbad\n")
    with incmrql.Session(
        spark=spark,
        quarantine=tmp_path / "q",
        on_report=lambda report, policy: reports.append((report.bad, policy)),
    ) as session:
        run = session.query(FOLDER.format(folder=tmp_path / "in")).start()
        step(run)
    assert reports == [(1, "quarantine")]
    (file,) = (tmp_path / "q").iterdir()
    assert file.name == "batch-000000.jsonl"
    assert '"text": "bad"' in file.read_text()


def test_output_that_is_left_out_at_a_later_start_continues_with_a_warning(
    session: incmrql.Session, tmp_path: Path
) -> None:
    points = session.stream("points", "<X: double, Y: double>")
    query = session.query(AVERAGES)
    with query.start(checkpoint=tmp_path / "ck", output=tmp_path / "out") as run:
        points.insert([{"X": 1.0, "Y": 2.0}])
        step(run)
    with pytest.warns(incmrql.IncmrqlWarning, match=r"output continues in .*out, as recorded"):
        run = query.start(checkpoint=tmp_path / "ck")
    points.insert([{"X": 1.0, "Y": 4.0}])
    step(run)
    run.stop()
    assert changes(tmp_path / "out")["batch=000001"] == {(1.0, 2.0): -1, (1.0, 3.0): 1}


def test_a_rebuild_by_tasks_publishes_the_rows_that_differ(
    session: incmrql.Session, tmp_path: Path
) -> None:
    """The folder adds up to the new answer, and holds no row that stays as it was."""
    (tmp_path / "in").mkdir()
    rows = "".join(f"{n % 50},{n}\n" for n in range(300))
    (tmp_path / "in" / "1.csv").write_text(rows)
    text = (
        f'incr select (k, count(x)) from x in stream(line, "{tmp_path / "in"}", ",", '
        "type(< K: int, N: int >)) where x.N < {most} group by k: x.K"
    )
    options: Any = {"checkpoint": tmp_path / "ck", "output": tmp_path / "out", "settle": 0}
    with session.query(text.format(most=250)).start(**options) as run:
        step(run)
    with session.query(text.format(most=270)).start(**options, on_change="rebuild") as run:
        answer = run.answer()
    assert answer == Bag([(k, 6 if k < 20 else 5) for k in range(50)])
    total: Counter[tuple[int, int]] = Counter()
    changes = []
    for path in sorted((tmp_path / "out").glob("batch=*/*.parquet")):
        for *row, weight in zip(*pq.read_table(path).to_pydict().values(), strict=True):
            total[tuple(row)] += weight
            changes.append((tuple(row), weight))
    assert +total == Counter(answer)
    assert min(total.values()) == 0
    assert len(changes) == 50 + 2 * 20
