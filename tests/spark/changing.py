"""Tables that change: directories of Parquet files that get insertions and deletions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Row: TypeAlias = tuple[Any, ...]


@dataclass(slots=True)
class ChangingTables:
    """Directories of Parquet files, one a table; `draw` gives the new rows of a table in a batch.

    After the first batch, about half as many rows go as come, chosen from all that are there.
    """

    root: Path
    seed: int
    schemas: Mapping[str, Any]
    draw: Callable[[str, int], Sequence[Row]]
    rows: dict[str, Counter[Row]] = field(default_factory=dict)
    batches: int = 0

    def __post_init__(self) -> None:
        self.rows = {name: Counter() for name in self.schemas}
        for name in self.schemas:
            self._path(name).mkdir(parents=True)
            self._deletes(name).mkdir(parents=True)

    def change(self) -> None:
        """Write the files of the next batch."""
        chance = random.Random(self.seed * 1000 + self.batches)
        for table in self.schemas:
            new = list(self.draw(table, self.batches))
            there = sorted(self.rows[table].elements(), key=repr)
            count = min(len(new) // 2, len(there)) if self.batches else 0
            gone = chance.sample(there, count)
            self._write(self._path(table), table, new)
            self._write(self._deletes(table), table, gone)
            self.rows[table].update(new)
            self.rows[table].subtract(gone)
            self.rows[table] = +self.rows[table]
        self.batches += 1

    def frame(self, spark: SparkSession, name: str) -> DataFrame:
        """The table as users read it, with the directory of the rows that go."""
        schema = spark.createDataFrame(self._table(name, [])).schema
        reader = spark.read.option("deletes", str(self._deletes(name)))
        return reader.schema(schema).parquet(str(self._path(name)))

    def plain_session(self, spark: SparkSession) -> SparkSession:
        """A session in which the tables have all rows that are there now."""
        plain = spark.newSession()
        for name in self.schemas:
            rows = self._table(name, list(self.rows[name].elements()))
            plain.createDataFrame(rows).createOrReplaceTempView(name)
        return plain

    def _path(self, table: str) -> Path:
        return self.root / table

    def _deletes(self, table: str) -> Path:
        return self.root / f"{table}-deletes"

    def _write(self, folder: Path, table: str, rows: Sequence[Row]) -> None:
        if rows:
            pq.write_table(self._table(table, rows), folder / f"{self.batches:04d}.parquet")

    def _table(self, name: str, rows: Sequence[Row]) -> Any:
        schema = self.schemas[name]
        columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
        return pa.table(arrays, schema=schema)


def rows_of(frame: DataFrame) -> Counter[Any]:
    """The rows of a frame; doubles to twelve digits, because Spark adds them up in any order."""
    return Counter(_comparable(row) for row in frame.collect())


def _comparable(value: Any) -> Any:
    match value:
        case tuple() | list():
            return tuple(map(_comparable, value))
        case dict():
            return frozenset((_comparable(k), _comparable(v)) for k, v in value.items())
        case float():
            return f"{value + 0.0:.12g}"
        case Decimal():
            return value.normalize()
        case bytearray():
            return bytes(value)
        case _:
            return value
