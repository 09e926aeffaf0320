"""The largest costs of a small batch beside its own work, as they were and as they are.

    action      the one task as an action of Spark's SQL, its rows through Arrow; now of an RDD
    collection  Spark's worker collects garbage after each task, among all that is loaded; now
                that is frozen once the program is there
    parsing     DuckDB parses and binds a text, and registers its rows, each time; now a text is
                parsed once and finds its rows by name
    unchecked   blocks of state are read without their checksums; this was faster, and is the
                price of finding damaged files

Each way has some batches in a row, way after way, round after round, as what a task leaves to
do is done while the next one waits.
"""

from __future__ import annotations

import gc
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from benchmarks.experiments.base import Experiment, Finding, Options, Tell, failure, session_for
from benchmarks.experiments.profile import CASES, QUICK_SCALE, SCALE
from benchmarks.incremental_queries import Workload
from benchmarks.incremental_run import Bench, Stage, open_stage
from incmrql.engine.columns import pipelines
from incmrql.engine.store.segments import Guard
from incmrql.runtime.replay import stream_job
from incmrql.spark import stream_tasks
from incmrql.spark.packing import SentProgram

NAME: Final = "costs"
ROUNDS, QUICK_ROUNDS = 8, 2
BLOCK, QUICK_BLOCK = 8, 4
SETTLED: Final = 2
"""Batches at the start of a block that are not counted."""
FEW: Final = pipelines.FEW
CHECKS: Final = {name: getattr(Guard, name) for name in ("verify", "verify_range")}


@dataclass(frozen=True, slots=True)
class Way:
    """What of a batch is done as it was before."""

    name: str
    action: bool = False
    collection: bool = False
    parsing: bool = False
    unchecked: bool = False


NOW: Final = Way("now")
BEFORE: Final = (
    Way("action", action=True),
    Way("collection", collection=True),
    Way("parsing", parsing=True),
    Way("unchecked", unchecked=True),
    Way("all three", action=True, collection=True, parsing=True),
)


def run(options: Options, tell: Tell) -> Iterator[Finding]:
    """Each workload in all ways."""
    with session_for(options) as session:
        order = random.Random(options.seed)
        scale = QUICK_SCALE if options.quick else SCALE
        bench = Bench(session, session.private_spark(), options.data, order=order, scale=scale)
        for workload in CASES[:1] if options.quick else CASES:
            tell(workload.about)
            try:
                yield compare_ways(bench, workload, options)
            except Exception as error:  # whatever it is, the other cases are still wanted
                yield failure(NAME, workload.name, error)


def compare_ways(bench: Bench, workload: Workload, options: Options) -> Finding:
    """Measure the batches of a workload with each variant."""
    ways = [NOW, *BEFORE]
    times: dict[Way, list[float]] = {way: [] for way in ways}
    block = QUICK_BLOCK if options.quick else BLOCK
    with open_stage(bench, workload) as stage:
        actions = {way: _action(stage, way) for way in ways}
        for number in range(1 + options.count(ROUNDS, QUICK_ROUNDS)):
            bench.order.shuffle(ways)
            for way in ways:
                stream_job(stage.driver).single_task = actions[way]
                seconds = list(_block(stage, block))
                times[way] += seconds[SETTLED:] if number else []  # the first round warms up
        problems = stage.differences()
    middle = {way: statistics.median(series) for way, series in times.items()}
    before = {f"{way.name} ms": round(middle[way], 1) for way in BEFORE}
    ratios = {f"{way.name} ratio": round(middle[way] / middle[NOW], 2) for way in BEFORE}
    size = stage.supply.size
    return Finding(
        NAME,
        f"{workload.name}: {size.rows:,} rows, batches of {size.batch:,}",
        {"now ms": round(middle[NOW], 1), **before, **ratios},
        verdict="wrong" if problems else "right",
        note="; ".join(problems),
    )


def _block(stage: Stage, count: int) -> Iterator[float]:
    """The milliseconds of some batches in a row."""
    for _ in range(count):
        stage.supply.add()
        yield 1000 * stage.step().seconds


def _action(stage: Stage, way: Way) -> Any:
    """The one task of a batch, in some way: what can be collected."""
    job = stream_job(stage.driver)
    task = partial(_task, way, job.sent)
    if not way.action:
        return job.spark.sparkContext.parallelize([0], 1).mapPartitions(task)
    return job.spark.range(0, 1, 1, 1).mapInArrow(
        partial(_by_arrow, task), "kind string, text string"
    )


def _task(way: Way, sent: SentProgram, rows: Iterator[Any]) -> Iterator[tuple[str, str]]:
    """A batch in a task, in some way."""
    (gc.unfreeze if way.collection else gc.freeze)()
    pipelines.FEW = -1 if way.parsing else FEW
    for name, check in CHECKS.items():
        setattr(Guard, name, _check_nothing if way.unchecked else check)
    yield from stream_tasks.batch_task(sent, rows)


def _check_nothing(*_: object) -> None:
    """A check that does nothing."""


def _by_arrow(task: Any, rows: Iterator[Any]) -> Iterator[Any]:
    columns = zip(*task(rows), strict=True)
    yield pa.record_batch([list(column) for column in columns], names=["kind", "text"])


EXPERIMENT: Final = Experiment(
    NAME, "the largest costs of a small batch: as they were and as they are", run
)
