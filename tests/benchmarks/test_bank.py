"""The test of the bank at a tiny size: views that do not belong together are seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.experiments.bank import VIEWS, check_views
from benchmarks.experiments.bank_data import ACCOUNTS, Batch, Ledger, Views, batches
from benchmarks.experiments.bank_streaming import AS_SUM, Reader, _as_sum, refused_views
from benchmarks.experiments.rivals_streaming import streaming_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MADE = list(batches(count=90, largest=40, seed=3))


def test_all_transfers_come_and_only_those_that_are_there_go() -> None:
    history = list(batches(count=2_000, largest=100, seed=1))
    assert sum(len(batch.come) for batch in history) == 2_000
    assert max(len(batch.come) for batch in history) <= 100
    there: Counter[tuple[int, int, int]] = Counter()
    for batch in history:
        there.subtract(batch.gone)
        assert min(there.values(), default=0) >= 0, "a transfer is taken back that is not there"
        there.update(batch.come)
        for src, dst, amount in batch.come:
            assert src != dst
            assert {src, dst} <= set(range(ACCOUNTS))
            assert amount > 0
    assert 100 < sum(len(batch.gone) for batch in history) < 300


def test_a_ledger_sees_what_is_wrong() -> None:
    ledger = Ledger()
    ledger.take(Batch(0, ((1, 2, 10), (2, 3, 4)), ()))
    right = Views({2: 10, 3: 4}, {1: 10, 2: 4}, {1: -10, 2: 6, 3: 4}, 0)
    assert ledger.problems(right) == []
    late = Views(right.credits, {1: 10}, {1: -10, 2: 10, 3: 4}, 4)
    assert ledger.problems(late) == [
        "the total is 4",
        "the debits are wrong",
        "the balances are wrong",
    ]
    ledger.take(Batch(1, (), ((2, 3, 4),)))
    assert ledger.problems(right) != []
    assert ledger.problems(Views({2: 10}, {1: 10}, {1: -10, 2: 10}, 0)) == []


def test_a_reader_looks_whenever_a_table_changes() -> None:
    reader = Reader(lambda tables: tables.get("a", 0) - tables.get("b", 0))
    for name, total in (("a", 5), ("b", 5), ("b", 7), ("a", 7)):
        reader.publish(name, total)
    finding = reader.finding("some", [], 0)
    assert (finding.figures["looks"], finding.figures["not 0"]) == (4, 2)
    assert finding.verdict == "inconsistent"


@pytest.mark.spark
def test_the_total_is_0_after_every_batch(spark: SparkSession, tmp_path: Path) -> None:
    finding = check_views(spark, MADE, tmp_path)
    assert finding.verdict == "right", finding.note
    assert finding.figures["looks"] == len(MADE)
    assert finding.figures["taken back"] == sum(len(batch.gone) for batch in MADE) > 0


@pytest.mark.spark
def test_a_view_that_forgets_money_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    forgets = VIEWS.replace("from t in Transfers group by a: t.src", "{where} group by a: t.src")
    text = forgets.replace("{where}", "from t in Transfers where t.amount < 900")
    finding = check_views(spark, MADE, tmp_path, text)
    assert finding.verdict == "wrong"
    assert finding.is_bad
    assert finding.figures["not 0"] == finding.figures["looks"]
    assert finding.note.startswith("batch 0: the total is ")


@pytest.mark.spark
def test_structured_streaming_as_far_as_it_goes(spark: SparkSession, tmp_path: Path) -> None:
    own = streaming_session(spark)
    no = refused_views(own, MADE, tmp_path / "views")
    assert no.verdict == "refused"
    assert no.note.startswith("update mode: AnalysisException")
    finding = _as_sum(own, MADE[:2], tmp_path / "sum")
    assert (finding.case, finding.verdict) == (AS_SUM, "right")
    assert finding.figures["looks"] == 2
