"""Loops that are too large for a task, on their way to Spark and back.

A task that finds a loop too large to be run again leaves what the batch changes in its inputs, and
gives up.  Spark runs the loop, and leaves what that changes in its answer; then the batch is done
once more, and the loop finds its answer.  All of it lies in one folder, and counts for one batch.
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
class Offloaded:
    """A loop that Spark has run: the files that hold what that changes in its answer."""

    name: str
    files: tuple[str, ...]
    steps: int


@dataclass(frozen=True, slots=True)
class Apart:
    """The loops that run apart, by the names of their results.

    `most` has the rows up to which a task runs a loop, `there` the loops whose answers are there.
    """

    folder: str = ""
    most: Mapping[str, int] = field(default_factory=dict)
    there: tuple[Offloaded, ...] = ()

    def of(self, name: str) -> Offloaded | None:
        """What there is of a loop."""
        return next((each for each in self.there if each.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """The loops as text can hold them."""
        there = [asdict(each) for each in self.there]
        return {"folder": self.folder, "most": dict(self.most), "there": there}

    @staticmethod
    def of_json(found: dict[str, Any]) -> Apart:
        """The loops that a text tells of."""
        there = [Offloaded(each["name"], tuple(each["files"]), each["steps"])
                 for each in found["there"]]  # fmt: skip
        return Apart(found["folder"], found["most"], tuple(there))


NOTHING_APART = Apart()


class TooLarge(Exception):
    """A loop has to be run apart; `args` has the name of its result and its `Inputs`."""


Inputs: TypeAlias = list[tuple[int, int, str]]
"""What a batch changes in the inputs of a loop: number of the input, bucket, file.

Whoever reads these files is given their names. A task that is tried again, or runs twice at the
same time, writes files of its own, and nobody lists the folder.
"""


def leave_inputs(apart: Apart, changes: Sequence[SortedRows], buckets: int) -> Inputs:
    """Write what a batch changes in the inputs of a loop."""
    return [
        (number, bucket, _write(apart.folder, part))
        for number, change in enumerate(changes)
        for bucket, part in (by_bucket(change, buckets) if len(change) else ())
    ]


def left_input(
    folder: str, inputs: Inputs, number: int, bucket: int, schema: TableSchema
) -> SortedRows:
    """What was written for an input."""
    files = [file for n, b, file in inputs if (n, b) == (number, bucket)]
    return merge([empty(schema), *[_content(Path(folder, file), schema) for file in files]])


def leave_answer(folder: str, change: SortedRows) -> str:
    """Write what a loop changes in its answer; the name of the file."""
    return _write(folder, change)


def left_answer(folder: str, ran: Offloaded, schema: TableSchema) -> SortedRows:
    """What a loop changes in its answer."""
    return merge([empty(schema), *[_content(Path(folder, file), schema) for file in ran.files]])


def _write(folder: str, content: SortedRows) -> str:
    Path(folder).mkdir(parents=True, exist_ok=True)
    name = uuid.uuid4().hex
    with Path(folder, name).open("xb") as stream:
        stream.write(content_bytes(content))
    return name


def _content(file: Path, schema: TableSchema) -> SortedRows:
    return content_of_bytes(file.read_bytes(), schema)


def content_bytes(content: SortedRows) -> bytes:
    """A content as bytes."""
    sink = pa.BufferOutputStream()
    table = to_table(content)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def content_of_bytes(data: Any, schema: TableSchema) -> SortedRows:
    """The content that bytes hold."""
    return from_table(pa.ipc.open_stream(data).read_all().combine_chunks(), schema)
