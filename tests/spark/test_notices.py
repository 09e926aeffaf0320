"""Warnings about sources on Spark: those of the reference evaluator, for batches and streams."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import incmrql
from incmrql import api
from incmrql.errors import IncmrqlWarning
from incmrql.io.rows import ReadReport
from incmrql.spark.sources import context
from incmrql.values import Bag, identical

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

SOURCES = {
    "bad lines": ('line, "{}", ",", type(< k: int, v: string >)', "1|a\n2|b\n"),
    "wide lines": ('line, "{}", ",", type(< k: int, v: string >)', "1,a,\n2,b,x\n3,c,,\n4,d\n"),
    "ending delimiters": ('line, "{}", "|", type((int, string))', "1|a|\n2|b|\n3|c|\n"),
    "JSON": ('json, "{}", type(< Amount: int, name: string >)',
             '{"amount": 1, "name": "x"}\n{"amount": 2, "name": "y"}\n'),
    "odd JSON": ('json, "{}", type(< Amount: int, name: string >)',
                 '[{"amount": 1, "name": "x"}]\n{"amount": 2,\n "names": 1}\n'),
    "XML": ('xml, "{}", {{"b"}}, type(< id: int, p: < name: string > >)',
            '<a><b ID="1"><p nam="x"/></b></a>'),
    "nested JSON": ('json, "{}", type(< p: < name: string, at: < x: int > >, age: int >)',
                    '{"p": {"nam": "x", "at": {"y": 1}}, "age": 1}\n{"age": 2}\n'),
}  # fmt: skip


@pytest.fixture
def session(spark: SparkSession) -> Iterator[incmrql.Session]:
    with incmrql.Session(spark=spark) as opened:
        yield opened


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    os.utime(folder / name, (1_000_000, 1_000_000))


@pytest.mark.parametrize("small", [-1, 1 << 20])
@pytest.mark.parametrize("name", SOURCES)
def test_a_batch_query_warns_as_the_reference_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, small: int
) -> None:
    monkeypatch.setattr(context, "_MOST_DRIVER_BYTES", small)
    arguments, text = SOURCES[name]
    put(tmp_path, "x.txt", text)
    query = f"select x from x in source({arguments.format(tmp_path / 'x.txt')})"
    wanted: list[ReadReport] = []
    (answer,) = api.run(query, on_report=lambda report, _: wanted.append(report))
    reports: list[ReadReport] = []
    with incmrql.Session(spark, on_report=lambda report, _: reports.append(report)) as session:
        assert identical(session.query(query).collect(), answer.value)
    assert [report.notices for report in reports] == [report.notices for report in wanted]


def test_python_warns_where_nobody_asks_for_reports(
    session: incmrql.Session, tmp_path: Path
) -> None:
    put(tmp_path, "x.txt", "1|a\n")
    query = f'source(line, "{tmp_path}", ",", type(< k: int, v: string >))'
    with pytest.warns(IncmrqlWarning, match=r"warning\[W201\]"):
        assert session.query(query).collect() == []


def test_a_run_warns_of_wide_lines_and_absent_fields_once_and_of_empty_batches_always(
    session: incmrql.Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines, documents = tmp_path / "lines", tmp_path / "documents"
    put(lines, "1.csv", "1,a,x\n")
    put(documents, "1.json", '{"amount": 1}\n')
    text = (
        f'(select x.k from x in stream(line, "{lines}", ",", type(< k: int, v: string >))) + '
        f'(select y.Amount from y in stream(json, "{documents}", type(< Amount: int >)))'
    )
    with session.query(text).start() as run:
        assert [r.levelname for r in caplog.records if "has no incr" in r.message] == ["WARNING"]
        assert warning_codes(run) == ["W202", "W203"]
        put(lines, "2.csv", "2,b,x\n")
        put(documents, "2.json", '{"amount": 1}\n')
        assert warning_codes(run) == []
        put(lines, "3.csv", "3|b\n")
        put(documents, "3.json", '{"Amount": 7}\n')
        assert warning_codes(run) == ["W201"]
        assert identical(run.answer(), Bag([None, None, 1, 2, 7]))
    caplog.clear()
    with session.query(f"incr {text};").start():
        assert not [r for r in caplog.records if "has no incr" in r.message]


def warning_codes(run: incmrql.Run) -> list[str]:
    """The codes of the warnings of a batch; warnings about bad lines have none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert run.step() is not None
    texts = [str(warning.message) for warning in caught if warning.category is IncmrqlWarning]
    return sorted(text[8:12] for text in texts if text.startswith("warning["))
