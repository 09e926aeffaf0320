"""What steps work with: the state tables before a batch, and what the batch adds to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from incmrql.kernel.apart import NOTHING_APART, Apart
from incmrql.kernel.content import Content, added_up, empty, merge
from incmrql.kernel.form import Form
from incmrql.kernel.rows import Rows
from incmrql.kernel.table import Reader, Table
from incmrql.reference import Environment


@dataclass(slots=True)
class Desk:
    """The state before a batch and its changes, by the names of tables."""

    tables: Mapping[str, Table]
    reader: Reader
    env: Environment
    is_first: bool
    changes: dict[str, Content] = field(default_factory=dict)
    cleared: set[str] = field(default_factory=set)
    """The tables of which nothing is kept but the changes."""
    apart: Apart = NOTHING_APART
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What steps say of themselves, by the name of a table of theirs."""
    part_reads: Counter[int] = field(default_factory=Counter)
    """Rows read of whole parts of answers, by the places of the steps that make them."""

    def table(self, name: str | None, form: Form) -> Table:
        """A state table; one that is not kept is empty."""
        if name is None or name not in self.tables:
            return Table(name or "", form, 1)
        return self.known(name)

    def known(self, name: str) -> Table:
        """What is kept of a table beside its changes."""
        found = self.tables[name]
        return replace(found, levels=(), bases=()) if name in self.cleared else found

    def change(self, name: str | None, content: Content) -> None:
        """Add to a table, if it is kept."""
        if name is not None and name in self.tables and len(content):
            known = self.changes.get(name)
            self.changes[name] = content if known is None else merge([known, content])

    def clear(self, name: str, form: Form) -> None:
        """Forget all that a table has, its changes too."""
        if name in self.tables:
            self.cleared.add(name)
            self.changes[name] = empty(form)


def content_of(form: Form, rows: Rows) -> Content:
    """Rows as a content of a table."""
    if not len(rows):
        return empty(form)
    return added_up(form, rows.columns, rows.weights)


def rows_of(content: Content) -> Rows:
    """The rows of a content."""
    return Rows(content.columns, content.weights)


def merged(form: Form, parts: Sequence[Content]) -> Content:
    """One content from several."""
    return merge(parts) if parts else empty(form)


def consolidated(form: Form, rows: Rows) -> Rows:
    """Equal rows added up, and those of weight 0 left out."""
    return rows_of(content_of(form, rows))


def zeros(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """So many zeros."""
    return np.zeros(count, np.int64)
