"""The rows of all sources that a program has ingested, read again from where they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from incmrql.engine.batch import CompiledProgram
from incmrql.engine.inputs import InputFile
from incmrql.errors import InternalError
from incmrql.plan.program import Program, Stream
from incmrql.reference import Environment, World, evaluate, new_world
from incmrql.runtime.driver import Driver
from incmrql.runtime.local_replay import net_weights
from incmrql.runtime.replay import net_rows, packed
from incmrql.spark.values import values
from incmrql.types import typed
from incmrql.values import Bag, decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.spark.packing import PickledObject


def ingested_rows(driver: Driver, spark: SparkSession | None) -> IngestedRows:
    """What a driver has ingested; raises `DataError` if some of it is no longer there.

    Without `spark` its rows are read in this process.
    """
    program = driver.program
    stored = dict(program.stored)
    world = new_world(program.script, arguments=list(program.arguments), stored=stored)
    world.paths = driver.compiled.paths  # kept copies stand for the paths that the script names
    files = driver.ingested_files()
    on_spark = None if spark is None else (spark, packed(driver))
    return IngestedRows(program, files, driver.compiled, on_spark, Environment(world))


@dataclass(frozen=True, slots=True)
class IngestedRows:
    """The sources of a program, and the files that were ingested of each."""

    program: Program
    files: Sequence[InputFile]
    compiled: CompiledProgram
    on_spark: tuple[SparkSession, PickledObject] | None
    """The Spark session, and the program as its tasks load it; None on the local engine."""
    env: Environment

    def frame(self, source: typed.Source, path: str | None, packed: bool) -> DataFrame | None:
        """The rows of a source as the batches so far have left them."""
        stream = self.stream(source, path)
        return self._frame(stream, packed=packed)

    def world(self) -> World:
        """A world in which the reference evaluator reads these rows."""
        return replace(self.env.world, read=self.values)

    def values(self, source: typed.Source, _env: Environment) -> Bag:
        """The rows of a source as Python values."""
        stream = self._stream_of(source)
        if self.on_spark is not None:
            return Bag(values(self.rows(stream), stream.element))
        weights = net_weights(self.compiled, stream, self.files_of(stream))
        return Bag([decode(row) for row, weight in weights.items() for _ in range(weight)])

    def count(self, stream: Stream) -> int:
        """The number of rows of a source."""
        if self.on_spark is not None:
            return self.rows(stream).count()
        weights = net_weights(self.compiled, stream, self.files_of(stream))
        return sum(weight for weight in weights.values() if weight > 0)

    def rows_of(self, source: typed.Source) -> DataFrame:
        """The rows of a source, in the single column `value` or in columns."""
        return self.rows(self._stream_of(source))

    def _stream_of(self, source: typed.Source) -> Stream:
        path = None if source.path is None else evaluate(source.path, self.env)
        return self.stream(source, path)

    def rows(self, stream: Stream) -> DataFrame:
        """The rows of a source of the program, in the single column `value` or in columns."""
        return self._frame(stream, packed=stream.packed)

    def _frame(self, stream: Stream, *, packed: bool) -> DataFrame:
        assert self.on_spark is not None
        return net_rows(*self.on_spark, stream, self.files_of(stream), packed=packed)

    def files_of(self, stream: Stream) -> list[InputFile]:
        """The files that were ingested of a source."""
        return [file for file in self.files if file.place == stream.place]

    def stream(self, source: typed.Source, path: str | None) -> Stream:
        """The source of the program that a source of the query is."""
        socket = None
        if source.host is not None and source.port is not None:
            socket = evaluate(source.host, self.env), evaluate(source.port, self.env)
        for stream in self.program.streams:
            same = (stream.path, stream.socket) == (path, socket)
            if same and _plain(stream.source) == _plain(source):
                return stream
        raise InternalError(f"{source.name or path} is no source of the program")


def _plain(source: typed.Source) -> typed.Source:
    """What a source says of its rows; what is declared of a registered one is declared once."""
    options = () if source.format == "registered" else source.options
    return replace(source, path=None, host=None, port=None, options=options)


__all__ = ["IngestedRows", "ingested_rows"]
