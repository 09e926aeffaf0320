"""The loop over batches: when it ends, and that it leaves nothing out.  No Spark."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from incmrql.runtime import BatchReport, Driver
from incmrql.runtime.feeds.spooled import Arrivals
from incmrql.runtime.loop import run_driver
from tests.engine.programs import reference_answers
from tests.runtime.here import driver_here
from tests.runtime.streaming import OPTIONS, QUICK, Place, average, fill


def run(driver: Driver, stop: threading.Event | None = None) -> list[int]:
    """The numbers of the batches that a loop does."""
    numbers: list[int] = []

    def note(_driver: Driver, report: BatchReport) -> None:
        numbers.append(report.number)

    run_driver(driver, on_batch=note, stop=stop)
    return numbers


def test_a_loop_ends_with_what_is_there_or_after_some_batches(tmp_path: Path) -> None:
    place = Place(tmp_path)
    fill(place, 5)
    with driver_here(place, replace(OPTIONS, max_batches=2)) as driver:
        assert run(driver) == [0, 1]
        driver.options = OPTIONS
        assert run(driver) == [2, 3, 4]
        assert run(driver) == []
        assert driver.is_idle()
        for number, wanted in enumerate(reference_answers(place.text)):
            assert driver.answer(number) == wanted


def test_a_file_that_comes_to_rest_between_two_looks_is_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = average(tmp_path)
    with driver_here(place, OPTIONS) as driver:
        driver.step()
        place.put("1.csv", "7,3.0\n")
        poll, unsettled = driver.poll, iter([Arrivals((), 1)])
        monkeypatch.setattr(driver, "poll", lambda: next(unsettled, None) or poll())
        assert run(driver) == [1]


def test_a_loop_that_is_stopped_does_no_further_batch(tmp_path: Path) -> None:
    place = Place(tmp_path)
    fill(place, 3)
    stop = threading.Event()
    with driver_here(place, replace(OPTIONS, available_now=False)) as driver:

        def end(_driver: Driver, report: BatchReport) -> None:
            if report.number == 1:
                stop.set()

        run_driver(driver, on_batch=end, stop=stop)
        assert driver.state.number == 1
        assert driver.intended_files() is None


def test_what_is_not_at_rest_is_waited_for(tmp_path: Path) -> None:
    place = average(tmp_path)
    options = replace(QUICK, settle=0.4, available_now=True)
    with driver_here(place, options) as driver:
        path, now = place.data / "1.csv", time.time()
        path.write_text("7,3.0\n")
        os.utime(path, (now + 1, now + 1))  # so that a slow machine has not let it rest yet
        assert driver.poll().unsettled == 1
        assert run(driver) == [0]
        assert driver.state.rows > 0
