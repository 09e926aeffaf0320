"""The columns of a line source: which are read, and what a row of them is."""

from __future__ import annotations

from incmrql.types.model import (
    ANY,
    Basic,
    Decimal,
    Record,
    Tuple,
    Type,
)
from incmrql.types.model import Any as AnyType


def column_types(row: Type) -> tuple[Type, ...] | None:
    """The types of the columns of a file, or None where a row cannot be a line."""
    match row:
        case Record(fields):
            types = tuple(type_ for _, type_ in fields)
        case Tuple(items):
            types = items
        case _:
            types = (row,)
    fits = all(isinstance(type_, Basic | Decimal | AnyType) for type_ in types)
    return types if fits and types else None


def element_type(row: Type) -> Type:
    """What a row gives: columns of type any are skipped.

    A tuple that keeps one column is that column's value, since no tuple of one exists.
    """
    match row:
        case Record(fields):
            return Record(tuple((name, type_) for name, type_ in fields if type_ != ANY))
        case Tuple(items):
            kept = tuple(item for item in items if item != ANY)
            return kept[0] if len(kept) == 1 else Tuple(kept)
        case _:
            return row
