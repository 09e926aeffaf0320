"""`incmrql try`: the user's own query on the user's own data, and what is wrong with either."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from incmrql.runtime.driver import Driver
from incmrql.values import Bag, Value
from tests.cli.commands import Outcome, incmrql
from tests.spark.folders import spark_directory

pytestmark = pytest.mark.spark

QUERY = """\
SELECT c.country, count(*) AS n, sum(o.price) AS total
FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.country
"""
JOB = """\
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
orders = spark.table("orders")

def latest(spark):
    return orders.groupBy("customer").agg(F.max_by("city", "day").alias("last"))

def broken():
    return latest(None).select("nothing")

spark.stop()
"""


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with queries and data of a stranger."""
    session = SparkSession.builder.getOrCreate()  # what a Python file gets, too
    monkeypatch.setattr("incmrql.spark.session.start", lambda *_: session)
    monkeypatch.setattr("incmrql.api.session.Session.stop", lambda _: None)
    monkeypatch.chdir(tmp_path)
    lines = [
        f'{n},{n % 7},"Łódź, {n % 3}",{n * 1.5:.2f},2024-01-{n % 28 + 1:02}' for n in range(60)
    ]
    lines[5] = '5,5,"a ""quoted"" one",,'
    (tmp_path / "orders.csv").write_text("\n".join(["id,customer,city,price,day", *lines, ""]))
    customers = {"id": list(range(7)), "country": ["NO", "PL", "JP", None, "NO", "PL", "日本"]}
    pq.write_table(pa.table(customers), tmp_path / "customers.parquet")
    (tmp_path / "q.sql").write_text(QUERY)
    (tmp_path / "job.py").write_text(JOB)
    with spark_directory(spark, tmp_path):
        yield tmp_path
    session.catalog.dropTempView("orders")


TABLES = ("--table", "orders=orders.csv", "--table", "customers=customers.parquet")
ORDERS = TABLES[:2]


def run_trial(*arguments: str) -> Outcome:
    return incmrql("try", "--batches", "2", "--share", "0.1", *arguments)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_query_is_tried(folder: Path) -> None:
    before = files(folder)
    outcome = run_trial("q.sql", *TABLES, "--json", "all.json", "--plot", "times.svg")
    assert outcome.code == 0, outcome.err + outcome.out
    right, cost, watch = outcome.lines[-3:]
    assert right.startswith(
        "right: all 3 answers equal those of plain Spark, by the query's own plan"
    )
    assert "the state equals one built from all rows" in right
    assert re.match(r"cost: .*: a batch of 7 changes took .* plain Spark .* \(medians\)", cost)
    assert watch.startswith("watch out: ")
    assert "  orders: all 60 rows" in outcome.lines
    assert len([line for line in outcome.lines if re.match(r" +\d █", line)]) == 2
    data = json.loads((folder / "all.json").read_text())
    assert data["right"] is True
    assert [batch["inserted"] for batch in data["batches"][1:]] == [6, 6]
    assert data["batches"][-1]["deleted"] == 1
    svg = (folder / "times.svg").read_text()
    assert svg.startswith("<svg")
    assert svg.count("<rect") == 5
    assert {name: files(folder)[name] for name in before} == before


@pytest.mark.usefixtures("folder")
def test_a_wrong_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine drops a row of every answer after the first batch."""
    answer = Driver.answer

    def wrong(driver: Driver, number: int = 0) -> Value:
        rows = answer(driver, number)
        return Bag(rows[1:]) if driver.state.number == 1 else rows

    monkeypatch.setattr(Driver, "answer", wrong)
    outcome = run_trial("q.sql", *TABLES, "--json", "-")
    assert outcome.code == 3
    assert "WRONG: 1 of 3 answers differ from those of plain Spark" in outcome.err
    assert "missing: " in outcome.err
    data = json.loads(outcome.out)
    assert data["right"] is False
    assert [bool(batch["difference"]) for batch in data["batches"]] == [False, True, False]


def test_a_table_may_stay_as_it_is(folder: Path) -> None:
    outcome = run_trial(
        "q.sql",
        *TABLES,
        "--static",
        "customers",
        "--rows",
        "50",
        "--keep",
        "kept",
        "--batches",
        "1",
    )
    assert outcome.code == 0, outcome.err
    assert "  orders: the first 50 of 60 rows (83%)" in outcome.lines
    assert "  customers: all 7 rows" not in outcome.lines
    assert "  customers: 7 rows, which do not change" in outcome.lines
    assert sorted(path.name for path in (folder / "kept").iterdir()) == ["table-0"]
    assert run_trial("q.sql", *TABLES, "--keep", "kept").code == 1


@pytest.mark.usefixtures("folder")
def test_a_python_file_is_tried() -> None:
    """Its query has ties: Spark may choose other rows, and the reference evaluator decides."""
    outcome = run_trial("job.py:latest", *ORDERS, "--batches", "1")
    assert outcome.code == 0, outcome.err
    assert outcome.lines[-3].startswith("right: all 2 answers")
    assert "Ties of max_by are decided by the canonical order" in outcome.out


def test_a_script_of_mrql_is_tried(folder: Path) -> None:
    (folder / "q.mrql").write_text(
        "incr select (c, count(o), sum(o.price)) from o in orders group by c: o.customer;\n"
    )
    outcome = run_trial("q.mrql", *ORDERS, "--batches", "1")
    assert outcome.code == 0, outcome.err
    assert "equal those of the same query as a batch query, on Spark (7 rows" in outcome.out
    (folder / "q.mrql").write_text("incr count(stream(text, 'orders'));")
    assert "reads streams of its own" in run_trial("q.mrql").err


@pytest.mark.usefixtures("folder")
def test_nothing_is_left_behind(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(own))

    def interrupt(*_: object, **__: object) -> None:
        assert list(own.glob("incmrql-try-*")), "the batches are there while it runs"
        raise KeyboardInterrupt

    monkeypatch.setattr("incmrql.api.runs.Run.compare", interrupt)
    outcome = run_trial("q.sql", *TABLES)
    assert (outcome.code, outcome.err.strip()) == (130, "stopped")
    assert list(own.iterdir()) == []


def t(path: str) -> tuple[str, ...]:
    """A query of the table t, which is a path."""
    return "t.sql", "--table", f"t={path}"


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "no such path": (t("order.csv"), 'Did you mean "orders.csv"?'),
    "no name": (("t.sql", "--table", "orders.csv"), "does not name a table and its file"),
    "an empty folder": (t("empty"), "table t is empty: empty has no rows"),
    "only a header": (t("header.csv"), "table t is empty"),
    "no header": (t("numbers.csv"), "line of numbers.csv is not a header: 1 is no name"),
    "another format": (t("note.txt"), "note.txt has no format that is known"),
    "not Parquet": (t("bad.parquet"), "bad.parquet is not a file of Parquet"),
    "not JSON": (t("bad.json"), "bad.json is not JSON"),
    "two formats": (t("mixed"), "files of different formats: b.json and a.csv"),
    "no such type": (t("orders.csv:id INTT"), 'Unsupported data type "INTT"'),
    "one name twice": ((*t("orders.csv"), "--table", "t=header.csv"), "there are two tables t"),
    "all static": ((*t("orders.csv"), "--static", "t"), "all are static"),
    "unknown table": (("typo.sql", *TABLES), 'there is no table "ordrs"'),
    "nothing that moves": (("none.sql", *TABLES), "reads no table that can change"),
    "several frames": (("two.py", *ORDERS), "two.py builds 2 DataFrames: a, b"),
    "no such frame": (("job.py:lates", *ORDERS), 'Did you mean "latest"?'),
    "it raises": (("raises.py",), "raises.py raised KeyError: 'city'\n --> raises.py:3"),
    "no Python": (("syntax.py",), "syntax.py is not a Python file: SyntaxError"),
    "Spark refuses": (("job.py:broken", *ORDERS), "AnalysisException: [UNRESOLVED_COLUMN"),
}


@pytest.fixture
def bad(folder: Path) -> Path:
    """Files with something wrong in each."""
    for name in ("empty", "mixed"):
        (folder / name).mkdir()
    for name, text in {
        "header.csv": "id\n",
        "numbers.csv": "1,Oslo\n2,Rome\n",
        "note.txt": "hello",
        "bad.parquet": "hello",
        "bad.json": "hello",
        "mixed/a.csv": "id\n1\n",
        "mixed/b.json": '{"id": 1}\n',
        "t.sql": "SELECT count(*) FROM t",
        "typo.sql": "SELECT * FROM ordrs",
        "none.sql": "SELECT 1",
        "two.py": "a = spark.table('orders')\nb = a.select('id')\n",
        "raises.py": "x = {}\ndef f():\n    return x['city']\nf()\n",
        "syntax.py": "x = (",
    }.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("bad")
def test_what_is_wrong_is_said(case: str) -> None:
    arguments, said = BAD[case]
    outcome = run_trial(*arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert said in outcome.err
    assert outcome.err.startswith("error[")


def test_all_reasons_of_a_refusal_are_reported(folder: Path) -> None:
    (folder / "now.sql").write_text("SELECT rand() AS r, current_timestamp() AS t FROM orders")
    outcome = run_trial("now.sql", *TABLES)
    assert outcome.code == 1
    assert outcome.err.count("error[C103]") == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.sql",), "There is no file none.sql. Scripts there: q.sql."),
        (("orders.csv",), "orders.csv is none of .sql, .mrql, .py."),
        (("q.sql", "--plot", "x.png"), "--plot writes a picture of SVG: x.svg"),
        (("q.sql", "--share", "0"), "0.0 is not in the range"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    outcome = incmrql("try", *arguments)
    assert outcome.code == 2
    assert said in outcome.err
