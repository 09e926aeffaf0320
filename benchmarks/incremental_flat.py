"""Hundreds of batches: time, memory and files must not grow, nor follow the history."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.incremental_costs import block
from benchmarks.incremental_process import java, memory_of, slope, workers
from benchmarks.incremental_queries import AVERAGE
from benchmarks.incremental_run import Bench, Stage, open_stage

BATCHES: Final = 310
BLOCK: Final = 9
"""Counted batches of a history in a row; one more comes before them."""
GROWTH_LIMIT, HISTORY_LIMIT, FILES_LIMIT = 1.1, 1.25, 1.25
LARGER: Final = 10.0


@dataclass(slots=True)
class Course:
    """What was seen of a run; batches by number."""

    seconds: dict[int, float] = field(default_factory=dict)
    rewritten: dict[int, int] = field(default_factory=dict)
    jobs: set[int] = field(default_factory=set)
    files: dict[int, int] = field(default_factory=dict)

    def within(self, span: tuple[int, int]) -> float:
        """The median of the batches from one number to another."""
        low, high = span
        return statistics.median(s for number, s in self.seconds.items() if low <= number <= high)


def flat(bench: Bench, batches: int = BATCHES) -> dict[str, Any]:
    """Blocks of batches on a history, and on one ten times as large, in turn."""
    usual, large = Course(), Course()
    memory: dict[str, list[tuple[float, float]]] = {"python": [], "java": [], "workers": []}
    size = AVERAGE.size(bench.scale)
    larger = AVERAGE.size(bench.scale, LARGER)
    paired = []
    with open_stage(bench, AVERAGE, size) as one, open_stage(bench, AVERAGE, larger) as other:
        while one.supply.number < batches:
            medians = [_block(stage, course) for stage, course in ((one, usual), (other, large))]
            paired.append(medians[1] / medians[0])
            _remember(memory, float(one.supply.number))
    early, late = _spans(batches)
    growth = {
        name: course.within(late) / course.within(early)
        for name, course in (("x1", usual), ("x10", large))
    }
    history = statistics.median(paired[len(paired) // 10 :])
    problems = [f"grows on {name}" for name, ratio in growth.items() if ratio > GROWTH_LIMIT]
    problems += ["follows the history"] if history > HISTORY_LIMIT else []
    problems += [] if usual.jobs == large.jobs == {1} else ["not one job a batch"]
    problems += _growing(usual)
    return {
        "about": f"{one.supply.number} batches on {size.rows:,} and on {larger.rows:,} rows",
        "early_seconds": usual.within(early),
        "late_seconds": usual.within(late),
        "growth": growth,
        "growth_limit": GROWTH_LIMIT,
        "history": history,
        "history_limit": HISTORY_LIMIT,
        "jobs": sorted(usual.jobs | large.jobs),
        "tail": {"x1": _tail(usual), "x10": _tail(large)},
        "files": _files(usual),
        "memory": {name: _course(points) for name, points in memory.items()},
        "verdict": f"FAIL: {'; '.join(problems)}" if problems else "PASS",
    }


def _spans(batches: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The early and the late batches: 10 to 30 and 290 to 310 of 310, others in proportion."""
    return (batches // 30, max(batches // 10, 9)), (batches - max(batches // 15, 9), batches)


def _block(stage: Stage, course: Course) -> float:
    batches = block(stage, BLOCK)
    for report, seconds in batches:
        course.seconds[report.number] = seconds
        course.rewritten[report.number] = report.rewritten
        course.jobs.add(report.jobs)
    course.files[batches[-1][0].number] = files_below(stage.driver.checkpoint.runs.parent)
    return statistics.median(seconds for _, seconds in batches)


def files_below(folder: Path) -> int:
    """How many files there are in a folder and the folders in it."""
    return sum(len(files) for _, _, files in os.walk(folder))


def _files(course: Course) -> dict[str, int]:
    """How many files the checkpoint had, early, at the end, and at most."""
    counts = list(course.files.values())
    return {"first": counts[0], "last": counts[-1], "most": max(counts)}


def _growing(course: Course) -> list[str]:
    """Whether there were more files in the last third than in the one before."""
    counts = list(course.files.values())
    third = max(len(counts) // 3, 1)
    middle, last = counts[-2 * third : -third], counts[-third:]
    grows = middle and max(last) > FILES_LIMIT * max(middle)
    return ["the number of files grows"] if grows else []


def _remember(memory: dict[str, list[tuple[float, float]]], number: float) -> None:
    """Memory without mapped files, which the system takes back as it likes; Java's as it is."""
    sizes = {
        "python": memory_of(os.getpid(), "RssAnon"),
        "java": sum(map(memory_of, java())),
        "workers": sum(memory_of(process, "RssAnon") for process in workers()),
    }
    for name, size in sizes.items():
        memory[name].append((number, size))


def _course(points: list[tuple[float, float]]) -> dict[str, float]:
    """Memory at the end, and how it grew after the first third."""
    later = points[len(points) // 3 :]
    return {"last_bytes": points[-1][1], "bytes_per_batch": slope(later)}


def _tail(course: Course) -> dict[str, float]:
    """The slowest twentieth, with compaction and without it: batches that rewrote nothing much."""
    times = sorted(course.seconds.values())
    usual = statistics.median(course.rewritten.values())
    calm = sorted(s for n, s in course.seconds.items() if course.rewritten[n] <= 2 * usual)
    middle = statistics.median(times)
    return {
        "p95_to_median": times[int(len(times) * 0.95)] / middle,
        "p95_to_median_without_compaction": calm[int(len(calm) * 0.95)] / middle,
        "most_rewritten": max(course.rewritten.values()),
    }
