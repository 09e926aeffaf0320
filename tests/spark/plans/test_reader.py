"""From SQL texts and DataFrames to plans as data."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from incmrql.catalyst import PlanNode, analyzed_from_json, analyzed_to_json
from incmrql.errors import QueryError
from incmrql.spark import internals
from incmrql.spark.plans import SparkPlan, analyze_sql, read_plan
from incmrql.spark.plans.settings import DEFAULTS
from incmrql.spark.plans.walker import walk_compiled, walk_generic
from tests.catalyst.dumps import create_tables, frame_of, user_session
from tests.catalyst.frames import FRAMES
from tests.catalyst.texts import texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of empty tables."""
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def own(spark: SparkSession, tables: Path) -> SparkSession:
    """A session as a user has it, with the tables `t`, `u` and `v`."""
    session = user_session(spark)
    create_tables(session, "shapes", tables)
    return session


def nodes(value: object) -> Iterator[PlanNode]:
    """All nodes of a plan, in its order."""
    if isinstance(value, PlanNode):
        yield value
        for part in value.fields.values():
            yield from nodes(part)
    elif isinstance(value, tuple):
        for part in value:
            yield from nodes(part)


def classes(plan: SparkPlan) -> set[str]:
    """The names of the classes of a plan."""
    return {node.name for node in nodes(plan.analyzed.plan)}


def literals(own: SparkSession, text: str) -> list[Any]:
    """The values of the columns of a row of literals."""
    plan = analyze_sql(own, text).analyzed.plan
    return [column["child"]["value"] for column in plan["projectList"]]


# --- what is read --------------------------------------------------------------------------


def test_fields_by_name(own: SparkSession) -> None:
    plan = analyze_sql(own, "select a, b + 1 as c from u where a > 2").analyzed.plan
    assert plan.name == "Project"
    column, alias = plan["projectList"]
    assert (column.name, column["name"], column["dataType"]) == (
        "AttributeReference",
        "a",
        PlanNode("IntegerType"),
    )
    assert (alias.name, alias["name"], alias["child"].name) == ("Alias", "c", "Add")
    assert alias["$type"] == PlanNode("LongType")
    assert plan["child"].name == "Filter"
    assert plan["child"]["condition"]["left"]["exprId"] == column["exprId"]


def test_ids_are_counted_from_one(own: SparkSession) -> None:
    text = "with x as (select a from u) select x.a, y.a from x join x y on x.a = y.a"
    one, other = (analyze_sql(own, text).analyzed for _ in range(2))
    assert one == other
    ids = {node["exprId"] for node in nodes(one.plan) if "exprId" in node.fields}
    assert ids == set(range(1, len(ids) + 1))
    assert {node["cteId"] for node in nodes(one.plan) if node.name == "CTERelationRef"} == {1}


def test_the_schema_of_the_answer(own: SparkSession) -> None:
    schema = analyze_sql(own, "select a as x, d from t").analyzed.schema
    assert [column["name"] for column in schema["fields"]] == ["x", "d"]
    assert schema["fields"][1]["dataType"] == PlanNode("DecimalType", {"precision": 10, "scale": 2})


def test_scalar_literals(own: SparkSession) -> None:
    days = (datetime.date(2024, 2, 29) - datetime.date(1970, 1, 1)).days
    text = """
        select 1, 2L, 3.25, 4.5D, 0.1F, 'text', X'00ff', true, null, date '2024-02-29',
        timestamp '1970-01-01 00:00:01', double('nan'), double('-inf')
    """
    plan = analyze_sql(own, text).analyzed.plan
    values = [
        node["value"]
        for column in plan["projectList"]
        for node in nodes(column)
        if node.name == "Literal"
    ]
    assert values[:4] == [1, 2, Decimal("3.25"), 4.5]
    assert values[4] == 0.10000000149011612  # the double that a float is
    assert values[5:11] == ["text", b"\x00\xff", True, None, days, 1_000_000]
    assert values[11:] == ["nan", "-inf"]
    assert str(values[2]) == "3.25"


def test_intervals(own: SparkSession) -> None:
    text = "select interval 3 months 4 days, interval '2' day, interval '5' month"
    own.conf.set("spark.sql.legacy.interval.enabled", "true")
    try:
        mixed = literals(own, text)[0]
    finally:
        own.conf.unset("spark.sql.legacy.interval.enabled")
    assert mixed == PlanNode("CalendarInterval", {"months": 3, "days": 4, "microseconds": 0})


def test_texts_with_any_character(own: SparkSession) -> None:
    text = 'a"b\\c\n\t\x01\N{GRINNING FACE}\u00e9'
    frame = own.createDataFrame([(text,)], "s string").select("s")
    plan = read_plan(frame.sparkSession.sql("select :x as x", args={"x": text}))
    assert [node["value"] for node in nodes(plan.analyzed.plan) if node.name == "Literal"] == [text]


def test_local_rows(own: SparkSession) -> None:
    text = "select * from values (1, 'a', array(1, null), map('k', 2.5), named_struct('x', 1.5F))"
    plan = analyze_sql(own, text)
    rows = [node["data"] for node in nodes(plan.analyzed.plan) if node.name == "LocalRelation"]
    assert rows == [((1, "a", (1, None), (("k", Decimal("2.5")),), (1.5,)),)]


def test_plans_of_sub_queries_are_normalised(own: SparkSession) -> None:
    text = "select a from t where exists (select 1 from u where u.a = t.a and u.b between 1 and 3)"
    plan = analyze_sql(own, text)
    assert "Exists" in classes(plan)
    assert not classes(plan) & {"Between", "With", "CommonExpressionRef"}


def test_common_expressions_are_computed_below(own: SparkSession) -> None:
    plan = analyze_sql(own, "select nullif(a + 1, 2) from t where upper(c) between 'A' and 'B'")
    assert not classes(plan) & {"Between", "NullIf", "With", "CommonExpressionDef"}


def test_groups_are_by_columns(own: SparkSession) -> None:
    plan = analyze_sql(own, "select a % 2, sum(b) from t group by a % 2").analyzed.plan
    (key,) = plan["groupingExpressions"]
    assert key.name == "AttributeReference"
    assert plan["child"].name == "Project"


def test_the_current_time_stays(own: SparkSession) -> None:
    plan = analyze_sql(own, "select current_timestamp(), current_date() from t")
    assert {"CurrentTimestamp", "CurrentDate"} <= classes(plan)


def test_exists_is_not_rewritten(own: SparkSession) -> None:
    plan = analyze_sql(own, "select a from t where exists (select 1 from u)")
    assert "Exists" in classes(plan)
    assert not classes(plan) & {"GlobalLimit", "LocalLimit"}


# --- leaves --------------------------------------------------------------------------------


def test_files(own: SparkSession, tmp_path: Path) -> None:
    frame = own.read.schema("a int, p string").option("sep", "|").csv(str(tmp_path))
    (leaf,) = [node for node in nodes(read_plan(frame).analyzed.plan) if "$leaf" in node.fields]
    relation = leaf["relation"]
    assert (leaf.name, relation.name) == ("LogicalRelation", "HadoopFsRelation")
    assert relation["location"].name == "InMemoryFileIndex"
    assert relation["location"]["rootPaths"] == (f"file:{tmp_path}",)
    assert relation["fileFormat"]["shortName"] == "csv"
    assert ("sep", "|") in relation["options"]
    assert [column["name"] for column in relation["dataSchema"]["fields"]] == ["a", "p"]
    assert leaf["catalogTable"] is None


def test_partitions_of_files(own: SparkSession, tmp_path: Path) -> None:
    own.range(2).selectExpr("id", "id % 2 as p").write.partitionBy("p").parquet(f"{tmp_path}/x")
    plan = read_plan(own.read.parquet(f"{tmp_path}/x")).analyzed.plan
    relation = plan["relation"]
    assert [column["name"] for column in relation["partitionSchema"]["fields"]] == ["p"]


def test_metadata_of_columns(own: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    marked = StructType([StructField("id", LongType(), True, {"stream": "points"})])
    plan = read_plan(own.read.schema(marked).csv(str(tmp_path))).analyzed.plan
    assert plan["output"][0]["metadata"] == '{"stream":"points"}'


def test_rows_of_leaves(own: SparkSession) -> None:
    frame = (
        own.range(3).localCheckpoint().join(own.createDataFrame([(1, "x")], "id long, s string"))
    )
    plan = read_plan(frame)
    leaves = [node for node in nodes(plan.analyzed.plan) if "$leaf" in node.fields]
    assert {leaf.name for leaf in leaves} == {"LogicalRDD"}
    rows = [sorted(plan.leaf_frame(leaf["$leaf"]).collect()) for leaf in leaves]
    assert rows == [[(0,), (1,), (2,)], [(1, "x")]]


# --- two ways, one plan --------------------------------------------------------------------


def same_both_ways(frame: DataFrame, text: str = "") -> None:
    plan = internals.analyzed_plan(frame)
    compiled = walk_compiled(frame.sparkSession, plan, text)
    generic = walk_generic(frame.sparkSession, plan, text)
    assert compiled.plan == generic.plan
    assert compiled.text == generic.text
    assert places(compiled.plan) == places(generic.plan)
    assert len(compiled.leaves) == len(generic.leaves)


def places(plan: PlanNode) -> list[tuple[int, int, int] | None]:
    """The places of all nodes."""
    return [node.place for node in nodes(plan)]


SOME = (
    "between",
    "literals",
    "nested_access",
    "scalar_correlated",
    "cte_nested",
    "values",
    "pivot",
)


@pytest.mark.parametrize("name", SOME)
def test_texts_are_read_alike_both_ways(own: SparkSession, name: str) -> None:
    text = texts("shapes")[name]
    same_both_ways(analyze_sql(own, text).frame, text)


@pytest.mark.parametrize(
    "name", ["udf", "local", "range", "window", "sql_over_frame", "nested", "pivot"]
)
def test_frames_are_read_alike_both_ways(own: SparkSession, tables: Path, name: str) -> None:
    same_both_ways(frame_of(own, name, tables))


def test_local_rows_are_read_alike_both_ways(own: SparkSession) -> None:
    same_both_ways(
        own.sql(
            "select * from values (0.1F, map('k', array(0.1F, null)), X'01', date '2024-01-01', "
            "named_struct('f', 0.1F, 'd', 0.1D, 'n', 1.50)), (null, null, null, null, null)"
        )
    )


@pytest.mark.parametrize("name", sorted(FRAMES))
def test_all_frames_are_read(own: SparkSession, tables: Path, name: str) -> None:
    analyzed = read_plan(frame_of(own, name, tables)).analyzed
    assert analyzed_from_json(analyzed_to_json(analyzed)) == analyzed
    assert "$second" not in {key for node in nodes(analyzed.plan) for key in node.fields}


# --- what is refused -----------------------------------------------------------------------


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(QueryError) as caught:
        call(*arguments)
    return str(caught.value)


def test_a_command_is_refused_before_it_runs(own: SparkSession) -> None:
    for text in (
        "create temporary view made as select 1",
        "insert into u select a, b, c, d from t",
        "with x as (select 1 as a) insert into u (a) select a from x",
        "set spark.sql.ansi.enabled = false",
        "show tables",
        "execute immediate 'create temporary view made as select 1'",
    ):
        assert "C002" in refusal(analyze_sql, own, text), text
    assert not own.catalog.tableExists("made")
    assert own.conf.get("spark.sql.ansi.enabled") == "true"


def test_a_frame_of_a_command_is_refused(own: SparkSession) -> None:
    assert "has already run" in refusal(read_plan, own.sql("show tables"))
    assert "C002" in refusal(read_plan, own.sql("show tables").select("tableName"))


def test_a_stream_of_spark_is_refused(own: SparkSession, tmp_path: Path) -> None:
    assert "C004" in refusal(read_plan, own.readStream.schema("a int").csv(str(tmp_path)))


def test_a_frame_of_spark_connect_is_refused_by_name() -> None:
    from pyspark.sql import DataFrame

    class RemoteFrame(DataFrame):
        """What a client of Spark Connect gives."""

        __module__ = "pyspark.sql.connect.dataframe"

    text = refusal(read_plan, object.__new__(RemoteFrame))
    assert "C003" in text
    assert "Spark Connect" in text
    assert "no DataFrame" in refusal(read_plan, 5)


def test_an_unknown_column(own: SparkSession) -> None:
    text = refusal(analyze_sql, own, "select a,\n  naem from t", "q.sql")
    assert text.startswith("error[C001]: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column")
    assert " --> q.sql:2:3\n" in text
    assert "2 |   naem from t\n  |   ^^^^" in text
    assert "= hint: Did you mean one of the following?" in text
    assert "SQLSTATE" not in text


def test_an_unknown_table(own: SparkSession) -> None:
    text = refusal(analyze_sql, own, "select * from nowhere")
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in text
    assert "<query>:1:15" in text


def test_a_syntax_error(own: SparkSession) -> None:
    text = refusal(analyze_sql, own, "select a from t where >")
    assert "error[C001]: [PARSE_SYNTAX_ERROR] Syntax error at or near" in text
    assert "<query>:1:23" in text


# --- what travels with a plan --------------------------------------------------------------


def test_settings_are_captured(own: SparkSession) -> None:
    own.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    try:
        settings = analyze_sql(own, "select a from t").analyzed.settings
    finally:
        own.conf.unset("spark.sql.mapKeyDedupPolicy")
    assert set(settings) == set(DEFAULTS)
    assert settings["spark.sql.mapKeyDedupPolicy"] == "LAST_WIN"
    assert settings["spark.sql.session.timeZone"] == "UTC"


def test_settings_have_the_defaults_of_spark(own: SparkSession) -> None:
    settings = analyze_sql(own, "select a from t").analyzed.settings
    assert settings == DEFAULTS


def test_places_point_into_the_text(own: SparkSession) -> None:
    text = "select a,\n  b + 1 as c\nfrom u"
    analyzed = analyze_sql(own, text).analyzed
    (add,) = [node for node in nodes(analyzed.plan) if node.name == "Add"]
    assert add.place is not None
    line, start, end = add.place
    assert (analyzed.text, line, text[start:end]) == (text, 2, "b + 1")


def test_places_of_a_frame_of_several_texts(own: SparkSession) -> None:
    frame = own.table("u").filter("a > 1").selectExpr("b * 2 as x")
    analyzed = read_plan(frame).analyzed
    pieces = {
        analyzed.text[node.place[1] : node.place[2]]
        for node in nodes(analyzed.plan)
        if node.name in ("GreaterThan", "Multiply") and node.place is not None
    }
    assert pieces == {"a > 1", "b * 2"}
