"""`incmrql answer`: the current answer in a checkpoint, read without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import incmrql as package
from incmrql.cli.terminal import align_rows
from incmrql.errors import CheckpointError, DataError
from incmrql.values import read
from tests.cli.commands import incmrql
from tests.cli.streams import AVERAGE, STREAM, Shop, shop_at
from tests.cli.test_state import without_spark

TOTALS = f"incr select < city: s.city, total: sum(s.price) > from s in {STREAM} group by s.city;"


def script(folder: Path, query: str) -> None:
    """A file of SQL; Spark's paths do not follow the directory of this process."""
    given = f"(city string, price double) USING csv OPTIONS (path '{folder / 'sales'}')"
    view = f"CREATE MATERIALIZED VIEW v AS {query}"
    Path("q.sql").write_text(f"CREATE TEMPORARY VIEW sales {given};\n{view};\n")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return shop_at(tmp_path)


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_an_answer_is_printed_in_every_format(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sells("2.csv", "東京,3\n")
    shop.takes_back("2.csv", "Rome,4\n")
    (whole,) = shop.run(TOTALS).lines

    def answer(*options: str) -> list[str]:
        result = without_spark(monkeypatch, "answer", "ck", *options)
        assert result.code == 0, result.err
        return result.lines

    assert answer() == ["city  total", "Oslo  30.0", "東京  3.0"]
    assert answer("--limit", "1") == ["city  total", "Oslo  30.0"]
    assert answer("--format", "mrql") == [whole]
    assert answer("--format", "csv") == ["city,total", "Oslo,30.0", "東京,3.0"]
    assert answer("--format", "csv", "--limit", "1") == ["city,total", "Oslo,30.0"]
    rows = [{"city": "Oslo", "total": 30.0}, {"city": "東京", "total": 3.0}]
    assert [*map(json.loads, answer("--format", "json"))] == rows
    for name in ("a.parquet", "a.csv", "a.json", "a.mrql"):
        assert answer("--output", name) == []
    assert pq.read_table("a.parquet").to_pylist() == rows
    assert Path("a.csv").read_text().splitlines() == ["city,total", "Oslo,30.0", "東京,3.0"]
    assert [*map(json.loads, Path("a.json").read_text().splitlines())] == rows
    assert [read(line).city for line in Path("a.mrql").read_text().splitlines()] == ["Oslo", "東京"]


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_an_answer_follows_its_batches_and_its_item(shop: Shop) -> None:
    count = f"incr count(select s from s in {STREAM});"
    assert shop.run(f"{AVERAGE}\n{count}").code == 0
    assert incmrql("answer", "ck", "--item", "2").lines == ["value", "3"]
    shop.sells("2.csv", "Rome,6\n")
    assert shop.run(f"{AVERAGE}\n{count}").code == 0
    assert incmrql("answer", "ck", "--item", "2", "--format", "csv").lines == ["4"]
    assert incmrql("answer", "ck", "--format", "csv").lines == ["Oslo,2,15.0", "Rome,2,5.0"]
    assert package.open("ck").answer(1) == 4
    wrong = incmrql("answer", "ck", "--item", "3")
    assert wrong.code == 2
    assert "There is no answer 3. Answers are numbered 1 to 2." in wrong.err
    with pytest.raises(DataError, match="numbered 0 to 1"):
        package.open("ck").answer(2)


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_an_answer_of_sql_has_its_columns_and_its_order(shop: Shop) -> None:
    script(shop.folder, "SELECT city, sum(price) AS n FROM sales GROUP BY city ORDER BY n")
    assert incmrql("run", "q.sql", "--checkpoint", "ck", "--available-now").code == 0
    assert incmrql("answer", "ck").lines == ["city  n", "Rome  4.0", "Oslo  30.0"]
    saved = package.open("ck")
    assert [row.asDict() for row in saved.answer()] == [
        {"city": "Rome", "n": 4.0}, {"city": "Oslo", "n": 30.0},
    ]  # fmt: skip
    assert saved.saved_answer().to_pandas().to_dict("list") == {
        "city": ["Rome", "Oslo"], "n": [4.0, 30.0],
    }  # fmt: skip


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_columns_of_one_name_are_printed_but_not_saved(shop: Shop) -> None:
    script(shop.folder, "SELECT city, city FROM sales")
    assert incmrql("run", "q.sql", "--checkpoint", "ck", "--available-now").code == 0
    assert incmrql("answer", "ck", "--limit", "1").lines == ["city  city", "Oslo  Oslo"]
    refused = incmrql("answer", "ck", "--output", "a.parquet")
    assert refused.code == 1
    assert 'several columns of the answer are named "city"' in refused.err
    assert not Path("a.parquet").exists()


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_wrong_uses_of_answer(shop: Shop) -> None:
    assert "ck is not a checkpoint" in incmrql("answer", "ck").err
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        package.open("ck")
    assert shop.run().code == 0
    for options, message in (
        (("--format", "parquet"), "name a file with --output"),
        (("--format", "csv", "--output", "a.csv"), "leave out --format"),
        (("--limit", "1", "--output", "a.csv"), "--output writes the whole answer"),
        (("--output", "a.xls"), 'the ending of "a.xls" names no format'),
    ):
        result = incmrql("answer", "ck", *options)
        assert result.code in (1, 2), options
        assert message in result.err


def test_cells_of_a_table_are_aligned_and_stay_on_their_line() -> None:
    rows = [("a", "b"), ("東京", "1"), ("e\u0301", "2"), ("x\ny\x1b[2J", "3")]
    assert align_rows(rows) == [
        "a            b",
        "東京         1",
        "e\u0301            2",
        "x\\ny\\x1b[2J  3",
    ]
