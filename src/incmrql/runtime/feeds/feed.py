"""What a feed is: a source at run time, which turns whatever arrives into files at rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from incmrql.kernel.inputs import InputFile

Consumed: TypeAlias = dict[str, tuple[InputFile, str]]
"""The files of one source that were taken in, by path, with their checksums."""


@dataclass(frozen=True, slots=True)
class News:
    """New files that are at rest, oldest first, and how many are not at rest yet."""

    files: tuple[InputFile, ...] = ()
    restless: int = 0
    notices: tuple[str, ...] = ()
    """What the user should know, each said once."""


class Feed(Protocol):
    """A source at run time.  All but the pushing of rows is done by one thread."""

    @property
    def place(self) -> int:
        """The place of the source among the nodes of the program."""

    def look(self, now: float) -> News:
        """What is new at a time (seconds since 1970), after a check of what was taken in."""

    def verify_taken(self) -> None:
        """Refuse a file that was taken in and has changed or vanished since."""

    def taken(self, files: Sequence[tuple[InputFile, str]]) -> None:
        """Files of this source, with their checksums, are committed; called after every batch."""

    def close(self) -> None:
        """Let go of what is open; what is durable stays."""
