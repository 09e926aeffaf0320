"""The fast way of reading gives the rows of the shared reader."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incmrql.diagnostics import DataError
from incmrql.formats import Row, read
from incmrql.kernel import plain, reading
from incmrql.kernel.columns import gathered, table_rows, types_of, weights_of
from incmrql.kernel.reading import checksum, read_file
from incmrql.values import encode
from tests.kernel.programs import input_file, program_of

TYPE = "< K: int, V: double, S: string, L: long, D: date >"
QUERY = (
    'incr select (k, count(x)) from x in stream(line, "{path}", "{delimiter}", type({type})) '
    "group by k: x.K;"
)
FIELDS = st.sampled_from(
    ["1", "-2", "+3", " 4", "007", "2147483648", "", "1.5", "-0", "1e3", "1e400", ".5", "5.", "nan",
     "NaN", "-inf", "x", "ä", "\ufeff", "2020-01-31", '"', '"a"', '"a,b"', '"a""b"', '"\n"', "\r",
     "9999999999999999999", "-0.0", "1_000", "0x10", "1e", "\u0660", "\x00", "\t"]
)  # fmt: skip
GOOD = st.tuples(
    st.sampled_from(["1", "-2", "", "12345"]), st.sampled_from(["0.5", "1e3", "-0", ""]),
    st.sampled_from(["a", "b c", "", "ü"]), st.sampled_from(["1", "-9999999999", ""]),
    st.just("2020-01-31"),
).map(",".join)  # fmt: skip
CONTENT = st.lists(
    st.lists(FIELDS, min_size=4, max_size=6).map(",".join) | GOOD | GOOD | GOOD | st.just(""),
    max_size=8,
).flatmap(lambda lines: st.sampled_from(["\n".join(lines), "\n".join(lines) + "\n"]))


def both(path: Path, type_: str) -> None:
    """Read a file in both ways and compare rows, order and bad lines."""
    program = program_of(QUERY.format(path=path, delimiter=",", type=type_))
    stream = program.stream
    wanted = list(read("line", path, stream.source.row, delimiter=","))
    chunks = list(read_file(program, input_file(path)))
    rows = [
        encode(gathered(values, stream.element))
        for chunk in chunks
        for values in table_rows(chunk.table, "c", types_of(stream.element))
    ]
    assert rows == [encode(row.value) for row in wanted if isinstance(row, Row)]
    assert [bad for chunk in chunks for bad in chunk.bad] == [
        row for row in wanted if not isinstance(row, Row)
    ]


@pytest.mark.parametrize("type_", [TYPE, TYPE.replace("D: date", "D: any"), "< K: int >"])
def test_lines_are_read_alike(type_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK", 20)
    path = tmp_path / "file.csv"

    @settings(max_examples=100)
    @given(CONTENT)
    def alike(content: str) -> None:
        path.write_text(content, encoding="utf-8", newline="")
        both(path, type_)

    alike()


def test_plain_lines_do_take_the_fast_way(tmp_path: Path) -> None:
    row = program_of(QUERY.format(path=tmp_path, delimiter=",", type="< K: int, V: double >"))
    table = plain.plain_lines(b"1,2.5\n-3,\n,1e3\n", row.stream.source.row, ",")
    assert table is not None
    assert table.column("c0").to_pylist() == [1, -3, None]
    assert table.column("c1").to_pylist() == [2.5, None, 1000.0]


def test_bytes_that_are_not_text_are_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(b"1,0.5,\xff,1,2020-01-31\n1,0.5,a,1,2020-01-31\n")
    both(path, TYPE)


@pytest.mark.parametrize("own", [True, False])
def test_parquet_is_read_alike(own: bool, tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    key = pa.int32() if own else pa.int16()
    columns = {"K": pa.array([1, None, 3], key), "V": pa.array([-0.0, float("nan"), None])}
    pq.write_table(pa.table(columns), path)
    text = QUERY.replace('(line, "{path}", "{delimiter}", ', '(binary, "{path}", ')
    program = program_of(text.format(path=tmp_path, type="< K: int, V: double >"))
    stream = program.stream
    wanted = [row for row in read("binary", path, stream.source.row) if isinstance(row, Row)]
    found = Counter(
        encode(gathered(values, stream.element))
        for chunk in read_file(program, input_file(path))
        for values in table_rows(chunk.table, "c", types_of(stream.element))
    )
    assert found == Counter(encode(row.value) for row in wanted)


def test_a_file_of_deletes_has_negative_weights(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("1\n2\n")
    program = program_of(QUERY.format(path=path, delimiter=",", type="< K: int >"))
    (chunk,) = read_file(program, input_file(path, deletes=True))
    assert weights_of(chunk.table).tolist() == [-1, -1]


def test_a_file_that_is_not_as_planned_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("1\n2\n")
    planned = input_file(path)
    path.write_text("1\n2\n3\n")
    with pytest.raises(DataError, match="no longer what was taken in"):
        checksum(planned)
