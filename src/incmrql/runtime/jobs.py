"""What runs the batches of a driver: Spark's tasks, or this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from incmrql.engine.batch import CompiledProgram
from incmrql.engine.jobs import Job
from incmrql.engine.local import LocalJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Runner: TypeAlias = "SparkSession | Callable[[], SparkSession] | None"
"""A Spark session, or how to start one; None for the local engine."""


def job_of(spark: Runner, compiled: CompiledProgram, folder: Path, buckets: int) -> Job:
    """What runs the batches of a program; `folder` holds their requests."""
    if spark is None:
        return LocalJob(compiled, buckets)
    from incmrql.spark.clusters import check_executors  # the local engine does without PySpark
    from incmrql.spark.stream_job import StreamJob

    session = spark() if callable(spark) else spark
    check_executors(session)
    return StreamJob(session, compiled, folder, buckets)
