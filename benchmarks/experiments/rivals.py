"""The same queries over the same files by other engines, round by round in random order.

Each engine ingests a history and then batch after batch.  The clock starts when the files of a
batch are visible to the engine, and stops when its answer is up to date.  What an engine does not
run is told in its own words; an engine that is not installed is skipped.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.batch_measure import differences
from benchmarks.experiments.base import (
    Experiment,
    Figure,
    Finding,
    Options,
    Tell,
    failure,
    pace,
    session_for,
)
from benchmarks.experiments.rivals_duckdb import DuckDB
from benchmarks.experiments.rivals_duckdb import answer as expected_answer
from benchmarks.experiments.rivals_files import files_of
from benchmarks.experiments.rivals_flink import Flink
from benchmarks.experiments.rivals_ours import NAME, Ours
from benchmarks.experiments.rivals_pathway import Pathway
from benchmarks.experiments.rivals_queries import (
    BATCH,
    QUERIES,
    QUICK_BATCH,
    QUICK_ROWS,
    ROWS,
    Query,
)
from benchmarks.experiments.rivals_sides import Answer, Late, Refused, Rival, Side, Skipped, Table
from benchmarks.experiments.rivals_spark import PlainSpark
from benchmarks.experiments.rivals_streaming import StructuredStreaming
from benchmarks.incremental_pairs import error_text
from incmrql.api.session import Session

QUICK: Final = ("average", "extremes")
"""The queries that are asked in small."""
WARM_UP: Final = 2
"""Rounds that are not counted."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How large and how often everything is run."""

    rows: int
    batch: int
    rounds: int
    warm_up: int
    patience: float


@dataclass(slots=True)
class Lane:
    """What was found about one engine and one query."""

    name: str
    side: Side | None = None
    load: float | None = None
    seconds: list[float] = field(default_factory=list)
    verdict: str = ""
    note: str = ""
    is_right: bool | None = None

    def stop(self, verdict: str, note: str) -> None:
        """It goes no further, and why."""
        self.verdict, self.note = verdict, note
        self.close()

    def late(self, reason: Late, where: str) -> None:
        """It was given up, or came to rest with another answer."""
        is_wrong = str(reason).startswith("wrong")
        self.is_right = False if is_wrong else None
        self.stop("differs" if is_wrong else "given up", f"{where}: {reason}")

    def close(self) -> None:
        """End what runs."""
        side, self.side = self.side, None
        if side is not None:
            side.close()


def run(options: Options, tell: Tell) -> Iterator[Finding]:
    """All queries on all engines."""
    plan = Plan(
        QUICK_ROWS if options.quick else ROWS,
        QUICK_BATCH if options.quick else BATCH,
        options.count(7, 2),
        1 if options.quick else WARM_UP,
        4.0 if options.quick else 60.0,
    )
    rivals: list[Rival] = [PlainSpark(), StructuredStreaming(), DuckDB(), Pathway(), Flink()]
    try:
        with session_for(options) as session:
            for query in [
                candidate for candidate in QUERIES if candidate.name in QUICK or not options.quick
            ]:
                try:
                    yield from findings_of_query(query, rivals, plan, options, session, tell)
                except Exception as error:  # whatever it is, the other queries are still wanted
                    yield failure("rivals", query.workload.about, error)
    finally:
        for rival in rivals:
            rival.close()


def findings_of_query(
    query: Query,
    rivals: Sequence[Rival],
    plan: Plan,
    options: Options,
    session: Session,
    tell: Tell,
) -> Iterator[Finding]:
    """Run one query on all engines and yield a finding about each."""
    chance = random.Random(options.seed)
    with files_of(options.data, query, query.size(plan.rows, plan.batch)) as files:
        table = Table(query, files, options, session, plan.patience, tell)
        lanes = [Lane(NAME), *(Lane(rival.name) for rival in rivals)]
        try:
            answer = expected_answer(query, files.supply.folder)
            for lane, rival in zip(lanes, (None, *rivals), strict=True):
                tell(f"{query.name}: {lane.name} takes in the history")
                _open(lane, rival, table, answer)
            for number in range(plan.warm_up + plan.rounds):
                tell(f"{query.name}: batch {number + 1} of {plan.warm_up + plan.rounds}")
                answer = _round(lanes, table, chance, is_counted=number >= plan.warm_up)
            _compare(lanes, query, answer)
        finally:
            for lane in lanes:
                lane.close()
    yield from (finding_of(query, lane, lanes[0]) for lane in lanes)


def _open(lane: Lane, rival: Rival | None, table: Table, answer: Answer) -> None:
    try:
        lane.side = Ours(table) if rival is None else rival.open(table)
        table.files.prepare(0, lane.side.form)
        lane.load = lane.side.take(0, answer)
    except Refused as refusal:
        lane.stop("refused", str(refusal))
    except Skipped as reason:
        lane.stop(f"skipped: {reason}", "")
    except Late as reason:
        lane.late(reason, "history")
    except Exception as error:  # whatever it is, the others are still wanted
        lane.stop("failed", error_text(error))


def _round(lanes: list[Lane], table: Table, chance: random.Random, *, is_counted: bool) -> Answer:
    """A batch by all engines that are still there; the answer that it should lead to."""
    number = table.files.add()
    answer = expected_answer(table.query, table.files.supply.folder)
    there = [lane for lane in lanes if lane.side is not None]
    for lane in there:
        assert lane.side is not None
        table.files.prepare(number, lane.side.form)
    for lane in chance.sample(there, len(there)):
        assert lane.side is not None
        try:
            seconds = lane.side.take(number, answer)
        except Late as reason:
            lane.late(reason, f"batch {number}")
        except Exception as error:  # whatever it is, the others are still wanted
            lane.stop("failed", error_text(error))
        else:
            if is_counted:
                lane.seconds.append(seconds)
    return answer


def _compare(lanes: list[Lane], query: Query, answer: Answer) -> None:
    """Hold the last answers of all engines against each other; ours counts."""
    ours = lanes[0].side.answer() if lanes[0].side is not None else None
    if ours is None:
        return
    for lane in lanes:
        if lane.side is not None:
            theirs = answer if lane is lanes[0] else lane.side.answer()
            problems = [] if theirs is None else compare_answers(ours, theirs, query)
            lane.is_right, lane.note = not problems, "; ".join(problems)


def compare_answers(ours: Answer, theirs: Answer, query: Query) -> list[str]:
    """The differences between two answers; columns are compared by position."""
    theirs = theirs.rename_columns(ours.column_names)
    types = ours.schema
    ours, theirs = (answer.cast(types) for answer in (ours, theirs))
    return differences(ours, theirs, ordered=False, close=query.workload.floats)


def finding_of(query: Query, lane: Lane, ours: Lane) -> Finding:
    """The row of an engine; its ratio says how many times faster incmrql was."""
    figures: dict[str, Figure] = {}
    ratio = None
    if lane.load is not None:
        figures["load s"] = round(lane.load, 2)
    if lane.seconds:
        figures["batch ms"] = round(statistics.median(lane.seconds) * 1000, 1)
    if lane.is_right is not None:
        figures["answer"] = "right" if lane.is_right else "wrong"
    if lane is not ours and lane.seconds and not lane.verdict:
        pairs = zip(lane.seconds, ours.seconds, strict=False)
        ratios = [theirs / mine for theirs, mine in pairs]
        ratio = statistics.median(ratios) if ratios else None
    verdict = lane.verdict
    if not verdict:
        is_ours = lane is ours
        verdict = str(figures.get("answer", "")) if is_ours or ratio is None else pace(ratio)
    case = f"{query.workload.about}: {lane.name}"
    return Finding("rivals", case, figures, ratio, verdict, lane.note)


EXPERIMENT: Final = Experiment(
    "rivals",
    "the same queries over the same files by Spark again, Structured Streaming, DuckDB again, "
    "Pathway and PyFlink SQL",
    run,
)
