"""`incmrql health`: whether a run is well."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from incmrql.api.health import health_of, metrics
from incmrql.runtime.checkpoint.lock import STALE, Holder, Lock, holder_of
from incmrql.runtime.checkpoint.manifests import Checkpoint
from incmrql.runtime.history import History
from tests.cli.commands import incmrql
from tests.cli.streams import Shop, shop_at
from tests.cli.test_console import report


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return shop_at(tmp_path)


def test_a_lock_shows_its_holder_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder_of(path) is None
    lock = Lock(path)
    assert holder_of(path) == Holder(os.uname().nodename, os.getpid())
    old = time.time() - STALE - 1
    os.utime(path, (old, old))
    assert holder_of(path) is None
    os.utime(path)
    lock.release()
    assert holder_of(path) is None
    path.write_text(json.dumps({"host": os.uname().nodename, "pid": 2**22 + 1}))
    assert holder_of(path) is None  # a process that was killed
    path.write_text(json.dumps({"host": "another machine", "pid": 7}))
    assert holder_of(path) == Holder("another machine", 7)
    path.write_text("[]")
    assert holder_of(path) is None


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_the_health_of_a_run(shop: Shop) -> None:
    assert shop.run().code == 0
    shop.sells("2.csv", "Rome,6\nBonn\n")
    assert shop.run().code == 0
    stopped = incmrql("health", "ck")
    assert (stopped.code, stopped.lines[0]) == (1, "not healthy: no run is working on it")
    assert stopped.err == ""
    well = incmrql("health", "ck", "--may-be-stopped")
    assert (well.code, well.lines[0]) == (0, "healthy")
    assert well.lines[1].startswith("  last batch: 1, ")
    assert well.lines[2].startswith("    1 row added, 0 removed, 1 line left out, ")
    lock = Lock(shop.checkpoint / "lock")
    running = incmrql("health", "ck")
    assert (running.code, running.lines[1]) == (
        0, f"  run: process {os.getpid()} on {os.uname().nodename}",
    )  # fmt: skip
    slow = incmrql("health", "ck", "--max-lag", "1h", "--max-age", "1h")
    assert slow.code == 1  # the files are from 1970
    assert "the lag of batch 1 was " in slow.lines[0]
    assert "the last batch was" not in slow.lines[0]
    lock.release()
    told = json.loads(incmrql("health", "ck", "--format", "json", "--may-be-stopped").out)
    assert (told["healthy"], told["batch"], told["last"]["bad"]) == (True, 1, 1)

    shop.takes_back("1.csv", "Rome,99\n")
    assert shop.run().code == 1
    broken = incmrql("health", "ck", "--may-be-stopped")
    assert broken.code == 1
    assert broken.lines[0].startswith("not healthy: after batch 1: error[R205]: ")
    (shop.folder / "returns" / "1.csv").unlink()
    shop.sells("3.csv", "Rome,6\n")
    assert shop.run().code == 0
    assert incmrql("health", "ck", "--may-be-stopped").code == 0


def test_metrics_are_text_that_prometheus_reads(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / 'ck"1')
    checkpoint.prepare()
    checkpoint.take_over({"engine": "1", "nodes": [], "streams": [], "tables": {}}, (), 8)
    found = health_of(checkpoint.folder)
    lines = metrics([found]).splitlines()
    values = [line for line in lines if not line.startswith("#")]
    assert all(
        re.fullmatch(r'incmrql_[a-z_]+\{checkpoint="[^"]*ck\\"1"\} [-\d.e+]+', v) for v in values
    )
    names = [line.split("{")[0] for line in values]
    assert names[:3] == ["incmrql_running", "incmrql_problem", "incmrql_batches_total"]
    assert "incmrql_batch_seconds" not in names  # there is no batch yet
    for name in names:
        assert any(line.startswith(f"# TYPE {name} ") for line in lines)
        assert any(line.startswith(f"# HELP {name} ") for line in lines)
    assert incmrql("health", checkpoint.folder, "--may-be-stopped").lines[-1] == "  no batch yet"


def test_health_refuses_what_is_no_checkpoint(tmp_path: Path) -> None:
    refused = incmrql("health", tmp_path)
    assert (refused.code, refused.out) == (1, "")
    assert "is not a checkpoint" in refused.err


def test_the_last_batch_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "ck")
    checkpoint.prepare()
    checkpoint.take_over({"engine": "1", "nodes": [], "streams": [], "tables": {}}, (), 8)
    History(checkpoint.folder).add_batch(report(7))  # of a checkpoint that was here before
    assert health_of(checkpoint.folder).last is None


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_the_example_of_the_docs_is_what_is_printed(shop: Shop) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    shown = page.partition("$ incmrql health state --may-be-stopped\n")[2].partition("```")[0]
    assert shop.run().code == 0
    moment = time.time() - 3
    files = (shop.sells("2.csv", "Rome,6\nBonn,7\n"), shop.takes_back("2.csv", "Oslo,20\n"))
    for path in files:
        os.utime(path, (moment, moment))
    assert shop.run().code == 0
    printed = incmrql("health", "ck", "--may-be-stopped").out

    def without_numbers(text: str) -> str:
        """The text without times and sizes of the state, which differ from run to run."""
        text = re.sub(r"[\d.,]+ (?:ms|s|min)\b", "N s", text)
        return re.sub(r"\d+ rows, [\d.]+ (?:kB|bytes)", "N rows, N bytes", text)

    assert without_numbers(printed) == without_numbers(shown)
