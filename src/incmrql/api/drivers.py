"""Drivers for runs: what a run needs, and the one place where drivers are created."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incmrql.api.streams import FrameStream, PushedStream, link_or_copy
from incmrql.engine.local import needs_spark
from incmrql.io.rows import Policy, ReadReport
from incmrql.plan.program import Program
from incmrql.runtime.checkpoint.compatibility import check_answer_kept
from incmrql.runtime.driver import Driver
from incmrql.runtime.jobs import Runner
from incmrql.runtime.options import StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.api.plans import SparkAnswers


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a run needs: a program, what runs its batches, options and the data of a session."""

    program: Program
    spark: Runner
    """How to get the Spark session; None for the local engine."""
    options: StreamOptions = field(default_factory=StreamOptions)
    described: Mapping[str, Any] = field(default_factory=dict)
    """The script with its arguments: a checkpoint keeps it, to recompile the program."""
    on_report: Callable[[ReadReport, Policy], None] | None = None
    """Called with the unreadable lines of a batch; None: the listener gets a notice."""
    streams: Mapping[str, PushedStream | FrameStream] = field(default_factory=dict)
    """The streams of the session, by name."""
    registered: Mapping[str, Any] = field(default_factory=dict)
    """Registered data, by name."""
    answers: SparkAnswers | None = None
    """The answers as Spark has them, if the program was made from Spark's plans."""

    def session(self) -> SparkSession | None:
        """The Spark session; None on the local engine."""
        return self.spark() if callable(self.spark) else self.spark

    def streams_by_place(self) -> dict[int, PushedStream | FrameStream]:
        """The streams of the session that the program reads, by the indices of their inputs."""
        return {
            stream.place: self.streams[stream.source.name]
            for stream in self.program.streams
            if stream.source.format == "registered" and stream.source.name in self.streams
        }


def open_driver(inputs: RunInputs, checkpoint: Path, *, read_only: bool = False) -> Driver:
    """A driver of a program on a checkpoint; all drivers are created here."""
    output = None if inputs.options.output is None else Path(inputs.options.output)
    return Driver(
        inputs.program,
        checkpoint,
        output,
        inputs.spark,
        inputs.options,
        registered=inputs.registered,
        script=inputs.described,
        read_only=read_only,
    )


def answer_frame(driver: Driver, spark: SparkSession | None, number: int) -> DataFrame:
    """The rows of an answer in the columns that their type has, read by Spark's tasks."""
    if spark is None:
        raise needs_spark("a DataFrame of the answer")
    from incmrql.runtime.replay import answer_rows, packed
    from incmrql.spark.values import dataframe

    answer = driver.compiled.physical.answers[number]
    if answer.is_single:
        value = driver.answer(number)
        rows = [value] if answer.output.part is None else value or []
        return dataframe(spark, rows, answer.output.element)
    state = driver.state
    runs = driver.checkpoint.work / f"answer-{state.number:06d}"
    runs.mkdir(exist_ok=True)
    # Compaction may remove segments while the DataFrame is in use: it reads links of its own.
    tables = state.tables.values()
    for name in {segment.file for table in tables for segment in table.segments}:
        link_or_copy(driver.checkpoint.runs / name, runs / name)
    check_answer_kept(answer)
    return answer_rows(spark, driver.compiled, packed(driver), number, state.tables, runs)


__all__ = ["RunInputs", "answer_frame", "open_driver"]
