"""Arithmetic that fails in a stream: reported, or the batch is refused.  No Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from incmrql.engine.batch import summarize_bag
from incmrql.engine.messages import BagChange, BagSummary
from incmrql.errors import CheckpointError, DataError
from incmrql.plan.assembly import program_of
from incmrql.runtime import Driver, StreamOptions, arithmetic
from incmrql.runtime.checkpoint.program import read_program
from incmrql.spark.stream_job import StreamJob
from incmrql.values import Record
from tests.effort import sample
from tests.engine.programs import typed_script
from tests.runtime.here import Here
from tests.runtime.streaming import OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

    def driver(self, options: StreamOptions = OPTIONS, spark: SparkSession | None = None) -> Driver:
        def nobody() -> Any:
            raise AssertionError("no Spark here")

        script = typed_script(self.text)
        program = program_of(script.items, script, watch=options.on_arithmetic != "null")
        asked = {"text": self.text, "path": "", "arguments": [], "stored": {}}
        given = nobody if spark is None else spark
        driver = Driver(program, self.root / "state", None, given, options, script=asked)
        if spark is None:
            driver._job = cast("StreamJob", Here(driver.compiled))
        return driver


@pytest.fixture
def products(tmp_path: Path) -> Products:
    products = Products(tmp_path)
    products.put("data/1.csv", "a,100000,100000\na,2,3\n")
    return products


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
        assert driver.refused_batch == 0
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
    with pytest.raises(CheckpointError, match="created with --on-arithmetic report"):
        products.driver(unwatched)


def test_nothing_is_kept_where_arithmetic_cannot_fail(tmp_path: Path) -> None:
    script = typed_script(
        f'incr select (x.K, x.A / 2) from x in stream(line, "{tmp_path}", ",",'
        " type(< K: string, A: int >));"
    )
    assert program_of(script.items, script, watch=True).watches == ()


# --- counting without reading the rows again --------------------------------------------------

SHAPES = (
    "select (k, sum(z)) from x in {stream}, z = x.A * x.B group by k: x.K",
    "select (k, 7 / (sum(x.A) % 2)) from x in {stream} group by k: x.K",
    "sum(select x.A * x.B from x in {stream}) / count(select x from x in {stream} where x.A > 1)",
)
STREAM = 'stream(line, "{data}", ",", type(< K: string, A: int, B: int >), deletes: "{deletes}")'


@pytest.mark.slow
@pytest.mark.parametrize("few_rows", [10_000, -1], ids=["by the driver", "by tasks"])
@pytest.mark.parametrize("shape", sample(SHAPES, 2))
def test_the_count_follows_the_change(
    shape: str, few_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After random batches it is that of the rows in the state, mostly without reading them."""
    scans = 0

    def count_scan(*given: Any) -> Any:
        nonlocal scans
        scans += 1
        return summarize_bag(*given)

    monkeypatch.setattr(arithmetic, "summarize_bag", count_scan)
    monkeypatch.setattr(arithmetic, "_FEW_ROWS", few_rows)
    products, chance = Products(tmp_path), Random(shape)
    stream = STREAM.format(data=tmp_path / "data", deletes=tmp_path / "deletes")
    products.text = f"incr {shape.format(stream=stream)};"
    there: list[str] = []
    saved = failed = 0
    with products.driver() as driver:
        here = cast("Here", driver._job)
        for number in range(40):
            gone = [line for line in there if chance.random() < 0.15]
            numbers = (0, 1, 2, -1, 70_000, 2**31 - 1)
            came = [
                f"{chance.choice('ab')},{chance.choice(numbers)},{chance.choice(numbers)}\n"
                for _ in range(1 + chance.randrange(3))
            ]
            for line in gone:
                there.remove(line)
            there += came
            products.put(f"data/{number:02}.csv", "".join(came))
            products.put(f"deletes/{number:02}.csv", "".join(gone))
            before = scans + here.summarized
            report = driver.step()
            assert report is not None
            assert report.errors is not None
            kept = driver.failures()
            assert report.errors.count == len(kept)
            assert report.errors.first == (kept[0] if kept else None)
            saved += scans + here.summarized == before
            failed += bool(kept)
    assert (scans > 0, here.summarized > 0) == (few_rows > 0, few_rows < 0)
    assert saved > 8
    assert failed > 8


def summary_of(bag: Counter[str]) -> BagSummary:
    return BagSummary(bag.total(), min(bag.elements(), default=None))


def test_a_summary_is_right_or_unknown() -> None:
    """Also where one task reports rows that came and another one that they went."""
    known = unknown = 0
    for seed in range(2000):
        chance = Random(seed)
        bag = Counter(chance.choices("abcd", k=chance.randrange(4)))
        after, parts = Counter(bag), []
        for _ in range(2):
            change = Counter({row: chance.randrange(-1, 2) for row in chance.choices("abcd", k=2)})
            after.update(change)
            came = [row for row, weight in change.items() if weight > 0]
            went = [row for row, weight in change.items() if weight < 0]
            parts.append(
                BagChange(change.total(), min(came, default=None), min(went, default=None))
            )
        if min(after.values(), default=0) < 0:
            continue
        summary = summary_of(bag).after(parts[0] + parts[1])
        known, unknown = known + (summary is not None), unknown + (summary is None)
        if summary is not None:
            assert summary == summary_of(after), seed
    assert known > 100
    assert unknown > 100


@pytest.mark.spark
def test_tasks_summarize_a_bag_that_may_be_large(
    spark: SparkSession, products: Products, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart, and when the least row is deleted, the driver itself reads no row."""
    monkeypatch.setattr(arithmetic, "_FEW_ROWS", -1)
    monkeypatch.setattr(arithmetic, "summarize_bag", None)
    products.put("data/2.csv", "b,70000,70000\nc,80000,80000\n")
    with products.driver(spark=spark) as driver:
        report = driver.step()
        assert report is not None
    with products.driver(spark=spark) as driver:
        products.put("deletes/3.csv", "a,100000,100000\n")
        report = driver.step()
        assert report is not None
        assert report.errors is not None
        assert report.errors.count == 2
        assert driver.failures()[0] == report.errors.first
        products.put("deletes/4.csv", "b,70000,70000\n")
        report = driver.step()
        assert report is not None
        assert report.errors is not None
        assert (report.errors.count, report.errors.first) == (1, driver.failures()[0])
        assert report.jobs == 1  # that of the batch itself
