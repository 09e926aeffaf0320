"""`incmrql run --engine local`: streams without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import incmrql
from tests.cli.streams import AVERAGE, Shop, shop_at

FIRST = '{ ("Oslo",2,15.0), ("Rome",1,4.0) }'


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)

    def nobody(*_: Any) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("incmrql.spark.session.start", nobody)
    return shop_at(tmp_path)


def test_batches_of_files(shop: Shop) -> None:
    local = ("--engine", "local", "--verify", "1", "--keep-input", "all")
    first = shop.run(AVERAGE, *local)
    assert (first.code, first.lines) == (0, [FIRST])
    assert "verified after batch 0: 2 rows" in first.err
    shop.sells("2.csv", "Rome,6\n")
    shop.takes_back("2.csv", "Oslo,20\n")
    second = shop.run(AVERAGE, *local)
    assert second.lines == ['{ ("Oslo",1,10.0), ("Rome",2,5.0) }']
    assert incmrql("answer", "ck").lines[:1] == incmrql("answer", shop.checkpoint).lines[:1]


def test_items_that_follow_no_stream(shop: Shop) -> None:
    script = f"store least := 5.0;\n1 + 1;\n{AVERAGE}\n"
    done = shop.run(script, "--engine", "local")
    assert done.lines == ["2", FIRST]


def test_a_text_of_sql_and_a_master_are_refused(shop: Shop) -> None:
    (shop.folder / "q.sql").write_text("SELECT 1")
    refused = incmrql("run", "q.sql", "--engine", "local")
    assert refused.code == 2
    assert "--engine local" in refused.err
    refused = shop.run(AVERAGE, "--engine", "local", "--master", "local[2]")
    assert refused.code == 1
    assert 'error[R212]: engine="local" has no Spark to set up' in refused.err
