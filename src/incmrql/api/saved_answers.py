"""An answer as a checkpoint has it: its value, the names of its columns, and its forms as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from incmrql.api.html import answer_html
from incmrql.errors import DataError
from incmrql.io.arrow.columns import types_of
from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import to_arrow
from incmrql.io.writers import dump, plain_text, store, text_lines
from incmrql.types.model import (
    FLOATS,
    INTEGERS,
    Basic,
    Collection,
    Decimal,
    Record,
    Tuple,
    Type,
    list_of,
)
from incmrql.values import Bag, Value, show, shown_order
from incmrql.values import Record as RecordValue

if TYPE_CHECKING:
    import pandas as pd

    from incmrql.plan.program import Output

TextFormat = Literal["mrql", "csv", "json"]
"""What an answer can be printed as, besides a table."""
FILE_ENDINGS: Final = (".csv", ".json", ".jsonl", ".parquet", ".mrql", ".txt")
"""The endings of the files that an answer can be written to."""


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """The columns in which the rows of an answer are shown."""

    type: Type = field(repr=False)
    """The type of the answer."""
    names: tuple[str, ...] = ()
    """The names of the columns, if the query names them."""
    title: str = ""
    """The name of the answer, if it has one."""

    @staticmethod
    def of(output: Output) -> AnswerColumns:
        """The columns of an answer of a program."""
        return AnswerColumns(output.result.type, tuple(output.item.columns), output.item.target)

    @staticmethod
    def of_changes(output: Output) -> AnswerColumns:
        """The columns of an answer's changes; one that changes as a whole is one row of them."""
        if output.part is not None:
            return AnswerColumns.of(output)
        return AnswerColumns(list_of(output.result.type), (), output.item.target)

    @property
    def header(self) -> tuple[str, ...]:
        """A name for each column: those of the query or its records, else `_1`, `_2` and so on."""
        match self.element:
            case _ if self.names:
                return self.names
            case Record(fields) if fields:
                return tuple(name for name, _ in fields)
            case Tuple(items) if items:
                return tuple(f"_{place}" for place, _ in enumerate(items, 1))
            case _:
                return ("value",)

    @property
    def numeric(self) -> tuple[bool, ...]:
        """For each column, whether it holds numbers."""
        numbers = (*INTEGERS, *FLOATS)
        return tuple(isinstance(type_, Decimal) or type_ in numbers for type_ in self.types)

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the columns."""
        return types_of(self.element)

    @property
    def element(self) -> Type:
        """The type of a row; an answer that is one value is one row."""
        return self.type.element if isinstance(self.type, Collection) else self.type

    @property
    def is_bag(self) -> bool:
        """Whether the answer has any number of rows, in no order that counts."""
        return isinstance(self.type, Collection) and self.type.kind == "bag"

    def parts(self, row: Value) -> tuple[Value, ...]:
        """The values of a row, one for each column of the header."""
        if row is None:
            return (None,) * len(self.header)
        match self.element:
            case Record(fields) if fields:
                return tuple(row.values_)
            case Tuple(items) if items:
                return tuple(row)
            case _:
                return (row,)

    def cells(self, rows: Iterable[Value]) -> list[tuple[str, ...]]:
        """Rows as text for a table: strings without quotes, times without a function around."""
        return [tuple(map(plain_text, self.parts(row))) for row in rows]


@dataclass(frozen=True, slots=True, repr=False)
class SavedAnswer:
    """An answer after the last batch of a checkpoint or of a run."""

    value: Value
    """Bags and lists as Python collections; the rows of a query of Spark are `Row`s."""
    columns: AnswerColumns
    batch: int
    """The number of the last batch."""

    @staticmethod
    def of(value: Value, output: Output, batch: int) -> SavedAnswer:
        """The answer of a program's item, whose rows have the names of their columns."""
        return SavedAnswer(value, AnswerColumns.of(output), batch)

    @property
    def type(self) -> Type:
        """The type of the answer."""
        return self.columns.type

    @property
    def rows(self) -> list[Value]:
        """The rows in order; an answer that is one value is one row."""
        if not isinstance(self.type, Collection):
            return [self.value]
        return shown_order(self.value) if isinstance(self.value, Bag) else list(self.value or ())

    @property
    def header(self) -> tuple[str, ...]:
        """A name for each column: those of the query or its records, else `_1`, `_2` and so on."""
        return self.columns.header

    def cells(self, limit: int | None = None) -> list[tuple[str, ...]]:
        """The first rows as text, one for each column of the header: strings without quotes."""
        return self.columns.cells(self.rows[:limit])

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
        """The rows as a pandas DataFrame with a column for each name of the header.

        Numbers and times have the types that pandas has for them; nested values are Python's.
        """
        import pandas

        parts = [*zip(*map(self.columns.parts, self.rows), strict=True)] or [()] * len(self.header)
        series = [
            pandas.Series(_pandas_values(values, type_))
            for values, type_ in zip(parts, self.columns.types, strict=True)
        ]
        frame = pandas.concat(series, axis="columns")
        frame.columns = pandas.Index(self.header)
        return frame

    def __repr__(self) -> str:
        rows = len(self.rows)
        size = "1 row" if rows == 1 else f"{rows:,} rows"
        return f"SavedAnswer(batch={self.batch}, {size}: {', '.join(self.header)})"

    def _repr_html_(self) -> str:
        rows = self.rows
        size = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
        return answer_html(self.columns, rows, f"answer after batch {self.batch}: {size}")

    def _most_lines(self, format_: TextFormat, limit: int | None) -> int | None:
        """The lines of the first rows: csv has a header where rows have names."""
        if limit is None:
            return None
        has_names = self.columns.names or isinstance(self.columns.element, Record)
        return limit + 1 if format_ == "csv" and has_names else limit

    def _with_names(self) -> tuple[Value, Type]:
        """The value and its type with records in place of rows, if the query names the columns."""
        names, element = self.columns.names, self.columns.element
        if not (names and isinstance(element, Tuple)):
            return self.value, self.type
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            message = f"several columns of the answer are named {_name_list(sorted(repeated))}"
            raise DataError("R212", message, hint="Give each column a name of its own with AS.")
        record = Record(tuple(zip(names, element.items, strict=True)))
        return [RecordValue.of(record.names, list(row)) for row in self.rows], list_of(record)


def _pandas_values(values: Sequence[Value], type_: Type) -> Any:
    """The values of a column in the types of pandas, if it has one for them."""
    if isinstance(type_, Basic | Decimal):
        return pa.array([to_arrow(value, type_) for value in values], arrow_type(type_)).to_pandas()
    import pandas

    return pandas.Series(values, dtype=object)


def _name_list(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
