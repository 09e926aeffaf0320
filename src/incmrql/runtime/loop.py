"""The loop over batches, until a stream is stopped or has nothing left to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from incmrql.errors import DataError
from incmrql.runtime.driver import Driver
from incmrql.runtime.report import BatchReport

_PAUSE: Final = 1.0
"""Seconds from one look at the sources to the next, if no trigger is given."""
OnBatch = Callable[[Driver, BatchReport], None]


def run_driver(
    driver: Driver,
    *,
    on_batch: OnBatch = lambda _driver, _report: None,
    on_refused: Callable[[DataError], bool] = lambda _problem: False,
    stop: threading.Event | None = None,
) -> None:
    """Run the batches of a driver until it is stopped, or has done what its options ask for.

    `on_refused` says whether it has removed what a batch was refused for, so that the loop goes on.
    """
    chosen, stop = driver.options, stop or threading.Event()
    pause = _PAUSE if chosen.trigger is None else chosen.trigger
    done = 0
    _wait_for_rest(driver, stop)
    while not stop.is_set():
        begun = time.monotonic()
        try:
            report = driver.step()
        except DataError as problem:
            if not on_refused(problem):
                raise
            continue
        if report is not None:
            on_batch(driver, report)
            done += 1
        if chosen.max_batches is not None and done >= chosen.max_batches:
            return
        if chosen.available_now and report is None and driver.is_idle():
            return
        if report is None or not chosen.available_now:
            stop.wait(max(0.0, begun + pause - time.monotonic()))


def _wait_for_rest(driver: Driver, stop: threading.Event) -> None:
    """Before batch 0: let the files that are there at the start come to rest."""
    settle = driver.options.settle
    patience = time.monotonic() + 10 * settle
    while (
        driver.state.number < 0
        and not stop.is_set()
        and driver.intended_files() is None
        and time.monotonic() < patience
        and driver.poll().unsettled
    ):
        stop.wait(min(settle / 4, 0.25))
