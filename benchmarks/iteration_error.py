"""The error of diffused loops over a hundred batches, beside what is stated of it.

After each batch the diffused answer is compared with the loop over all data so far, by NumPy; the
paper's own scheme (`iteration_paper`) gets the same batches.  Errors are sums of the sizes of
all differences, and `size` is that of the answer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from typing import Any as Arrow

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.incremental_run import Bench
from benchmarks.iteration_answers import matched_distance, stated_error
from benchmarks.iteration_hand import STARTS
from benchmarks.iteration_numpy import means, page_ranks
from benchmarks.iteration_paper import READINGS, PaperMeans, PaperRanks, Reading
from benchmarks.iteration_queries import DRIFTED, MEANS, SMALL, STEPS, Case
from benchmarks.iteration_run import Lane, Refusal, fed, open_lane

BATCHES: Final = 100
RESYNC: Final = 20
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "diffuse": {},
    f"diffuse, run again every {RESYNC} batches": {"resync": RESYNC},
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A loop whose error is looked at: as a case, by NumPy, and by the paper."""

    case: Case
    answer: Callable[[Lane], Arrow]
    truth: Callable[[int, Arrow], Arrow]
    """The loop over all rows so far; the first argument is the number of nodes."""
    scheme: Callable[[Reading, int, Arrow], Callable[[Arrow], Arrow]]
    """The paper's scheme in a reading after a history: a function of each batch."""
    distance: Callable[[Arrow, Arrow], float]


@dataclass(slots=True)
class _Truths:
    """The result of a loop over rows, cached: all settings get the same batches."""

    subject: Subject
    nodes: int
    known: dict[tuple[int, float], Arrow] = field(default_factory=dict)

    def of(self, rows: Arrow) -> Arrow:
        """The loop over some rows."""
        key = len(rows), float(rows.sum())
        if key not in self.known:
            self.known[key] = self.subject.truth(self.nodes, rows)
        return self.known[key]


@dataclass(slots=True)
class Series:
    """Errors by batch."""

    true: list[float] = field(default_factory=list)
    figures: list[float] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The lists that are there."""
        data: dict[str, Any] = {"true": self.true}
        return data | ({"stated": self.figures, "kinds": self.kinds} if self.figures else {})


def error(bench: Bench, batches: int = BATCHES) -> dict[str, Any]:
    """The series of both loops."""
    results: dict[str, Any] = {"about": f"errors of diffused loops over {batches} batches"}
    problems: list[str] = []
    for subject in (RANKS, CENTROIDS, DRIFTING):
        name = subject.case.name
        truths = _Truths(subject, _nodes(subject.case, bench))
        results[name] = {"paper": _papers(bench, truths, batches)}
        for setting, options in SETTINGS.items():
            try:
                series, size = _follow_batches(bench, truths, batches, options)
            except Refusal as refusal:
                results[name][setting] = {"skipped": str(refusal)}
                continue
            results[name] |= {setting: series.as_json(), "size": size}
            problems += [f"{name}: {problem}" for problem in _untrue(series)]
    skipped = [n for n, result in results.items() if "skipped" in str(result)]
    verdict = f"SKIPPED: {', '.join(skipped)}" if skipped else "PASS"
    return results | {"verdict": f"FAIL: {'; '.join(problems)}" if problems else verdict}


def _untrue(series: Series) -> Iterator[str]:
    """Where an error was greater than its bound."""
    for number, kind in enumerate(series.kinds):
        rounding = 1e-9 * max(series.figures[number], 1.0)
        if kind == "bound" and series.true[number] > series.figures[number] + rounding:
            yield f"the error of batch {number + 1} is greater than its bound"
            return


def _follow_batches(
    bench: Bench, truths: _Truths, batches: int, options: dict[str, Any]
) -> tuple[Series, float]:
    """Follow a diffused loop batch by batch: its distance from the truth and its stated error."""
    series, size = Series(), 0.0
    subject, case = truths.subject, truths.subject.case
    with open_lane(bench, case, "diffuse", options) as lane:
        for number in range(batches):
            lane.feed.add(number)
            report = lane.step()
            rows = _rows(lane.feed.supply.folder / case.table.name)
            truth = truths.of(rows)
            series.true.append(subject.distance(subject.answer(lane), truth))
            said = stated_error(report)
            series.figures.append(float(said["figure"]))
            series.kinds.append(str(said["kind"]))
            size = float(np.abs(truth).sum())
    return series, size


def _papers(bench: Bench, truths: _Truths, batches: int) -> dict[str, list[float]]:
    """The errors of the paper's scheme, by reading and batch."""
    distances: dict[str, list[float]] = {reading: [] for reading in READINGS}
    subject, case, nodes = truths.subject, truths.subject.case, truths.nodes
    with fed(bench, case) as (_, feed):
        folder = feed.supply.folder / case.table.name
        feed.add()
        rows = _rows(folder)
        schemes = {reading: subject.scheme(reading, nodes, rows) for reading in READINGS}
        for number in range(batches):
            feed.add(number)
            batch = _rows(folder / f"batch-{feed.supply.number:04d}.parquet")
            rows = np.concatenate([rows, batch])
            truth = truths.of(rows)
            for reading, take in schemes.items():
                distances[reading].append(subject.distance(take(batch), truth))
    return distances


def _rows(where: Any) -> Arrow:
    table: pa.Table = pq.read_table(where)
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def _nodes(case: Case, bench: Bench) -> int:
    return case.size(bench.scale).keys


def _ranks_answered(lane: Lane) -> Arrow:
    ranks = np.zeros(_nodes(SMALL, lane.feed.bench))
    for row in lane.driver.answer(0):
        ranks[row["page"]] = row["rank"]
    return ranks


def _ranks(nodes: int, rows: Arrow) -> Arrow:
    return page_ranks(nodes, rows[:, 0], rows[:, 1], STEPS)


def _paper_ranks(reading: Reading, nodes: int, rows: Arrow) -> Callable[[Arrow], Arrow]:
    scheme = PaperRanks(reading, nodes, STEPS, rows[:, 0], rows[:, 1])
    return lambda batch: scheme.take(batch[:, 0], batch[:, 1])


def _apart(one: Arrow, other: Arrow) -> float:
    return float(np.abs(one - other).sum())


def _centroids_answered(lane: Lane) -> Arrow:
    return np.array([(row["X"], row["Y"]) for row in lane.driver.answer(0)])


def _means(_nodes: int, rows: Arrow) -> Arrow:
    return means(rows, np.array(STARTS), STEPS)


def _paper_means(reading: Reading, _nodes: int, rows: Arrow) -> Callable[[Arrow], Arrow]:
    return PaperMeans(reading, np.array(STARTS), STEPS, rows).take


RANKS: Final = Subject(SMALL, _ranks_answered, _ranks, _paper_ranks, _apart)
CENTROIDS: Final = Subject(MEANS, _centroids_answered, _means, _paper_means, matched_distance)
DRIFTING: Final = Subject(DRIFTED, _centroids_answered, _means, _paper_means, matched_distance)
