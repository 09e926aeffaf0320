"""The files of a query, in the form that each side reads, in a folder of each side's own.

All forms hold the same rows.  A file is made before its turn and appears whole, by a link, when the
clock starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.experiments.rivals_queries import Query
from benchmarks.incremental_data import GONE, Size, Supply, history_of
from benchmarks.incremental_run import folder_in

Form: TypeAlias = Literal["parquet", "csv", "signed csv", "debezium"]
SIGN = "W"
"""The column of 1 and -1 of signed rows."""


@dataclass(slots=True)
class Files:
    """What a query reads: files by batch, in all forms that were asked for."""

    folder: Path
    supply: Supply
    batches: list[tuple[Path, ...]] = field(default_factory=list)
    """Batch 0 is the history."""

    def add(self) -> int:
        """Make the next batch, and say its number."""
        self.batches.append(self.supply.add())
        return len(self.batches) - 1

    def data(self, side: str) -> Path:
        """The folder that a side reads."""
        return self.folder / "sides" / side

    def prepare(self, number: int, form: Form) -> None:
        """Make the files of a batch in a form, beside where anybody looks."""
        for file in self.batches[number]:
            converted = self._converted_path(file, form)
            if not converted.exists():
                converted.parent.mkdir(parents=True, exist_ok=True)
                write(pq.read_table(file), converted, form, deletes=file.parent.name == GONE)

    def reveal(self, number: int, side: str, form: Form) -> None:
        """Let the files of a batch appear in the folder of a side."""
        for file in self.batches[number]:
            place = self.data(side) / _table(file, form, self.supply.tables[0].name)
            os.link(
                self._converted_path(file, form),
                place / f"{file.parent.name}-{file.stem}.{_END[form]}",
            )

    def open(self, side: str) -> Path:
        """The folder of a side with its empty tables."""
        for name in (*(table.name for table in self.supply.tables), GONE):
            (self.data(side) / name).mkdir(parents=True)
        return self.data(side)

    def _converted_path(self, file: Path, form: Form) -> Path:
        if form == "parquet":
            return file
        place = self.folder / form.replace(" ", "-") / file.parent.name
        return place / f"{file.stem}.{_END[form]}"


_END = {"parquet": "parquet", "csv": "csv", "signed csv": "csv", "debezium": "json"}


def _table(file: Path, form: Form, first: str) -> str:
    """The table whose folder gets a file: forms that say what is deleted need no second folder."""
    is_gone = file.parent.name == GONE
    return first if is_gone and form in ("signed csv", "debezium") else file.parent.name


def write(rows: pa.Table, path: Path, form: Form, *, deletes: bool) -> None:
    """Write rows in a form other than Parquet."""
    if form == "debezium":
        op, side, other = ("d", "before", "after") if deletes else ("c", "after", "before")
        with path.open("w") as file:
            for row in rows.to_pylist():
                file.write(json.dumps({side: row, other: None, "op": op}) + "\n")
        return
    if form == "signed csv":
        signs = pa.array([-1 if deletes else 1] * len(rows), pa.int32())
        rows = rows.append_column(SIGN, signs)
    header = form == "signed csv"
    pa.csv.write_csv(rows, path, pa.csv.WriteOptions(include_header=header))


@contextmanager
def files_of(root: Path, query: Query, size: Size) -> Iterator[Files]:
    """The history of a query as batch 0, in a folder that is removed at the end."""
    workload = query.workload
    history = history_of(root, "-".join(t.name for t in workload.tables), workload.tables, size)
    with folder_in(root) as folder:
        supply = Supply(folder / "data", history, workload.tables, size, workload.deleted)
        yield Files(folder, supply, [tuple(_files(supply.folder))])


def _files(folder: Path) -> Iterable[Path]:
    return sorted(file for table in folder.iterdir() for file in table.iterdir())
