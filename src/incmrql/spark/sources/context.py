"""Collects what reading a source produces besides rows: reports, quarantines and errors.

    context = SourceContext(data, parsers, registered, quarantine, on_report)
    frame = frames.read(spark, source, path, context)
    with context.explain_failures():
        answer = values(frame, element)   # or any other action on what is made from it
    context.finish()                      # raises, or the answer is valid

A query's own job parses its sources, and its tasks report the outcome of each part of the input in
an accumulator.  `finish` first reads the parts that the job did not read to their end (because of a
`limit`, say), so that a bad line is found wherever it stands.  Then it raises the first error, in
the order of the files, or writes the quarantines and reports.  A part with few bad rows reports the
rows themselves; a part with many is read again while its quarantine is written, so that the driver
never holds them all.  Nothing is written before `finish`.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.accumulators import Accumulator
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from incmrql.algebra.term import Picks
from incmrql.errors import DataError
from incmrql.io import FileSplit
from incmrql.io.files import ANYWHERE, COMPRESSED, Paths
from incmrql.io.notices import SourceFacts, notices
from incmrql.io.rows import MOST_REMEMBERED, BadRow, Policy, Quarantine, ReadReport
from incmrql.io.spec import DataTypes
from incmrql.spark.sources.parts import BAD_SCHEMA, part_rows, task_bad_rows, task_rows
from incmrql.spark.sources.picks import picks_type
from incmrql.spark.sources.scan import PartStats, ScanPlan, StatsByPart, StatsParam
from incmrql.spark.values import spark_schema
from incmrql.types import typed
from incmrql.types.model import PREDEFINED, Type

TASK_BYTES: Final = 1 << 26
"""Bytes that a task reads at most, unless a single file is larger."""
_TASKS_PER_CORE: Final = 4
_DRIVER_FORMATS: Final = ("line", "json", "xml", "text")
_MOST_DRIVER_FILES: Final = 16
_MOST_DRIVER_BYTES = 1 << 20
"""Files up to these limits are read by the driver: that is faster than starting a worker."""
_COMPRESSION: Final = 64
"""The assumed ratio of the text in a compressed file to the size of the file."""


Override: TypeAlias = Callable[[typed.Source, str | None, bool], DataFrame | None]
"""Gives other rows for a source, by its path and whether rows are packed; None for its own."""


@dataclass(slots=True)
class SourceContext:
    """What the sources of a query share; some fields are copies of those of `reference.World`."""

    data: DataTypes = field(default_factory=lambda: PREDEFINED)
    parsers: Mapping[str, Any] = field(default_factory=dict)
    registered: Mapping[str, Any] = field(default_factory=dict)
    quarantine: Path | None = None
    paths: Paths = ANYWHERE
    on_report: Callable[[ReadReport, Policy], None] = lambda _report, _policy: None
    override: Override = lambda _source, _path, _packed: None
    scans: list[FileScan] = field(default_factory=list, init=False)
    frames: dict[Any, DataFrame] = field(default_factory=dict, init=False)
    """The sources read so far, so that a query sees a source the same each time."""
    shared_scans: dict[Any, FileScan] = field(default_factory=dict, init=False)
    """Scans of sources without deletions, so that bad rows are reported once."""
    sizes: dict[Any, int] = field(default_factory=dict, init=False)
    """The estimated bytes of the sources read so far."""
    persisted: list[DataFrame] = field(default_factory=list, init=False)
    _stats: Accumulator[StatsByPart] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *cause: object) -> None:
        self.close()

    def add_scan(
        self, spark: SparkSession, plan: ScanPlan, name: str, schema: StructType, path: str
    ) -> FileScan:
        """A scan of the files of `path`, which the next `finish` checks."""
        if self._stats is None:
            self._stats = spark.sparkContext.accumulator({}, StatsParam())
        scan = FileScan(spark, plan, name, schema, len(self.scans), self._stats, path=path)
        self.scans.append(scan)
        return scan

    def finish(self) -> None:
        """Raise the first error of the sources, or write the quarantines and report."""
        self.check(self.scans)
        for scan in self.scans:
            scan.report(self.quarantine, self.on_report)

    def check(self, scans: Iterable[FileScan]) -> None:
        """Raise the first error of some scans, after reading their unread parts."""
        for scan in scans:
            scan.check()

    @contextmanager
    def explain_failures(self) -> Iterator[None]:
        """Raise the error of the reference reader instead of Spark's, if there is one.

        The reference reader also reads what Spark read itself, to see if the data are at fault.
        """
        try:
            yield
        except (PySparkException, Py4JError):
            for scan in self.scans:
                scan.check(with_native=True)
            raise

    def close(self) -> None:
        """Forget all sources; their frames must not be used any more."""
        for frame in self.persisted:
            frame.unpersist()
        self.persisted.clear()
        self.frames.clear()
        self.shared_scans.clear()
        self.sizes.clear()
        self.scans.clear()
        if self._stats is not None:
            self._stats.value.clear()
            self._stats = None


@dataclass(slots=True)
class FileScan:
    """The files of one path while a query reads them."""

    spark: SparkSession
    plan: ScanPlan
    name: str
    """The name of its quarantine file."""
    schema: StructType
    number: int
    stats: Accumulator[StatsByPart]
    is_reported: bool = False
    path: str = ""
    native_rows: Mapping[int, int] = field(default_factory=dict)
    """The rows of the parts that Spark reads itself, none of which is bad, by part number."""

    def frame(self) -> DataFrame:
        """All rows except those that Spark reads itself, parsed when an action needs them."""
        return self._frame([p for p in self.plan.parts if p.number not in self.native_rows])

    def with_columns_of(self, element: Type, *, packed: bool) -> FileScan:
        """The same scan with rows of a different type; both report the same bad rows."""
        spec = replace(self.plan.spec, element=element)
        plan = replace(self.plan, spec=spec, packed=packed)
        return replace(self, plan=plan, schema=spark_schema(element, packed=packed))

    def picks_frame(self, picks: Picks) -> DataFrame:
        """What a query picks of all rows."""
        plan = replace(self.plan, picks=picks)
        return replace(self, plan=plan, schema=spark_schema(picks_type(picks))).frame()

    def check(self, *, with_native: bool = False) -> None:
        """Raise the error of the first file that has one."""
        unread = [
            part for part in self.plan.parts
            if (with_native or part.number not in self.native_rows)
            and self._stats_of(part) is None
        ]  # fmt: skip
        if unread:
            self._frame(unread).mapInArrow(_discard, self.schema).count()
        for part in self.plan.parts:
            stats = self._stats_of(part)
            if stats is not None and stats.failure is not None:
                code, message, place, hint = stats.failure
                raise DataError(code, message, place=place, hint=hint)

    def report(
        self, quarantine: Path | None, on_report: Callable[[ReadReport, Policy], None]
    ) -> None:
        """Write the quarantine and report, once."""
        if self.is_reported:
            return
        self.is_reported = True
        policy = self.plan.spec.policy
        if quarantine is not None and policy == "quarantine":
            with Quarantine(quarantine, self.name) as file:
                for bad in self._bad_rows():
                    file.add(bad)
        report = self._report()
        if report.bad or report.notices:
            on_report(report, policy)

    def _frame(self, parts: list[FileSplit]) -> DataFrame:
        if _are_small(self.plan, parts):
            return self._read_in_driver(parts)
        tasks = _tasks(parts, self.spark.sparkContext.defaultParallelism)
        numbers = self.spark.range(0, len(tasks), 1, max(1, len(tasks)))
        task = partial(task_rows, self.plan, tasks, self.number, self.stats)
        return numbers.mapInArrow(task, self.schema)

    def _read_in_driver(self, parts: list[FileSplit]) -> DataFrame:
        batches: list[Any] = []
        for part in parts:
            stats = PartStats()
            batches += part_rows(self.plan, part, stats)
            self.stats.add({(self.number, part.number): stats})
        if not batches:
            return self.spark.createDataFrame([], self.schema)
        return self.spark.createDataFrame(pa.Table.from_batches(batches), self.schema)

    def _stats_of(self, part: FileSplit) -> PartStats | None:
        return self.stats.value.get((self.number, part.number))

    def _report(self) -> ReadReport:
        files, first = Counter[str](), list[BadRow]()
        facts = SourceFacts()
        rows = sum(self.native_rows.values())
        for part in self.plan.parts:
            stats = self._stats_of(part) or PartStats()
            rows += stats.rows
            facts.add(stats.facts)
            if stats.bad:
                files[part.display_path] += stats.bad
                first += stats.bad_rows[:MOST_REMEMBERED]
        bad, first = files.total(), first[:MOST_REMEMBERED]
        facts.rows, facts.bad, facts.first = rows, bad, first
        warnings = notices(self.plan.spec.source, self.path, facts, self.plan.spec.element)
        return ReadReport(rows, bad, tuple(files.items()), tuple(first), warnings)

    def _bad_rows(self) -> Iterator[BadRow]:
        """All bad rows, in order."""
        stats = [(part, self._stats_of(part) or PartStats()) for part in self.plan.parts]
        incomplete = tuple(
            part.number for part, part_stats in stats if not part_stats.has_all_bad_rows
        )
        reread = self._read_again(incomplete)
        next_row = next(reread, None)
        for part, part_stats in stats:
            if part_stats.has_all_bad_rows:
                yield from part_stats.bad_rows
                continue
            while next_row is not None and next_row[0] == part.number:
                yield next_row[1]
                next_row = next(reread, None)

    def _read_again(self, indices: tuple[int, ...]) -> Iterator[tuple[int, BadRow]]:
        """The bad rows of some parts, each with the number of its part."""
        if not indices:
            return
        numbers = self.spark.range(0, len(indices), 1, len(indices))
        bad = numbers.mapInArrow(partial(task_bad_rows, self.plan, indices), BAD_SCHEMA)
        for row in bad.toLocalIterator():
            yield row.part, pickle.loads(row.row)


def _discard(batches: Iterable[Any]) -> Iterator[Any]:
    for _ in batches:
        yield from ()


def _are_small(plan: ScanPlan, parts: list[FileSplit]) -> bool:
    """True if files are few and small enough for the driver to read."""
    if plan.spec.source.format not in _DRIVER_FORMATS or len(parts) > _MOST_DRIVER_FILES:
        return False
    return sum(map(text_size, parts)) <= _MOST_DRIVER_BYTES


def text_size(part: FileSplit) -> int:
    """An estimate of the bytes of a part's text."""
    return part.size * (_COMPRESSION if part.path.endswith(COMPRESSED) else 1)


def _tasks(parts: Iterable[FileSplit], cores: int) -> tuple[tuple[int, ...], ...]:
    """The parts of each task: large ones alone, small ones together, with about equal sizes."""
    by_size = sorted(parts, key=lambda part: -part.size)
    total = sum(part.size for part in by_size)
    count = min(len(by_size), max(cores * _TASKS_PER_CORE, -(-total // TASK_BYTES)))
    bins: list[tuple[int, list[int]]] = [(0, []) for _ in range(count)]
    for part in by_size:
        smallest = min(range(count), key=lambda i: bins[i][0])
        size, numbers = bins[smallest]
        bins[smallest] = size + part.size + 1, [*numbers, part.number]
    return tuple(tuple(sorted(numbers)) for _, numbers in bins)
