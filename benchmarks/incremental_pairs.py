"""A batch against doing it all again, over the same files, in turn; and what a batch reads."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field, replace
from typing import Any, Final

from benchmarks.incremental_queries import Workload
from benchmarks.incremental_run import Bench, Stage, TooSlow, open_stage, time_call
from incmrql.runtime import BatchReport

SIDES: Final = ("incremental", "engine", "hand")
SMALLER: Final = 50
"""How many times smaller batches are whose reads are counted."""
PHASES: Final = ("job", "read", "kernel", "write", "commit", "publish")


@dataclass(slots=True)
class Pairs:
    """What was found about a workload; seconds of each side, round by round."""

    workload: Workload
    seconds: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})
    reports: list[BatchReport] = field(default_factory=list)
    loaded: BatchReport | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def best(self) -> str:
        """The faster way of doing it again."""
        return min(SIDES[1:], key=lambda side: statistics.median(self.seconds[side]))

    @property
    def ratios(self) -> list[float]:
        """How much faster a batch was, round by round."""
        again, batch = self.seconds[self.best], self.seconds["incremental"]
        return [one / other for one, other in zip(again, batch, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the paired ratios; 0 where nothing was timed."""
        return statistics.median(self.ratios) if self.seconds["hand"] else 0.0

    @property
    def verdict(self) -> str:
        """PASS, or what is wrong."""
        if self.problems:
            return "FAIL: " + "; ".join(self.problems)
        return "PASS" if self.ratio >= self.workload.must else "FAIL"

    def as_json(self) -> dict[str, Any]:
        """What was found, for the results file."""
        data: dict[str, Any] = {
            "about": self.workload.about,
            "must": self.workload.must,
            "aim": self.workload.aim,
            "verdict": self.verdict,
        }
        if self.loaded is not None:
            data |= {"load_seconds": self.loaded.seconds, "load_jobs": self.loaded.jobs}
        if self.reports:
            last = self.reports[-1]
            data |= {
                "medians": {side: statistics.median(self.seconds[side]) for side in SIDES},
                "ratio": self.ratio,
                "quartiles": _quartiles(self.ratios),
                "best": self.best,
                "seconds": self.seconds,
                "phases": phases(self.reports),
                "jobs": sorted({report.jobs for report in self.reports}),
                "changed": statistics.median(report.changed for report in self.reports),
                "state_read": statistics.median(report.state_read for report in self.reports),
                "state_rows": last.state_rows,
                "state_bytes": last.state_bytes,
            }
        return data


def _quartiles(ratios: list[float]) -> list[float]:
    if len(ratios) < 2:
        return ratios * 3
    return statistics.quantiles(ratios, n=4, method="inclusive")


def phases(reports: list[BatchReport]) -> dict[str, float]:
    """The median seconds of each phase of some batches."""
    return {
        phase: statistics.median(getattr(report, phase) for report in reports) for phase in PHASES
    }


def measure(bench: Bench, workload: Workload) -> Pairs:
    """Rounds of a batch and two recomputations in random order; answers are compared at the end."""
    pairs = Pairs(workload)
    try:
        with open_stage(bench, workload) as stage:
            pairs.loaded = stage.loaded
            for number in range(bench.warm_up + bench.rounds):
                _round(stage, pairs, is_counted=number >= bench.warm_up)
            pairs.problems += stage.differences()
    except TooSlow as problem:
        pairs.problems.append(str(problem))
    except Exception as error:  # whatever it is, the other workloads are still wanted
        pairs.problems.append(error_text(error))
    if any(report.jobs != 1 for report in pairs.reports):
        pairs.problems.append("not one job a batch")
    return pairs


def error_text(error: Exception) -> str:
    """An error in a few words, files by their names only."""
    first = re.sub(r"(?:/[^/\s]+)+/", "", str(error).strip().split("\n")[0])
    return f"failed: {type(error).__name__}: {first[:120]}"


def _round(stage: Stage, pairs: Pairs, *, is_counted: bool) -> None:
    stage.supply.add()
    for side in stage.bench.order.sample(SIDES, len(SIDES)):
        if side == "incremental":
            report, seconds = time_call(stage.step)
            if is_counted:
                pairs.reports.append(report)
        else:
            _, seconds = time_call(lambda side=side: stage.recompute(side))  # type: ignore[misc]
        if is_counted:
            pairs.seconds[side].append(seconds)


def measure_reads(bench: Bench, workload: Workload, batches: int = 3) -> dict[str, list[int]]:
    """Rows of state that batches read with a tenth of the history and its keys, and with all.

    The batches are small, so that they touch as many keys of few as they do of many.
    """
    reads: dict[str, list[int]] = {}
    batch = max(workload.size(bench.scale).batch // SMALLER, 50)
    for name, history in (("x1", 0.1), ("x10", 1.0)):
        size = replace(workload.size(bench.scale * history), batch=batch)
        with open_stage(bench, workload, size) as stage:
            reads[name] = []
            for _ in range(batches):
                stage.supply.add()
                reads[name].append(stage.step().state_read)
    return reads
