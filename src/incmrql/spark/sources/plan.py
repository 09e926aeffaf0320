"""What tasks are told about a source, and what they tell about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any as Arrow
from typing import Final, TypeAlias, TypeVar

from pyspark.accumulators import AccumulatorParam

from incmrql.algebra.term import Picks
from incmrql.io import Chunk, Part, ReadSpec
from incmrql.io.files import ANYWHERE, Paths
from incmrql.io.notices import SourceFacts
from incmrql.io.rows import MOST_REMEMBERED, BadRow
from incmrql.spark.packing import NOTHING, Packed

T = TypeVar("T")

MOST_KEPT: Final = 1 << 16
"""Characters of bad rows that a part tells the driver; for more of them it is read again."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a task must know of a source."""

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
class Tally:
    """What became of a part: how many rows, how many bad ones and the first of them."""

    rows: int = 0
    bad: int = 0
    kept: list[BadRow] = field(default_factory=list)
    whole: bool = True
    """Whether all bad rows are kept."""
    failure: tuple[str, str, str, str] | None = None
    """Code, message, place and hint of the error that ended it."""
    length: int = 0
    noticed: SourceFacts = field(default_factory=SourceFacts)

    def add_chunk(self, chunk: Chunk) -> None:
        """Count the rows of a chunk and its bad rows."""
        self.rows += len(chunk.values)
        self.noticed.add(chunk.facts)
        for row in chunk.bad:
            self.add(row)

    def add(self, row: BadRow) -> None:
        """Count a bad row; keep it while there is room."""
        self.bad += 1
        self.length += len(row.text) + len(row.path) + len(row.reason)
        if self.length <= MOST_KEPT and self.whole:
            self.kept.append(row)
        else:
            self.whole = False
            if len(self.kept) < MOST_REMEMBERED:
                self.kept.append(row)


Tallies: TypeAlias = dict[tuple[int, int], Tally]
"""By the number of the reading and of the part: whoever reads a part again says the same."""


class TallyParam(AccumulatorParam[Tallies]):
    """Tallies put together."""

    def zero(self, value: Tallies) -> Tallies:  # noqa: ARG002
        """None yet."""
        return {}

    def addInPlace(self, value1: Tallies, value2: Tallies) -> Tallies:  # noqa: N802
        """Those of both."""
        value1.update(value2)
        return value1


def numbers(given: Iterable[Arrow]) -> Iterator[int]:
    """The numbers in the first column."""
    for part in given:
        yield from part.column(0).to_pylist()


def chunked(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of so many items, and a last one that is not empty."""
    chunk: list[T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
