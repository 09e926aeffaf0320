"""Sources on Spark: rows, quarantine, reports and errors are those of the reference reader."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from incmrql.errors import DataError
from incmrql.io import FileSplit
from incmrql.io.files import expand
from incmrql.io.rows import BadRow, Policy, ReadReport
from incmrql.reference import Environment, evaluate, new_world
from incmrql.spark.sources import context as sources_context
from incmrql.spark.sources import frames, scan, splits
from incmrql.spark.sources.context import SourceContext
from incmrql.spark.sources.files import parts_of
from incmrql.spark.sources.native import native_file
from incmrql.spark.sources.scan import PartStats
from incmrql.spark.values import is_packed, values
from incmrql.types import typed
from incmrql.types.model import INT, STRING, Collection, Record, Type
from incmrql.values import Bag, Value, show
from tests.reference.running import typed_script, world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

AB = "type(<A: int, B: string>)"
ODD: dict[str, str | bytes] = {
    "good.csv": "1,a\n2,b\n\n-3,\n",
    "bad.csv": 'x,a\n4,d\n5\n6,e,f\n99999999999,g\n7,"h\n',
    "quoted.csv": '1,"a,b"\n2,"c\nd"\r\n3,"e""f"\n4,"g"h\n5,i"j\n',
    "crlf.csv": "1,a\r\n2,b\rc\r\n3,\n",
    "bytes.csv": b"\xef\xbb\xbf1,\xc3\xa4\n2,\xff\n3,c\n",
    "blank.csv": " 1 ,a\n\t2, b \n+3,c\n007,d\n0x1,e\n1.0,f\n,g\n",
    "void.csv": "",
    "odd.csv": "1,a\n2,\x00b\n3,\u2028c\x0b\n",
}
JSONS: dict[str, str | bytes] = {
    "good.json": '{"A": 1, "B": "x"}\n{"B": null, "A": 2}\n\n{"A": 3}\n',
    "bad.json": '{"A": 1.5, "B": "x"}\n{"A": 1, "B": 2}\n{"A": 4}\n{"A": \n{"A": 5}\nnull\n[]\n',
    "array.json": '[{"A": 1, "B": "x"},\n {"A": "2", "B": "y"},\n {"A": 3, "B": "z"}]\n',
    "pretty.json": '{\n  "A": 1,\n  "B": "x"\n}\n{\n  "A": 2\n}\n',
    "escaped.json": '{"A": 1, "B": "\\u00e4\\n\\ud83d\\ude00"}\n{"A": 2, "B": "\\ud83d"}\n',
    "twice.json": '{"A": 1, "B": "x", "A": 2}\n{"A": 1, "C": {"A": 7}, "B": "y"} {"A": 9}\n',
    "bytes.json": b'{"A": 1, "B": "\xff"}\n{"A": 2, "B": "\xc3\xa4"}\n',
    "numbers.json": '{"A": -0, "B": "x"}\n{"A": 01}\n{"A": 1e2}\n{"A": 99999999999}\n{"A": NaN}\n',
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


Outcome = tuple[Any, ...]


def settings(
    folder: Path, reports: list[tuple[ReadReport, Policy]], registered: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "registered": registered or {},
        "quarantine": folder,
        "on_report": lambda *report: reports.append(report),
    }


def outcome(folder: Path, read_values: Callable[[], list[Value]], reports: list[Any]) -> Outcome:
    """The rows or the error, and what reading them left behind."""
    try:
        rows: Any = show(Bag(read_values()))
    except DataError as error:
        return "error", error.code, error.message, error.place, error.hint
    kept = {file.name: file.read_text() for file in folder.iterdir()} if folder.exists() else {}
    return "rows", rows, kept, reports


Registered = Mapping[str, tuple[Type, Any]]


def by_reference(folder: Path, script: typed.Script, rows: Registered) -> Outcome:
    reports: list[tuple[ReadReport, Policy]] = []
    given = {name: held for name, (_, held) in rows.items()}
    own = new_world(script, **settings(folder / "_q1", reports, given))
    expr = script.items[-1].expr
    return outcome(folder / "_q1", lambda: evaluate(expr, Environment(own)), reports)


def by_spark(spark: SparkSession, folder: Path, script: typed.Script, rows: Registered) -> Outcome:
    reports: list[tuple[ReadReport, Policy]] = []
    given = {name: held for name, (_, held) in rows.items()}
    expr = script.items[-1].expr
    assert isinstance(expr, typed.Read)
    assert isinstance(expr.type, Collection)
    source, element = expr.source, expr.type.element
    path = None if source.path is None else evaluate(source.path, Environment(world()))

    def read_source() -> list[Value]:
        how = settings(folder / "_q2", reports, given)
        with SourceContext(data=script.data, parsers=script.parsers, **how) as context:
            frame = frames.read(spark, source, path, context, packed=True)
            assert is_packed(frame, element)
            decoded = values(frame, element)
            context.finish()
            if None not in decoded and not reports and not source.streaming:
                wide = frames.read(spark, source, path, context)
                assert show(Bag(values(wide, element))) == show(Bag(decoded))
            return decoded

    return outcome(folder / "_q2", read_source, reports)


def agree(
    spark: SparkSession, folder: Path, text: str, rows: Registered | None = None, **catalog: Any
) -> Outcome:
    """What the reference evaluator and Spark make of a source."""
    script = typed_script(text + ";", rows, **catalog)
    actual = by_spark(spark, folder, script, rows or {})
    assert actual == by_reference(folder, script, rows or {})
    return actual


LINES = [
    f'source(line, "in", ",", {AB})',
    f'source(line, "in/good.csv", ",", {AB}, on_error: fail)',
    f'source(line, "in", ",", {AB}, on_error: fail)',
    f'source(line, "in", ",", {AB}, on_error: drop, quote: "", comment: "#")',
    'source(line, "in", ",", type((any, string)), null: "b")',
    'source(line, "in/[gq]*.csv", ",", type((double, string)))',
    f'source(line, "in", ",", {AB}, header: true)',
    f'source(line, "none", ",", {AB})',
    f'source(line, "in/no*", ",", {AB})',
    f'source(line, "empty", ",", {AB})',
    'source(line, "in/good.csv", ",", type(string))',
    'source(text, "in")',
]


@pytest.mark.parametrize("text", LINES)
def test_lines(spark: SparkSession, folder: Path, text: str) -> None:
    write(folder, {f"in/{name}": content for name, content in ODD.items()})
    (folder / "empty").mkdir()
    agree(spark, folder, text)


JSON_SOURCES = [
    f'source(json, "in", {AB})',
    'source(json, "in")',
    'source(json, "in", {"A", "C"})',
    f'source(json, "in", {AB}, on_error: fail)',
    'source(json, "in", type((int, any)))',
    'source(json, "in", type(<A: any, B: [string], C: <A: {int}>>))',
]


@pytest.mark.parametrize("text", JSON_SOURCES)
def test_json(spark: SparkSession, folder: Path, text: str) -> None:
    write(folder, {f"in/{name}": content for name, content in JSONS.items()})
    agree(spark, folder, text)


XML_SOURCES = [
    'source(xml, "in", {"b"})',
    'source(xml, "in", {"b"}, type(<n: int, c: [string]>), on_error: drop)',
    'source(xml, "in", {"r"}, xpath(b/@n))',
]


@pytest.mark.parametrize("text", XML_SOURCES)
def test_xml(spark: SparkSession, folder: Path, text: str) -> None:
    good = '<r><b n="1"><c>x</c><c>y</c></b><b n="z"/></r>'
    write(folder, {"in/1.xml": good, "in/2.xml": good[:-8] + "<", "in/3.xml": ""})
    agree(spark, folder, text)


def test_compressed_files(spark: SparkSession, folder: Path) -> None:
    text = f'source(line, "in", ",", {AB})'
    packed = gzip.compress(b"1,a\nx,b\n" * 1000)
    write(folder, {"in/1.csv.gz": packed, "in/2.csv": "3,c\n"})
    assert agree(spark, folder, text)[0] == "rows"
    write(folder, {"in/3.csv.gz": packed[:-9]})
    assert agree(spark, folder, text)[1] == "R103"


def test_a_parquet_folder(spark: SparkSession, folder: Path) -> None:
    (folder / "in").mkdir()
    table = pa.table({"A": [1, None, 3], "x": [0.0, -0.0, float("nan")], "s": ["a", None, "ä"]})
    pq.write_table(table, folder / "in" / "1.parquet")
    narrow = pa.schema([("A", pa.int32()), ("x", pa.float32()), ("s", pa.string())])
    pq.write_table(table.cast(narrow), folder / "in" / "2.parquet")
    agree(spark, folder, 'source(binary, "in", type(<A: long, x: double, s: string>))')
    agree(spark, folder, 'source(binary, "in", type(<s: string>))')
    assert agree(spark, folder, 'source(binary, "in", type(<A: int>))')[1] == "R121"
    agree(spark, folder, 'source(binary, "in/1.parquet", type(<z: int>))')
    write(folder, {"in/0.parquet": "1,2\n"})
    assert agree(spark, folder, 'source(binary, "in", type(<s: string>))')[1] == "R123"
    write(folder, {"in/0.parquet": (folder / "in" / "1.parquet").read_bytes()[:-20]})
    assert agree(spark, folder, 'source(binary, "in", type(<s: string>))')[1] == "R103"


def test_parquet_that_spark_reads_itself(spark: SparkSession, folder: Path) -> None:
    (folder / "in").mkdir()
    moments = pa.array([0, 1_700_000_000_000_000, None], pa.timestamp("us"))
    table = pa.table(
        {
            "a b.c": pa.array([1, -2, None], pa.int8()),
            "d": pa.array(["1.50", None, "-2.25"]).cast(pa.decimal128(9, 2)),
            "e": moments.cast(pa.date32()),
            "f": moments,
            "g": moments.cast(pa.timestamp("ms", "UTC")),
            "h": [[{"x": 1, "y": "z"}], [], None],
            "i": pa.array([1.5, -0.0, float("nan")], pa.float32()),
            "k": [True, None, False],
            "B": [{"n": [1]}, None, {"n": None}],
            "b": ["1", "2", "3"],
        }
    )
    for name in ("1.parquet", "2 %20.parquet"):
        pq.write_table(table, folder / "in" / name)
    text = (
        'source(binary, "in", type(<`a b.c`: long, d: decimal(9,2), e: date, f: timestamp,'
        " g: timestamp, h: [<x: long, y: string>], i: double, k: bool, B: <n: [long]>, b: string>))"
    ).replace("`a b.c`", '"a b.c"')
    script = typed_script(text + ";")
    source = script.items[0].expr
    assert isinstance(source, typed.Read)
    agree(spark, folder, text)
    parts = parts_of(expand("in"))
    assert all(native_file(part, source.source.row) for part in parts)
    late = table.set_column(3, "f", pa.array([1 << 62, 0, 0], pa.timestamp("us")))
    pq.write_table(late, folder / "in" / "3.parquet")
    assert agree(spark, folder, text)[3][0][0].bad == 1


def test_damaged_parquet_is_explained(spark: SparkSession, folder: Path) -> None:
    path = folder / "x.parquet"
    pq.write_table(pa.table({"A": list(range(5000))}), path, compression="gzip")
    data = bytearray(path.read_bytes())
    data[50:300] = bytes(250)
    path.write_bytes(data)
    source = typed_script('source(binary, "x.parquet", type(<A: long>));').items[0].expr
    assert isinstance(source, typed.Read)
    context = SourceContext()
    frame = frames.read(spark, source.source, "x.parquet", context)
    with pytest.raises(DataError, match="R103"), context.explain_failures():
        frame.toArrow()


def test_deletes_and_signs(spark: SparkSession, folder: Path) -> None:
    write(
        folder, {"in/1.csv": "1,a\n2,b\n", "in/2.csv": "2,b\n3,\nx,y\n", "gone/1.csv": "2,b\nz\n"}
    )
    text = f'stream(line, "in", ",", {AB}, deletes: "gone")'
    assert agree(spark, folder, text)[0] == "rows"
    write(folder, {"gone/2.csv": "9,z\n2,b\n2,b\n1,a\n1,a\n"})
    assert agree(spark, folder, text)[1] == "R205"
    trusted = text.replace('"gone"', '"gone", trusted_deletes: true')
    assert agree(spark, folder, trusted)[0] == "rows"
    write(folder, {"s.csv": "A,B,s\n1,a,+\n1,a,insert\n1,a,-\n2,b,?\n,,1\n"})
    agree(spark, folder, f'stream(line, "s.csv", ",", {AB}, sign: "s", header: true)')
    write(folder, {"s.json": '{"A": [1, 2], "s": 1}\n{"A": [2, 1], "s": -1}\n{"A": null, "s": 1}'})
    agree(spark, folder, 'stream(json, "s.json", type(<A: {int}>), sign: "s")')
    assert agree(spark, folder, 'stream(json, "s.json", sign: "s")')[1] == "R205"


_PARQUET_ROW = "type(<A: int, D: double, S: string>)"
_THERE = {
    "A": pa.array([1, 1, 1, 2, None, None, 3, 4, 5], pa.int32()),
    "D": [0.5, 0.5, 0.5, float("nan"), None, None, -0.0, 0.0, 1.0],
    "S": ["x", "x", "x", "y", None, None, "z", "", "Z"],
}


@pytest.mark.parametrize("sent", [True, False], ids=["sent to all tasks", "sorted"])
def test_deletes_of_parquet(
    spark: SparkSession, folder: Path, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal rows, nulls, NaN and both zeros leave as often as they are deleted."""
    if not sent:
        monkeypatch.setattr(frames, "_MOST_BROADCAST", -1)
    table = pa.table(_THERE)
    for name in ("in", "gone"):
        (folder / name).mkdir()
    pq.write_table(table.slice(0, 4), folder / "in" / "1.parquet")
    pq.write_table(table.slice(4), folder / "in" / "2.parquet")
    text = f'stream(binary, "in", {_PARQUET_ROW}, deletes: "gone")'
    assert agree(spark, folder, text)[1].count("<") == 9
    gone = table.take([0, 1, 3, 4, 6]).set_column(1, "D", [[0.5, 0.5, float("nan"), None, 0.0]])
    pq.write_table(gone, folder / "gone" / "1.parquet")
    assert agree(spark, folder, text)[1].count("<") == 4
    pq.write_table(table.take([8, 8, 0]), folder / "gone" / "2.parquet")
    kind, code, *_ = agree(spark, folder, text)
    assert (kind, code) == ("error", "R205")
    trusted = text.replace('"gone"', '"gone", trusted_deletes: true')
    assert agree(spark, folder, trusted)[1].count("<") == 2


def test_deletes_beside_bad_rows(spark: SparkSession, folder: Path) -> None:
    """Files that are read more than once have each bad row in their quarantine once."""
    times = pa.array([0, 1 << 62, 7, 7], pa.timestamp("us"))
    for name, rows in (("in", slice(0, 4)), ("gone", slice(1, 3))):
        (folder / name).mkdir()
        pq.write_table(pa.table({"t": times[rows]}), folder / name / "1.parquet")
    text = 'stream(binary, "in", type(<t: timestamp>), deletes: "gone")'
    kind, rows_shown, kept, reports = agree(spark, folder, text)
    assert (kind, rows_shown.count("<")) == ("rows", 2)
    assert [report.bad for report, _ in reports] == [1, 1]
    assert [text.count("\n") for text in kept.values()] == [1, 1]


DELETED = [
    ("json", 'type(<A: int, D: double>)', '{"A": 1, "D": -0.0}\nnull\n{"A": 2}\n[]\n',
     '{"D": 0.0, "A": 1}\nnull\n'),
    ("text", "", "a\n\nb\na\n", "a\n\n"),
    ("json", 'type(<A: int, D: [int]>)', '{"A": 1, "D": [1, 2]}\n{"A": 1}\n{"A": 1, "D": [2, 1]}\n',
     '{"D": [1, 2], "A": 1}\n{"A": 1}\n'),
    ("line", 'type(<A: int, D: double>)', "1,-0.0\n1,0.0\n2,NaN\nx,1\n,\n", "1,0\n,\n2,NaN\n"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "row", "there", "gone"), DELETED, ids=[d[0] for d in DELETED])
def test_deletes_of_flat_rows(
    spark: SparkSession, folder: Path, kind: str, row: str, there: str, gone: str
) -> None:
    write(folder, {"in/1.x": there, "in/2.x": there, "gone/1.x": gone})
    how = ["", '"in"', *(['","'] if kind == "line" else []), *([row] if row else [])]
    text = f'stream({kind}{", ".join(how)}, deletes: "gone")'
    assert agree(spark, folder, text)[0] == "rows"
    write(folder, {"gone/2.x": gone * 3})
    assert agree(spark, folder, text)[1] == "R205"


class Words:
    """A parser: every word is a row."""

    def parse(self, text: str) -> Iterator[Any]:
        for word in text.split():
            yield int(word) if word.isdigit() else word


class Broken:
    def parse(self, text: str) -> Iterator[Any]:
        raise KeyError(text[:3])


@pytest.mark.parametrize("parser", [Words, Words(), Broken])
@pytest.mark.parametrize("policy", ["quarantine", "fail"])
def test_a_python_parser(spark: SparkSession, folder: Path, parser: Any, policy: str) -> None:
    write(folder, {"in/w.txt": b"1 2 x\n\xff 8\n3\n", "in/v.txt": "7"})
    text = f'parser words = "m.Words"; source(words, "in", on_error: {policy})'
    agree(spark, folder, text, python_parser=lambda _: (parser, INT))


ROW = Record((("A", INT), ("B", STRING)))
TABLE = pa.table({"A": [1, 2, None], "B": ["x", "y", None]})
REGISTERED: list[tuple[Any, Any]] = [
    (ROW, [{"A": 1, "B": "x"}, (2, None)]),
    (ROW, [{"A": 1, "B": "x"}, None]),
    (ROW, [{"A": "no", "B": "x"}]),
    (ROW, []),
    (ROW, TABLE),
    (ROW, pa.table({"A": [1 << 40], "B": ["x"]})),
    (ROW, pa.table({"A": [1.0], "B": ["x"]})),
    (ROW, TABLE.slice(0, 0)),
    (ROW, pa.table({"A": [1]})),
    (ROW, pa.table({"B": ["x"], "A": [1], "C": [2]})),
    (INT, [1, None, 3]),
]


@pytest.mark.parametrize("given", REGISTERED, ids=range(len(REGISTERED)))
def test_registered_rows(spark: SparkSession, folder: Path, given: tuple[Any, Any]) -> None:
    agree(spark, folder, "source(R)", {"R": given})


def test_registered_frames(spark: SparkSession, folder: Path) -> None:
    def outcome_of(given: Any) -> Outcome:
        rows = {"R": (ROW, given)}
        return by_spark(spark, folder, typed_script("source(R);", rows), rows)

    expected = outcome_of(TABLE)
    # pandas has no ints beside a null
    assert outcome_of(TABLE.to_pandas())[:2] == ("error", "R208")
    assert outcome_of(TABLE.slice(0, 2).to_pandas()) == outcome_of(TABLE.slice(0, 2))
    users = spark.newSession()
    users.conf.set("spark.sql.ansi.enabled", "true")
    given = users.createDataFrame(TABLE).selectExpr("int(A) A", "B", "1 C")
    assert outcome_of(given) == expected
    assert outcome_of(given.selectExpr("B A", "B"))[:2] == ("error", "R208")


def test_frames_of_one_column_are_its_values(spark: SparkSession, folder: Path) -> None:
    def outcome_of(given: Any) -> Outcome:
        rows = {"R": (INT, given)}
        return by_spark(spark, folder, typed_script("source(R);", rows), rows)

    expected = outcome_of([1, None, 3])
    assert expected[0] == "rows"
    frame = spark.createDataFrame([(1,), (None,), (3,)], "value int")
    assert outcome_of(frame) == outcome_of(frame.selectExpr("smallint(value) value")) == expected
    assert outcome_of(frame.selectExpr("string(value) value"))[:2] == ("error", "R208")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            f'source(line, "x", ",", {AB}, header: true)',
            ["B,A", *[f"b{i},{i}" for i in range(50)], "x,y", "z,1"],
        ),
        (f'source(line, "x", ",", {AB})', [*[f'{i},"b""{i}"' for i in range(50)], "x,y", '1,"q"q']),
        (f'source(line, "x", ",", {AB})', [*[f"{i},b{i}" for i in range(50)], '1,"a', 'b"', "x,y"]),
        (f'source(json, "x", {AB})', [f'{{"A": {i}, "B": "{i % 7 * "x"}"}}' for i in range(50)]),
        (f'source(json, "x", {AB})', [f'{{"A": {i % 3}.{i},\n"B": "x"}}' for i in range(20)]),
        ('source(text, "x")', [f"{i}" for i in range(100)]),
    ],
    ids=range(6),
)
def test_large_files_are_cut(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, lines: list[str]
) -> None:
    monkeypatch.setattr(splits, "SMALLEST_FILE", 64)
    write(folder, {"x": "\n".join(lines) + "\n"})
    agree(spark, folder, text)


# --- what is left behind -----------------------------------------------------------------


def test_many_bad_rows_are_read_again(spark: SparkSession, folder: Path) -> None:
    long = "x" * 200
    write(folder, {f"in/{i}.csv": f"{long},a\n" * 400 * i + "1,b\n" for i in range(3)})
    agreed = agree(spark, folder, f'source(line, "in", ",", {AB})')
    ((report, _),) = agreed[3]
    assert report.bad == 1200


def test_what_a_query_does_not_read_is_settled_too(spark: SparkSession, folder: Path) -> None:
    write(folder, {f"{i}.csv": "1,a\n" * 10 for i in range(8)} | {"8.csv": "x\n"})
    source = typed_script(f'source(line, ".", ",", {AB}, on_error: fail);').items[0].expr
    assert isinstance(source, typed.Read)
    context = SourceContext()
    assert len(frames.read(spark, source.source, ".", context).limit(1).collect()) == 1
    with pytest.raises(DataError, match="R110"):
        context.finish()


def test_nothing_is_written_before_all_is_well(spark: SparkSession, folder: Path) -> None:
    write(folder, {"1.csv": "x,a\n", "2.csv.gz": b"no"})
    source = typed_script(f'source(line, "*.csv*", ",", {AB});').items[0].expr
    assert isinstance(source, typed.Read)
    context = SourceContext(quarantine=folder / "q")
    assert values(frames.read(spark, source.source, "*.csv*", context), ROW) == []
    with pytest.raises(DataError, match="R103"):
        context.finish()
    assert not (folder / "q").exists()


def test_parts_are_spread_over_tasks() -> None:
    parts = [FileSplit(i, "", "", size) for i, size in enumerate([9, 1, 1, 1, 0, 8])]
    tasks = sources_context._tasks(parts, 1)
    assert sorted(place for task in tasks for place in task) == list(range(6))
    assert len(tasks) == 4
    assert (0,) in tasks
    assert sources_context._tasks([], 2) == ()


def test_only_so_many_bad_rows_are_kept_for_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MOST_BAD_CHARACTERS", 100)
    stats = PartStats()
    for line in range(1, 500):
        stats.add(BadRow("a.csv", line, "x", "no int"))
        assert stats.bad == line
        assert stats.has_all_bad_rows == (12 * line <= 100)
    assert [row.line for row in stats.bad_rows] == list(range(1, 9))  # what there was room for
