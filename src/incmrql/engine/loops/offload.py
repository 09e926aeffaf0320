"""Loops that are too large for one task: the files that carry them to Spark and back.

A task that finds a loop too large to recompute writes what the batch changes in the loop's inputs
and gives up (`LoopTooLarge`).  Spark runs the loop as steps of its own and writes what that
changes in the answer.  Then the batch runs again, and the loop reads its answer instead of running.

All files lie in one directory that belongs to one attempt at one batch.  Readers get their names
and never list the directory: a task that is retried, or runs twice at the same time, writes files
of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from incmrql.engine.store.content import SortedRows, empty, from_table, merge, to_table
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import by_bucket


@dataclass(frozen=True, slots=True)
class OffloadResult:
    """A loop that Spark has run: its result table, and the files with the change of its answer."""

    name: str
    files: tuple[str, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class Offloading:
    """Which loops of a batch are too large for a task, by the names of their result tables."""

    directory: str = ""
    row_limits: Mapping[str, int] = field(default_factory=dict)
    """Rows up to which a task runs a loop."""
    results: tuple[OffloadResult, ...] = ()
    """The loops that Spark has run already."""

    def result_of(self, name: str) -> OffloadResult | None:
        """What Spark computed for a loop; None if it has not run it."""
        return next((result for result in self.results if result.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON data, for the request of a batch."""
        return asdict(self)

    @staticmethod
    def of_json(data: dict[str, Any]) -> Offloading:
        """The inverse of `as_json`."""
        results = [OffloadResult(result["name"], tuple(result["files"]), result["steps"])
                   for result in data["results"]]  # fmt: skip
        return Offloading(data["directory"], data["row_limits"], tuple(results))


NO_OFFLOADING = Offloading()


class LoopTooLarge(Exception):
    """A loop has to run on Spark; `args` are the name of its result table and its `ChangeFiles`."""


ChangeFiles: TypeAlias = list[tuple[int, int, str]]
"""Files with what a batch changes in the inputs of a loop: number of the input, bucket, name."""


def write_input_changes(
    offloading: Offloading, changes: Sequence[SortedRows], buckets: int
) -> ChangeFiles:
    """Write what a batch changes in the inputs of a loop, cut by bucket."""
    return [
        (number, bucket, write_change(offloading.directory, part))
        for number, change in enumerate(changes)
        for bucket, part in (by_bucket(change, buckets) if len(change) else ())
    ]


def read_input_change(
    directory: str, files: ChangeFiles, number: int, bucket: int, schema: TableSchema
) -> SortedRows:
    """What a batch changes in one bucket of an input."""
    names = [name for n, b, name in files if (n, b) == (number, bucket)]
    return read_changes(directory, names, schema)


def read_changes(directory: str, names: Sequence[str], schema: TableSchema) -> SortedRows:
    """The sum of the changes in some files."""
    files = [Path(directory, name) for name in names]
    return merge([empty(schema), *[rows_from_bytes(file.read_bytes(), schema) for file in files]])


def write_change(directory: str, change: SortedRows) -> str:
    """Write a change to a new file; its name."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    name = uuid.uuid4().hex
    with Path(directory, name).open("xb") as stream:
        stream.write(rows_to_bytes(change))
    return name


def rows_to_bytes(rows: SortedRows) -> bytes:
    """Sorted rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    table = to_table(rows)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def rows_from_bytes(data: Any, schema: TableSchema) -> SortedRows:
    """The inverse of `rows_to_bytes`."""
    return from_table(pa.ipc.open_stream(data).read_all().combine_chunks(), schema)
