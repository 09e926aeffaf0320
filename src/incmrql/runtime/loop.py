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
"""Seconds between polls of the sources, if no trigger is given."""
OnBatch = Callable[[Driver, BatchReport], None]


def run_driver(
    driver: Driver,
    *,
    on_batch: OnBatch = lambda _driver, _report: None,
    on_refused: Callable[[DataError], bool] = lambda _problem: False,
    stop: threading.Event | None = None,
) -> None:
    """Run the batches of a driver until it is stopped, or has done what its options ask for.

    The loop continues after a refusal if `on_refused` returns that it removed the cause.
    """
    options, stop = driver.options, stop or threading.Event()
    pause = _PAUSE if options.trigger is None else options.trigger
    batches = 0
    _wait_until_settled(driver, stop)
    while not stop.is_set():
        start = time.monotonic()
        try:
            report = driver.step()
        except DataError as problem:
            if not on_refused(problem):
                raise
            continue
        if report is not None:
            on_batch(driver, report)
            batches += 1
        if options.max_batches is not None and batches >= options.max_batches:
            return
        if options.available_now and report is None and driver.is_idle():
            return
        if report is None or not options.available_now:
            stop.wait(max(0.0, start + pause - time.monotonic()))


def _wait_until_settled(driver: Driver, stop: threading.Event) -> None:
    """Before batch 0, wait until the files that exist at the start have settled."""
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
