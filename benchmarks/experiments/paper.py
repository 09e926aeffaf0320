"""The paper's experiments: an initial load and nine increments, beside doing it all again.

For each size of the increments the state is built anew.  At every increment the batch, the batch
engine and the code by hand run in random order over the same files, and the answers are compared:
bit for bit with the batch engine, up to rounding with the code by hand where that adds doubles in
any order.  A loop that is diffused is judged by its error: how far its answer is from the truth,
beside what it says of that itself.

A Python worker keeps one program.  So the ways of keeping a loop take turns not batch by batch but
pass by pass; each pass has its own recomputation in it, after the first one only the faster.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.batch_measure import unpack_records
from benchmarks.batch_sides import Expert, by_hand, by_incmrql
from benchmarks.experiments.base import Experiment, Finding, Options, Tell, session_for, verdict_of
from benchmarks.incremental_data import Size, Supply, Table, history_of
from benchmarks.incremental_pairs import _quartiles, error_text
from benchmarks.incremental_run import Bench, Place, compare_bags, folder_in, program, time_call
from benchmarks.iteration_answers import distance, norm, stated_error
from benchmarks.iteration_queries import Way
from incmrql.runtime import BatchReport, Driver
from incmrql.values import Record

BATCH, ENGINE, HAND = "incremental", "engine", "by hand"
AGAIN: Final = (ENGINE, HAND)
INCREMENTS: Final = 9
WARM_UP: Final = 3
QUICK_INCREMENTS: Final = 3
QUICK_SCALE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Question:
    """A query of the paper, with its data."""

    name: str
    about: str
    text: Callable[[Path], str]
    """The MRQL text over a folder."""
    tables: tuple[Table, ...]
    hand: Expert
    rows: int
    keys: int
    sizes: tuple[int, ...]
    """Rows of an increment."""
    ways: tuple[Way, ...] = ("default",)
    is_rounded: bool = False
    """Whether the code by hand may round otherwise."""
    rounds: int = 1

    def small(self) -> Question:
        """The same at a tenth, with increments of the first size only."""
        rows, keys = (max(int(number * QUICK_SCALE), 1) for number in (self.rows, self.keys))
        return replace(self, rows=rows, keys=keys, sizes=(int(self.sizes[0] * QUICK_SCALE),))

    def size(self, increment: int) -> Size:
        """As the data want it."""
        return Size(self.rows, self.keys, increment)


@dataclass(slots=True)
class Course:
    """What was seen of one way on increments of one size; the first of a series is the load."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    reports: list[BatchReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    """Of a diffused loop, relative to the size of the answer."""
    said: list[float] = field(default_factory=list)
    """What it said of them."""
    kinds: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Found:
    """All rounds of one way on increments of one size."""

    way: Way
    increment: int
    courses: list[Course] = field(default_factory=list)

    def times(self, side: str) -> list[float]:
        """The seconds of a side, batch by batch: medians over the rounds."""
        series = [course.seconds[side] for course in self.courses if side in course.seconds]
        return [statistics.median(seconds) for seconds in zip(*series, strict=True)]

    @property
    def best(self) -> str:
        """The faster way of doing it again."""
        there = [side for side in AGAIN if self.times(side)]
        return min(there, key=lambda side: statistics.median(self.times(side)[1:]))

    @property
    def ratios(self) -> list[float]:
        """How many times faster an increment was than doing it again, one by one."""
        ratios = []
        for course in self.courses:
            again, batch = course.seconds[self.best][1:], course.seconds[BATCH][1:]
            ratios += [one / other for one, other in zip(again, batch, strict=True)]
        return ratios


@dataclass(frozen=True, slots=True)
class Trial:
    """A question that is asked on a bench."""

    bench: Bench
    question: Question
    truths: dict[tuple[int, int], pa.Table] = field(default_factory=dict)
    """Answers of the first way, by the size of the increments and their number."""

    def run_course(self, way: Way, increment: int, count: int, again: tuple[str, ...]) -> Course:
        """Run one variant from the load to the last increment."""
        bench, question = self.bench, self.question
        size = question.size(increment)
        history = history_of(bench.data, question.name, question.tables, size)
        course = Course()
        with folder_in(bench.data) as folder:
            supply = Supply(folder / "data", history, question.tables, size)
            place = Place(folder, supply, program(question.text(supply.folder)))
            with place.driver(bench.spark, {"iterate": way}) as driver:
                for number in range(count + 1):
                    if number:
                        supply.add()
                    answers = self._batch(driver, supply.folder, again, course)
                    self._compare(course, way, (increment, number), answers)
        return course

    def _batch(
        self, driver: Driver, folder: Path, again: tuple[str, ...], course: Course
    ) -> dict[str, pa.Table]:
        """All sides in random order; the answer of each."""
        answers: dict[str, pa.Table] = {}
        for side in self.bench.order.sample((BATCH, *again), 1 + len(again)):
            if side == BATCH:
                report, seconds = time_call(lambda: self.bench.with_patience(driver.step))
                assert report is not None, "there is nothing to take in"
                course.reports.append(report)
            else:
                answers[side], seconds = time_call(lambda side=side: self._again(side, folder))  # type: ignore[misc]
            course.seconds.setdefault(side, []).append(seconds)
        schema = next(iter(answers.values())).schema
        answers[BATCH] = pa.Table.from_pylist(
            [dict(row) for row in driver.answer(0) if isinstance(row, Record)], schema=schema
        )
        return answers

    def _again(self, side: str, folder: Path) -> pa.Table:
        """The whole answer again, by the batch engine or by hand."""
        bench, question = self.bench, self.question
        if side == ENGINE:
            text = question.text(folder)
            return unpack_records(
                bench.with_patience(
                    lambda: by_incmrql(bench.session, text, DataFrame.toArrow, fast=False)
                )
            )
        return bench.with_patience(
            lambda: by_hand(bench.spark, folder, question.hand, DataFrame.toArrow)
        )  # fmt: skip

    def _compare(
        self, course: Course, way: Way, at: tuple[int, int], answers: dict[str, pa.Table]
    ) -> None:
        kept, (increment, number) = answers[BATCH], at
        if way == "diffuse":
            truth = self.truths[at]
            self._judge_error(course, number, distance(kept, truth), norm(truth))
            return
        exact = [self.truths.setdefault(at, kept)]
        exact += [answers[ENGINE]] if ENGINE in answers else []
        differing = [
            difference for other in exact for difference in compare_bags(kept, other, close=False)
        ]
        if HAND in answers:
            differing += compare_bags(kept, answers[HAND], close=self.question.is_rounded)
        course.problems += [
            f"batch {number} of {increment:,}: {difference}" for difference in differing
        ]

    def _judge_error(self, course: Course, number: int, true: float, whole: float) -> None:
        course.errors.append(true / whole)
        said = stated_error(course.reports[-1])
        if said:
            course.said.append(said["figure"] / whole)
            course.kinds.add(said["kind"])
            if said["kind"] == "bound" and true > said["figure"]:
                course.problems.append(f"batch {number}: the error is greater than its bound")


def experiment(question: Question) -> Experiment:
    """The experiment that asks a question."""

    def run(options: Options, tell: Tell) -> Iterator[Finding]:
        with session_for(options) as session:
            order = random.Random(options.seed)
            bench = Bench(session, session.private_spark(), options.data, order=order)
            asked = question.small() if options.quick else question
            yield from asking(Trial(bench, asked), options, tell)

    return Experiment(question.name, question.about, run)


def asking(trial: Trial, options: Options, tell: Tell) -> Iterator[Finding]:
    """Ask for each size of the increments in each way, after a pass that is not counted."""
    question = trial.question
    count = QUICK_INCREMENTS if options.quick else INCREMENTS
    rounds = options.count(question.rounds, 1)
    tell("warming up")
    trial.run_course(question.ways[0], question.sizes[0], 1 if options.quick else WARM_UP, AGAIN)
    for increment in question.sizes:
        again: tuple[str, ...] = AGAIN
        for way in question.ways:
            series = Found(way, increment)
            try:
                for number in range(rounds):
                    tell(f"increments of {increment:,}, {way}, round {number + 1} of {rounds}")
                    series.courses.append(trial.run_course(way, increment, count, again))
            except Exception as error:  # whatever it is, the other cases are still wanted
                case = case_of(question, series)
                yield Finding(question.name, case, verdict="failed", note=error_text(error))
                continue
            again = (series.best,)
            yield finding(question, series)


def case_of(question: Question, series: Found) -> str:
    """The name of a row: the size of the increments, and the way where there are several."""
    rows = f"{series.increment:,} rows an increment"
    return rows if len(question.ways) == 1 else f"{rows}, {series.way}"


def finding(question: Question, result: Found) -> Finding:
    """A row of the table, with what is drawn."""
    problems = [problem for course in result.courses for problem in course.problems]
    reports = [report for course in result.courses for report in course.reports[1:]]
    low, ratio, high = _quartiles(result.ratios)
    series = {side: result.times(side) for side in (BATCH, *AGAIN) if result.times(side)}
    figures: dict[str, float | int | str] = {
        "load ms": _ms(series[BATCH][:1]),
        "batch ms": _ms(series[BATCH][1:]),
        "last batch ms": _ms(series[BATCH][-1:]),
        **{f"{side} ms": _ms(series[side][1:]) if side in series else "" for side in AGAIN},
        "state rows read": round(statistics.median(report.state_read for report in reports)),
        "state bytes": max(report.state_bytes for report in reports),
    }
    if len(question.ways) > 1:
        figures |= _errors(result.courses)
    note = "; ".join(problems[:3]) or f"against {result.best}; quartiles {low:.1f}-{high:.1f}"
    return Finding(
        question.name,
        case_of(question, result),
        figures,
        ratio,
        verdict_of(ratio, problems),
        note,
        series,
    )


def _ms(seconds: list[float]) -> int:
    return round(1000 * statistics.median(seconds))


def _errors(courses: list[Course]) -> dict[str, str]:
    """The largest error of a diffused loop, and the largest that it stated."""
    true = [error for course in courses for error in course.errors]
    said = [figure for course in courses for figure in course.said]
    kinds = ", ".join(sorted(set().union(*(course.kinds for course in courses))))
    return {
        "error": f"{max(true):.1e}" if true else "0",
        "stated error": f"{max(said):.1e} ({kinds})" if said else "",
    }
