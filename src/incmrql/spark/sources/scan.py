"""What tasks are told about a source, and what they report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any as Arrow
from typing import Final, TypeAlias

from pyspark.accumulators import AccumulatorParam

from incmrql.algebra.term import Picks
from incmrql.io import Chunk, Part, ReadSpec
from incmrql.io.files import ANYWHERE, Paths
from incmrql.io.notices import SourceFacts
from incmrql.io.rows import MOST_REMEMBERED, BadRow
from incmrql.spark.packing import NOTHING, Packed

MOST_KEPT: Final = 1 << 16
"""Characters of bad rows that a part sends to the driver; with more of them it is read again."""


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """All that a task must know to read a source."""

    spec: ReadSpec
    parts: tuple[Part, ...]
    packed: bool
    weighted: bool
    parser: Packed = NOTHING
    paths: Paths = ANYWHERE
    """Which files may be read: a file may have become a link since they were listed."""
    picks: Picks | None = None
    """What is wanted of each row, if not the row itself."""


@dataclass(slots=True)
class PartStats:
    """The outcome of reading a part: how many rows, how many bad ones and the first of them."""

    rows: int = 0
    bad: int = 0
    bad_rows: list[BadRow] = field(default_factory=list)
    has_all_bad_rows: bool = True
    failure: tuple[str, str, str, str] | None = None
    """Code, message, place and hint of the error that ended it."""
    characters: int = 0
    """Of all bad rows."""
    facts: SourceFacts = field(default_factory=SourceFacts)

    def add_chunk(self, chunk: Chunk) -> None:
        """Count the rows of a chunk and its bad rows."""
        self.rows += len(chunk.values)
        self.facts.add(chunk.facts)
        for row in chunk.bad:
            self.add(row)

    def add(self, row: BadRow) -> None:
        """Count a bad row; keep it while there is room."""
        self.bad += 1
        self.characters += len(row.text) + len(row.path) + len(row.reason)
        if self.characters > MOST_KEPT:
            self.has_all_bad_rows = False
        if self.has_all_bad_rows or len(self.bad_rows) < MOST_REMEMBERED:
            self.bad_rows.append(row)


StatsByPart: TypeAlias = dict[tuple[int, int], PartStats]
"""By the number of the scan and of the part: a part that is read again has the same stats."""


class StatsParam(AccumulatorParam[StatsByPart]):
    """Adds up stats of parts in an accumulator."""

    def zero(self, value: StatsByPart) -> StatsByPart:  # noqa: ARG002
        """No stats."""
        return {}

    def addInPlace(self, value1: StatsByPart, value2: StatsByPart) -> StatsByPart:  # noqa: N802
        """Those of both."""
        value1.update(value2)
        return value1


def numbers(batches: Iterable[Arrow]) -> Iterator[int]:
    """The numbers in the first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
