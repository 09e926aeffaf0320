"""incmrql as a side: a driver with a checkpoint, whose changes are published as Parquet."""

from __future__ import annotations

import time

import pyarrow as pa

from benchmarks.experiments.rivals_files import Form
from benchmarks.experiments.rivals_sides import Answer, Table
from benchmarks.incremental_queries import text_of
from benchmarks.incremental_run import program
from incmrql.runtime import Driver, StreamOptions

NAME = "incmrql"


class Ours:
    """The program of a query on its checkpoint."""

    form: Form = "parquet"

    def __init__(self, table: Table) -> None:
        self.table = table
        folder = table.files.open(NAME)
        self.driver = Driver(
            program(text_of(table.query.workload, folder)),
            table.files.folder / "ours" / "checkpoint",
            table.files.folder / "ours" / "out",
            table.session.private_spark(),
            StreamOptions(settle=0.0, grace=2.0),
        )

    def take(self, number: int, expected: Answer) -> float:  # noqa: ARG002 - it knows when it is done
        """From the files to the durable commit and the published changes."""
        self.table.files.reveal(number, NAME, self.form)
        begun = time.perf_counter()
        report = self.driver.step()
        seconds = time.perf_counter() - begun
        assert report is not None, "there is nothing to take in"
        return seconds

    def answer(self) -> Answer:
        """The answer in the state."""
        return pa.Table.from_pylist([dict(row) for row in self.driver.answer(0)])

    def close(self) -> None:
        """Let go of the checkpoint."""
        self.driver.close()
