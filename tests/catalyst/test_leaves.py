"""Leaves of plans as sources and constants; `tests/spark/test_leaves.py` has real plans."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.catalyst.leaves import MOST_CONSTANT_ROWS, Leaves, leaf_key, leaves_of
from incmrql.catalyst.nodes import PlanNode, PlanValue, plan_from_json, plan_to_json
from incmrql.catalyst.refusals import Refused
from incmrql.plan.nodes import Input
from incmrql.plan.planner import plan_query
from incmrql.reference import Environment, evaluate, new_world
from incmrql.types import typed
from incmrql.types.model import INT, LONG, STRING, Record, Tuple, bag
from incmrql.types.typed import Source
from incmrql.values import Bag

INTEGER, TEXT = PlanNode("IntegerType"), PlanNode("StringType", {"typeName": "string"})
COLUMNS = {"id": INTEGER, "city": TEXT}
NO_SCRIPT = typed.Script((), {}, {}, {}, {}, {}, {})


def attributes(columns: dict[str, PlanNode], metadata: str = "{}") -> tuple[PlanNode, ...]:
    return tuple(
        PlanNode(
            "AttributeReference",
            {"name": name, "dataType": type_, "nullable": True, "metadata": metadata,
             "exprId": number, "qualifier": ()},
        )
        for number, (name, type_) in enumerate(columns.items(), 1)
    )  # fmt: skip


def struct(columns: dict[str, PlanNode]) -> PlanNode:
    return PlanNode(
        "StructType",
        {
            "fields": tuple(
                PlanNode(
                    "StructField",
                    {"name": name, "dataType": type_, "nullable": True, "metadata": "{}"},
                )
                for name, type_ in columns.items()
            )
        },
    )


def files(  # noqa: PLR0913 - what a relation of files has
    *paths: Path | str,
    columns: dict[str, PlanNode] = COLUMNS,
    partitions: dict[str, PlanNode] | None = None,
    number: int = 1,
    format_: str = "CSVFileFormat",
    index: str = "InMemoryFileIndex",
    extra: dict[str, PlanNode] | None = None,
    table: PlanNode | None = None,
    **options: str,
) -> PlanNode:
    """A leaf over files."""
    datasources = "org.apache.spark.sql.execution.datasources"
    relation = {
        "location": PlanNode(
            index,
            {"$java": f"{datasources}.{index}", "rootPaths": tuple(f"file:{p}" for p in paths)},
        ),
        "partitionSchema": struct(partitions or {}),
        "dataSchema": struct(columns),
        "bucketSpec": None,
        "fileFormat": PlanNode(format_, {"$java": f"{datasources}.{format_}", "shortName": ""}),
        "options": tuple(sorted(options.items())),
    }
    fields: dict[str, PlanValue] = {
        "relation": PlanNode("HadoopFsRelation", relation),
        "output": attributes({**columns, **(partitions or {}), **(extra or {})}),
        "catalogTable": table,
        "isStreaming": False,
        "stream": None,
        "$leaf": number,
    }
    return PlanNode("LogicalRelation", fields)


def local(rows: tuple[Any, ...], columns: dict[str, PlanNode], number: int = 1) -> PlanNode:
    return PlanNode(
        "LocalRelation",
        {"output": attributes(columns), "data": rows, "isStreaming": False, "$leaf": number},
    )


def source_of(leaf: PlanNode, leaves: Leaves | None = None) -> Source:
    read = (leaves or Leaves()).input_of(leaf)
    assert isinstance(read, typed.Read)
    assert read.type == bag(read.source.row)
    return read.source


def refusal(leaf: PlanNode, leaves: Leaves | None = None) -> Refused:
    with pytest.raises(Refused) as refused:
        (leaves or Leaves()).input_of(leaf)
    return refused.value


# --- files -------------------------------------------------------------------------------


def test_a_leaf_over_files_is_a_stream_of_tuples(tmp_path: Path) -> None:
    settings = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.cteRecursionRowLimit": "1"}
    leaf = files(tmp_path, header="true", path=str(tmp_path), partitions={"day": INTEGER})
    source = source_of(leaf, Leaves(settings=settings))
    assert source.streaming
    assert source.row == Tuple((INT, STRING, INT))
    reader = source.reader
    assert reader is not None
    assert reader.paths == (str(tmp_path),)
    assert reader.options == (("header", "true"),)
    assert reader.settings == (("spark.sql.session.timeZone", "Asia/Tokyo"),)
    assert (reader.columns, reader.partitions) == (("id", "city", "day"), ("day",))
    fields = json.loads(reader.schema)["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [
        ("id", "integer"), ("city", "string"), ("day", "integer"),
    ]  # fmt: skip


def test_types_are_written_as_spark_reads_them(tmp_path: Path) -> None:
    element = PlanNode("ArrayType", {"elementType": INTEGER, "containsNull": False})
    columns = {
        "n": PlanNode("DecimalType", {"precision": 12, "scale": 2}),
        "s": struct({"a": element, "at": PlanNode("TimestampType")}),
        "c": PlanNode("CharType", {"length": 3}),
    }
    reader = source_of(files(tmp_path, columns=columns)).reader
    assert reader is not None
    number, inner, text = (field["type"] for field in json.loads(reader.schema)["fields"])
    assert (number, text) == ("decimal(12,2)", "string")
    assert inner["fields"][0]["type"]["elementType"] == "integer"
    assert inner["fields"][1]["type"] == "timestamp"


def test_two_leaves_over_one_directory_are_one_input(tmp_path: Path) -> None:
    one, two = files(tmp_path, number=1), files(tmp_path, number=2)
    other = files(tmp_path / "other", number=3)
    leaves = Leaves()
    assert source_of(one, leaves) == source_of(two, leaves) != source_of(other, leaves)
    assert leaf_key(one) == leaf_key(two) != leaf_key(other)
    assert leaf_key(one) != leaf_key(files(tmp_path, header="true"))
    both = typed.Combine(
        "union", leaves.input_of(one), leaves.input_of(two), type=bag(Tuple((INT, STRING)))
    )
    plan = plan_query(normal_form(translate(both, NO_SCRIPT))[0], NO_SCRIPT)
    assert sum(isinstance(node, Input) for node in plan.nodes) == 1


def test_our_options_travel_with_the_reader(tmp_path: Path) -> None:
    leaf = files(tmp_path, Deletes="gone", on_modified="Replace", trusted_deletes="true", sep=";")
    source = source_of(leaf)
    assert dict(source.options) == {
        "deletes": os.path.abspath("gone"), "on_modified": "replace", "trusted_deletes": True,
    }  # fmt: skip
    assert source.reader is not None
    assert source.reader.options == (("sep", ";"),)
    assert dict(source_of(files(tmp_path), Leaves(on_modified="replace")).options) == {
        "on_modified": "replace"
    }
    assert "on_modified" in refusal(files(tmp_path, on_modified="ignore")).message


def test_deletions_lie_where_spark_looks_for_files() -> None:
    """Spark may run in another directory than this process."""
    for given, deletes in (("./in/a", "gone"), ("a", "gone"), ("a", "/else/gone")):
        root = f"/spark/{given.removeprefix('./')}"
        chosen = dict(source_of(files(root, path=given, deletes=deletes)).options)
        assert chosen["deletes"] == ("/spark/gone" if deletes == "gone" else deletes)


def test_inputs_that_do_not_change(tmp_path: Path) -> None:
    table = PlanNode(
        "CatalogTable",
        {"identifier": PlanNode("TableIdentifier",
                                {"table": "orders", "database": "db", "catalog": "spark_catalog"})},
    )  # fmt: skip
    for leaves in (
        Leaves(static=frozenset({1})),
        Leaves(static_paths=frozenset({str(tmp_path)})),
        Leaves(static_paths=frozenset({"orders"})),
        Leaves(static_paths=frozenset({"db.orders"})),
    ):
        source = source_of(files(tmp_path, table=table, deletes="gone"), leaves)
        assert not source.streaming
        assert source.options == ()
    assert source_of(files(tmp_path, number=2), Leaves(static=frozenset({1}))).streaming


def test_patterns_are_followed_and_listed_files_are_named(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("a1.csv", "a2.csv", "b[1].csv")]
    for path in names:
        path.write_text("1\n")
    leaves = Leaves()
    by_option = source_of(files(*names[:2], path=f"{tmp_path}/a*.csv"), leaves).reader
    assert by_option is not None
    assert by_option.paths == (f"{tmp_path}/a*.csv",)
    assert leaves.notes == [
        f"{tmp_path}/a*.csv: Spark reads new csv files into the checkpoint, with one more job a "
        "batch"
    ]
    listed = source_of(files(*names), leaves).reader
    assert listed is not None
    assert listed.paths[2] == f"{tmp_path}/b\\[1\\].csv"
    assert "give the directory" in leaves.notes[-1]


def test_notes_say_who_reads_files(tmp_path: Path) -> None:
    leaf = files(tmp_path, format_="ParquetFileFormat", number=1)
    leaves = Leaves()
    source_of(leaf, leaves)
    assert leaves.notes == [
        f"{tmp_path}: new parquet files are read without Spark where both read alike"
    ]
    replaced, partitioned = Leaves(on_modified="replace"), Leaves()
    source_of(leaf, replaced)
    source_of(
        files(tmp_path, format_="ParquetFileFormat", partitions={"day": INTEGER}), partitioned
    )
    for other in (replaced, partitioned):
        assert "Spark reads new parquet files into the checkpoint" in other.notes[0]


def test_notes_say_where_records_are_malformed_by_any_column(tmp_path: Path) -> None:
    def is_noted(leaf: PlanNode) -> bool:
        leaves = Leaves()
        source_of(leaf, leaves)
        return any("a record is malformed" in note for note in leaves.notes)

    corrupt = {**COLUMNS, "_corrupt_record": TEXT}
    assert is_noted(files(tmp_path, mode="dropMalformed"))
    assert is_noted(files(tmp_path, columns=corrupt))
    assert is_noted(files(tmp_path, columnNameOfCorruptRecord="city"))
    assert not is_noted(files(tmp_path))
    assert not is_noted(files(tmp_path, columns=corrupt, columnNameOfCorruptRecord="bad"))
    assert not is_noted(files(tmp_path, columns=corrupt, format_="OrcFileFormat"))


@pytest.mark.parametrize(
    ("leaf", "code", "words"),
    [
        (files("/d", index="TahoeLogFileIndex"), "C104", "TahoeLogFileIndex decides which files"),
        (files("/d", index="MetadataLogFileIndex"), "C104", "MetadataLogFileIndex"),
        (files("/d", index="CatalogFileIndex"), "C104", "only the catalog knows"),
        (files("/d", format_="BinaryFileFormat"), "C104", "BinaryFileFormat are not followed"),
        (files("/d", "/d"), "C104", "is read twice"),
        (files("/d", modifiedAfter="2024-01-01"), "C103", "modifiedAfter"),
        (files("/d", extra={"_metadata": TEXT}), "C103", "_metadata"),
        (files("/d", partitions={"ID": INTEGER}, columns={"id": INTEGER}), "C104", "columns"),
        (files("/d", columns={"b": PlanNode("VariantType")}), "C105", "variant"),
        (PlanNode("HiveTableRelation", {"output": (), "$leaf": 1}), "C104", "table of Hive"),
        (PlanNode("DataSourceV2Relation", {"output": (), "$leaf": 1}), "C104", "connector"),
        (PlanNode("StreamingRelationV2", {"output": (), "$leaf": 1}), "C104", "streaming"),
        (PlanNode("NewLeaf", {"output": (), "$leaf": 1}), "C101", "not known here"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_name(leaf: PlanNode, code: str, words: str) -> None:
    refused = refusal(leaf)
    assert refused.code == code
    assert words in refused.message
    assert refused.hint or code == "C105"


def test_paths_on_other_file_systems_are_refused() -> None:
    leaf = files("/d")
    location = PlanNode("InMemoryFileIndex", {"rootPaths": ("s3a://bucket/orders",)})
    relation = PlanNode("HadoopFsRelation", {**leaf["relation"].fields, "location": location})
    refused = refusal(PlanNode("LogicalRelation", {**leaf.fields, "relation": relation}))
    assert "another file system" in refused.message


def test_a_relation_that_is_not_followed_can_be_read_once() -> None:
    jdbc = PlanNode("JDBCRelation", {"$java": "x"})
    fields: dict[str, PlanValue] = {"output": attributes(COLUMNS), "$leaf": 4}
    leaves = Leaves(label="gold ")
    source = source_of(PlanNode("LogicalRelation", {**fields, "relation": jdbc}), leaves)
    assert (source.format, source.streaming) == ("registered", False)
    assert leaves.local_rows == {source.name: 4}
    assert "gold" in source.name
    assert leaves.notes == [
        "JDBCRelation is read once, when the query starts: its changes are not followed"
    ]
    delta = files("/d", index="TahoeLogFileIndex")
    static = Leaves(static=frozenset({1}))
    assert source_of(delta, static).format == "registered"


# --- streams -----------------------------------------------------------------------------


def stream(row: Record) -> typed.Expr:
    source = Source("registered", True, None, row, name="points")
    return typed.Read(source, type=bag(row))


def test_a_stream_is_known_by_its_columns(tmp_path: Path) -> None:
    row = Record((("id", INT), ("city", STRING)))
    marked = PlanNode(
        "LogicalRDD",
        {"output": attributes(COLUMNS, '{"incmrql.stream": "points"}'), "$leaf": 1},
    )
    leaves = Leaves(named={"points": stream(row)})
    assert leaves.input_of(marked) == stream(row)
    view = typed.Global("points@view", type=bag(row))
    assert Leaves(named={"points": view}).input_of(marked) == view
    assert "does not have" in refusal(marked).message
    other = Leaves(named={"points": stream(Record((("id", LONG), ("city", STRING))))})
    assert "has rows of type" in refusal(marked, other).message
    instead = Leaves(named={"points": stream(row)}, replaced={7: "points"})
    assert source_of(files(tmp_path, number=7), instead).name == "points"
    assert source_of(files(tmp_path, number=8), instead).format == "spark"


# --- constants ---------------------------------------------------------------------------


def rows_of(leaf: PlanNode) -> Bag:
    value = evaluate(Leaves().input_of(leaf), Environment(new_world(NO_SCRIPT)))
    assert isinstance(value, Bag)
    return value


def test_local_rows_are_constants() -> None:
    columns = {
        "d": PlanNode("DateType"),
        "at": PlanNode("TimestampType"),
        "a": PlanNode("ArrayType", {"elementType": INTEGER, "containsNull": True}),
        "s": struct({"x": INTEGER}),
    }
    leaves = Leaves()
    leaf = local(((0, 1_000_000, (1, None), (5,)), (None, None, None, None)), columns)
    value = evaluate(leaves.input_of(leaf), Environment(new_world(NO_SCRIPT)))
    day, at, items, inner = value[0]
    assert (day, at, items) == (date(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
                                [1, None])  # fmt: skip
    assert inner.x == 5
    assert value[1] == (None, None, None, None)
    assert leaves.notes == ["local rows: frozen when the DataFrame was built"]
    assert "no type holds" in refusal(local(((10**8,),), {"d": PlanNode("DateType")})).message


def test_ranges_and_no_table_are_constants() -> None:
    numbers = {"id": PlanNode("LongType")}
    fields: dict[str, PlanValue] = {
        "start": 0,
        "end": 10,
        "step": 3,
        "output": attributes(numbers),
        "$leaf": 1,
    }
    assert rows_of(PlanNode("Range", fields)) == Bag([(0,), (3,), (6,), (9,)])
    assert rows_of(PlanNode("OneRowRelation", {"$leaf": 1})) == Bag([()])
    large = {**fields, "end": 4 * MOST_CONSTANT_ROWS}
    assert source_of(PlanNode("Range", large)).format == "registered"


def test_leaves_of_sub_queries_are_found(tmp_path: Path) -> None:
    inner = PlanNode("ScalarSubquery", {"plan": files(tmp_path, number=2)})
    plan = PlanNode("Filter", {"condition": inner, "child": files(tmp_path, number=1)})
    again = plan_from_json(plan_to_json(plan))
    assert [leaf["$leaf"] for leaf in leaves_of(again)] == [2, 1]
