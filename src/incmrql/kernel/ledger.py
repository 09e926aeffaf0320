"""The ledger of a stream that can delete: how many times each row is there.

A batch that deletes a row more often than it is there is refused as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from incmrql.kernel.columns import column_values, flat, gathered, types_of, weights_of
from incmrql.kernel.content import Content, added_up
from incmrql.kernel.keys import Keys
from incmrql.kernel.table import Reader, Table, look_up
from incmrql.types.model import Type
from incmrql.values import show

MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Missing:
    """Rows that are deleted and are not there: the first of them as text, and how many."""

    shown: tuple[str, ...]
    count: int


def ledger_delta(element: Type, table: Any) -> Content:
    """How many of each row come and go."""
    columns = tuple(flat(column) for column in table.columns[:-1])
    return added_up(Keys(columns, types_of(element)), weights_of(table))


def missing(element: Type, ledger: Table, reader: Reader, delta: Content) -> Missing | None:
    """The rows of which a change takes away more than there are."""
    leaving = delta.take(delta.weights < 0)
    if not len(leaving):
        return None
    there, _ = look_up(ledger, reader, leaving)
    absent = leaving.take(there + leaving.weights < 0)
    if not len(absent):
        return None
    first = absent.slice(0, MOST_NAMED)
    columns = [
        column_values(column, type_)
        for column, type_ in zip(first.keys.columns, first.keys.types, strict=True)
    ]
    rows = [gathered(list(values), element) for values in zip(*columns, strict=True)]
    return Missing(tuple(show(row, 10) for row in rows), len(absent))
