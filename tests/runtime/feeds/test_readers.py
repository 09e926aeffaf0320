"""Files that Spark reads: spooled before the intent, ingested exactly once, replaced, taken back.

What stands for Spark here reads lines of two integers; `tests/spark/test_spools.py` has the real
reader.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from incmrql.engine.inputs import InputFile, Origin, checksum
from incmrql.errors import DataError
from incmrql.io.spools import write_spool
from incmrql.plan.assembly import program_of
from incmrql.plan.program import Program, Stream
from incmrql.runtime import Driver, StreamOptions
from incmrql.spark.stream_job import StreamJob
from incmrql.storage.files import CRASH
from incmrql.types.typed import Source, SparkReader
from incmrql.types.walk import with_sources
from incmrql.values import Value
from tests.engine.programs import typed_script
from tests.runtime import here
from tests.runtime.here import Here, jobs_here
from tests.runtime.streaming import QUICK

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": "integer", "nullable": True, "metadata": {}}
            for name in ("k", "v")
        ],
    }
)


class Reading(Here):
    """A job whose spools are written in this process."""

    spooled = 0

    def spool(self, stream: Stream, files: Sequence[InputFile], folder: Path) -> list[InputFile]:
        spools = []
        for file in files:
            lines = Path(file.path).read_text().split()
            rows = [tuple(map(int, line.split(","))) for line in lines]
            origin = Origin(file.path, file.size, file.modified, checksum(file))
            halves = (rows[: len(rows) // 2], rows[len(rows) // 2 :])
            for half in halves:  # a file may have several spools
                Reading.spooled += 1
                path = folder / f"{Reading.spooled}.arrow"
                write_spool(path, stream.element, [(row, 1) for row in half])
                there = path.stat()
                size, modified = there.st_size, there.st_mtime_ns
                spools.append(
                    replace(file, path=str(path), size=size, modified=modified,
                            kind="spool", origin=origin)
                )  # fmt: skip
        return spools


class Folder:
    """A stream over a folder that Spark reads."""

    def __init__(self, folder: Path, format_: str = "csv", **options: Any) -> None:
        self.data, self.gone = folder / "data", folder / "gone"
        self.checkpoint, self.output = folder / "ck", folder / "out"
        self.data.mkdir()
        self.gone.mkdir()
        self.format, self.options, self.streaming = format_, options, True

    def program(self) -> Program:
        reader = SparkReader(self.format, (str(self.data),), SCHEMA, ("k", "v"))

        def read_by_spark(source: Source) -> Source:
            options = tuple(sorted(self.options.items()))
            return replace(
                source, format="spark", streaming=self.streaming, reader=reader, options=options
            )

        text = (
            f"incr select (k, sum(v)) from (k, v) in "
            f'stream(line, "{self.data}", ",", type((int, int))) group by k;'
        )
        script = with_sources(typed_script(text), read_by_spark)
        return program_of(script.items, script)

    def driver(self, options: StreamOptions = QUICK) -> Driver:
        driver = Driver(self.program(), self.checkpoint, self.output, cast("Any", None), options)
        driver._job = cast("StreamJob", Reading(driver.compiled))
        return driver

    def put(self, name: str, *rows: str, deletes: bool = False, at: int = 1_000_000) -> Path:
        path = (self.gone if deletes else self.data) / name
        path.write_text("".join(f"{row}\n" for row in rows))
        os.utime(path, (at, at))
        return path

    def spools(self) -> list[str]:
        return sorted(path.name for path in (self.checkpoint / "input").glob("source-*/*"))


def steps(folder: Folder, options: StreamOptions = QUICK) -> list[Value]:
    """The answer after all batches that are ready."""
    with folder.driver(options) as driver:
        while driver.step() is not None:
            pass
        return sorted(driver.answer())


def test_new_files_are_spooled_and_ingested_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", "1,10", "2,20", "1,5")
    folder.put("empty.csv", " ")
    assert steps(folder) == [(1, 15), (2, 20)]
    assert folder.spools() == []
    folder.put("b.csv", "2,2")
    folder.put("c.csv", "3,3")
    assert steps(folder) == [(1, 15), (2, 22), (3, 3)]
    assert steps(folder) == [(1, 15), (2, 22), (3, 3)]


def test_a_second_folder_has_deletions(tmp_path: Path) -> None:
    folder = Folder(tmp_path, deletes=str(tmp_path / "gone"))
    folder.put("a.csv", "1,10", "2,20")
    assert steps(folder) == [(1, 10), (2, 20)]
    folder.put("a.csv", "2,20", deletes=True)
    assert steps(folder) == [(1, 10)]
    folder.put("b.csv", "7,7", deletes=True)
    for _ in range(2):
        with pytest.raises(DataError, match="rows are deleted that are not there"):
            steps(folder)
    assert len(folder.spools()) == 2  # of the one file that was refused
    (folder.gone / "b.csv").unlink()
    assert steps(folder) == [(1, 10)]
    assert folder.spools() == []


def test_files_that_do_not_change_are_ingested_once_and_watched(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.streaming = False
    path = folder.put("a.csv", "1,10")
    with folder.driver() as driver:
        assert driver.step() is not None
        folder.put("b.csv", "2,2")
        assert driver.step() is None
        folder.put("a.csv", "1,99", at=2_000_000)
        with pytest.raises(DataError, match="changed after it was ingested") as problem:
            driver.step()
    assert "is read once" in problem.value.hint
    assert steps(folder, replace(QUICK, forget=(str(path),))) == [(1, 10)]


# --- crashes -----------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("point", ["spooled", "intent", "archive", "manifest", "committed",
                                   "publish", "after"])  # fmt: skip
def test_a_batch_is_ingested_once_wherever_the_driver_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", "1,10")
    assert steps(folder) == [(1, 10)]
    folder.put("b.csv", "1,1", "2,2")
    monkeypatch.setenv(CRASH, f"{point}:1")
    monkeypatch.setattr(os, "kill", _kill)
    driver = folder.driver()
    with pytest.raises(Killed):
        driver.step()
    driver.close()
    monkeypatch.delenv(CRASH)
    if point != "spooled":
        # The intent names the spools: the rows are safe, whatever becomes of the file.
        (folder.data / "b.csv").unlink()
        with folder.driver() as resumed:
            if point in ("intent", "archive"):
                assert resumed.step() is not None
            assert sorted(resumed.answer()) == [(1, 11), (2, 2)]
            with pytest.raises(DataError, match="no longer exists") as problem:
                resumed.step()
            assert problem.value.code == "R302"
        folder.put("b.csv", "1,1", "2,2")
    assert steps(folder) == [(1, 11), (2, 2)]
    assert folder.spools() == []


def _kill(_process: int, _signal: int) -> None:
    raise Killed


# --- files that changed or vanished ------------------------------------------------------


def overwrite(folder: Folder) -> None:
    """What `write.mode("overwrite")` does: other names, other rows."""
    for path in folder.data.iterdir():
        path.unlink()
    folder.put("part-1.csv", "1,100", "3,3", at=2_000_000)


def test_an_overwritten_folder_is_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = Folder(tmp_path, deletes=str(tmp_path / "gone"))
    folder.put("a.csv", "1,10")
    steps(folder)
    overwrite(folder)
    with pytest.raises(DataError) as problem:
        steps(folder)
    assert problem.value.code == "R302"
    for words in (
        'on_modified="replace" and --on-change rebuild',
        'write.mode("overwrite")',
        "--forget",
        "--retract",
    ):
        assert words in problem.value.hint
    with folder.driver(replace(QUICK, retract=(str(folder.data / "a.csv"),))) as driver:
        while driver.step() is not None:
            pass
        assert sorted(driver.answer()) == [(1, 100), (3, 3)]
    assert steps(folder) == [(1, 100), (3, 3)]


def test_a_stream_that_only_grows_goes_on_without_the_file(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    folder.put("a.csv", "1,10")
    folder.put("b.csv", "2,2")
    steps(folder)
    (folder.data / "a.csv").unlink()
    with pytest.raises(DataError, match="no longer exists") as problem:
        steps(folder)
    assert "--retract" in problem.value.hint
    assert steps(folder, replace(QUICK, forget=(str(folder.data / "a.csv"),))) == [(1, 10), (2, 2)]
    folder.put("c.csv", "3,3")
    assert steps(folder) == [(1, 10), (2, 2), (3, 3)]


def test_a_file_of_a_stream_that_only_grows_is_retracted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs_here(monkeypatch)
    monkeypatch.setattr(here, "Here", Reading)
    folder = Folder(tmp_path)
    path = folder.put("a.csv", "1,10", "4,4")
    folder.put("b.csv", "2,2")
    steps(folder)
    path.unlink()
    retract = replace(QUICK, retract=(str(path),))
    assert steps(folder, retract) == [(2, 2)]
    folder.put("a.csv", "1,1")
    assert steps(folder) == [(1, 1), (2, 2)]


def test_an_overwritten_folder_is_replaced(tmp_path: Path) -> None:
    folder = Folder(tmp_path, on_modified="replace")
    folder.put("a.csv", "1,10", "2,20")
    folder.put("b.csv", "1,1")
    assert steps(folder) == [(1, 11), (2, 20)]
    overwrite(folder)
    assert steps(folder) == [(1, 100), (3, 3)]
    folder.put("part-1.csv", "5,5", at=3_000_000)
    assert steps(folder) == [(5, 5)]
    assert steps(folder) == [(5, 5)]


def test_a_folder_that_lost_all_files_is_not_replaced_by_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path, on_modified="replace")
    path = folder.put("a.csv", "1,10")
    steps(folder)
    path.unlink()
    with pytest.raises(DataError, match="is gone") as problem:
        steps(folder)
    assert problem.value.code == "R322"
    assert steps(folder, replace(QUICK, allow_empty=True)) == []


def test_a_file_that_is_only_touched_is_the_same(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = folder.put("a.csv", "1,10")
    steps(folder)
    os.utime(path, (2_000_000, 2_000_000))
    assert steps(folder) == [(1, 10)]
    folder.put("a.csv", "1,99", at=3_000_000)
    with pytest.raises(DataError, match="changed after it was ingested") as problem:
        steps(folder)
    assert problem.value.code == "R301"
    forget = replace(QUICK, forget=(str(path),))
    assert steps(folder, forget) == [(1, 10)]
    assert steps(folder) == [(1, 10)]


def test_the_input_can_be_read_again_from_the_spools(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = folder.put("a.csv", "1,10", "2,20")
    steps(folder)
    with folder.driver() as driver:
        path.unlink()
        files = driver.ingested_files()
    assert {file.origin.path for file in files if file.origin} == {str(path)}
    assert all(Path(file.path).parent == folder.checkpoint / "input/archive" for file in files)


# --- Parquet without Spark ---------------------------------------------------------------


def test_parquet_that_is_read_alike_is_not_spooled(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "parquet")
    pq.write_table(
        pa.table({"V": pa.array([10, 5], pa.int32()), "k": pa.array([1, 1], pa.int32()),
                  "more": ["x", "y"]}),
        folder.data / "a.parquet",
    )  # fmt: skip
    pq.write_table(pa.table({"k": pa.array([2], pa.int32())}), folder.data / "b.parquet")
    before = Reading.spooled
    assert steps(folder) == [(1, 15), (2, 0)]
    assert Reading.spooled == before
    (folder.data / "a.parquet").unlink()
    with pytest.raises(DataError, match="a new checkpoint"):
        steps(folder)
