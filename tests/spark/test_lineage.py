"""`lineage` and `debug` on Spark: what the reference evaluator answers, without its reading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incmrql import Session, api
from incmrql.algebra.scripts import run_script
from incmrql.errors import SourceText
from incmrql.reference import Environment, new_world
from incmrql.spark.batch.scripts import ScriptRunner
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import INT, STRING, Tuple
from incmrql.types.scope import Catalog
from incmrql.values import Bag, Value, identical, show
from tests.algebra.shapes import shape_queries
from tests.effort import examples, sample
from tests.generators.queries import queries
from tests.generators.tables import tables
from tests.spark.answers import agree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

PAIR = Tuple((INT, STRING))
CATALOG = Catalog(registered={"R": (PAIR, False), "S": (PAIR, False)})
FULL: dict[str, list[Value]] = {
    "R": [(1, "a"), (1, "a"), (1, "b"), (2, "é"), (None, "b"), (3, None)],
    "S": [(1, "x"), (2, "y"), (2, "y"), (None, "z")],
}
EMPTY: dict[str, list[Value]] = {"R": [], "S": []}

QUERIES = [
    "lineage select (a, b) from (k, a) in R, (k, b) in S",
    "lineage select (k, a, (select b from (j, b) in S where j = k)) from (k, a) in R",
    "lineage select (k, count(a)) from (k, a) in R group by k having count(a) > 1",
    "lineage select distinct k from (k, a) in R where some (j, b) in S: j = k",
    "lineage (select k from (k, a) in R) union (select k from (k, b) in S where b <> 'z')",
    "lineage (select k from (k, a) in R) intersect (select k from (k, b) in S)",
    "lineage select k from (k, a) in R order by k desc limit 3",
    "lineage (count(R), max(S#0))",
    "lineage select (x, y) from x in R, y in R where x = y",
    "lineage repeat a = (R#0) step distinct(select x / 2 from x in a)",
    "debug select (a, b) from (k, a) in R, (k, b) in S where a < b",
    "debug select (k, count(a)) from (k, a) in R group by k having count(a) > 1",
    "debug select (k, sum(select z#0 from z in x where z#0 > 1)) from x in R group by k: x#0",
    "debug select distinct k from (k, a) in R order by k limit 2",
    "debug select k from (k, a) in R where exists (select j from (j, b) in S where j = k)",
    "debug (if count(S) > 1 then (select k from (k, a) in R) else {7})",
    "lineage select z from (k, a) in R, z in (if k > 1 then S else {(k, a)})",
]


def answers(text: str, data: Mapping[str, list[Value]], spark: SparkSession) -> list[Value]:
    """The answers of a script, which both engines agree on, and for which nothing is read here."""

    def read(source: typed.Source, _env: Environment) -> Bag:
        pytest.fail(f"the driver reads {source.name}")

    script = infer_script(parse_script(SourceText(text)), CATALOG)
    results: list[Value] = []
    expected: list[Value] = []
    run_script(script, new_world(script, registered=data), lambda _, value: expected.append(value))
    engine = ScriptRunner(new_world(script, registered=data, read=read), lambda: spark)
    for item in script.items:
        engine.run_item(item, lambda _, value: results.append(value))
    shown = f"{text}\n\nSpark says\n{list(map(show, results))}, not\n{list(map(show, expected))}"
    assert identical(results, expected), shown
    assert not [key for key in engine.world.stored if key.endswith("@leaves")]
    return results


@pytest.mark.parametrize("text", sample(QUERIES, 3))
def test_spark_says_where_rows_come_from(text: str, spark: SparkSession) -> None:
    (answer,) = answers(text, FULL, spark)
    assert answer


def test_of_nothing_there_is_nothing_to_tell(spark: SparkSession) -> None:
    notes = answers("; ".join([QUERIES[0], QUERIES[2], QUERIES[7], QUERIES[11]]), EMPTY, spark)
    assert notes == [Bag(), Bag(), Bag([((0, None), Bag())]), Bag()]


def test_stored_values_count_as_sources(spark: SparkSession) -> None:
    text = """
        store x := select k from (k, a) in R order by a;
        store n := 2;
        lineage select (b, k + n) from k in x, (k, b) in S where k = 2;
        debug select k + n from k in x, (k, b) in S where k = 2;
    """
    pairs, trees = answers(text, FULL, spark)
    copies = Bag([("n", 2), ("x", 2), ("S", (2, "y"))])
    assert pairs == Bag([(("y", 4), copies), (("y", 4), copies)])
    assert len(trees) == 2


def test_files_of_a_folder_and_traces(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for place, lines in enumerate(("Ann,3\nBo,5\n", "Ann,4\nAnn,4\n", "")):
        (tmp_path / "in" / f"{place}.csv").write_text(lines)
    monkeypatch.chdir(tmp_path)
    text = """
        clicks = source(csv, "in", ",", type((string, int)));
        lineage select (n, sum(c)) from (n, c) in clicks group by n;
        debug select trace(c * 2) from (n, c) in clicks where n = "Bo";
    """
    traced: list[tuple[str, Value]] = []
    actual = Session(spark).run(text, on_trace=lambda *trace: traced.append(trace))
    expected = api.run(text)
    assert identical([answer.value for answer in actual], [answer.value for answer in expected])
    assert traced == [("c * 2", 10)]
    ann = Bag([("in", ("Ann", 3)), ("in", ("Ann", 4)), ("in", ("Ann", 4))])
    assert (("Ann", 11), ann) in actual[0].value


def test_a_query_from_python(spark: SparkSession) -> None:
    session = Session(spark)
    session.register("R", [(1, "a"), (1, "b")], "(int, string)")
    result = session.query("lineage select k from (k, a) in R where a = 'b'")
    assert str(result.type) == "{(int, {(string, any)})}"
    assert result.collect() == Bag([(1, Bag([("R", (1, "b"))]))])
    assert result.to_df().count() == 1
    assert "collect_list" in session.query("debug select k from (k, a) in R group by k").explain()


def test_what_is_no_query_says_so_and_runs_here(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "debug select (repeat n = k step n + count(select j from (j, b) in S where j = n) limit 2) "
        "from (k, a) in R"
    )
    (answer,) = agree(text, FULL, spark, CATALOG)
    assert len(answer) == len(FULL["R"])
    told = capsys.readouterr().err
    assert "debug runs in the driver, not on Spark: it has no form as terms" in told


SMALL = settings(
    examples(8),
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
"""A sample that is the same every time; `tests/algebra/test_lineage.py` tries many."""


@SMALL
@given(
    text=st.one_of(queries(), shape_queries()),
    data=tables(),
    kind=st.sampled_from(("lineage", "debug")),
)
def test_any_query(text: str, data: dict[str, Bag], kind: str, spark: SparkSession) -> None:
    agree(f"{kind} {text};", data, spark)
