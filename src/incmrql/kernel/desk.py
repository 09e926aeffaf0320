"""What steps work with: the state tables before a batch, and what the batch adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

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

    def table(self, name: str | None, form: Form) -> Table:
        """A state table; one that is not kept is empty."""
        found = None if name is None else self.tables.get(name)
        return Table(name or "", form, 1) if found is None else found

    def change(self, name: str | None, content: Content) -> None:
        """Add to a table, if it is kept."""
        if name is not None and name in self.tables and len(content):
            known = self.changes.get(name)
            self.changes[name] = content if known is None else merge([known, content])


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
