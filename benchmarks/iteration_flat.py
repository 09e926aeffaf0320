"""Fifty batches of a loop: time must not grow, and what is kept is told."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Any, Final

from benchmarks.incremental_flat import files_below
from benchmarks.incremental_run import Bench, time_call
from benchmarks.iteration_queries import REACHED, SMALL, Case, Way
from benchmarks.iteration_run import Lane, open_lane

BATCHES: Final = 50
ENDS: Final = 10
"""Batches at either end that are compared."""
GROWTH_LIMIT: Final = 1.2


@dataclass(frozen=True, slots=True)
class _Seen:
    """A batch: its seconds, and what there was on disk after it."""

    seconds: float
    state_bytes: int
    files: int
    way: str


def flat(bench: Bench, batches: int = BATCHES) -> dict[str, Any]:
    """Reachability kept exactly, and PageRank in the way that is chosen by itself.

    All batches have the size of the smallest: PageRank is run again over all edges so far, and
    takes longer as there are more of them.
    """
    results: dict[str, Any] = {"about": f"{batches} batches, the last {ENDS} against the first"}
    problems = []
    cases: tuple[tuple[Case, Way], ...] = ((REACHED, "exact"), (SMALL, "default"))
    for case, way in cases:
        small = replace(case, batches=case.batches[:1])
        with open_lane(bench, small, way) as lane:
            for _ in range(bench.warm_up):
                _batch(lane)
            seen = [_batch(lane) for _ in range(batches)]
        results[case.name] = _course(seen)
        if results[case.name]["growth"] > GROWTH_LIMIT:
            problems.append(f"{case.name} grows")
    results["growth_limit"] = GROWTH_LIMIT
    results["verdict"] = f"FAIL: {'; '.join(problems)}" if problems else "PASS"
    return results


def _batch(lane: Lane) -> _Seen:
    lane.feed.add()
    report, seconds = time_call(lane.step)
    files = files_below(lane.driver.checkpoint.runs.parent)
    return _Seen(seconds, report.state_bytes, files, ", ".join(loop.way for loop in report.loops))


def _course(seen: list[_Seen]) -> dict[str, Any]:
    early, late = (
        statistics.median(batch.seconds for batch in some) for some in (seen[:ENDS], seen[-ENDS:])
    )
    return {
        "early_seconds": early,
        "late_seconds": late,
        "growth": late / early,
        "ways": ", ".join(sorted({batch.way for batch in seen})),
        "first_state_bytes": seen[0].state_bytes,
        "last_state_bytes": seen[-1].state_bytes,
        "most_files": max(batch.files for batch in seen),
        "last_files": seen[-1].files,
        "seconds": [round(batch.seconds, 4) for batch in seen],
    }
