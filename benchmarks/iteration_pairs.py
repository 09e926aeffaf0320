"""Ways of keeping a loop against running it by hand over all data so far, in turn.

In a round each way ingests two batches.  The first is not counted: a Python worker keeps one
program, and unpacks another one when it comes.  The code by hand runs once, after both batches.
"""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from benchmarks.incremental_pairs import _quartiles, error_text, phases
from benchmarks.incremental_run import Bench, TooSlow, compare_bags, time_call
from benchmarks.iteration_answers import distance, norm, stated_error
from benchmarks.iteration_queries import HAND, Case, Way
from benchmarks.iteration_run import Hand, Lane, Lanes, all_laned, hand_code
from incmrql.runtime import BatchReport


@dataclass(slots=True)
class Found:
    """What was found about a case; seconds of each side, round by round."""

    case: Case
    seconds: dict[str, list[float]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    """Rows of the batch, round by round."""
    reports: dict[str, list[BatchReport]] = field(default_factory=dict)
    loaded: dict[str, float] = field(default_factory=dict)
    refused: dict[Way, str] = field(default_factory=dict)
    slow: dict[Way, str] = field(default_factory=dict)
    """Ways that could not ingest the history in time."""
    errors: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def ratios(self, way: str, against: str = HAND) -> list[float]:
        """How much faster a way was than another side, round by round."""
        pairs = zip(self.seconds[against], self.seconds[way], strict=True)
        return [slow / fast for slow, fast in pairs]

    @property
    def ways(self) -> list[Way]:
        """The ways that were timed."""
        return [way for way in self.case.ways if self.seconds.get(way)]

    @property
    def verdict(self) -> str:
        """PASS, or what is wrong; SKIPPED where the way that has a bar was refused."""
        if self.problems:
            return "FAIL: " + "; ".join(self.problems)
        barred = self.case.barred
        if barred in self.refused:
            return f"SKIPPED: {barred}: {self.refused[barred]}"
        if barred not in self.ways:
            return f"FAIL: {self.slow.get(barred, 'nothing was timed')}"
        return "PASS" if statistics.median(self.ratios(barred)) >= self.case.must else "FAIL"

    def as_json(self) -> dict[str, Any]:
        """What was found, for the results file."""
        return {
            "about": self.case.about,
            "barred": self.case.barred,
            "must": self.case.must,
            "verdict": self.verdict,
            "refused": self.refused,
            "slow": self.slow,
            "medians": {side: statistics.median(s) for side, s in self.seconds.items() if s},
            "ratios": {way: self._against(way) for way in self.ways},
            "by_batch": {way: self._by_size(way) for way in self.ways},
            "loops": {way: _loops(self.reports[way]) for way in self.ways},
            "phases": {way: phases(self.reports[way]) for way in self.ways},
            "state_bytes": {way: self.reports[way][-1].state_bytes for way in self.ways},
            "jobs": {way: sorted({r.jobs for r in self.reports[way]}) for way in self.ways},
            "load_seconds": self.loaded,
            "errors": self.errors,
            "sizes": self.sizes,
            "seconds": self.seconds,
        }

    def _against(self, way: Way) -> dict[str, list[float]]:
        """Quartiles of the ratios to each code by hand, and to the loop run again in a task."""
        others = [side for side in (*self.case.experts, "recompute") if self.seconds.get(side)]
        return {side: _quartiles(self.ratios(way, side)) for side in others if side != way}

    def _by_size(self, way: Way) -> dict[str, dict[str, float]]:
        """Medians by the size of the batch."""
        by_size = {}
        for size in sorted(set(self.sizes)):
            places = [place for place, known_size in enumerate(self.sizes) if known_size == size]
            ratios, times = self.ratios(way), self.seconds[way]
            by_size[str(size)] = {
                "seconds": statistics.median(times[place] for place in places),
                "ratio": statistics.median(ratios[place] for place in places),
            }
        return by_size


def _loops(reports: list[BatchReport]) -> dict[str, Any]:
    """How a loop was kept: how often in which way, and how and why in the last batch."""
    works = [loop for report in reports for loop in report.loops]
    last = works[-1] if works else None
    return {
        "ways": dict(Counter(loop.way for loop in works)),
        "steps": statistics.median(loop.steps for loop in works) if works else 0,
        "rows": statistics.median(loop.rows for loop in works) if works else 0,
        "reason": "" if last is None else last.reason,
    }


def measure(bench: Bench, case: Case) -> Found:
    """Rounds of all sides in random order; answers are compared at the end."""
    measurement = Found(case)
    try:
        with all_laned(bench, case) as lanes, hand_code(bench, case) as hand:
            measurement.refused, measurement.slow = lanes.refused, lanes.slow
            measurement.loaded = {way: lane.loaded.seconds for way, lane in lanes.by_way.items()}
            for number in range(bench.warm_up + bench.rounds):
                _round(bench, number, measurement, lanes, hand)
            _compare(measurement, lanes, hand)
    except TooSlow as problem:
        measurement.problems.append(str(problem))
    except Exception as error:  # whatever it is, the other cases are still wanted
        measurement.problems.append(error_text(error))
    if any(report.jobs != 1 for reports in measurement.reports.values() for report in reports):
        measurement.problems.append("not one job a batch")
    return measurement


def _round(bench: Bench, number: int, measurement: Found, lanes: Lanes, hand: Hand) -> None:
    is_counted = number >= bench.warm_up
    rows = [hand.feed.add(number) for _ in range(2)][-1]
    sides: list[str] = [*lanes.by_way, *measurement.case.experts]
    for side in bench.order.sample(sides, len(sides)):
        if side in measurement.case.experts:
            _, seconds = time_call(lambda side=side: hand.run(side))  # type: ignore[misc]
        else:
            report, seconds = _batches(lanes.by_way[side], number)  # type: ignore[index]
            if is_counted:
                measurement.reports.setdefault(side, []).append(report)
        if is_counted:
            measurement.seconds.setdefault(side, []).append(seconds)
    if is_counted:
        measurement.sizes.append(rows)


def _batches(lane: Lane, number: int) -> tuple[BatchReport, float]:
    """Two batches, of which the second counts."""
    lane.feed.add(number)
    lane.step()
    lane.feed.add(number)
    return time_call(lane.step)


# --- answers -------------------------------------------------------------------------------


def _compare(measurement: Found, lanes: Lanes, hand: Hand) -> None:
    """Exact ways bit for bit, up to rounding with the code by hand; diffuse by its error."""
    case = measurement.case
    by_hand = hand.answer(HAND)
    answers = {way: lane.answer(by_hand.schema) for way, lane in lanes.by_way.items()}
    diffused = answers.pop("diffuse", None)
    exact = list(answers.items())
    for (one, answer), (other, another) in pairwise(exact):
        differing = compare_bags(answer, another, close=False)
        measurement.problems += [f"{one} and {other}: {difference}" for difference in differing]
    for way, answer in exact[:1]:
        differing = compare_bags(answer, by_hand, close=case.floats)
        measurement.problems += [f"{way} and by hand: {difference}" for difference in differing]
    if diffused is not None:
        truth = exact[0][1] if exact else by_hand
        error = measurement.errors["diffuse"] = {
            "true": distance(diffused, truth),
            "size": norm(truth),
            **stated_error(measurement.reports["diffuse"][-1]),
        }
        if error["kind"] == "bound" and error["true"] > error["figure"]:
            measurement.problems.append("diffuse: the error is greater than its bound")
