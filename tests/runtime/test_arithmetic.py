"""Arithmetic that fails in a stream: reported, or the batch is refused.  No Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from incmrql.diagnostics import CheckpointError, DataError
from incmrql.incremental.streams import program_of
from incmrql.runtime import Driver, StreamOptions
from incmrql.runtime.reopening import read_program
from incmrql.spark.streaming import StreamJob
from incmrql.values import Record
from tests.kernel.programs import compiled
from tests.runtime.here import Here
from tests.runtime.streaming import OPTIONS

TEXT = """
incr select (k, sum(z)) from x in
  stream(line, "{data}", ",", type(< K: string, A: int, B: int >), deletes: "{deletes}"),
  z = x.A * x.B group by k: x.K;
"""
BAD = Record({"x": Record({"K": "a", "A": 100_000, "B": 100_000})})


class Products:
    """The sums of products of ints by key, over a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("data", "deletes"):
            (root / name).mkdir(exist_ok=True)
        self.text = TEXT.format(data=root / "data", deletes=root / "deletes")

    def put(self, name: str, lines: str) -> None:
        (self.root / name).write_text(lines)

    def driver(self, options: StreamOptions = OPTIONS) -> Driver:
        def nobody() -> Any:
            raise AssertionError("no Spark here")

        script = compiled(self.text)
        program = program_of(script.items, script, watch=options.on_arithmetic != "null")
        asked = {"text": self.text, "path": "", "arguments": [], "stored": {}}
        driver = Driver(program, self.root / "state", None, nobody, options, script=asked)
        driver._job = cast("StreamJob", Here(driver.kit))
        return driver


@pytest.fixture
def products(tmp_path: Path) -> Products:
    found = Products(tmp_path)
    found.put("data/1.csv", "a,100000,100000\na,2,3\n")
    return found


def test_ints_that_disappear_from_a_sum_are_reported(products: Products) -> None:
    """100000 * 100000 is no int: the sum is 6, and the report has the row that is not in it."""
    with products.driver() as driver:
        report = driver.step()
        assert report is not None
        assert driver.answer() == [("a", 6)]
        assert report.errors is not None
        assert report.errors.count == 1
        first = report.errors.first
        assert first is not None
        assert (first.expression, first.row) == ("x.A * x.B", BAD)
        assert first.place.endswith(":4:7")
        assert driver.failures() == [first]
        assert report.changed == 1
        products.put("data/2.csv", "a,5,1\n")
        again = driver.step()
        assert again is not None
        assert again.errors == report.errors
    with products.driver() as driver:  # goes on after a restart
        products.put("deletes/3.csv", "a,100000,100000\n")
        last = driver.step()
        assert last is not None
        assert last.errors is not None
        assert last.errors.count == 0
        assert driver.failures() == []
        assert driver.answer() == [("a", 11)]


def test_a_batch_after_which_arithmetic_fails_is_refused(products: Products) -> None:
    strict = replace(OPTIONS, on_arithmetic="fail")
    with products.driver(strict) as driver:
        with pytest.raises(DataError, match=r"x.A \* x.B, the result does not fit int") as caught:
            driver.step()
        assert caught.value.code == "R201"
        assert "100000" in caught.value.message
        assert driver.state.number == -1
        assert driver.refused == 0
        products.put("data/1.csv", "a,2,3\n")
        assert driver.step() is not None
        assert driver.answer() == [("a", 6)]
    with products.driver() as driver:  # the same state, only reported
        products.put("data/2.csv", "b,100000,100000\n")
        report = driver.step()
        assert report is not None
        assert report.errors is not None
        assert report.errors.count == 1


def test_a_checkpoint_remembers_whether_arithmetic_is_watched(products: Products) -> None:
    with products.driver() as driver:
        driver.step()
    program, _ = read_program(products.root / "state")
    assert program.watches
    unwatched = replace(OPTIONS, on_arithmetic="null")
    with pytest.raises(CheckpointError, match="same query with --on-arithmetic report"):
        products.driver(unwatched)


def test_nothing_is_kept_where_arithmetic_cannot_fail(tmp_path: Path) -> None:
    script = compiled(
        f'incr select (x.K, x.A / 2) from x in stream(line, "{tmp_path}", ",",'
        " type(< K: string, A: int >));"
    )
    assert program_of(script.items, script, watch=True).watches == ()
