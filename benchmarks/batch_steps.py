"""Whether the steps of a loop take longer and longer: thirty steps of PageRank, step by step.

Both sides end each step with `localCheckpoint`, so the time between two of them is a step.  A loop
as small as this one would run inside one task: here it is told that it is too large for that.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as Classic

from benchmarks.batch_loops import pagerank, pagerank_text
from benchmarks.batch_measure import Bench
from benchmarks.batch_queries import Case
from benchmarks.batch_sides import act
from incmrql.spark.loops import placement

STEPS = 30
MOST_GROWTH = 0.2
"""How much longer the last step may take than the first, by the line through all of them."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Seconds of each step, the median of several runs."""

    side: str
    seconds: list[float]

    @property
    def growth(self) -> float:
        """By how much of the median step the line through the steps rises from end to end."""
        places = np.arange(len(self.seconds))
        slope = float(np.polyfit(places, self.seconds, 1)[0])
        return slope * (len(self.seconds) - 1) / statistics.median(self.seconds)

    @property
    def is_flat(self) -> bool:
        """Whether the steps do not get slower; getting faster is warming up."""
        return self.growth <= MOST_GROWTH


def measure_steps(bench: Bench, runs: int = 3) -> list[Steps]:
    """The steps of both sides, in turn; a run that warms up is not counted."""
    case = Case("PageRank", "30 steps", pagerank_text(STEPS), pagerank(STEPS), loop=True)
    times_by_side: dict[str, list[list[float]]] = {"incmrql, fast sums": [], "by hand": []}
    for number in range(runs + 1):
        with mock.patch.object(placement, "MOST_BYTES", 0):
            ours = _step_seconds(lambda use: bench.incmrql(case, use, fast=True))
        theirs = _step_seconds(lambda use: bench.hand(case, use))
        if number:
            times_by_side["incmrql, fast sums"].append(ours)
            times_by_side["by hand"].append(theirs)
    return [
        Steps(side, [statistics.median(step_times) for step_times in zip(*times, strict=True)])
        for side, times in times_by_side.items()
    ]


def _step_seconds(run: Any) -> list[float]:
    """The seconds between the checkpoints of a run; the first ends the part before the loop."""
    ends: list[float] = []
    original = Classic.localCheckpoint

    def note_checkpoint(self: Any, *given: Any, **named: Any) -> DataFrame:
        frame = original(self, *given, **named)
        ends.append(time.perf_counter())
        return frame

    with mock.patch.object(Classic, "localCheckpoint", note_checkpoint):
        run(lambda frame: act(frame, "noop"))
    return [b - a for a, b in zip(ends[-STEPS - 1 :], ends[-STEPS:], strict=False)]
