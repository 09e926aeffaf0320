"""What reading leaves behind beside rows: reports, quarantines and errors.

    context = Context(data, parsers, registered, quarantine, on_report)
    frame = sources.read(spark, source, path, context)
    with context.explaining():
        answer = values(frame, element)   # or any other action on what is made from it
    context.settle()                      # raises, or the answer counts

A query's own job parses its sources, and its tasks tell in an accumulator what became of each
part of the input.  `settle` looks at that: it reads the parts that the job did not read to their
end (a `limit`, say), so that a bad line is found wherever it stands; raises the first error, in
the order of the files; and else writes the quarantines and reports.  A part tells its bad rows
themselves as long as they are few; a part with many is read a second time while its quarantine
is written, so that the driver never holds them all.  Before `settle` nothing is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.accumulators import Accumulator
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from incmrql.algebra.term import Picks
from incmrql.errors import DataError
from incmrql.io import Part
from incmrql.io.files import ANYWHERE, COMPRESSED, Paths
from incmrql.io.notices import SourceFacts, notices
from incmrql.io.rows import MOST_REMEMBERED, BadRow, Policy, Quarantine, ReadReport
from incmrql.io.spec import DataTypes
from incmrql.spark.sources.parts import BAD_SCHEMA, bad_task, good_rows, rows_task, unpacked_bad
from incmrql.spark.sources.picked import row_of
from incmrql.spark.sources.plan import Plan, Tallies, Tally, TallyParam
from incmrql.spark.values import spark_schema
from incmrql.types import typed
from incmrql.types.model import PREDEFINED, Type

TASK_BYTES = 1 << 26
"""A task reads at most so many bytes, if the files are no larger."""
_TASKS_PER_CORE = 4
_HERE = ("line", "json", "xml", "text")
_SMALL = 1 << 20
_MOST_FILES = 16
_PACKED = 64
"""How many times larger than its file the text in a compressed file is taken to be."""


Instead: TypeAlias = Callable[[typed.Source, str | None, bool], DataFrame | None]
"""The rows of a source, by its path and whether they are packed, that are taken from elsewhere."""


@dataclass(slots=True)
class Context:
    """What the sources of a query share; the fields are those of `reference.World`."""

    data: DataTypes = field(default_factory=lambda: PREDEFINED)
    parsers: Mapping[str, Any] = field(default_factory=dict)
    registered: Mapping[str, Any] = field(default_factory=dict)
    quarantine: Path | None = None
    paths: Paths = ANYWHERE
    on_report: Callable[[ReadReport, Policy], None] = lambda _report, _policy: None
    instead: Instead = lambda _source, _path, _packed: None
    readings: list[Reading] = field(default_factory=list, init=False)
    frames: dict[Any, DataFrame] = field(default_factory=dict, init=False)
    """The sources that were read, so that a query sees each as it was when it started."""
    started: dict[Any, Reading] = field(default_factory=dict, init=False)
    """The files of sources without deletions, so that bad rows are told once."""
    sizes: dict[Any, int] = field(default_factory=dict, init=False)
    """How many bytes these have, about."""
    kept: list[DataFrame] = field(default_factory=list, init=False)
    _tallies: Accumulator[Tallies] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *cause: object) -> None:
        self.close()

    def start(
        self, spark: SparkSession, plan: Plan, name: str, schema: StructType, path: str
    ) -> Reading:
        """A reading of the files of `path` that the next `settle` looks after."""
        if self._tallies is None:
            self._tallies = spark.sparkContext.accumulator({}, TallyParam())
        number = len(self.readings)
        reading = Reading(spark, plan, name, schema, number, self._tallies, path=path)
        self.readings.append(reading)
        return reading

    def settle(self) -> None:
        """Raise the first error of what was read, or write the quarantines and report."""
        self.check(self.readings)
        for reading in self.readings:
            reading.conclude(self.quarantine, self.on_report)

    def check(self, readings: Iterable[Reading]) -> None:
        """Raise the first error of these readings, of which nothing stays unread."""
        for reading in readings:
            reading.check()

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """An action whose failure is told as the reference reader would tell it, if it can.

        What Spark itself read is read by the reference reader, to see if the data are at fault.
        """
        try:
            yield
        except (PySparkException, Py4JError):
            for reading in self.readings:
                reading.check(natives=True)
            raise

    def close(self) -> None:
        """Forget what was read; frames that come from here cannot be used any more."""
        for frame in self.kept:
            frame.unpersist()
        self.kept.clear()
        self.frames.clear()
        self.started.clear()
        self.sizes.clear()
        self.readings.clear()
        if self._tallies is not None:
            self._tallies.value.clear()
            self._tallies = None


@dataclass(slots=True)
class Reading:
    """The files of one path, on their way."""

    spark: SparkSession
    plan: Plan
    name: str
    """The name of its quarantine file."""
    schema: StructType
    number: int
    tallies: Accumulator[Tallies]
    concluded: bool = False
    path: str = ""
    natives: Mapping[int, int] = field(default_factory=dict)
    """The parts that Spark reads itself, with their rows, none of which is bad."""

    def frame(self) -> DataFrame:
        """All rows but those that Spark reads itself, parsed when they are asked for."""
        return self._frame(part for part in self.plan.parts if part.number not in self.natives)

    def rows(self, element: Type, *, packed: bool) -> Reading:
        """The same files read for rows in other columns; bad rows are told to this one."""
        spec = replace(self.plan.spec, element=element)
        plan = replace(self.plan, spec=spec, packed=packed)
        return replace(self, plan=plan, schema=spark_schema(element, packed=packed))

    def picked(self, picks: Picks) -> DataFrame:
        """What a query picks of all rows."""
        plan = replace(self.plan, picks=picks)
        return replace(self, plan=plan, schema=spark_schema(row_of(picks))).frame()

    def check(self, *, natives: bool = False) -> None:
        """Raise the error of the first file that has one."""
        parts = [part for part in self.plan.parts if natives or part.number not in self.natives]
        missing = [part for part in parts if self._tally(part) is None]
        if missing:
            self._frame(missing).mapInArrow(_nothing, self.schema).count()
        for part in self.plan.parts:
            tally = self._tally(part)
            if tally is not None and tally.failure is not None:
                code, message, place, hint = tally.failure
                raise DataError(code, message, place=place, hint=hint)

    def conclude(
        self, quarantine: Path | None, on_report: Callable[[ReadReport, Policy], None]
    ) -> None:
        """Write the quarantine and report, once."""
        if self.concluded:
            return
        self.concluded = True
        policy = self.plan.spec.policy
        if quarantine is not None and policy == "quarantine":
            with Quarantine(quarantine, self.name) as kept:
                for bad in self._bad_rows():
                    kept.add(bad)
        report = self._report()
        if report.bad or report.notices:
            on_report(report, policy)

    def _frame(self, given: Iterable[Part]) -> DataFrame:
        parts = list(given)
        if _are_small(self.plan, parts):
            return self._read_here(parts)
        tasks = _tasks(parts, self.spark.sparkContext.defaultParallelism)
        numbers = self.spark.range(0, len(tasks), 1, max(1, len(tasks)))
        task = rows_task(self.plan, tasks, self.number, self.tallies)
        return numbers.mapInArrow(task, self.schema)

    def _read_here(self, parts: list[Part]) -> DataFrame:
        """The rows of small files, by this process: that takes less than to start another."""
        made: list[Any] = []
        for part in parts:
            tally = Tally()
            made += good_rows(self.plan, part, tally)
            self.tallies.add({(self.number, part.number): tally})
        if not made:
            return self.spark.createDataFrame([], self.schema)
        return self.spark.createDataFrame(pa.Table.from_batches(made), self.schema)

    def _tally(self, part: Part) -> Tally | None:
        return self.tallies.value.get((self.number, part.number))

    def _report(self) -> ReadReport:
        rows, files, first = sum(self.natives.values()), Counter[str](), list[BadRow]()
        noticed = SourceFacts()
        for part in self.plan.parts:
            tally = self._tally(part) or Tally()
            rows += tally.rows
            noticed.add(tally.noticed)
            if tally.bad:
                files[part.shown] += tally.bad
                first += tally.kept[:MOST_REMEMBERED]
        bad, first = files.total(), first[:MOST_REMEMBERED]
        noticed.rows, noticed.bad, noticed.first = rows, bad, first
        told = notices(self.plan.spec.source, self.path, noticed, self.plan.spec.element)
        return ReadReport(rows, bad, tuple(files.items()), tuple(first), told)

    def _bad_rows(self) -> Iterator[BadRow]:
        """All bad rows, in order."""
        tallies = [(part, self._tally(part) or Tally()) for part in self.plan.parts]
        again = tuple(part.number for part, tally in tallies if not tally.whole)
        read = self._read_again(again)
        ahead = next(read, None)
        for part, tally in tallies:
            if tally.whole:
                yield from tally.kept
            while not tally.whole and ahead is not None and ahead[0] == part.number:
                yield ahead[1]
                ahead = next(read, None)

    def _read_again(self, places: tuple[int, ...]) -> Iterator[tuple[int, BadRow]]:
        if not places:
            return
        numbers = self.spark.range(0, len(places), 1, len(places))
        found = numbers.mapInArrow(bad_task(self.plan, places), BAD_SCHEMA)
        for row in found.toLocalIterator():
            yield row.part, unpacked_bad(row)


def _nothing(parts: Iterable[Any]) -> Iterator[Any]:
    for _ in parts:
        yield from ()


def _are_small(plan: Plan, parts: list[Part]) -> bool:
    """Whether files are so few and small that the driver may read them."""
    if plan.spec.source.format not in _HERE or len(parts) > _MOST_FILES:
        return False
    return sum(map(text_size, parts)) <= _SMALL


def text_size(part: Part) -> int:
    """How many bytes the text of a part has, about."""
    return part.size * (_PACKED if part.path.endswith(COMPRESSED) else 1)


def _tasks(parts: Iterable[Part], cores: int) -> tuple[tuple[int, ...], ...]:
    """The parts of each task: large ones alone, small ones together, all about as much."""
    given = sorted(parts, key=lambda part: -part.size)
    total = sum(part.size for part in given)
    count = min(len(given), max(cores * _TASKS_PER_CORE, -(-total // TASK_BYTES)))
    bins: list[tuple[int, list[int]]] = [(0, []) for _ in range(count)]
    for part in given:
        least = min(range(count), key=lambda i: bins[i][0])
        size, places = bins[least]
        bins[least] = size + part.size + 1, [*places, part.number]
    return tuple(tuple(sorted(places)) for _, places in bins)
