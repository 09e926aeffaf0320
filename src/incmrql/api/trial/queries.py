"""Queries under trial: the user's own over data that a trial cuts into batches.

The user's files are only read.  Each input that changes is copied into Parquet files of the trial,
batch by batch; the query follows these files, by its own plan in which they stand for the user's.
Plain Spark gets the same plan over a snapshot of the rows that are there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.api.plans import InputOptions, SparkProgram, current_rows, of_frames, of_sql
from incmrql.api.results import PreparedScript
from incmrql.api.scripts import load
from incmrql.api.trial.cuts import Cut, History
from incmrql.api.trial.jobs import frame_of_file
from incmrql.api.trial.tables import TableFile
from incmrql.errors import DataError, QueryError, nearest
from incmrql.runtime.options import StreamOptions
from incmrql.spark.internals import with_functions_by_row
from incmrql.spark.plans.substitution import substituted_frame
from incmrql.spark.values import packed_rows, values
from incmrql.types import typed
from incmrql.types.model import Collection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.api.runs import Run
    from incmrql.api.session import Session
    from incmrql.compiler.compiled import Compiled
    from incmrql.values import Value


ROW_GROUP: Final = 1 << 16
"""Rows of a part of a snapshot that a task of Spark reads alone."""
_MOST_COUNTED: Final = 2**30
"""Bytes of files whose rows are counted, if that means reading them."""


@dataclass(frozen=True, slots=True)
class TableUse:
    """How much of a table a trial uses."""

    name: str
    used: int
    rows: int | None
    """All rows of the table; None if they were not counted."""
    is_static: bool = False


@dataclass(slots=True)
class ChangingTable:
    """A table of a trial: its rows, those that are there now, and its files."""

    use: TableUse
    source: typed.Source
    rows: Any
    """An Arrow table."""
    folder: Path
    cuts: Iterator[Cut]
    there: set[int] = field(default_factory=set)
    """The positions of the rows that are there."""
    batch: int = -1

    def advance(self) -> tuple[int, int]:
        """Write the next batch; returns how many rows it inserts and deletes."""
        self.batch += 1
        cut = next(self.cuts)
        self.there -= set(cut.deleted)
        self.there |= set(cut.inserted)
        for name, positions in (("rows", cut.inserted), ("deleted", cut.deleted)):
            if positions:
                rows = self.rows.take(pa.array(positions))
                pq.write_table(rows, self._folder(name) / f"batch-{self.batch:03}.parquet")
        return len(cut.inserted), len(cut.deleted)

    def followed_frame(self, spark: SparkSession, schema: Any) -> DataFrame:
        """The files that batches add to."""
        read = spark.read.schema(schema).option("deletes", str(self._folder("deleted")))
        return read.parquet(str(self._folder("rows")))

    def snapshot(self) -> Path:
        """A new folder with the rows that are there now, in parts that Spark reads in parallel."""
        folder = self._folder(f"snapshot-{self.batch}")
        rows = self.rows.take(pa.array(sorted(self.there), pa.int64()))
        pq.write_table(rows, folder / "rows.parquet", row_group_size=ROW_GROUP)
        return folder

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class Recomputation(Protocol):
    """All answers of a query over the rows that are there, computed by another engine."""

    def measure(self) -> float:
        """Compute the answers; returns the seconds that it takes."""

    def rows(self, item: int) -> Value:
        """An answer, which `measure` may have computed."""


class TriedQuery(Protocol):
    """A query with the tables that it reads."""

    compiled: Compiled
    judge: str
    """Who computes the answers again, in words."""
    may_round: bool
    """Whether doubles of the other engine may differ in their last digits."""
    uses: Sequence[TableUse]

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know of the query."""

    def start(self) -> Run:
        """A run of the query over the tables of the trial."""

    def advance(self) -> tuple[int, int]:
        """Write the next batch; returns how many rows it inserts and deletes."""

    def recomputation(self) -> Recomputation:
        """The answers over the rows that are there now."""


# --- Queries of Spark ---


@dataclass(frozen=True, slots=True)
class _OnSpark:
    """The user's own plans over a snapshot."""

    frames: Sequence[DataFrame]
    elements: Sequence[Any]

    def measure(self) -> float:
        begun = time.perf_counter()
        for frame in self.frames:
            frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begun

    def rows(self, item: int) -> Value:
        return values(packed_rows(self.frames[item]), self.elements[item])


class SparkQuery:
    """A SQL script or a DataFrame under trial."""

    judge = "plain Spark, by the query's own plan"
    may_round = True

    def __init__(
        self,
        session: Session,
        program: SparkProgram,
        tables: Sequence[ChangingTable],
        uses: Sequence[TableUse],
        options: InputOptions,
    ) -> None:
        self.compiled, self.uses = program.compiled, uses
        self._session, self._program, self._tables = session, program, tables
        self._options = options
        self._leaves = [
            {
                number: table
                for number, source in sources.items()
                for table in tables
                if table.source == source
            }
            for sources in _plans_of(program).leaf_sources
        ]
        self._moving = [number for number, leaves in enumerate(self._leaves) if leaves]
        self._snapshots: list[Path] = []

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know of the query; what is said of files is not for a trial's."""
        return [note for note in _plans_of(self._program).notes if not note.startswith("/")]

    def start(self) -> Run:
        frames = [self._answer_frame(number) for number in self._moving]
        program = of_frames(self._session, frames, self._options)
        script = PreparedScript(self._session, program.compiled, (), None, {}, program)
        options = StreamOptions(settle=0.0, on_arithmetic="fail")
        run = script.run(options, lambda _item, _value: None, Quiet())
        assert run is not None
        return run

    def _answer_frame(self, number: int) -> DataFrame:
        """The plan of an answer over the files of the trial."""
        plan = self._program.plans[number]
        spark = plan.frame.sparkSession
        frames = {
            leaf: table.followed_frame(spark, plan.leaf_frame(leaf).schema)
            for leaf, table in self._leaves[number].items()
        }
        return substituted_frame(plan, frames)

    def advance(self) -> tuple[int, int]:
        counts = [table.advance() for table in self._tables]
        return sum(new for new, _ in counts), sum(gone for _, gone in counts)

    def recomputation(self) -> Recomputation:
        for folder in self._snapshots:
            shutil.rmtree(folder, ignore_errors=True)
        folders = [table.snapshot() for table in self._tables]
        self._snapshots = folders
        frames, elements = [], []
        for number in self._moving:
            plan = self._program.plans[number]
            read = plan.frame.sparkSession.read
            now = {
                leaf: read.schema(plan.leaf_frame(leaf).schema).parquet(
                    str(folders[self._tables.index(table)])
                )
                for leaf, table in self._leaves[number].items()
            }
            frames.append(with_functions_by_row(substituted_frame(plan, now)))
            type_ = self.compiled.items[number].item.expr.type
            assert isinstance(type_, Collection)
            elements.append(type_.element)
        return _OnSpark(frames, elements)


class Quiet:
    """A listener that keeps what a run says."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        """Keep a notice."""
        self.notices.append(text)

    def failures(self, number: int, failures: Any) -> None:
        """Do nothing: such a batch is refused."""

    def batch(self, run: Any, batch: Any) -> None:
        """Do nothing."""

    def verified(self, verified: Any) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class TriedData:
    """What the user says of the data: tables, those that stay, and how they are cut."""

    tables: Sequence[TableFile]
    static: Sequence[str]
    """Names of tables, or paths that the query reads itself."""
    history: History
    most_rows: int
    """Rows of a table that are used, unless it is static."""


def sql_query(session: Session, path: Path, data: TriedData, folder: Path) -> SparkQuery:
    """A script of Spark SQL under trial; `folder` is for the files of the trial."""
    options = _with_tables(session, data, lambda name, frame: session.add_view(name, frame))
    try:
        program = of_sql(session, load(path), options)
    except QueryError as error:
        raise _with_near_names(error, data.tables) from None
    return _query(session, program, data, options, folder)


def job_query(session: Session, path: Path, name: str, data: TriedData, folder: Path) -> SparkQuery:
    """The DataFrame of a Python file under trial."""
    options = _with_tables(session, data, lambda name, frame: frame.createOrReplaceTempView(name))
    frame = frame_of_file(path, name, session.spark)
    return _query(session, of_frames(session, [frame], options), data, options, folder)


def _with_tables(
    session: Session, data: TriedData, add: Callable[[str, DataFrame], None]
) -> InputOptions:
    """Make tables known by their names; returns which inputs do not change."""
    check_names(data)
    paths = {table.name: str(table.path.absolute()) for table in data.tables}
    for table in data.tables:
        add(table.name, table.frame(session.spark))
    return InputOptions(static=[paths.get(name, name) for name in data.static])


def check_names(data: TriedData) -> None:
    """Refuse two tables of one name, and a static table that is not there."""
    names = [table.name for table in data.tables]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise DataError("R315", f"there are two tables {doubled}", hint="Give each its own name.")


def _with_near_names(error: QueryError, tables: Sequence[TableFile]) -> QueryError:
    """Spark's problems, with the nearest table where one is not there."""
    from dataclasses import replace

    problems = []
    for problem in error.problems:
        if "[TABLE_OR_VIEW_NOT_FOUND]" in problem.message:
            names = [table.name for table in tables]
            wanted = problem.message.split("`")[1] if "`" in problem.message else ""
            listed = f"Tables are: {', '.join(names)}." if names else ""
            hint = " ".join(filter(None, (nearest(wanted, names), listed)))
            hint = hint or f"Say where its rows are: --table {wanted or 'NAME'}=PATH."
            problem = replace(problem, message=f'there is no table "{wanted}"', hint=hint)
        problems.append(problem)
    return QueryError(*problems)


def _query(
    session: Session, program: SparkProgram, data: TriedData, options: InputOptions, folder: Path
) -> SparkQuery:
    """A query under trial: the inputs that change are copied and cut."""
    for item in program.compiled.streaming:
        item.plan  # noqa: B018 - refused before anything is read
    sources: list[typed.Source] = []
    for leaves in _plans_of(program).leaf_sources:
        sources += [source for source in leaves.values() if source not in sources]
    files = [source for source in sources if source.format == "spark"]
    moving = [source for source in files if source.streaming]
    if not moving:
        raise _nothing_moves(files, data)
    names = _names(moving, data.tables)
    tables: list[ChangingTable] = []
    for source, name in zip(moving, names, strict=True):
        frame = current_rows(session, source)
        rows, total = first_rows(frame, data.most_rows, name, data.tables)
        use = TableUse(name, rows.num_rows, total)
        cuts = data.history.cuts(rows.num_rows, name)
        tables.append(ChangingTable(use, source, rows, folder / f"table-{len(tables)}", cuts))
    static = [source for source in files if not source.streaming]
    uses = [table.use for table in tables]
    for source, name in zip(static, _names(static, data.tables), strict=True):
        count = current_rows(session, source).count()
        uses.append(TableUse(name, count, count, is_static=True))
    return SparkQuery(session, program, tables, uses, options)


def _plans_of(program: SparkProgram) -> Any:
    plans = program.compiled.plans
    assert plans is not None
    return plans


def _nothing_moves(files: Sequence[typed.Source], data: TriedData) -> DataError:
    if files:
        message = "no table of the query changes: all are static"
        return DataError("R317", message, hint="Leave out --static for one of them.")
    hint = "Read files: FROM a table that --table names, or spark.read in a Python file."
    if data.tables:
        names = ", ".join(table.name for table in data.tables)
        hint = f"It does not read {names}. {hint}"
    return DataError("R317", "the query reads no table that can change", hint=hint)


def _names(sources: Sequence[typed.Source], tables: Sequence[TableFile]) -> list[str]:
    """A name for each source: that of its table, or of its path."""
    names: list[str] = []
    for source in sources:
        assert source.reader is not None
        paths = {path.rstrip("/") for path in source.reader.paths}
        known = [table.name for table in tables if str(table.path.absolute()) in paths]
        name = known[0] if known else Path(source.reader.paths[0]).name.partition(".")[0]
        while name in names:
            name += "'"
        names.append(name)
    return names


def first_rows(
    frame: DataFrame, most: int, name: str, tables: Sequence[TableFile]
) -> tuple[Any, int | None]:
    """The first rows of a table as an Arrow table; and how many there are, if that is cheap."""
    rows = frame.limit(most).toArrow()
    if not rows.num_rows:
        hint = "A trial needs rows to insert and to delete."
        raise DataError("R315", f"table {name} is empty", hint=hint)
    if rows.num_rows < most:
        return rows, rows.num_rows
    return rows, _count(frame, name, tables)


def _count(frame: DataFrame, name: str, tables: Sequence[TableFile]) -> int | None:
    """The rows of a table; None if counting means reading very large files."""
    for table in tables:
        if table.name == name:
            known = table.rows()
            if known is not None:
                return known
    files = (Path(file.removeprefix("file://")) for file in frame.inputFiles())
    size = sum(file.stat().st_size for file in files if file.exists())
    return frame.count() if size <= _MOST_COUNTED else None


def describe_use(use: TableUse) -> str:
    """How much of a table is used, in words."""
    if use.is_static:
        return f"{use.name}: {use.used:,} rows, which do not change"
    if use.rows is None:
        return f"{use.name}: the first {use.used:,} rows; the others were not counted"
    if use.rows == use.used:
        return f"{use.name}: all {use.used:,} rows"
    share = f"{use.used / use.rows:.0%}" if use.used * 100 >= use.rows else "less than 1%"
    return f"{use.name}: the first {use.used:,} of {use.rows:,} rows ({share})"


__all__ = [
    "ROW_GROUP",
    "Quiet",
    "Recomputation",
    "TableUse",
    "TriedData",
    "TriedQuery",
    "check_names",
    "describe_use",
    "first_rows",
    "job_query",
    "sql_query",
]
