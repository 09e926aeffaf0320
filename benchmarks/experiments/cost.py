"""What a block costs on Spark: seconds, jobs, bytes that were shuffled, rows that were read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession


@dataclass(slots=True)
class Cost:
    """Costs of a block; of all jobs that began in it, whoever has started them."""

    seconds: float = 0.0
    jobs: int = 0
    shuffled: int = 0
    """Bytes that were written for other tasks."""
    read: int = 0
    """Rows that Spark itself has read; files that Python tasks read are not in it."""


@contextmanager
def measure_cost(spark: SparkSession) -> Iterator[Cost]:
    """Measure the block's cost; its time ends with the block, before anything is counted."""
    context, cost = spark.sparkContext._jsc.sc(), Cost()
    jobs, stages = _next(context)
    begun = time.perf_counter()
    try:
        yield cost
    finally:
        cost.seconds = time.perf_counter() - begun
        # What the scheduler tells comes by a queue: wait until it is empty.
        context.listenerBus().waitUntilEmpty()
        more_jobs, more_stages = _next(context)
        cost.jobs = more_jobs - jobs
        for stage in range(stages, more_stages):
            with suppress(Py4JJavaError):  # forgotten, since there were too many
                known = context.statusStore().lastStageAttempt(stage)
                cost.shuffled += known.shuffleWriteBytes()
                cost.read += known.inputRecords()


def _next(context: Any) -> tuple[int, int]:
    """The numbers of the next job and the next stage."""
    scheduler = context.dagScheduler()
    return int(str(scheduler.nextJobId())), int(str(scheduler.nextStageId()))
