"""Paths to files, and files to lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from incmrql.errors import DataError
from incmrql.io.files import Line, expand, open_text


def touch(folder: Path, *names: str) -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x\n")


def names(folder: Path, path: str) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in expand(folder / path)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    touch(tmp_path, "b.csv", "a.csv", "_SUCCESS", ".a.csv.crc", "sub/c.csv", "sub/_temporary/d.csv")
    touch(tmp_path, "sub2/d.txt", "odd[1].csv")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.csv", ["a.csv"]),
        ("_SUCCESS", ["_SUCCESS"]),
        ("", ["a.csv", "b.csv", "odd[1].csv", "sub/c.csv", "sub2/d.txt"]),
        ("sub", ["sub/c.csv"]),
        ("[ab].csv", ["a.csv", "b.csv"]),
        ("sub*", ["sub/c.csv", "sub2/d.txt"]),
        ("**/*.csv", ["a.csv", "b.csv", "odd[1].csv", "sub/c.csv"]),
        ("_*", ["_SUCCESS"]),
        ("odd[1].csv", ["odd[1].csv"]),
    ],
)
def test_expand(tree: Path, path: str, expected: list[str]) -> None:
    assert names(tree, path) == expected


def test_an_empty_folder_has_no_files(tmp_path: Path) -> None:
    assert expand(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("sales.csv", 'there is no file or folder "{}/sales.csv"', 'Did you mean "sale.csv"?'),
        ("*.json", 'no file matches "{}/*.json"', 'Folder "{}" has: sale.csv.'),
        ("none/deep/x.csv", "there is no file or folder", 'Folder "{}" has: sale.csv.'),
    ],
)
def test_a_missing_path_names_what_is_near(
    tmp_path: Path, path: str, message: str, hint: str
) -> None:
    touch(tmp_path, "sale.csv")
    with pytest.raises(DataError) as caught:
        expand(tmp_path / path)
    assert caught.value.code == "R101"
    assert message.format(tmp_path) in caught.value.message
    assert hint.format(tmp_path) in caught.value.hint


@pytest.mark.parametrize("path", ["", "file://"])
def test_an_empty_path_is_not_the_current_folder(path: str) -> None:
    with pytest.raises(DataError, match=r"R101.*the path is empty") as caught:
        expand(path)
    assert caught.value.hint == 'Write "." for the current folder.'


@pytest.mark.parametrize("path", ["link.csv", "", "*.csv"])
def test_a_link_to_nothing_is_named(tmp_path: Path, path: str) -> None:
    touch(tmp_path, "a.csv")
    (tmp_path / "link.csv").symlink_to("gone.csv")
    with pytest.raises(DataError) as caught:
        expand(tmp_path / path)
    assert caught.value.code == "R101"
    assert f'{tmp_path}/link.csv" is a link to "gone.csv", which is' in caught.value.message


def test_a_hidden_link_to_nothing_is_skipped(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv")
    (tmp_path / ".lock").symlink_to("gone")
    assert names(tmp_path, ".") == ["a.csv"]


def test_nothing_around_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is empty"):
        expand(tmp_path / "x")


def test_a_folder_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"R102.*is a directory"):
        list(open_text(tmp_path))


def zst(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


PACKED = [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zst)]


@pytest.mark.parametrize(("ending", "pack"), PACKED)
def test_compressed(tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]) -> None:
    file = tmp_path / f"a.csv{ending}"
    file.write_bytes(pack(b"a\nb\n"))
    assert [line.text for line in open_text(file)] == ["a", "b"]


@pytest.mark.parametrize(("ending", "pack"), PACKED)
@pytest.mark.parametrize("part", [0.5, 0.99])
def test_cut_off(tmp_path: Path, ending: str, pack: Callable[[bytes], bytes], part: float) -> None:
    file = tmp_path / f"a.csv{ending}"
    whole = pack(b"".join(b"%d\n" % (i * i) for i in range(20_000)))
    file.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(DataError) as caught:
        list(open_text(file))
    assert caught.value.code == "R103"
    assert f'"a.csv{ending}" is damaged or was cut off' in caught.value.message


@pytest.mark.parametrize(("ending", "_"), PACKED)
def test_not_compressed_at_all(tmp_path: Path, ending: str, _: object) -> None:
    file = tmp_path / f"a{ending}"
    file.write_bytes(b"plain text, plain text, plain text\n")
    with pytest.raises(DataError, match="R103"):
        list(open_text(file))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\xef\xbb\xbf", []),
        (b"\n", [Line(1, "", "\n")]),
        (b"a\r\nb", [Line(1, "a", "\r\n"), Line(2, "b", "")]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [Line(1, "a", "\n"), Line(2, "\ufeffb", "\n")]),
        (b"a\x0bb\x85\n", [Line(1, "a\x0bb\\x85", "\n", "not UTF-8 at byte 4 of the line")]),
        ("a\u2028b\x0cc\n".encode(), [Line(1, "a\u2028b\x0cc", "\n")]),
        (b"ok\nx\xff\nok", [
            Line(1, "ok", "\n"),
            Line(2, "x\\xff", "\n", "not UTF-8 at byte 2 of the line"),
            Line(3, "ok", ""),
        ]),
    ],
)  # fmt: skip
def test_lines(tmp_path: Path, data: bytes, lines: list[Line]) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(data)
    assert list(open_text(file)) == lines
