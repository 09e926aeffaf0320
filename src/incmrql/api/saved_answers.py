"""An answer as a checkpoint has it: its value, the names of its columns, and its forms as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from incmrql.errors import DataError
from incmrql.io.writers import dump, store, text_lines
from incmrql.types.model import Collection, Record, Tuple, Type, list_of
from incmrql.values import Bag, Value, show, sort_values
from incmrql.values import Record as RecordValue

if TYPE_CHECKING:
    import pandas as pd

TextFormat = Literal["mrql", "csv", "json"]
"""What an answer can be printed as, besides a table."""
FILE_ENDINGS: Final = (".csv", ".json", ".jsonl", ".parquet", ".mrql", ".txt")
"""The endings of the files that an answer can be written to."""


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """An answer after the last batch of a checkpoint."""

    value: Value
    """Bags and lists as Python collections; the rows of a query of Spark are `Row`s."""
    type: Type = field(repr=False)
    columns: tuple[str, ...]
    """The names of the columns, if the query names them."""
    batch: int
    """The number of the last batch."""

    is_ordered: bool = False
    """Whether the rows stand in an order that the query asks for; else it is the canonical one."""

    @property
    def rows(self) -> list[Value]:
        """The rows in order; an answer that is one value is one row."""
        if not isinstance(self.type, Collection):
            return [self.value]
        in_order = self.is_ordered or not isinstance(self.value, Bag)
        return list(self.value or ()) if in_order else sort_values(self.value)

    @property
    def header(self) -> tuple[str, ...]:
        """A name for each column: those of the query or its records, else `_1`, `_2` and so on."""
        match self._element:
            case _ if self.columns:
                return self.columns
            case Record(fields) if fields:
                return tuple(name for name, _ in fields)
            case Tuple(items) if items:
                return tuple(f"_{place}" for place, _ in enumerate(items, 1))
            case _:
                return ("value",)

    def cells(self, limit: int | None = None) -> list[tuple[str, ...]]:
        """The first rows as text, one for each column of the header: strings without quotes."""
        return [tuple(map(_cell, self._parts(row))) for row in self.rows[:limit]]

    def lines(self, format_: TextFormat, limit: int | None = None) -> Iterator[str]:
        """The answer, or its first rows, as the lines of a file of that format."""
        if format_ == "mrql":
            yield show(self.value, limit)
            return
        yield from islice(
            text_lines(*self._with_names(), f".{format_}"), self._most_lines(format_, limit)
        )

    def write(self, path: Path) -> None:
        """Write the whole answer to a file, whose ending says how; it appears whole or not at all.

        Files that end in .mrql or .txt have one row per line in MRQL's notation.
        """
        if path.suffix not in FILE_ENDINGS:
            message = f'the ending of "{path}" names no format'
            raise DataError("R212", message, hint=f"Use one of {', '.join(FILE_ENDINGS)}.")
        value, type_ = self._with_names()
        (store if path.suffix == ".parquet" else dump)(path, value, type_)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame with a column for each name of the header."""
        import pandas

        return pandas.DataFrame([self._parts(row) for row in self.rows], columns=[*self.header])

    def _most_lines(self, format_: TextFormat, limit: int | None) -> int | None:
        """The lines of the first rows: csv has a header where rows have names."""
        if limit is None:
            return None
        has_header = format_ == "csv" and (self.columns or isinstance(self._element, Record))
        return limit + 1 if has_header else limit

    @property
    def _element(self) -> Type:
        return self.type.element if isinstance(self.type, Collection) else self.type

    def _parts(self, row: Value) -> tuple[Value, ...]:
        """The values of a row, one for each column of the header."""
        names = self.header
        if row is None:
            return (None,) * len(names)
        match self._element:
            case Record(fields) if fields:
                return tuple(row.values_)
            case Tuple(items) if items:
                return tuple(row)
            case _:
                return (row,)

    def _with_names(self) -> tuple[Value, Type]:
        """The value and its type with records in place of rows, if the query names the columns."""
        element = self._element
        if not (self.columns and isinstance(element, Tuple)):
            return self.value, self.type
        repeated = {name for name in self.columns if self.columns.count(name) > 1}
        if repeated:
            message = f"several columns of the answer are named {_name_list(sorted(repeated))}"
            raise DataError("R212", message, hint="Give each column a name of its own with AS.")
        record = Record(tuple(zip(self.columns, element.items, strict=True)))
        return [RecordValue.of(record.names, list(row)) for row in self.rows], list_of(record)


def _cell(value: Value) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return show(value)


def _name_list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
