"""Tables written as text, each row with a weight: what comes, and what goes again.

    city: string | price: double | weight
    -------------|---------------|-------
    Oslo         | 10            |
    Rome         | 4             | 2
    Oslo         | 10            | -1

A column is a name and a type of the language, `weight` may be missing: an empty one is 1.  An empty
cell is null, text needs no quotes, and `""` is the empty text.  Lines of dashes are decoration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from incmrql.errors import DataError
from incmrql.io.scalars import Unparsable, parse_scalar
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.model import STRING, Basic, Decimal, Record, Type
from incmrql.values import Record as RecordValue
from incmrql.values import Value, read

WEIGHT: Final = "weight"
_RULE: Final = re.compile(r"[\s|+:-]*-[\s|+:-]*")


@dataclass(frozen=True, slots=True)
class TextTable:
    """The type of the rows, and rows with their weights in the order of the text."""

    row: str
    changes: tuple[tuple[Value, int], ...]


def text_table(text: str) -> TextTable:
    """The table that a text shows; raises `DataError` with the line that is wrong."""
    lines = [
        (number, _cells(line))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not _RULE.fullmatch(line)
    ]
    if not lines:
        hint = "Start with names and types, as in: city: string | price: double | weight."
        raise DataError("R330", "the table has no header", hint=hint)
    (_, header), *rows = lines
    has_weight = header[-1] == WEIGHT
    columns = header[:-1] if has_weight else header
    row = f"< {', '.join(columns)} >"
    type_ = type_from_text(row)
    assert isinstance(type_, Record)
    return TextTable(row, tuple(_changes(rows, type_, has_weight=has_weight)))


def _cells(line: str) -> list[str]:
    """The cells of a line, which may start and end with a bar."""
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _changes(
    rows: list[tuple[int, list[str]]], type_: Record, *, has_weight: bool
) -> Iterator[tuple[Value, int]]:
    for number, cells in rows:
        wanted = len(type_.fields) + has_weight
        if len(cells) == wanted - 1 and has_weight:
            cells = [*cells, ""]
        if len(cells) != wanted:
            message = f"line {number} of the table has {len(cells)} cells, expected {wanted}"
            raise DataError("R330", message)
        pairs = zip(cells, type_.fields, strict=False)
        values = [_value(cell, part, name, number) for cell, (name, part) in pairs]
        weight = cells[-1] if has_weight else ""
        yield RecordValue.of(type_.names, values), _weight(weight, number)


def _value(cell: str, type_: Type, name: str, number: int) -> Value:
    if cell in ("", "null"):
        return None
    try:
        if type_ == STRING and not cell.startswith('"'):
            return cell
        is_basic = isinstance(type_, Basic | Decimal) and type_ != STRING
        return parse_scalar(cell, type_) if is_basic else read(cell)
    except Unparsable as problem:
        raise DataError("R330", f'line {number}, column "{name}": {problem.reason}') from None
    except ValueError as problem:
        raise DataError("R330", f'line {number}, column "{name}": {problem}') from None


def _weight(cell: str, number: int) -> int:
    try:
        return int(cell or 1)
    except ValueError:
        raise DataError("R330", f"line {number}: {cell!r} is not a weight") from None


__all__ = ["TextTable", "text_table"]
