"""What is to be read: a source as its reader sees it, and a file of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any as Arrow
from typing import Final, TypeAlias

from incmrql.io.arrow.types import arrow_type
from incmrql.io.files import MAX_LINE
from incmrql.io.rows import Policy
from incmrql.types import typed
from incmrql.types.model import PREDEFINED, Constructor, Record, Type, element_type

DataTypes: TypeAlias = Mapping[str, tuple[Constructor, ...]]
"""The constructors of the data types that rows may hold, by the name of the type."""

CHUNK_ROWS: Final = 1 << 14
"""Rows of a chunk where rows are read one by one."""

INSIDE: Final = "\0"
"""Between the names in the path of a field that is inside another one; no name contains it."""


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A file or a piece of one, by its place in the order of the source.

    `shown` is how messages name the file.  A piece starts at byte `start`, which is on line
    `first`, and ends before byte `end`.
    """

    number: int
    path: str
    display_path: str
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
    data: DataTypes = field(default_factory=lambda: PREDEFINED)
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
        """Bytes of the longest line that can be read."""
        longest: int = self.options.get("max_line", MAX_LINE)
        return longest

    @property
    def nullable_fields(self) -> tuple[str, ...]:
        """The fields that a warning names if every row lacks them."""
        return nullable_fields(self.source, self.element)


def element_of(source: typed.Source) -> Type:
    """The type of a source's rows: lines lose their columns of type any."""
    return element_type(source.row) if source.format == "line" else source.row


def nullable_fields(source: typed.Source, element: Type) -> tuple[str, ...]:
    """The paths of the declared fields that rows of a source may lack without being bad."""
    if source.format not in ("json", "xml") or not isinstance(element, Record):
        return ()
    return tuple(_field_paths(element))


def _field_paths(record: Record, parent: str = "") -> Iterator[str]:
    for name, type_ in record.fields:
        yield f"{parent}{name}"
        if isinstance(type_, Record):
            yield from _field_paths(type_, f"{parent}{name}{INSIDE}")
