"""What is to be read: a source as its reader sees it, and a file of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any as Arrow
from typing import Final

from incmrql.io.arrow.types import arrow_type
from incmrql.io.files import MAX_LINE
from incmrql.io.json.files import Catalog
from incmrql.io.notices import watched_fields
from incmrql.io.reader import read
from incmrql.io.rows import BadRow, Policy, Read
from incmrql.types import typed
from incmrql.types.model import PREDEFINED, Type

CHUNK_ROWS: Final = 1 << 14
"""Rows of a chunk where rows are read one by one."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file or a piece of one, by its place in the order of the source.

    `shown` is how messages name the file.  A piece starts at byte `start`, which is on line
    `first`, and ends before byte `end`.
    """

    number: int
    path: str
    shown: str
    size: int
    start: int = 0
    end: int | None = None
    first: int = 1


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """How the files of a source are read, and the type of the rows that are wanted.

    `options` are those that hold for the files at hand: files of deletes have no sign column.
    """

    source: typed.Source
    element: Type
    """Of JSON records some fields may be left out; they are checked and not kept."""
    options: Mapping[str, Arrow]
    data: Catalog = field(default_factory=lambda: PREDEFINED)
    arrow_of: Callable[[Type], Arrow] = arrow_type
    """The Arrow type for a type: Spark's differ where a type is that of null."""
    chunk_rows: int = CHUNK_ROWS

    @property
    def arrow_type(self) -> Arrow:
        """The Arrow type of the rows."""
        return self.arrow_of(self.element)

    @property
    def policy(self) -> Policy:
        """What becomes of bad rows."""
        policy: Policy = self.options.get("on_error", "quarantine")
        return policy

    @property
    def longest(self) -> int:
        """Bytes of the longest line that is no problem."""
        longest: int = self.options.get("max_line", MAX_LINE)
        return longest

    @property
    def watched(self) -> tuple[str, ...]:
        """The fields of which it is noticed if every row lacks them."""
        return watched_fields(self.source, self.element)


def read_rows(spec: ReadSpec, part: Part) -> Iterator[Read]:
    """The rows of a whole file by the row-by-row reader."""
    source = spec.source
    rows = read(
        source.format,
        part.path,
        source.row,
        delimiter=source.delimiter,
        keys=source.keys,
        steps=source.steps,
        options=spec.options,
        data=spec.data,
    )
    return with_shown_path(rows, part)


def with_shown_path(rows: Iterator[Read], part: Part) -> Iterator[Read]:
    """The rows of a file, with the name of the file that is shown."""
    if part.shown == part.path:
        yield from rows
        return
    for row in rows:
        if isinstance(row, BadRow) and row.path == part.path:
            yield replace(row, path=part.shown)
        else:
            yield row
