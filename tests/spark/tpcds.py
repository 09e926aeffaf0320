"""The tables of TPC-DS in small, changing, and its questions; `make tpcds` gets both.

    ENVIRONMENT/bin/python tests/spark/tpcds.py DIRECTORY

writes the tables as Parquet and the texts as JSON, in an environment with DuckDB's extension for
TPC-DS.  Facts are a sample; of large dimensions there are the rows that facts name.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOCATION: Final = Path("build/tpcds")
FACTS: Final = ("catalog_returns", "catalog_sales", "inventory", "store_returns", "store_sales",
                "web_returns", "web_sales")  # fmt: skip
BATCHES: Final = 3
_PERCENT: Final = 40
"""How much of the facts is used."""
_SCALE: Final = 0.01
_NAMED_BY: Final = {
    "time_dim": ("t_time_sk", "_time_sk"),
    "customer_demographics": ("cd_demo_sk", "_cdemo_sk"),
    "catalog_page": ("cp_catalog_page_sk", "_catalog_page_sk"),
}
"""Large dimensions: their key, and how columns that refer to it end."""


# --- getting them ---


def generate(directory: Path) -> None:
    """Write the tables and the texts."""
    import duckdb
    from duckdb_extensions import import_extension  # type: ignore[import-not-found]

    directory.mkdir(parents=True, exist_ok=True)
    import_extension("tpcds")
    connection = duckdb.connect()
    connection.execute("load tpcds")
    connection.execute(f"call dsdgen(sf={_SCALE})")
    rows = connection.execute("select query_nr, query from tpcds_queries()").fetchall()
    _narrow(connection)
    for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall():
        connection.execute(f"copy {name} to '{directory / name}.parquet' (format parquet)")
    queries = {f"q{number:02}": text for number, text in rows}
    (directory / "queries.json").write_text(json.dumps(queries, indent=1))


def _narrow(connection: Any) -> None:
    """Leave some of the facts, the days of six years, and what facts name of large dimensions."""
    for fact in FACTS:
        connection.execute(f"delete from {fact} where hash(rowid) % 100 >= {_PERCENT}")
    connection.execute("delete from date_dim where d_year not between 1998 and 2003")
    columns = connection.execute("select table_name, column_name from duckdb_columns()").fetchall()
    for dimension, (key, suffix) in _NAMED_BY.items():
        named = " union ".join(
            f"select {column} from {table} where {column} is not null"
            for table, column in columns
            if column.endswith(suffix) and table != dimension
        )
        connection.execute(f"delete from {dimension} where {key} not in ({named})")


# --- using them ---


@dataclass(slots=True)
class ChangingStore:
    """The tables in batches, each with the rows that come and those that go.

    Facts come in parts of equal size; dimensions are there at first but for a few rows, and after
    the first batch a tenth of the rows of each fact goes.
    """

    directory: Path
    seed: int
    names: list[str] = field(default_factory=list)
    judge: Any = None
    schemas: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        import duckdb
        import pyarrow.parquet as pq

        self.judge = duckdb.connect()
        self.judge.execute("set default_null_order = 'nulls_first_on_asc_last_on_desc'")
        for path in sorted(LOCATION.glob("*.parquet")):
            self.names.append(path.stem)
            rows = pq.read_table(path)
            self.schemas[path.stem] = rows.schema
            self._cut(path.stem, rows)

    def _cut(self, name: str, rows: Any) -> None:
        """Write the batches of a table, and what is there after each for the judge."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        chance = random.Random(f"{self.seed} {name}")
        early = 1 / BATCHES if name in FACTS else 0.97
        begins = [
            0 if chance.random() < early else chance.randrange(BATCHES) for _ in range(len(rows))
        ]
        ends = [
            chance.randrange(begin + 1, BATCHES + 1)
            if begin + 1 < BATCHES and chance.random() < (0.2 if name in FACTS else 0.01)
            else BATCHES
            for begin in begins
        ]
        for batch in range(BATCHES):
            for kind, when in (("come", begins), ("go", ends)):
                part = rows.filter(pa.array([number == batch for number in when]))
                if len(part):
                    path = self.directory / str(batch) / kind / f"{name}.parquet"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    pq.write_table(part, path)
            there = [begin <= batch < end for begin, end in zip(begins, ends, strict=True)]
            now = rows.filter(pa.array(there))
            self.judge.execute(f"create schema if not exists b{batch}")
            self.judge.register("now", now)
            self.judge.execute(f"create table b{batch}.{name} as select * from now")
            self.judge.unregister("now")

    def begin(self, root: Path, spark: SparkSession) -> None:
        """Empty directories of the tables, and views over them as users have them."""
        for name in self.names:
            for kind in ("come", "go"):
                (root / kind / name).mkdir(parents=True)
            frame = self.frame(spark, name, root)
            frame.createOrReplaceTempView(name)

    def frame(self, spark: SparkSession, name: str, root: Path) -> DataFrame:
        """A table as users read it, with the directory of the rows that go."""
        from pyspark.sql.pandas.types import from_arrow_schema

        reader = spark.read.option("deletes", str(root / "go" / name))
        schema = from_arrow_schema(self.schemas[name])
        return reader.schema(schema).parquet(str(root / "come" / name))

    def arrive(self, root: Path, batch: int) -> None:
        """Put the files of a batch where they are expected."""
        for kind in ("come", "go"):
            for path in (self.directory / str(batch) / kind).glob("*.parquet"):
                shutil.copy(path, root / kind / path.stem / f"{batch}.parquet")

    def by_duckdb(self, text: str, batch: int) -> list[tuple[Any, ...]]:
        """The answer of a text over what is there after a batch."""
        self.judge.execute(f"use b{batch}")
        rows: list[tuple[Any, ...]] = self.judge.execute(text).fetchall()
        return rows

    def plain_session(self, spark: SparkSession, batch: int) -> SparkSession:
        """A session in which the tables have the rows that are there after a batch."""
        plain = spark.newSession()
        self.judge.execute(f"use b{batch}")
        for name in self.names:
            table = self.judge.execute(f"select * from {name}").fetch_arrow_table()
            plain.createDataFrame(table.cast(self.schemas[name])).createOrReplaceTempView(name)
        return plain


def questions() -> Mapping[str, str]:
    """The texts by name, such as `q01`; none if they are not there."""
    path = LOCATION / "queries.json"
    if not path.exists():
        return {}
    texts: dict[str, str] = json.loads(path.read_text())
    return texts


def for_spark(text: str) -> str:
    """A text with names as Spark quotes them."""
    return re.sub(r'"([^"]*)"', r"`\1`", text).strip().rstrip(";")


_LIMIT: Final = re.compile(r"\blimit\s+(\d+)\s*;?\s*$", re.IGNORECASE)


def without_limit(text: str) -> tuple[str, int | None]:
    """A text without the limit at its end, and the limit."""
    limit = _LIMIT.search(text.strip())
    return (_LIMIT.sub("", text.strip()), int(limit[1])) if limit else (text, None)


def main(words: Sequence[str]) -> None:
    """Get the tables."""
    generate(Path(words[0]) if words else LOCATION)


if __name__ == "__main__":
    main(sys.argv[1:])
