"""Loops that are too large for a task, on their way to Spark and back.

A task that finds a loop too large to be run again leaves what the batch changes in its inputs, and
gives up.  Spark runs the loop, and leaves what that changes in its answer; then the batch is done
once more, and the loop finds its answer.  All of it lies in one folder, and counts for one batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from incmrql.kernel.content import Content, empty, from_table, merge, to_table
from incmrql.kernel.form import Form
from incmrql.kernel.table import by_bucket


@dataclass(frozen=True, slots=True)
class Apart:
    """The loops that run apart, by the names of their results.

    `most` has the rows up to which a task runs a loop, `there` the loops whose answers are there.
    """

    folder: str = ""
    most: Mapping[str, int] = field(default_factory=dict)
    there: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The loops as text can hold them."""
        return {"folder": self.folder, "most": dict(self.most), "there": list(self.there)}

    @staticmethod
    def of_json(found: dict[str, Any]) -> Apart:
        """The loops that a text tells of."""
        return Apart(found["folder"], found["most"], tuple(found["there"]))


NOTHING_APART = Apart()


class TooLarge(Exception):
    """A loop has to be run apart; `args` has the name of its result."""


def leave_inputs(apart: Apart, name: str, changes: Sequence[Content], buckets: int) -> None:
    """Put down what a batch changes in the inputs of a loop."""
    place = _place(apart.folder, name)
    for number, change in enumerate(changes):
        for bucket, part in by_bucket(change, buckets) if len(change) else ():
            (place / f"input-{number}-{bucket}").write_bytes(packed(part))


def left_input(folder: str, name: str, number: int, bucket: int, form: Form) -> Content:
    """What was put down for an input."""
    return _content(_place(folder, name) / f"input-{number}-{bucket}", form)


def leave_answer(folder: str, name: str, bucket: int, change: Content) -> None:
    """Put down what a loop changes in its answer."""
    (_place(folder, name) / f"answer-{bucket}").write_bytes(packed(change))


def leave_count(folder: str, name: str, steps: int) -> None:
    """Put down how many steps a loop took."""
    (_place(folder, name) / "ran").write_text(json.dumps(steps), encoding="utf-8")


def left_answer(apart: Apart, name: str, form: Form) -> tuple[Content, int]:
    """What a loop changes in its answer, and how many steps it took."""
    place = _place(apart.folder, name)
    parts = [_content(file, form) for file in sorted(place.glob("answer-*"))]
    return merge([empty(form), *parts]), json.loads((place / "ran").read_text(encoding="utf-8"))


def _place(folder: str, name: str) -> Path:
    found = Path(folder, name)
    found.mkdir(parents=True, exist_ok=True)
    return found


def _content(file: Path, form: Form) -> Content:
    return unpacked(file.read_bytes(), form) if file.exists() else empty(form)


def packed(content: Content) -> bytes:
    """A content as bytes."""
    sink = pa.BufferOutputStream()
    table = to_table(content)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(data: Any, form: Form) -> Content:
    """The content that bytes hold."""
    return from_table(pa.ipc.open_stream(data).read_all().combine_chunks(), form)
