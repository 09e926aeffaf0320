"""DuckDB: SQL over all Parquet files again at each batch, into a table in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from benchmarks.experiments.rivals_files import Form
from benchmarks.experiments.rivals_queries import Query
from benchmarks.experiments.rivals_sides import Answer, Side, Table
from benchmarks.incremental_data import GONE

THREADS = 2


@contextmanager
def tables(query: Query, folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the tables of a folder as views."""
    with duckdb.connect() as connection:
        connection.execute(f"set threads = {THREADS}")
        for table in query.workload.tables:
            names = ", ".join(column.split()[0] for column in table.columns.split(","))
            text = f"select {names} from read_parquet('{folder / table.name}/*.parquet')"
            if query.workload.deleted and any((folder / GONE).iterdir()):
                text += f" except all select {names} from read_parquet('{folder / GONE}/*.parquet')"
            connection.execute(f"create view t_{table.name} as {text}")
        yield connection


def answer(query: Query, folder: Path) -> Answer:
    """The answer over the files of a folder."""
    with tables(query, folder) as connection:
        return connection.sql(query.sql).to_arrow_table()


class Again:
    """The same SQL over more files."""

    form: Form = "parquet"

    def __init__(self, table: Table) -> None:
        self.table = table
        self.folder = table.files.open("duckdb")

    def take(self, number: int, expected: Answer) -> float:  # noqa: ARG002 - it is done when it ends
        """From the files to the table, the views over what is there included."""
        self.table.files.reveal(number, "duckdb", self.form)
        begun = time.perf_counter()
        with tables(self.table.query, self.folder) as connection:
            connection.execute(f"create table answer as {self.table.query.sql}")
        return time.perf_counter() - begun

    def answer(self) -> Answer:
        """The answer once more."""
        return answer(self.table.query, self.folder)

    def close(self) -> None:
        """Nothing is kept."""


class DuckDB:
    """DuckDB in the process of the experiment."""

    name = "DuckDB, again"

    def open(self, table: Table) -> Side:
        """All queries can be computed again."""
        return Again(table)

    def close(self) -> None:
        """Nothing runs beside the sides."""
