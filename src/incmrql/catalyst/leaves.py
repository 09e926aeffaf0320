"""The leaves of a plan as inputs: files and streams become sources, local rows become constants.

| leaf | what it is here |
|---|---|
| files of a path, tables of a file format | a source of format `spark`: followed, or read once |
| a stream of the session, known by the metadata of its columns | that stream |
| local rows, ranges, rows that a DataFrame was built from | a constant |
| all others | refused by name |

Two leaves with the same files, options and schema are one source, whatever their expression ids.
The listing in a leaf is that of the moment of the analysis, so only its paths count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Literal

from incmrql.algebra import rows as build
from incmrql.catalyst.nodes import PlanNode, PlanValue, plan_to_json
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.types import model_type
from incmrql.io.spark_files import escape, is_pattern, local_path, local_paths, roots
from incmrql.io.vectorised.spark_parquet import may_read
from incmrql.types import typed
from incmrql.types.model import (
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Collection,
    Record,
    Tuple,
    Type,
    bag,
    is_day_time,
    is_year_month,
)
from incmrql.values import Bag, LocalTime, Months
from incmrql.values import Record as RecordValue
from incmrql.values.encoding import EPOCH, EPOCH_DAY, MICROSECOND

OnModified = Literal["refuse", "replace"]

STREAM_KEY: Final = "incmrql.stream"
"""The key in the metadata of a column that names the stream of the session it belongs to."""
MOST_CONSTANT_ROWS: Final = 10_000
"""Rows of a leaf that may be a constant of the program."""

_FORMATS: Final = {
    "CSVFileFormat": "csv",
    "JsonFileFormat": "json",
    "ParquetFileFormat": "parquet",
    "OrcFileFormat": "orc",
    "TextFileFormat": "text",
    "XmlFileFormat": "xml",
    "AvroFileFormat": "avro",
}
_INDEX: Final = "InMemoryFileIndex"
"""Spark's own listing of directories; other listings belong to formats of tables."""
_OWN_OPTIONS: Final = ("deletes", "on_modified", "onmodified", "trusted_deletes")
"""Options of ours that travel with a reader of Spark, which keeps what it does not know."""
_PATH_OPTIONS: Final = ("path", "paths")
_TIME_OPTIONS: Final = ("modifiedbefore", "modifiedafter")
_WITH_MODE: Final = ("csv", "json", "xml")
"""Formats whose records may be malformed."""
_POSITIONAL: Final = ("csv", "text")
_READ_SETTINGS: Final = frozenset(
    f"spark.sql.{name}"
    for name in (
        "ansi.enabled",
        "caseSensitive",
        "columnNameOfCorruptRecord",
        "csv.parser.columnPruning.enabled",
        "files.ignoreCorruptFiles",
        "json.enablePartialResults",
        "legacy.codingErrorAction",
        "legacy.javaCharsets",
        "legacy.json.allowEmptyString.enabled",
        "legacy.timeParserPolicy",
        "parquet.binaryAsString",
        "parquet.datetimeRebaseModeInRead",
        "parquet.int96AsTimestamp",
        "parquet.int96RebaseModeInRead",
        "session.timeZone",
        "timestampType",
    )
)
"""The settings of a session that change what a reader reads, once the schema is known."""


def is_leaf(node: PlanNode) -> bool:
    """Whether a node of a plan is a leaf that `Leaves` knows, if only to refuse it."""
    return node.name in _KINDS


def leaf_key(leaf: PlanNode) -> str:
    """Text without expression ids that is equal for leaves over the same data.

    The rows of a `LogicalRDD` are not in the plan: of these, equal text does not say that.
    """
    kept = {
        name: value
        for name, value in leaf.fields.items()
        if name not in ("output", "catalogTable", "isStreaming") and not name.startswith("$")
    }
    relation = kept.get("relation")
    if isinstance(relation, PlanNode) and "options" in relation.fields:
        # The listing has the paths; a pattern says more than that.
        options = tuple(
            (key, value)
            for key, value in _pairs(relation["options"]).items()
            if key.lower() not in _PATH_OPTIONS or is_pattern(value)
        )
        kept["relation"] = PlanNode(relation.name, {**relation.fields, "options": options})
    columns = tuple((column["name"], column["dataType"]) for column in _attributes(leaf))
    return plan_to_json(PlanNode(leaf.name, {**kept, "columns": columns}))


def leaves_of(plan: PlanValue) -> list[PlanNode]:
    """All leaves of a plan, those of sub-queries too, in the order of the plan."""
    if isinstance(plan, tuple):
        return [leaf for part in plan for leaf in leaves_of(part)]
    if not isinstance(plan, PlanNode):
        return []
    if is_leaf(plan):
        return [plan]
    return [leaf for part in plan.fields.values() for leaf in leaves_of(part)]


@dataclass(slots=True)
class Leaves:
    """What the leaves of a query stand for, as its session and its options say.

    `named` has the rows of streams and views of the session.  `replaced` has the name of the one
    that stands for a leaf, and `static` the leaves that do not change, both by the numbers that the
    reader of plans gives to leaves; `static_paths` are paths or names of tables.  `notes` is what
    `explain` says of the inputs, and `local_rows` has the number of the leaf whose rows a
    registered source has.  The names of these sources hold the `label`, which tells the queries of
    a script apart.
    """

    named: Mapping[str, typed.Expr] = field(default_factory=dict)
    replaced: Mapping[int, str] = field(default_factory=dict)
    static: frozenset[int] = frozenset()
    static_paths: frozenset[str] = frozenset()
    on_modified: OnModified = "refuse"
    settings: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    notes: list[str] = field(default_factory=list)
    local_rows: dict[str, int] = field(default_factory=dict)

    def input_of(self, leaf: PlanNode) -> typed.Expr:
        """The bag of a leaf's rows; a row has a component for each column of its output.

        Raises `Refused` for a leaf that cannot be an input.
        """
        name = self.replaced.get(_number(leaf)) or named_rows_of(leaf)
        if name is not None:
            return self._stream(leaf, name)
        if _number(leaf) in self.static and not _is_files(leaf):
            return self._read_once(leaf)
        match _KINDS.get(leaf.name):
            case "files":
                return self._relation(leaf)
            case "rows":
                return self._constant(leaf)
            case "frame":
                self._note(_FROZEN)
                return self._registered_source(leaf)
            case "unit":
                return build.bag_of(build.unit())
            case reason:
                why = reason or "a leaf that is not known here"
                message = f"{leaf.name} is {why}"
                raise Refused("C104" if reason else "C101", message, _SAVE_HINT, leaf)

    # --- streams of the session ---

    def _stream(self, leaf: PlanNode, name: str) -> typed.Expr:
        rows = self.named.get(name)
        if rows is None:
            message = f'the DataFrame reads the stream "{name}", which this session does not have'
            hint = "Take the DataFrame from a stream of the session that runs the query."
            raise Refused("C104", message, hint, leaf)
        assert isinstance(rows.type, Collection)
        row = rows.type.element
        columns = row.fields if isinstance(row, Record) else ()
        wanted = tuple((column["name"], model_type(column["dataType"])) for column in _output(leaf))
        if tuple(columns) != wanted:
            message = (
                f'the stream "{name}" has rows of type {row}, and the DataFrame {Record(wanted)}'
            )
            hint = "Declare the stream with these columns, in this order."
            raise Refused("C105", message, hint, leaf)
        return rows

    # --- files ---

    def _relation(self, leaf: PlanNode) -> typed.Expr:
        relation = leaf["relation"]
        if leaf.fields.get("isStreaming"):
            raise Refused("C104", _STREAMING, _STREAM_HINT, leaf)
        if relation.name != "HadoopFsRelation":
            return self._read_once(leaf)
        source = self._source(leaf, relation)
        return typed.Read(source, type=bag(source.row))

    def _source(self, leaf: PlanNode, relation: PlanNode) -> typed.Source:
        options = _pairs(relation["options"])
        format_ = _format(leaf, relation)
        paths = _paths(leaf, relation, options)
        columns = _columns(leaf, relation)
        computed = _computed_columns(leaf)
        types = [type_ for _, type_ in columns]
        types += [model_type(column["dataType"]) for column in computed]
        row = Tuple(tuple(types))
        # What is computed may depend on each setting that has a value.
        settings = tuple(
            (name, value)
            for name, value in sorted(self.settings.items())
            if name in _READ_SETTINGS or (computed and value)
        )
        reader = typed.SparkReader(
            format_,
            paths,
            _schema(leaf, relation, format_),
            tuple(name for name, _ in columns),
            tuple(column["name"] for column in relation["partitionSchema"]["fields"]),
            tuple(sorted((k, v) for k, v in options.items() if not _is_own(k))),
            settings,
            tuple(typed.ComputedColumn(column["$text"], column["name"]) for column in computed),
        )
        is_static = _number(leaf) in self.static or bool(
            self.static_paths & {*local_paths(reader), *_table_names(leaf)}
        )
        ours = () if is_static else self._own_options(leaf, options)
        self._note_files(reader, row, is_replaced="on_modified" in dict(ours))
        path = typed.Const(", ".join(local_paths(reader)), type=STRING)
        return typed.Source("spark", not is_static, path, row, options=ours, reader=reader)

    def _own_options(
        self, leaf: PlanNode, options: Mapping[str, str]
    ) -> tuple[tuple[str, Any], ...]:
        """The options of ours that a reader carries, in the words of MRQL."""
        given = {key.lower(): value for key, value in options.items()}
        chosen: dict[str, Any] = {}
        if "deletes" in given:
            path = local_path(given["deletes"])
            _check_local(leaf, path)
            chosen["deletes"] = os.path.normpath(os.path.join(_working_directory(leaf), path))
        on_modified = given.get("on_modified", given.get("onmodified", self.on_modified)).lower()
        if on_modified not in ("refuse", "fail", "replace"):
            hint = "It is refuse or replace."
            raise Refused("C102", f"the option on_modified is {on_modified!r}", hint, leaf)
        if on_modified == "replace":
            chosen["on_modified"] = "replace"
        if given.get("trusted_deletes", "false").lower() == "true":
            chosen["trusted_deletes"] = True
        return tuple(sorted(chosen.items()))

    def _note_files(self, reader: typed.SparkReader, row: Type, *, is_replaced: bool) -> None:
        """Say how files are read, and whether a pattern was lost."""
        shown = ", ".join(local_paths(reader)[:3]) + (" ..." if len(reader.paths) > 3 else "")
        if may_read(reader, row) and not is_replaced:
            self._note(
                f"{shown}: new {reader.format} files are read without Spark where both read alike"
            )
        else:
            self._note(
                f"{shown}: Spark reads new {reader.format} files into the checkpoint, with one "
                "more job a batch"
            )
        for column in reader.computed:
            self._note(
                f"{shown}: {column.shown} is opaque: Spark evaluates it once for each inserted "
                "row, in the job that reads the row, and its value is kept with the row; a "
                "deletion takes the kept value"
            )
        if self._depends_on_columns(reader):
            self._note(
                f"{shown}: a record is malformed if any of its columns is, as if the DataFrame "
                "were cached; Spark alone looks at those columns only that a query uses"
            )
        if any(map(os.path.isfile, local_paths(reader))):
            self._note(
                f"{shown}: only these files are followed, since a DataFrame resolves patterns "
                "when it is built; give the directory"
            )

    def _depends_on_columns(self, reader: typed.SparkReader) -> bool:
        """Whether Spark reads other rows if a query uses fewer columns."""
        setting = self.settings.get("spark.sql.columnNameOfCorruptRecord", "_corrupt_record")
        corrupt = reader.option("columnNameOfCorruptRecord") or setting
        is_dropped = (reader.option("mode") or "").upper() == "DROPMALFORMED"
        names = [name.lower() for name in reader.columns]
        return reader.format in _WITH_MODE and (is_dropped or corrupt.lower() in names)

    # --- constants ---

    def _constant(self, leaf: PlanNode) -> typed.Expr:
        types = tuple(model_type(column["dataType"]) for column in _output(leaf))
        if leaf.name == "Range":
            rows: Sequence[Any] = range(leaf["start"], leaf["end"], leaf["step"])
        else:
            rows = leaf["data"]
            self._note(_FROZEN)
        if len(rows) > MOST_CONSTANT_ROWS:
            return self._registered_source(leaf)
        try:
            tuples = tuple(_tuple((row,) if isinstance(row, int) else row, types) for row in rows)
        except (ValueError, OverflowError) as problem:
            message = f"a row of {leaf.name} has a value that no type holds: {problem}"
            raise Refused("C105", message, _REGISTER_HINT, leaf) from None
        return typed.MakeCollection(tuples, type=bag(Tuple(types)))

    def _read_once(self, leaf: PlanNode) -> typed.Expr:
        """The rows of a leaf that Spark reads when the query starts."""
        kind = leaf["relation"].name if leaf.name == "LogicalRelation" else leaf.name
        self._note(f"{kind} is read once, when the query starts: its changes are not followed")
        return self._registered_source(leaf)

    def _registered_source(self, leaf: PlanNode) -> typed.Expr:
        """The rows of a leaf as a source that does not change, which its DataFrame fills."""
        if leaf.fields.get("isStreaming"):
            raise Refused("C104", _STREAMING, _STREAM_HINT, leaf)
        row = Tuple(tuple(model_type(column["dataType"]) for column in _output(leaf)))
        name = f"local rows {self.label}{_number(leaf)}"
        self.local_rows[name] = _number(leaf)
        source = typed.Source("registered", False, None, row, name=name)
        return typed.Read(source, type=bag(row))

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


_SAVE_HINT: Final = (
    "Save its rows as files (df.write.parquet) and read these, or have them read once, when the "
    "query starts: static=[df]."
)
_REGISTER_HINT: Final = "Leave the row out."
_STREAM_HINT: Final = "Read it by spark.read, or make it a stream: session.stream(name, df)."
_STREAMING: Final = "a streaming DataFrame is a leaf of the query"
_FROZEN: Final = "local rows: frozen when the DataFrame was built"
_KINDS: Final = {
    "LogicalRelation": "files",
    "LocalRelation": "rows",
    "LogicalRDD": "frame",
    "Range": "rows",
    "OneRowRelation": "unit",
    "DataSourceV2Relation": "a table of a connector that is not followed yet",
    "DataSourceV2ScanRelation": "a table of a connector that is not followed yet",
    "StreamingDataSourceV2Relation": "a streaming DataFrame, which is no leaf of a batch query",
    "StreamingRelationV2": "a streaming DataFrame, which is no leaf of a batch query",
    "StreamingRelation": "a streaming DataFrame, which is no leaf of a batch query",
    "StreamingExecutionRelation": "a streaming DataFrame, which is no leaf of a batch query",
    "HiveTableRelation": "a table of Hive, whose files only Hive knows",
    "ExternalRDD": "a Dataset of Scala objects",
    "InMemoryRelation": "a cached table; take the query before it was cached",
}
"""How each class of leaf is read; a text says why it is refused."""


def takes_columns(leaves: Leaves, leaf: PlanNode) -> bool:
    """Whether Spark reads the rows of a leaf for us, so that it can compute more columns."""
    is_stream = bool(leaves.replaced.get(_number(leaf)) or named_rows_of(leaf))
    return _is_files(leaf) and not is_stream and not leaf.fields.get("isStreaming")


def _number(leaf: PlanNode) -> int:
    """The number of a leaf in its plan."""
    number = leaf["$leaf"]
    assert isinstance(number, int)
    return number


def _is_files(leaf: PlanNode) -> bool:
    """Whether a leaf is files that can be listed anew."""
    if leaf.name != "LogicalRelation" or leaf["relation"].name != "HadoopFsRelation":
        return False
    relation = leaf["relation"]
    return relation["location"].name == _INDEX and relation["fileFormat"].name in _FORMATS


def _attributes(leaf: PlanNode) -> Sequence[PlanNode]:
    """The columns of a leaf; a leaf of an unknown class may have none."""
    return leaf["output"] if "output" in leaf.fields else ()


def _output(leaf: PlanNode) -> Sequence[PlanNode]:
    """The columns of a leaf; refused if one is not data."""
    for column in leaf["output"]:
        if column["name"] == "_metadata" and leaf.name == "LogicalRelation":
            message = "the query reads _metadata, which says where rows lie and not what they are"
            raise Refused("C103", message, "Leave the column out.", leaf)
    columns: Sequence[PlanNode] = leaf["output"]
    return columns


def named_rows_of(leaf: PlanNode) -> str | None:
    """The name of the stream or view of the session that the columns of a leaf belong to."""
    metadata = (column.fields.get("metadata") for column in _attributes(leaf))
    names = {_pairs(column or ()).get(STREAM_KEY) for column in metadata}
    return names.pop() if len(names) == 1 else None


def _pairs(value: PlanValue) -> dict[str, Any]:
    """A map of Scala, which the reader of plans gives as pairs or, metadata, as JSON."""
    if isinstance(value, str):
        known = json.loads(value)
        return known if isinstance(known, dict) else {}
    assert isinstance(value, tuple)
    return {pair[0]: pair[1] for pair in value if isinstance(pair, tuple)}  # type: ignore[misc]


def _is_own(option: str) -> bool:
    """Whether an option is not for the reader of Spark."""
    return option.lower() in (*_OWN_OPTIONS, *_PATH_OPTIONS)


def _table_names(leaf: PlanNode) -> tuple[str, ...]:
    """The names of the table that a leaf reads, the short one first."""
    table = leaf.fields.get("catalogTable")
    if not isinstance(table, PlanNode):
        return ()
    identifier: PlanNode = table["identifier"]
    parts = [identifier.fields.get(name) for name in ("catalog", "database", "table")]
    names = [str(part) for part in parts if part]
    return tuple(".".join(names[start:]) for start in reversed(range(len(names))))


# --- Files ---


def _format(leaf: PlanNode, relation: PlanNode) -> str:
    name = relation["fileFormat"].name
    is_sparks = relation["fileFormat"]["$java"].startswith("org.apache.spark.sql.")
    index = relation["location"].name
    if index == "CatalogFileIndex":
        message = "the table has partitions that only the catalog knows"
        hint = "Read its directory by path: spark.read.format(...).load(location)."
        raise Refused("C104", message, hint, leaf)
    if index != _INDEX:
        message = f"{index} decides which files belong to the table, and it is not followed yet"
        raise Refused("C104", message, _SAVE_HINT, leaf)
    if name not in _FORMATS or not is_sparks:
        message = f"files of {name} are not followed"
        hint = f"Formats are: {', '.join(_FORMATS.values())}."
        raise Refused("C104", message, hint, leaf)
    return _FORMATS[name]


def _paths(leaf: PlanNode, relation: PlanNode, options: Mapping[str, str]) -> tuple[str, ...]:
    """The paths to follow, as patterns: that of the option `path`, or those in the listing."""
    listed = tuple(local_path(path) for path in relation["location"]["rootPaths"])
    given = next((value for key, value in options.items() if key.lower() == "path"), "")
    for path in listed:
        _check_local(leaf, path)
    if len(set(listed)) < len(listed):
        message = f'the path "{listed[0]}" is read twice'
        raise Refused("C104", message, "Unite the DataFrame with itself instead.", leaf)
    for option in options:
        if option.lower() in _TIME_OPTIONS:
            message = f"the option {option} chooses files by the time of their last change"
            raise Refused("C103", message, "Leave it out.", leaf)
    if given and is_pattern(given):
        pattern = given if local_path(given).startswith("/") else os.path.join(os.getcwd(), given)
        if set(listed) <= set(roots(pattern)):
            return (pattern,)
    return tuple(sorted(map(escape, listed)))


def _working_directory(leaf: PlanNode) -> str:
    """The directory in which Spark runs, as far as the leaf tells; else that of this process."""
    relation = leaf["relation"]
    pairs = _pairs(relation["options"]).items()
    given = local_path(next((value for key, value in pairs if key.lower() == "path"), ""))
    for path in map(local_path, relation["location"]["rootPaths"]):
        if given and not given.startswith("/") and path.endswith(f"/{os.path.normpath(given)}"):
            return path.removesuffix(f"/{os.path.normpath(given)}") or "/"
    return os.getcwd()


def _check_local(leaf: PlanNode, path: str) -> None:
    if ":/" in path.split("?")[0] and not path.startswith("/"):
        message = f'"{path}" is on another file system than that of this machine'
        hint = "Mount it, or copy the files to a directory of this machine."
        raise Refused("C104", message, hint, leaf)


def _columns(leaf: PlanNode, relation: PlanNode) -> tuple[tuple[str, Type], ...]:
    """The names and types of the output; refused if it is not the whole relation."""
    output = _output(leaf)
    in_files = output[: len(output) - len(_computed_columns(leaf))]
    columns = tuple((column["name"], model_type(column["dataType"])) for column in in_files)
    fields = (*relation["dataSchema"]["fields"], *relation["partitionSchema"]["fields"])
    known = {column["name"].lower() for column in fields}
    if {name.lower() for name, _ in columns} != known or len(columns) != len(known):
        message = "the columns of the leaf are not those of its files"
        raise Refused("C104", message, "Read the files anew, without cached plans.", leaf)
    return columns


def _computed_columns(leaf: PlanNode) -> Sequence[PlanNode]:
    """The columns of a leaf that are computed when a row is inserted: the last ones."""
    columns: Sequence[PlanNode] = leaf.fields.get("$computed", ())  # type: ignore[assignment]
    return columns


def _schema(leaf: PlanNode, relation: PlanNode, format_: str) -> str:
    """The schema to read with: the columns of the files, then those of the partitions."""
    partitions = relation["partitionSchema"]["fields"]
    names = {column["name"].lower() for column in partitions}
    in_files = list(relation["dataSchema"]["fields"])
    doubled = [column["name"] for column in in_files if column["name"].lower() in names]
    if doubled and format_ in _POSITIONAL:
        message = f'the column "{doubled[0]}" is in the files and in the names of directories'
        raise Refused("C104", message, "Rename one of the two.", leaf)
    fields = [column for column in in_files if column["name"].lower() not in names]
    return json.dumps(_json_struct([*fields, *partitions]), separators=(",", ":"))


def _json_struct(fields: Iterable[PlanNode]) -> dict[str, Any]:
    return {"type": "struct", "fields": [_json_field(column) for column in fields]}


def _json_field(struct_field: PlanNode) -> dict[str, Any]:
    type_ = _json_type(struct_field["dataType"])
    return {"name": struct_field["name"], "type": type_, "nullable": True, "metadata": {}}


def _json_type(type_: PlanNode) -> Any:
    """A type as Spark's `StructType.fromJson` reads it."""
    match type_.name:
        case "DecimalType":
            return f"decimal({type_['precision']},{type_['scale']})"
        case "ArrayType":
            element = _json_type(type_["elementType"])
            return {"type": "array", "elementType": element, "containsNull": True}
        case "MapType":
            key, value = _json_type(type_["keyType"]), _json_type(type_["valueType"])
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case "StructType":
            return _json_struct(type_["fields"])
        case "TimestampNTZType":
            return "timestamp_ntz"
        case "CharType" | "VarcharType":
            return "string"
        case "YearMonthIntervalType" | "DayTimeIntervalType":
            return str(model_type(type_))
        case name:
            return name.removesuffix("Type").lower()


# --- Constants ---


def _tuple(row: Sequence[Any], types: Sequence[Type]) -> typed.Expr:
    pairs = zip(row, types, strict=True)
    return build.tuple_of(*(typed.Const(_value(value, t), type=t) for value, t in pairs))


def _value(value: Any, type_: Type) -> Any:
    """A value of a type, from the form that it has inside of Spark."""
    match value, type_:
        case None, _:
            return None
        case int(), _ if type_ == DATE:
            return date.fromordinal(value + EPOCH_DAY)
        case int(), _ if type_ == TIMESTAMP:
            return EPOCH + value * MICROSECOND
        case int(), _ if type_ == TIMESTAMP_NTZ:
            return LocalTime.after_1970(value)
        case int(), _ if is_year_month(type_):
            return Months(value)
        case int(), _ if is_day_time(type_):
            return value * MICROSECOND
        case tuple(), Collection(kind, element):
            items = [_value(item, element) for item in value]
            return Bag(items) if kind == "bag" else items
        case tuple(), Tuple(items):
            return tuple(map(_value, value, items))
        case tuple(), Record(fields):
            parts = [_value(part, inner) for part, (_, inner) in zip(value, fields, strict=True)]
            return RecordValue.of(type_.names, parts)
        case _:
            return value
