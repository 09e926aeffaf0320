"""The rows of all sources that a program has ingested, read again from where they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from incmrql.engine.inputs import InputFile
from incmrql.errors import InternalError
from incmrql.plan.program import Program, Stream
from incmrql.reference import Environment, World, evaluate, new_world
from incmrql.runtime.driver import Driver
from incmrql.runtime.replay import net_rows
from incmrql.spark.values import values
from incmrql.types import typed
from incmrql.values import Bag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.spark.packing import PickledObject


def ingested_rows(driver: Driver, spark: SparkSession) -> IngestedRows:
    """What a driver has ingested; raises `DataError` if some of it is no longer there."""
    program = driver.program
    stored = dict(program.stored)
    world = new_world(program.script, arguments=list(program.arguments), stored=stored)
    world.paths = driver.compiled.paths  # kept copies stand for the paths that the script names
    files, compiled = driver.ingested_files(), driver.job.sent.content
    return IngestedRows(program, files, compiled, spark, Environment(world))


@dataclass(frozen=True, slots=True)
class IngestedRows:
    """The sources of a program, and the files that were ingested of each."""

    program: Program
    files: Sequence[InputFile]
    compiled: PickledObject
    spark: SparkSession
    env: Environment

    def frame(self, source: typed.Source, path: str | None, packed: bool) -> DataFrame | None:
        """The rows of a source as the batches so far have left them."""
        stream = self.stream(source, path)
        files = self.files_of(stream)
        return net_rows(self.spark, self.compiled, stream, files, packed=packed)

    def world(self) -> World:
        """A world in which the reference evaluator reads these rows."""
        return replace(self.env.world, read=self.values)

    def values(self, source: typed.Source, _env: Environment) -> Bag:
        """The rows of a source as Python values."""
        stream = self._stream_of(source)
        return Bag(values(self.rows(stream), stream.element))

    def rows_of(self, source: typed.Source) -> DataFrame:
        """The rows of a source, in the single column `value` or in columns."""
        return self.rows(self._stream_of(source))

    def _stream_of(self, source: typed.Source) -> Stream:
        path = None if source.path is None else evaluate(source.path, self.env)
        return self.stream(source, path)

    def rows(self, stream: Stream) -> DataFrame:
        """The rows of a source of the program, in the single column `value` or in columns."""
        files = self.files_of(stream)
        return net_rows(self.spark, self.compiled, stream, files, packed=stream.packed)

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
