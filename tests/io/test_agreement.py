"""Files of any content are read alike by the reference, by batch queries and by streams.

The reference reads them row by row; the other two share `io.read_chunks` and make their own
columns of it.  Most is tested without Spark, by calling what its tasks call, and a sample on it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.engine.columns.layouts import of_rows
from incmrql.engine.columns.rows import from_table, to_values
from incmrql.engine.inputs import InputFile, read_file
from incmrql.errors import DataError, SourceText
from incmrql.io import FileSplit, ReadSpec, element_of
from incmrql.io.arrow.columns import column_values
from incmrql.io.rows import BadRow, Row
from incmrql.io.vectorised import blocks
from incmrql.plan.assembly import program_of
from incmrql.plan.program import Stream
from incmrql.spark.sources import context as sources_context
from incmrql.spark.sources import frames, splits
from incmrql.spark.sources.parts import part_rows
from incmrql.spark.sources.scan import PartStats, ScanPlan
from incmrql.spark.values import value_type, values
from incmrql.types.model import PREDEFINED, element_type
from incmrql.values import encode
from tests.io.reading import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SOURCES = {
    "lines": 'line, "{}", ",", type(< K: int, V: double, S: string >)',
    "lines with a header": (
        'line, "{}", ",", type(< S: string, K: long, V: decimal(6, 2) >), header: true, quote: "\'"'
    ),
    "short lines": 'line, "{}", ",", type((any, float, timestamp)), max_line: 30',
    "numbers": 'line, "{}", ",", type(double)',
    "lines with nulls": 'line, "{}", ",", type(< K: short, D: date, B: bool >), null: "null"',
    "JSON": (
        'json, "{}", type(< K: int, V: double, S: string, D: date, '
        "L: [long], R: < K: byte, S: [< V: float >] > >)"
    ),
    "short JSON": 'json, "{}", type(< K: long, S: string >), max_line: 40',
    "JSON trees": 'json, "{}"',
    "text": 'text, "{}"',
}

FIELDS = st.sampled_from(
    ["1", "-2", "+3", " 4", "007", "0", "-0", "2147483647", "2147483648", "1.5", "0.10", "1e3",
     "1e400", ".5", "nan", "3.4028235e38", "0.000012345678901234567", "9" * 40, "", "null",
     "true", "2020-01-31", "2020-02-30", "2020-01-31T10:00:00Z", "x", "a b", "ä", "\u2028", "😀",
     "\ufeff", '"', "'", '"a"', '"a,b"', "'a,b'", '"a""b"', '"\n"', '"a"b', "\r", "\x00", "\x7f"]
)  # fmt: skip
GOOD_LINES = st.sampled_from(["1,2.5,x", "-3,,", "x,1,0.25", "4,1e3,y,", "7", ",2020-01-31,true"])
ANY_LINES = st.lists(FIELDS, min_size=1, max_size=5).map(",".join)

NAMES = st.sampled_from(["K", "V", "S", "D", "L", "R", "K", "é", "x", "\\u004b"])
SCALARS = st.sampled_from(
    ["1", "-0", "127", "2147483648", "9223372036854775808", "1.5", "1E2", "1e400", "01", "1.",
     "0.000012345678901234567", "9" * 40, "NaN", "true", "null", '""', '"a"', '"ä😀"', '"\\n"',
     '"\\u00e9"', '"\\ud800"', '"2020-01-31"', '"2020-02-30"', '"a"b', '"\t"', "x", ""]
)  # fmt: skip
DEEP = st.sampled_from([10, 99, 100, 101, 3000]).map(lambda depth: "[" * depth + "]" * depth)
VALUES = st.recursive(
    SCALARS | DEEP,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda members: object_text(members, ", ")
        )
    ),
    max_leaves=4,
)
GOOD_DOCUMENTS = st.sampled_from(
    ['{"K": 1, "V": 2.5, "S": "x"}', '{"S": "y", "K": -3}', '{"K": null, "L": [1, 2, null]}',
     '{"R": {"K": 1, "S": [{"V": 1.5}, null]}, "D": "2020-01-31"}', '{"K":4,"S":"ä"}', "{}"]
)  # fmt: skip
DOCUMENTS = st.one_of(
    GOOD_DOCUMENTS,
    st.builds(
        lambda members, comma, form: form.replace("%", object_text(members, comma)),
        st.lists(st.tuples(NAMES, VALUES), max_size=4),
        st.sampled_from([", ", ",", ",\n  ", " ,\t"]),
        st.sampled_from(["%", "%", "% ", "[%]", " %", "% %", "%,", "%x"]),
    ),
    VALUES,
)
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", ",\n", ""])


def object_text(members: Sequence[tuple[str, str]], comma: str) -> str:
    return "{" + comma.join(f'"{name}": {value}' for name, value in members) + "}"


@st.composite
def contents(draw: st.DrawFn, name: str) -> tuple[str, bytes]:
    """The ending of a file's name, and its bytes."""
    is_json = "JSON" in name
    good, any_ = (GOOD_DOCUMENTS, DOCUMENTS) if is_json else (GOOD_LINES, ANY_LINES | GOOD_LINES)
    pieces = draw(st.lists(good, max_size=4)) + draw(st.lists(any_, max_size=5))
    text = "".join(piece + draw(ENDS) for piece in pieces)
    if "header" in name:
        text = draw(st.sampled_from(["K,S,V\n", "V,other,K,S\r\n", "\n\n'K',S,V\n"])) + text
    data = draw(st.sampled_from(["", "", "\ufeff"])).encode() + text.encode()
    if draw(st.integers(0, 5)) == 0:
        data = data.replace(draw(st.sampled_from([b"x", b"1", b"\n"])), b"\xff\n", 1)
    return (".gz", gzip.compress(data, mtime=0)) if draw(st.integers(0, 5)) == 0 else ("", data)


class ReadResult(NamedTuple):
    """The rows and bad rows that a reader returns for some files."""

    rows: list[tuple[bytes, int]]
    bad: list[BadRow]


Reader: TypeAlias = Callable[[Stream, Sequence[Path]], ReadResult]


@lru_cache
def stream_of(name: str, path: str) -> Stream:
    source = SourceText(f"incr select x from x in stream({SOURCES[name].format(path)});")
    script = compile_script(source, catalog_for(source, ()), read_include).typed
    (stream,) = program_of(script.items, script).streams
    return stream


def by_reference(stream: Stream, files: Sequence[Path]) -> ReadResult:
    source = stream.source
    how = {"delimiter": source.delimiter, "options": dict(source.options)}
    items = [item for file in files for item in read(source.format, file, source.row, **how)]
    rows = [(encode(row.value), row.weight) for row in items if isinstance(row, Row)]
    return ReadResult(rows, [row for row in items if isinstance(row, BadRow)])


def by_stream(stream: Stream, files: Sequence[Path]) -> ReadResult:
    layout = of_rows(stream.element, packed=stream.packed)
    result = ReadResult([], [])
    for file in files:
        seen = file.stat()
        given_file = InputFile(str(file), seen.st_size, seen.st_mtime_ns, place=0)
        for chunk in read_file(stream, PREDEFINED, given_file):
            decoded = to_values(from_table(chunk.table), layout)
            result.rows.extend((encode(value), weight) for value, weight in decoded)
            result.bad.extend(chunk.bad)
    return result


def by_batch(stream: Stream, files: Sequence[Path]) -> ReadResult:
    """What Spark's tasks make of files, which are cut where they can be."""
    source = stream.source
    element = element_type(source.row) if source.format == "line" else source.row
    spec = ReadSpec(source, element, dict(source.options), arrow_of=value_type)
    plan = ScanPlan(spec, (), packed=True, weighted=True)
    result = ReadResult([], [])
    for file in files:
        for part in pieces_of(plan, FileSplit(0, str(file), str(file), file.stat().st_size)):
            stats = PartStats()
            for batch in part_rows(plan, part, stats):
                decoded = column_values(batch["row"], element)
                result.rows.extend(
                    zip(map(encode, decoded), batch["weight"].to_pylist(), strict=True)
                )
            if stats.failure is not None:
                code, message, place, hint = stats.failure
                raise DataError(code, message, place=place, hint=hint)
            assert stats.has_all_bad_rows
            result.bad.extend(stats.bad_rows)
    return result


def pieces_of(plan: ScanPlan, part: FileSplit) -> Iterator[FileSplit]:
    pieces = splits.splits_of(part, 3) if splits.is_splittable(plan, part) else [part]
    counts = [splits.count_lines(plan, piece, quick=False) for piece in pieces]
    return iter([part]) if None in counts else splits.with_first_lines(pieces, counts)


def outcome(reader: Reader, stream: Stream, files: Sequence[Path]) -> ReadResult | str:
    """What a reader makes of files, or its error."""
    try:
        return reader(stream, files)
    except DataError as problem:
        return str(problem)


@pytest.mark.parametrize("name", SOURCES)
def test_all_readers_agree(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "SMALLEST_FILE", 24)

    @given(contents(name), st.sampled_from([16, 64, 1 << 20]))
    def agree(sample: tuple[str, bytes], block: int) -> None:
        monkeypatch.setattr(blocks, "BLOCK", block)
        ending, data = sample
        file = tmp_path / f"file{ending}"
        file.write_bytes(data)
        stream = stream_of(name, str(tmp_path))
        wanted = outcome(by_reference, stream, [file])
        for reader in (by_stream, by_batch):
            assert outcome(reader, stream, [file]) == wanted

    agree()


@pytest.mark.spark
@pytest.mark.parametrize("name", SOURCES)
def test_all_readers_agree_on_spark(
    spark: SparkSession, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_context, "_MOST_DRIVER_BYTES", -1)
    folder, kept = tmp_path / "in", tmp_path / "bad"
    folder.mkdir()

    @settings(max_examples=2, derandomize=True, database=None)
    @given(st.lists(contents(name), min_size=8, max_size=16))
    def agree(files: list[tuple[str, bytes]]) -> None:
        for old in folder.iterdir():
            old.unlink()
        for number, (ending, data) in enumerate(files):
            (folder / f"{number:03}{ending}").write_bytes(data)
        stream = stream_of(name, str(folder))
        paths = sorted(folder.iterdir())
        wanted = outcome(by_reference, stream, paths)
        assert outcome(by_stream, stream, paths) == wanted
        actual = outcome(partial(on_spark, spark, kept), stream, paths)
        if isinstance(wanted, ReadResult):
            wanted = ReadResult(sorted(wanted.rows), wanted.bad)
        assert actual == wanted

    agree()


def on_spark(spark: SparkSession, kept: Path, stream: Stream, files: Sequence[Path]) -> ReadResult:
    """The rows of a batch query, sorted, and the bad ones that it leaves in quarantine."""
    with sources_context.SourceContext(quarantine=kept) as context:
        frame = frames.read(spark, stream.source, str(files[0].parent), context, packed=True)
        decoded = values(frame, element_of(stream.source))
        context.finish()
    lines = [line for file in kept.glob("*") for line in file.read_text().splitlines()]
    bad = [json.loads(line) for line in lines]
    return ReadResult(
        sorted((encode(value), 1) for value in decoded),
        [BadRow(row["file"], row["line"] or 0, row["text"], row["reason"]) for row in bad],
    )
