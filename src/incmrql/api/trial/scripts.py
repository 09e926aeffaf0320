"""Scripts of MRQL under trial: tables are pushed streams, and batch queries judge the answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.api.session import Session
from incmrql.api.trial.cuts import Cut
from incmrql.api.trial.queries import (
    ROW_GROUP,
    Quiet,
    Recomputation,
    TableUse,
    TriedData,
    check_names,
    first_rows,
)
from incmrql.errors import DataError
from incmrql.runtime.options import StreamOptions
from incmrql.spark.sources.registered import frame_row_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from incmrql.api.results import PreparedScript
    from incmrql.api.runs import Run
    from incmrql.api.streams import PushedStream
    from incmrql.values import Value


_ANSWERS = ("print", "incr", "store-value")
"""Items that write nothing."""


@dataclass(slots=True)
class _PushedTable:
    """A table that is pushed batch by batch."""

    use: TableUse
    rows: Any
    stream: PushedStream
    cuts: Iterator[Cut]
    there: set[int] = field(default_factory=set)

    def advance(self) -> tuple[int, int]:
        cut = next(self.cuts)
        self.there -= set(cut.deleted)
        self.there |= set(cut.inserted)
        if cut.inserted:
            self.stream.insert(self.rows.take(pa.array(cut.inserted)))
        if cut.deleted:
            self.stream.delete(self.rows.take(pa.array(cut.deleted)))
        return len(cut.inserted), len(cut.deleted)


@dataclass(slots=True)
class _InBatches:
    """The answers by batch queries over a snapshot."""

    session: Session
    script: PreparedScript
    numbers: Sequence[int]
    values: list[Value] = field(default_factory=list)

    def measure(self) -> float:
        self.values = []
        begun = time.perf_counter()
        chosen = [self.script.compiled.items[number] for number in self.numbers]
        self.script.answer(chosen, lambda _item, value: self.values.append(value))
        return time.perf_counter() - begun

    def rows(self, item: int) -> Value:
        return self.values[item]


class MrqlQuery:
    """A script of MRQL under trial."""

    judge = "the same query as a batch query, on Spark"
    may_round = False

    def __init__(
        self,
        script: PreparedScript,
        tables: Sequence[_PushedTable],
        uses: Sequence[TableUse],
        folder: Path,
    ) -> None:
        self.compiled, self.uses = script.compiled, uses
        self._script, self._tables, self._folder = script, tables, folder
        self._batch = 0

    @property
    def notes(self) -> Sequence[str]:
        """Nothing: warnings say it all."""
        return ()

    def start(self) -> Run:
        run = self._script.run(StreamOptions(settle=0.0), lambda _item, _value: None, Quiet())
        assert run is not None
        return run

    def advance(self) -> tuple[int, int]:
        self._batch += 1
        counts = [table.advance() for table in self._tables]
        return sum(new for new, _ in counts), sum(gone for _, gone in counts)

    def recomputation(self) -> Recomputation:
        spark = self._script.session.spark
        session = Session(spark=spark)
        for table in self._tables:
            path = self._folder / f"{table.use.name}-{self._batch}.parquet"
            rows = table.rows.take(pa.array(sorted(table.there), pa.int64()))
            pq.write_table(rows, path, row_group_size=ROW_GROUP)
            session.register(table.use.name, spark.read.parquet(str(path)))
        for name, data in self._script.session.registered():
            session.register(name, data)
        assert self._script.path is not None
        numbers = [self.compiled.items.index(item) for item in self.compiled.streaming]
        return _InBatches(session, session.script(self._script.path), numbers)


def mrql_query(session: Session, path: Path, data: TriedData, folder: Path) -> MrqlQuery:
    """A script of MRQL under trial; it reads tables by name."""
    check_names(data)
    tables, uses = [], []
    for file in data.tables:
        frame = file.frame(session.spark)
        if file.name in data.static:
            session.register(file.name, frame)
            count = frame.count()
            uses.append(TableUse(file.name, count, count, is_static=True))
            continue
        rows, total = first_rows(frame, data.most_rows, file.name, data.tables)
        row = frame_row_type(frame.schema, file.name)
        stream = session.stream(file.name, str(row))
        use = TableUse(file.name, rows.num_rows, total)
        cuts = data.history.cuts(rows.num_rows, file.name)
        tables.append(_PushedTable(use, rows, stream, cuts))
    script = session.script(path)
    _check(script, path)
    return MrqlQuery(script, tables, [*(table.use for table in tables), *uses], folder)


def _check(script: PreparedScript, path: Path) -> None:
    """Refuse a script that a trial cannot run."""
    for item in script.compiled.items:
        if item.item.kind not in _ANSWERS:
            message = f"{path} writes or traces its answers ({item.item.kind})"
            raise DataError("R317", message, hint="A trial writes nothing: leave that item out.")
    for item in script.streaming:
        if not item.item.incremental:
            message = "a query without incr answers each batch alone"
            hint = "Write incr before it."
            raise DataError("R317", message, place=str(item.item.span), hint=hint)
    streams = {stream.name: stream.source.format for stream in _streams(script)}
    own = [name for name, format_ in streams.items() if format_ != "registered"]
    if own:
        message = f"{path} reads streams of its own: {', '.join(own)}"
        hint = "Write a name instead, as in `from o in orders`, and give --table orders=PATH."
        raise DataError("R317", message, hint=hint)
    if not streams:
        hint = "Read a table by its name, as in `from o in orders`, and give --table orders=PATH."
        raise DataError("R317", "the query reads no table that can change", hint=hint)


def _streams(script: PreparedScript) -> Sequence[Any]:
    if not script.streaming:
        return ()
    return script.compiled.program(script.streaming).streams


__all__ = ["mrql_query"]
