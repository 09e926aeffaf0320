"""Where the milliseconds of a batch go.

    plan       from the call of Spark to the submission of its job: py4j, the SQL action
    schedule   from there to the start of the task
    start      the task before Python runs: its binary, the worker
    python     the rest of the task beside reading, kernel and writing: orders, sockets
    read       files of the change
    kernel     the steps and the state that they look up
    write      runs and parts of outputs
    collect    from the end of the task to the answer in the driver
    commit     intent, archive, manifest: waits for the disk
    publish    the output appears; what follows

Spark's own clock has milliseconds.  Figures are medians of the batches of one block.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.experiments.base import Experiment, Finding, Options, Tell, failure, session_for
from benchmarks.incremental_chain import CHAIN
from benchmarks.incremental_queries import AVERAGE, WORKLOADS, Workload
from benchmarks.incremental_run import Bench, Stage, open_stage
from incmrql.engine.jobs import JobResult
from incmrql.engine.messages import BatchRequest
from incmrql.runtime import BatchReport
from incmrql.runtime.replay import stream_job

NAME: Final = "profile"
BATCHES: Final = 30
WARM: Final = 10
SCALE, QUICK_SCALE = 0.1, 0.005
"""Of the histories of the incremental benchmark; batches have a tenth of their rows too."""
CASES: Final = (AVERAGE, next(workload for workload in WORKLOADS if workload.name == "join"), CHAIN)


@dataclass(slots=True)
class Clock:
    """When the jobs of a run were asked for and answered, and how Spark knows them."""

    asked: list[tuple[float, float, str]] = field(default_factory=list)

    def watch(self, stage: Stage) -> None:
        """Note each job of a stage from now on."""
        job = stream_job(stage.driver)
        original = job.run

        def run(request: BatchRequest, **named: int) -> JobResult:
            begun = time.time()
            result = original(request, **named)
            group = f"{job.group}-{request.number}-{request.attempt}"
            self.asked.append((begun, time.time(), group))
            return result

        job.run = run  # type: ignore[method-assign]


def run(options: Options, tell: Tell) -> Iterator[Finding]:
    """The phases of a batch of each workload."""
    with session_for(options) as session:
        order = random.Random(options.seed)
        scale = QUICK_SCALE if options.quick else SCALE
        spark = session.private_spark()
        bench = Bench(session, spark, options.data, order=order, scale=scale)
        for workload in CASES:
            tell(workload.about)
            try:
                yield profile_workload(bench, workload, options.count(BATCHES, 5))
            except Exception as error:  # whatever it is, the other cases are still wanted
                yield failure(NAME, workload.name, error)


def profile_workload(bench: Bench, workload: Workload, batches: int) -> Finding:
    """The phases of the batches of a workload."""
    clock, reports = Clock(), list[BatchReport]()
    with open_stage(bench, workload) as stage:
        for number in range(WARM + batches):
            if number == WARM:
                clock.watch(stage)
            stage.supply.add()
            report = stage.step()
            if number >= WARM:
                reports.append(report)
        context = bench.spark.sparkContext
        context._jsc.sc().listenerBus().waitUntilEmpty()
        phases = [phases_of(r, *c, context) for r, c in zip(reports, clock.asked, strict=True)]
        problems = stage.differences()
    names = list(phases[0])
    middle = {name: statistics.median(phase[name] for phase in phases) for name in names}
    figures = {f"{name} ms": round(value, 1) for name, value in middle.items()}
    whole = statistics.median(1000 * report.seconds for report in reports)
    largest = sorted(middle, key=lambda name: -middle[name])[:3]
    size = stage.supply.size
    return Finding(
        NAME,
        f"{workload.name}: {size.rows:,} rows, batches of {size.batch:,}",
        {"batch ms": round(whole, 1), **figures},
        verdict="wrong" if problems else "right",
        note="; ".join(problems) or f"largest: {', '.join(largest)}",
    )


def phases_of(
    report: BatchReport, begun: float, ended: float, group: str, context: Any
) -> dict[str, float]:
    """The milliseconds of a batch, phase by phase."""
    task = _task(context, group)
    python = report.read + report.kernel + report.write
    milliseconds = {
        "plan": task["submitted"] - 1000 * begun,
        "schedule": task["launched"] - task["submitted"],
        "start": task["deserialized"],
        "python": task["ran"] - 1000 * python,
        "read": 1000 * report.read,
        "kernel": 1000 * report.kernel,
        "write": 1000 * report.write,
        "collect": 1000 * ended - task["launched"] - task["deserialized"] - task["ran"],
        "commit": 1000 * report.commit,
        "publish": 1000 * report.publish,
    }
    return {name: max(value, 0.0) for name, value in milliseconds.items()}


def _task(context: Any, group: str) -> dict[str, float]:
    """What Spark knows of the one task of a job, in milliseconds of the clock or of its own."""
    store = context._jsc.sc().statusStore()
    (number,) = context.statusTracker().getJobIdsForGroup(group)
    job = store.job(number)
    (stage,) = context.statusTracker().getJobInfo(number).stageIds
    task = store.taskList(stage, 0, 1).head()
    metrics = task.taskMetrics().get()
    return {
        "submitted": float(job.submissionTime().get().getTime()),
        "launched": float(task.launchTime().getTime()),
        "deserialized": float(metrics.executorDeserializeTime()),
        "ran": float(metrics.executorRunTime()),
    }


EXPERIMENT: Final = Experiment(
    NAME, "where the milliseconds of a batch go: Spark, Python, state, commit", run
)
