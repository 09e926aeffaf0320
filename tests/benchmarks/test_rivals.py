"""The rivals' table at a tiny size: engines agree, say no, lie, are slow or are not there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from benchmarks.experiments import rivals_process
from benchmarks.experiments.base import Finding, Options
from benchmarks.experiments.larger import (
    Outcome,
    answer,
    batch_text,
    ending,
    spilled_bytes,
    stream_text,
)
from benchmarks.experiments.rival_scripts.flink_side import short
from benchmarks.experiments.rivals import Plan, compare_answers, findings_of_query
from benchmarks.experiments.rivals_duckdb import DuckDB
from benchmarks.experiments.rivals_files import Files, Form, files_of, write
from benchmarks.experiments.rivals_following import Follower
from benchmarks.experiments.rivals_process import Process, Watched, change_of, start_side
from benchmarks.experiments.rivals_queries import QUERIES, Query
from benchmarks.experiments.rivals_sides import Answer, Late, Refused, Side, Skipped, Table
from benchmarks.experiments.rivals_spark import PlainSpark
from benchmarks.experiments.rivals_streaming import StructuredStreaming
from benchmarks.incremental_queries import text_of
from benchmarks.incremental_run import program
from incmrql.api.session import Session
from tests.effort import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BY_NAME = {query.name: query for query in QUERIES}
TINY = Plan(rows=240, batch=40, rounds=1, warm_up=0, patience=60)


# --- what is published -------------------------------------------------------------------


def test_an_answer_is_right_when_no_row_is_missing_or_too_many() -> None:
    follower = Follower("id")
    follower.expect(pa.table({"K": [1, 2], "m": [0.1 + 0.2, 5.0]}))
    follower.change(["1", "0.3"], 1)
    assert not follower.wait(0)
    follower.change(["2", "4.5"], 1)
    follower.change(["2", "5.0"], 1)
    assert list(follower.off) == [("2", "4.5")]
    follower.change(["2", "4.5"], -1)
    assert follower.wait(0)
    follower.expect(pa.table({"K": [1], "m": [0.3]}))
    assert not follower.wait(0)
    follower.change(["2", "5.0"], -1)
    assert follower.wait(0)


def test_rows_count_as_often_as_they_occur() -> None:
    follower = Follower("i")
    follower.expect(pa.table({"K": [1, 1]}))
    follower.change(["1"], 1)
    assert not follower.wait(0)
    follower.change(["1"], 1)
    assert follower.wait(0)


def test_changes_are_read_as_engines_print_them() -> None:
    assert change_of("+ 1|2.5\n", "top") == (["1", "2.5"], 1)
    assert change_of("top:2> -U[1, 2.5]\n", "top") == (["1", "2.5"], -1)
    assert change_of("top> +I[7]\n", "top") == (["7"], 1)
    assert change_of("join:1> +I[1, 2.5]\n", "top") is None
    assert change_of("WARNING: [some] talk\n", "top") is None


def test_the_innermost_cause_of_a_refusal_is_told() -> None:
    told = "An error occurred.\n: org.x.SqlException: outer\nCaused by: org.x.Refusal: inner"
    assert short(ValueError(told)).startswith("SqlException") is False
    causes = told.replace("org.x.Refusal", "org.x.RefusalException")
    assert short(ValueError(causes)) == "RefusalException: inner"


# --- files -------------------------------------------------------------------------------


def test_all_forms_hold_the_same_rows(tmp_path: Path) -> None:
    rows = pa.table({"K": [1, 2], "D": [0.5, 0.1]})
    write(rows, tmp_path / "a.csv", "csv", deletes=False)
    assert (tmp_path / "a.csv").read_text() == "1,0.5\n2,0.1\n"
    write(rows, tmp_path / "b.csv", "signed csv", deletes=True)
    assert (tmp_path / "b.csv").read_text() == '"K","D","W"\n1,0.5,-1\n2,0.1,-1\n'
    write(rows, tmp_path / "c.json", "debezium", deletes=True)
    first = json.loads((tmp_path / "c.json").read_text().splitlines()[0])
    assert first == {"before": {"K": 1, "D": 0.5}, "after": None, "op": "d"}


def test_each_side_sees_a_batch_when_it_is_revealed(tmp_path: Path) -> None:
    query = BY_NAME["extremes"]
    with files_of(tmp_path, query, query.size(240, 40)) as files:
        folder = files.open("other")
        number = files.add()
        files.prepare(number, "debezium")
        assert not any((folder / "numbers").iterdir())
        files.reveal(number, "other", "debezium")
        ops = [
            json.loads(line)["op"]
            for file in (folder / "numbers").iterdir()
            for line in file.read_text().splitlines()
        ]
        assert (ops.count("c"), ops.count("d")) == (32, 8)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_every_query_is_a_program(query: Query, tmp_path: Path) -> None:
    compiled = program(text_of(query.workload, tmp_path))
    assert {Path(stream.path or "").name for stream in compiled.streams} == {
        table.name for table in query.workload.tables
    }


# --- engines in processes ----------------------------------------------------------------

RIGHT = """
def run(rows):
    for row in rows:
        print(f"+ {row}", flush=True)
"""
WRONG = """
def run(rows):
    for row in rows[1:]:
        print(f"+ {row}", flush=True)
"""
SILENT = """
def run(rows):
    pass
"""
NO = """
def run(rows):
    raise SystemExit(print('{"refused": "not that"}', flush=True))
"""
_DRIVER = """
import json, sys, time
from pathlib import Path
{code}
told = json.loads(sys.stdin.readline())
if "refused" in {code!r}:
    run([])
print('{{"ready": ""}}', flush=True)
folder = Path(told["folder"], "numbers")
while not (files := sorted(folder.iterdir())):
    time.sleep(0.01)
time.sleep(0.1)
names = sorted({{line.split(",")[0] for file in folder.iterdir() for line in file.open()}})
run(names)
time.sleep(60)
"""
"""An engine that knows only `distinct`, and all of it only of what comes first."""

Started = Callable[[str], Process]


@pytest.fixture
def start_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    """Start a made-up engine in the environment of the tests."""
    monkeypatch.setattr(rivals_process, "ENVIRONMENTS", tmp_path / "rivals")
    monkeypatch.setattr(rivals_process, "SCRIPTS", tmp_path)
    monkeypatch.setattr(rivals_process, "QUIET", 0.1)
    running = []

    def start(code: str) -> Process:
        place = tmp_path / "rivals" / "some" / "bin"
        place.mkdir(parents=True)
        (place / "python").symlink_to(sys.executable)
        (tmp_path / "some.py").write_text(_DRIVER.format(code=code))
        running.append(Process("some", "some.py"))
        return running[-1]

    yield start
    for process in running:
        process.close()
        with pytest.raises(ProcessLookupError):
            os.kill(process.process.pid, 0)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    query = BY_NAME["distinct"]
    with files_of(tmp_path / "data", query, query.size(240, 40)) as files:
        yield files


def side_of(process: Process, files: Files, patience: float = 20) -> Side:
    options = Options(quick=True, rounds=1, data=files.folder, seed=1, master="")
    table = Table(BY_NAME["distinct"], files, options, Session(), patience, lambda _: None)
    files.prepare(0, "csv")
    return start_side(Watched(table, "some", process, "csv"))


def keys(files: Files) -> Answer:
    from benchmarks.experiments.rivals_duckdb import answer

    return answer(BY_NAME["distinct"], files.supply.folder)


def test_an_engine_is_done_when_its_answer_is_right(start_engine: Started, files: Files) -> None:
    side = side_of(start_engine(RIGHT), files)
    assert side.take(0, keys(files)) > 0
    assert side.answer() is None


def test_an_engine_that_rests_with_another_answer_is_wrong(
    start_engine: Started, files: Files
) -> None:
    side = side_of(start_engine(WRONG), files, patience=3)  # half of it is what it rests for
    with pytest.raises(Late, match="wrong: at rest with 1 rows off"):
        side.take(0, keys(files))


def test_an_engine_is_given_up(start_engine: Started, files: Files) -> None:
    side = side_of(start_engine(SILENT), files, patience=0.01)
    with pytest.raises(Late, match=r"given up after 0 s, \d+ rows off"):
        side.take(0, keys(files))


def test_an_engine_says_no(start_engine: Started, files: Files) -> None:
    process = start_engine(NO)
    with pytest.raises(Refused, match="not that"):
        side_of(process, files)


def test_an_engine_that_is_not_installed_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals_process, "ENVIRONMENTS", tmp_path)
    with pytest.raises(Skipped, match="make rivals"):
        Process("some", "some.py")


# --- larger than memory ------------------------------------------------------------------


def test_the_last_answer_that_was_printed_counts() -> None:
    rows = [{"K": 1, "m": 2.0}, {"K": 0, "m": 1.0}]
    one, last = ({"number": n, "answers": [rows[: n + 1]]} for n in range(2))
    assert answer(f"{json.dumps(one)}\n{json.dumps(last)}\n") == rows[::-1]
    assert answer(json.dumps(rows)) == rows[::-1]


def test_bytes_that_were_spilled_are_added_up(tmp_path: Path) -> None:
    ends = [
        {"Event": "SparkListenerTaskEnd", "Task Metrics": {"Disk Bytes Spilled": size}}
        for size in (5, 7)
    ]
    lines = [{"Event": "SparkListenerJobEnd"}, *ends, {"Event": "SparkListenerTaskEnd"}]
    (tmp_path / "events").write_text("\n".join(map(json.dumps, lines)))
    assert spilled_bytes(tmp_path) == 12


def test_how_a_process_ended_is_told() -> None:
    right = Outcome(1.0, 0, [{"K": 0, "m": 1.0}], False, 0, 0, "")
    assert ending(right, right)[0] == "right"
    assert ending(replace(right, rows=[{"K": 0, "m": 2.0}]), right)[0] == "wrong"
    assert ending(replace(right, rows=[]), replace(right, rows=[]))[0] == "wrong"
    assert ending(replace(right, status=70, rows=[], said="oh"), right) == ("failed", "oh")
    assert ending(replace(right, status=70, is_out_of_memory=True), right)[0] == "out of memory"


def test_both_queries_of_larger_are_the_same_but_for_the_stream(tmp_path: Path) -> None:
    assert stream_text(tmp_path) == "incr " + batch_text(tmp_path).replace("source(", "stream(")


# --- on Spark ----------------------------------------------------------------------------


class Liar(DuckDB):
    """An engine that forgets a row."""

    name = "Liar"

    def open(self, table: Table) -> Side:  # noqa: ARG002
        class Forgets:
            form: Form = "parquet"

            def take(self, number: int, expected: Answer) -> float:
                self.expected = expected
                return 0.001 * (number + 1)

            def answer(self) -> Answer:
                return self.expected.slice(1)

            def close(self) -> None:
                pass

        return Forgets()


class Absent(DuckDB):
    """An engine that is not there."""

    name = "Absent"

    def open(self, table: Table) -> Side:  # noqa: ARG002
        raise Skipped("not installed")


class Never(DuckDB):
    """An engine whose answer never is the right one."""

    name = "Never"

    def open(self, table: Table) -> Side:  # noqa: ARG002
        raise Late("wrong: at rest with 3 rows off")


def row_of(
    spark: SparkSession, folder: Path, query: Query, rivals: list[DuckDB | PlainSpark]
) -> dict[str, Finding]:
    options = Options(quick=True, rounds=1, data=folder, seed=1, master="")
    findings = findings_of_query(query, rivals, TINY, options, Session(spark), lambda _: None)
    by_name = {finding.case.rpartition(": ")[2]: finding for finding in findings}
    assert not list(folder.glob("run-*")), "a run has left its folder behind"
    return by_name


@pytest.mark.spark
def test_what_engines_say_is_in_the_table(spark: SparkSession, tmp_path: Path) -> None:
    rivals = [StructuredStreaming(), DuckDB(), Liar(), Absent(), Never()]
    row = row_of(spark, tmp_path, BY_NAME["histogram"], rivals)  # type: ignore[arg-type]
    assert row["incmrql"].verdict == "right"
    no = row["Structured Streaming"]
    assert no.verdict == "refused"
    assert no.note.startswith("update mode: AnalysisException")
    assert str(tmp_path) not in no.note
    assert row["DuckDB, again"].figures["answer"] == "right"
    assert row["DuckDB, again"].ratio is not None
    assert row["Liar"].figures["answer"] == "wrong"
    assert row["Liar"].note.startswith("rows ")
    assert row["Absent"].verdict == "skipped: not installed"
    assert row["Never"].figures["answer"] == "wrong"
    assert (row["Never"].verdict, row["Never"].ratio) == ("differs", None)


@pytest.mark.spark
def test_structured_streaming_keeps_an_average(spark: SparkSession, tmp_path: Path) -> None:
    row = row_of(spark, tmp_path, BY_NAME["average"], [StructuredStreaming()])  # type: ignore[list-item]
    streaming = row["Structured Streaming"]
    assert streaming.figures["answer"] == "right"
    assert streaming.verdict in ("faster", "slower", "even")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("query", sample(QUERIES, 4), ids=lambda query: query.name)
def test_both_recomputations_agree_with_us(
    spark: SparkSession, tmp_path: Path, query: Query
) -> None:
    row = row_of(spark, tmp_path, query, [PlainSpark(), DuckDB()])
    assert row["incmrql"].verdict == "right"
    for name in ("Spark, again", "DuckDB, again"):
        assert row[name].figures["answer"] == "right", row[name].note


def test_columns_count_by_their_places() -> None:
    ours, theirs = pa.table({"K": [1, 2]}), pa.table({"k": [2, 1]})
    assert compare_answers(ours, theirs, BY_NAME["distinct"]) == []
    assert compare_answers(ours, pa.table({"k": [2, 3]}), BY_NAME["distinct"]) == ["K differs"]
