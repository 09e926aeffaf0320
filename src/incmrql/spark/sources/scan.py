"""What tasks get to read a source, and what they report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any as Arrow
from typing import Final, TypeAlias

from pyspark.accumulators import AccumulatorParam

from incmrql.algebra.term import Picks
from incmrql.io import Chunk, FileSplit, ReadSpec
from incmrql.io.files import ANYWHERE, Paths
from incmrql.io.notices import SourceFacts
from incmrql.io.rows import MOST_REMEMBERED, BadRow
from incmrql.spark.packing import NOTHING, PickledObject

MOST_BAD_CHARACTERS: Final = 1 << 16
"""Characters of bad rows that a part sends to the driver; a part with more is read again."""


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """Everything that a task needs to read a source."""

    spec: ReadSpec
    parts: tuple[FileSplit, ...]
    packed: bool
    weighted: bool
    parser: PickledObject = NOTHING
    paths: Paths = ANYWHERE
    """Which files may be read: a file may have become a link since they were listed."""
    picks: Picks | None = None
    """What to compute from each row, instead of the row itself."""


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
    """The length of all bad rows."""
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
        if self.characters > MOST_BAD_CHARACTERS:
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
        """The stats of both."""
        value1.update(value2)
        return value1


def numbers(batches: Iterable[Arrow]) -> Iterator[int]:
    """The numbers in the first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
