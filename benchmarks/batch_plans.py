"""What Spark did for a frame: exchanges, rows scanned and Python stages, jobs and stages."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark import StatusTracker
from pyspark.sql import DataFrame, SparkSession

Node = Any
"""A node of a physical plan, in the JVM."""

_numbers = itertools.count(1)


@dataclass(slots=True)
class Work:
    """Jobs, and stages that were not skipped."""

    jobs: int = 0
    stages: int = 0


@dataclass(slots=True)
class Plan:
    """Counts over the final plan of a frame that has run."""

    exchanges: int = 0
    """Shuffles; a reused one is not counted again."""
    broadcasts: int = 0
    scanned: int = 0
    """Rows that came out of scans of files."""
    python: int = 0
    """Places where rows go to Python and back."""
    nodes: Counter[str] = field(default_factory=Counter)
    text: str = ""


@contextlib.contextmanager
def count_jobs(spark: SparkSession) -> Iterator[Work]:
    """Count the jobs and stages that the block runs."""
    context, work = spark.sparkContext, Work()
    group = f"batch-benchmark-{next(_numbers)}"
    context.setJobGroup(group, "benchmark")
    try:
        yield work
    finally:
        context._jsc.clearJobGroup()
        tracker: StatusTracker = context.statusTracker()
        # What the scheduler tells comes by a queue: wait until it is empty.
        context._jsc.sc().listenerBus().waitUntilEmpty()
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            work.jobs += 1
            for stage in info.stageIds if info else ():
                known = tracker.getStageInfo(stage)
                work.stages += known is not None and known.numCompletedTasks > 0


def run_plan(frame: DataFrame) -> Plan:
    """Run a frame, and look at the plan that it had in the end."""
    execution = frame._jdf.queryExecution()
    execution.toRdd().count()
    plan = Plan(text=execution.executedPlan().toString())
    for node in _nodes(execution.executedPlan()):
        name = node.getClass().getSimpleName()
        plan.nodes[name] += 1
        plan.exchanges += name == "ShuffleExchangeExec"
        plan.broadcasts += name == "BroadcastExchangeExec"
        plan.python += "Python" in name or "InArrow" in name or "InPandas" in name
        if name in ("FileSourceScanExec", "BatchScanExec"):
            plan.scanned += node.metrics().apply("numOutputRows").value()
        if name == "MapInArrowExec":  # how incmrql reads files that Spark does not
            plan.scanned += node.metrics().apply("pythonNumRowsReceived").value()
    return plan


def _nodes(node: Node) -> Iterator[Node]:
    """A node and all below it; adaptive plans and their stages are looked into."""
    name = node.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        yield from _nodes(node.executedPlan())
        return
    if name.endswith("QueryStageExec"):
        yield from _nodes(node.plan())
        return
    yield node
    if name == "ReusedExchangeExec":
        return
    children = node.children()
    for place in range(children.size()):
        yield from _nodes(children.apply(place))
