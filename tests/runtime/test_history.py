"""The history of a checkpoint: bounded, and nothing that anybody depends on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from incmrql.errors import DataError
from incmrql.runtime import history
from incmrql.runtime.checkpoint.manifests import HISTORY
from incmrql.runtime.history import History
from incmrql.runtime.report import Verified
from tests.cli.test_console import report


def numbers(folder: Path, most: int = history.MOST) -> list[int]:
    return [event["number"] for event in History(folder).events(most)]


def test_events_come_back_in_order(tmp_path: Path) -> None:
    written = History(tmp_path)
    written.add_batch(report(0, bad=2))
    written.add_verified(Verified(0, 7, 0.5))
    written.add_problem(DataError("R205", "rows are deleted", hint="do not"))
    batch, verified, problem = History(tmp_path).events()
    assert (batch["kind"], batch["inserted"], batch["bad"], batch["lag"]) == ("batch", 2, 2, None)
    assert (verified["kind"], verified["rows"]) == ("verified", 7)
    assert (problem["code"], problem["message"].splitlines()[0]) == (
        "R205", "error[R205]: rows are deleted",
    )  # fmt: skip
    assert batch["time"] <= problem["time"]
    assert [event["kind"] for event in written.events(1)] == ["problem"]


def test_the_history_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 20)
    monkeypatch.setattr(history, "_PIECE", 5)
    for start in (0, 13, 26):  # each time by another process
        written = History(tmp_path)
        for number in range(start, start + 13):
            written.add_batch(report(number))
    kept = numbers(tmp_path, 1000)
    assert kept == list(range(kept[0], 39))
    assert 20 <= len(kept) <= 25
    assert numbers(tmp_path, 3) == [36, 37, 38]


@pytest.mark.parametrize("damage", ["cut", "garbage", "gone", "array"])
def test_a_damaged_history_loses_lines_and_nothing_else(tmp_path: Path, damage: str) -> None:
    first = History(tmp_path)
    first.add_batch(report(0))
    first.add_batch(report(1))
    (path,) = (tmp_path / HISTORY).iterdir()
    match damage:
        case "cut":
            os.truncate(path, path.stat().st_size - 10)
        case "garbage":
            path.write_bytes(b"\xff\x00 {not json}\n")
        case "array":
            path.write_text('[1]\n{"kind": "batch"}\n')
        case _:
            path.unlink()
    before = numbers(tmp_path)
    assert before == ([0] if damage == "cut" else [])
    History(tmp_path).add_batch(report(2))
    assert numbers(tmp_path)[-1:] == [2] or damage == "cut"
    History(tmp_path).add_batch(report(3))
    assert numbers(tmp_path)[-1] == 3


def test_a_history_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / HISTORY).write_text("in the way")
    History(tmp_path).add_batch(report(0))
    assert History(tmp_path).events() == []
    History(tmp_path / "nowhere").add_batch(report(0))
