"""State tables with what a batch has added so far: contents in memory that count as runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from incmrql.kernel.content import Content
from incmrql.kernel.desk import Desk
from incmrql.kernel.form import Form
from incmrql.kernel.run_rows import RunRows
from incmrql.kernel.runs import Run
from incmrql.kernel.table import Reader, Table, cuts_of

_MEMORY = ""
"""The file name of contents that are in no file."""


@dataclass(frozen=True, slots=True)
class MemoryReader(Reader):
    """A reader that also knows contents in memory."""

    contents: list[Content] = field(default_factory=list)

    def whole(self, table: Table, run: Run) -> RunRows:
        """All rows of a run."""
        if run.file == _MEMORY:
            return RunRows.of(self.contents[run.offset])
        return self.opened.rows(self.folder, run, table.form)


@dataclass(slots=True)
class Overlay(Desk):
    """A desk whose tables grow with their changes; `names` are those of the tables below."""

    names: Mapping[str, str] = field(default_factory=dict)
    below: Desk | None = None
    added: dict[str, Table] = field(default_factory=dict)

    def table(self, name: str | None, form: Form) -> Table:
        """A state table with all that was added to it."""
        if name is None or name not in self.names:
            return Table(name or "", form, 1)
        found = self.added.get(name)
        if found is None:
            assert self.below is not None
            found = self.added[name] = self.below.table(self.names[name], form)
        return found

    def change(self, name: str | None, content: Content) -> None:
        """Add to a table, here and below."""
        if name is None or name not in self.names or not len(content):
            return
        assert isinstance(self.reader, MemoryReader)
        table = self.table(name, content.form)
        self.reader.contents.append(content)
        counts = np.diff(cuts_of(content, table.buckets))
        place = len(self.reader.contents) - 1
        run = Run(_MEMORY, place, 0, 0, tuple(range(table.buckets)), tuple(counts.tolist()))
        self.added[name] = replace(table, levels=(*table.levels, run))
        assert self.below is not None
        self.below.change(self.names[name], content)


def overlay(below: Desk, names: Mapping[str, str]) -> Overlay:
    """A desk over some tables of another one."""
    reader = MemoryReader(below.reader.folder, below.reader.opened, below.reader.tally)
    return Overlay({}, reader, below.env, below.is_first, names=names, below=below)
