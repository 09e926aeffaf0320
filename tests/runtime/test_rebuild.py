"""A rebuild for another query: what readers of an output folder get.  No Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow.parquet as pq
import pytest

from incmrql.plan.assembly import program_of
from incmrql.runtime import Driver, StreamOptions
from tests.engine.programs import typed_script
from tests.runtime.here import jobs_here
from tests.runtime.streaming import OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = 'stream(line, "{data}", ",", type(< K: int, S: string, V: double >))'
BY_KEY = f"select (k, %s) from x in {STREAM} group by k: x.K"
PAIRS = {
    "some groups differ": (BY_KEY % "max(x.V)", BY_KEY % "min(x.V)"),
    "all groups differ": (BY_KEY % "count(x)", BY_KEY % "count(x) + 1"),
    "no group differs": (BY_KEY % "count(x)", BY_KEY % "count(select y.S from y in x)"),
    "rows that are there several times": (
        f"select x.S from x in {STREAM}",
        f"select x.S from x in {STREAM} where x.K > 1",
    ),
    "nested bags": (
        BY_KEY % "< all: x.S, n: count(x) >",
        BY_KEY % "< all: (select y.S from y in x where y.V > 0.0), n: count(x) >",
    ),
    "trees": (
        BY_KEY % "select [xml| <a k={{y.K}}>{{y.S}}</a> |] from y in x",
        BY_KEY % "select [xml| <a k={{y.K}}>{{y.S}}</a> |] from y in x where y.K <> 2",
    ),
    "a list": (
        f"select (x.S, x.V) from x in {STREAM} order by x.V",
        f"select (x.S, x.V) from x in {STREAM} order by x.V desc",
    ),
    "the first rows": (
        f"select < s: x.S, v: x.V > from x in {STREAM} order by x.V limit 2",
        f"select < s: x.S, v: x.V > from x in {STREAM} order by x.V limit 4",
    ),
    "a number": (f"count({STREAM})", f"count({STREAM}) + 0"),
    "another number": (f"count({STREAM})", f"2 * count({STREAM})"),
    "a tuple": (f"(count({STREAM}), max({STREAM}.V))", f"(count({STREAM}), min({STREAM}.V))"),
    "a record": (f"< n: count({STREAM}) >", f"< n: count({STREAM}) * 3 >"),
}
AT_ONCE = replace(OPTIONS, max_files_per_batch=None)
LINES = ("1,a,2.5\n1,b,-1.0\n2,a,4.0\n", "2,a,4.0\n3,c,nan\n3,c,0.5\n")


class Folders:
    """A stream over a folder with output, followed by one query after another."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "data").mkdir(parents=True)
        for number, lines in enumerate(LINES):
            (root / "data" / f"{number}.csv").write_text(lines)

    def follow(self, query: str, options: StreamOptions = AT_ONCE) -> Counter[str]:
        """Everything that is there, batch by batch; what the last published batch says."""
        text = f"incr {query};".replace("{data}", str(self.root / "data"))
        script = typed_script(text)
        described = {"text": text, "path": "", "arguments": [], "stored": {}}
        program = program_of(script.items, script)
        out = self.root / "out"
        spark = cast("SparkSession", None)
        with Driver(program, self.root / "ck", out, spark, options, script=described) as driver:
            while driver.step() is not None:
                pass
        return rows_of_batch(max(out.glob("batch=*")))

    def answer(self, query: str) -> Counter[str]:
        """The rows of the answer, as a new folder gets them."""
        text = f"incr {query};".replace("{data}", str(self.root / "data"))
        total: Counter[str] = Counter()
        for folder in (self.root / "out").glob("batch=*"):
            total.update(rows_of_batch(folder))
        assert all(weight >= 0 for weight in total.values()), text
        return +total


def rows_of_batch(folder: Path) -> Counter[str]:
    """The rows of a batch with their weights."""
    rows: Counter[str] = Counter()
    for part in folder.glob("*.parquet"):
        for row in pq.ParquetFile(part).read().to_pylist():
            weight = row.pop("_weight")
            rows[repr(row)] += weight
    return rows


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    jobs_here(monkeypatch)
    return Folders(tmp_path / "followed")


@pytest.mark.parametrize(("old", "new"), PAIRS.values(), ids=PAIRS)
def test_readers_get_the_rows_that_differ_and_no_others(
    folders: Folders, tmp_path: Path, old: str, new: str
) -> None:
    folders.follow(old)
    before = folders.answer(old)
    change = folders.follow(new, replace(AT_ONCE, on_change="rebuild"))
    after = folders.answer(new)
    assert change == Counter({row: n for row in before | after if (n := after[row] - before[row])})
    fresh = Folders(tmp_path / "fresh")
    fresh.follow(new)
    assert fresh.answer(new) == after
    back = folders.follow(old, replace(AT_ONCE, on_change="rebuild"))
    assert back == Counter({row: -n for row, n in change.items()})
