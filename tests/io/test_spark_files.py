"""Files listed by the rules of Spark; `tests/spark/test_spools.py` compares with Spark itself."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from incmrql.errors import DataError
from incmrql.io.spark_files import base_directory, escape, list_files, name_pattern, roots
from incmrql.types.typed import SparkReader


def reader(*paths: Path | str, partitions: tuple[str, ...] = (), **options: str) -> SparkReader:
    schema = json.dumps({"type": "struct", "fields": []})
    return SparkReader(
        "csv", tuple(map(str, paths)), schema, (), partitions, tuple(options.items())
    )


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")


def names_listed_by(reader: SparkReader, folder: Path, directory: str | None = None) -> list[str]:
    return sorted(os.path.relpath(path, folder) for path, _ in list_files(reader, directory))


def test_hidden_and_empty_files_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", "_b=1.csv", "_hidden", ".dot", "c._COPYING_", "_SUCCESS", "d.tmp")
    (tmp_path / "empty.csv").touch()
    assert names_listed_by(reader(tmp_path), tmp_path) == ["_b=1.csv", "a.csv", "d.tmp"]


def test_plain_directories_inside_count_only_if_all_are_asked_for(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", "in/b.csv", "in/_no/c.csv", "in/k=1/d.csv", "_metadata_x/e.csv")
    assert names_listed_by(reader(tmp_path), tmp_path) == ["a.csv"]
    everything = reader(tmp_path, recursiveFileLookup="true")
    assert names_listed_by(everything, tmp_path) == [
        "_metadata_x/e.csv", "a.csv", "in/b.csv", "in/k=1/d.csv",
    ]  # fmt: skip


def test_a_partition_that_comes_later_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a.csv")
    (tmp_path / "k=1").mkdir()
    assert names_listed_by(reader(tmp_path), tmp_path) == ["a.csv"]
    put(tmp_path, "k=1/b.csv")
    with pytest.raises(DataError, match="looks like a partition") as problem:
        names_listed_by(reader(tmp_path), tmp_path)
    assert problem.value.code == "R324"


def test_partitions_are_read_to_their_depth(tmp_path: Path) -> None:
    put(tmp_path, "city=Rome/day=1/a.csv", "city=a%2Fb/day=2/in/b.csv", "root.csv", "_t/x.csv")
    both = reader(tmp_path, partitions=("city", "day"))
    assert names_listed_by(both, tmp_path) == ["city=Rome/day=1/a.csv", "city=a%2Fb/day=2/in/b.csv"]
    assert base_directory(both, f"{tmp_path}/city=Rome/day=1/a.csv") == str(tmp_path)


@pytest.mark.parametrize("name", ["city=Rome/b.csv", "town=Rome/day=1/b.csv", "in/b.csv",
                                  "city=Rome/day=1/hour=2/b.csv"])  # fmt: skip
def test_a_file_outside_of_the_partitions_is_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path, "city=Rome/day=1/a.csv", name)
    with pytest.raises(DataError, match="is not in a partition"):
        names_listed_by(reader(tmp_path, partitions=("city", "day")), tmp_path)


def test_a_base_path_says_where_partitions_start(tmp_path: Path) -> None:
    put(tmp_path, "city=Rome/day=1/a.csv")
    one = reader(tmp_path / "city=Rome", partitions=("city", "day"), basePath=str(tmp_path))
    assert names_listed_by(one, tmp_path) == ["city=Rome/day=1/a.csv"]
    assert base_directory(one, f"{tmp_path}/city=Rome/day=1/a.csv") == str(tmp_path)
    put(tmp_path / "gone", "city=Oslo/day=2/c.csv")
    gone = str(tmp_path / "gone")
    assert names_listed_by(one, tmp_path, gone) == ["gone/city=Oslo/day=2/c.csv"]
    assert base_directory(one, f"{gone}/city=Oslo/day=2/c.csv", gone) == gone


def test_patterns_are_those_of_hadoop(tmp_path: Path) -> None:
    put(tmp_path, "a1/x.csv", "a2/x.csv", "b[1]/x.csv", "_c/x.csv", "a1/y.json")

    def of(pattern: str) -> list[str]:
        return [os.path.relpath(path, tmp_path) for path in roots(f"{tmp_path}/{pattern}")]

    assert of("a?") == ["a1", "a2"]
    assert of("{b\\[1\\],a[2-3]}/x.csv") == ["b[1]/x.csv", "a2/x.csv"]
    assert of("a[^1]") == ["a2"]
    assert of("*/*.{csv,json}") == [
        "_c/x.csv", "a1/x.csv", "a2/x.csv", "b[1]/x.csv", "a1/y.json",
    ]  # fmt: skip
    assert of("none*") == []
    assert roots(escape(f"{tmp_path}/b[1]")) == [f"{tmp_path}/b[1]"]
    assert roots(f"file://{tmp_path}/a1") == [f"{tmp_path}/a1"]
    assert roots(f"file:{tmp_path}/a1") == [f"{tmp_path}/a1"]


def test_names_are_filtered(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", "b.json", "c.txt")
    assert names_listed_by(reader(tmp_path, pathglobfilter="*.{csv,txt}"), tmp_path) == [
        "a.csv",
        "c.txt",
    ]
    assert name_pattern("[!a]*").fullmatch("b")
    assert not name_pattern("[!a]*").fullmatch("a")


def test_a_single_file_and_a_missing_one(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", "_b.csv")
    assert names_listed_by(reader(tmp_path / "a.csv"), tmp_path) == ["a.csv"]
    assert names_listed_by(reader(tmp_path / "_b.csv"), tmp_path) == []
    with pytest.raises(DataError, match="there is no file or folder"):
        names_listed_by(reader(tmp_path / "c.csv"), tmp_path)


def test_links_are_followed_and_links_to_nothing_are_left_out(tmp_path: Path) -> None:
    put(tmp_path / "else", "a.csv")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "linked.csv").symlink_to(tmp_path / "else" / "a.csv")
    (tmp_path / "in" / "broken.csv").symlink_to(tmp_path / "nowhere")
    assert names_listed_by(reader(tmp_path / "in"), tmp_path) == ["in/linked.csv"]
