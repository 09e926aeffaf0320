"""Answers to files: a part of a batch's output, complete on disk when `write_part` returns."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from incmrql.formats import dump
from incmrql.kernel.columns import (
    WEIGHT,
    flat,
    gathered,
    names,
    parts_of,
    table_rows,
    types_of,
    weights_of,
)
from incmrql.kernel.content import Content, added_up
from incmrql.kernel.keys import Keys
from incmrql.types.model import LONG, Record, Type, list_of
from incmrql.values import Record as RecordValue
from incmrql.values import Value

Mode: TypeAlias = Literal["changes", "snapshot"]
Format: TypeAlias = Literal["parquet", "json", "csv"]


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a batch's output."""

    file: str
    rows: int
    size: int


def net(answers: Any, element: Type) -> Any:
    """Answers with weights, equal ones added up and those without weight left out, in order."""
    types = types_of(element)
    columns = tuple(flat(column) for column in answers.columns[:-1])
    return _table(added_up(Keys(columns, types), weights_of(answers)))


def write_part(
    folder: Path, name: str, answers: Any, element: Type, how: tuple[Mode, Format]
) -> Part:
    """Write answers to a new file: with their weights, or as often as they are there."""
    mode, format_ = how
    if mode == "snapshot":
        weights = weights_of(answers)
        answers = answers.take(pa.array(np.repeat(np.arange(len(weights)), weights)))
        answers = answers.drop_columns([WEIGHT])
    path = folder / f"{name}.{format_}"
    if format_ == "parquet":
        labels = [label for label, _ in parts_of(element)]
        weighted = [WEIGHT] if mode == "changes" else []
        pq.write_table(answers.rename_columns([*labels, *weighted]), path)
        _sync(path)
    else:
        dump(path, *_as_records(answers, element, weighted=mode == "changes"))
    return Part(path.name, answers.num_rows, path.stat().st_size)


def read_part(path: Path, element: Type) -> list[tuple[Value, int]]:
    """The answers of a Parquet part with their weights; those of a snapshot have weight 1."""
    table = pq.ParquetFile(path).read()
    types = types_of(element)
    if table.num_columns == len(types):
        table = table.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), table.num_rows))
    numbered = table.rename_columns([*names("k", len(types)), WEIGHT])
    return table_values(numbered, element)


def table_values(answers: Any, element: Type) -> list[tuple[Value, int]]:
    """The rows of a table of answers as values with weights."""
    values = [gathered(each, element) for each in table_rows(answers, "k", types_of(element))]
    return list(zip(values, weights_of(answers).tolist(), strict=True))


def _as_records(answers: Any, element: Type, *, weighted: bool) -> tuple[Any, Type]:
    """The rows as records with a field for each column."""
    fields = (*parts_of(element), *([(WEIGHT, LONG)] if weighted else []))
    row = Record(fields)
    types = tuple(type_ for _, type_ in fields)
    numbered = answers.rename_columns(names("k", len(types)))
    values = [RecordValue.of(row.names, each) for each in table_rows(numbered, "k", types)]
    return values, list_of(row)


def _table(content: Content) -> Any:
    columns = [*content.keys.columns, pa.array(content.weights)]
    return pa.table(columns, names=[*names("k", len(columns) - 1), WEIGHT])


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
