"""PyFlink SQL, one process for all queries: it watches folders of CSV or changes as JSON.

State is in memory and there are no checkpoints.  Small batches inside Flink are on.
"""

from __future__ import annotations

from benchmarks.experiments.rivals_files import Form
from benchmarks.experiments.rivals_process import Process, Watched, start_side
from benchmarks.experiments.rivals_sides import Side, Table


class Flink:
    """PyFlink, where it is installed."""

    name = "PyFlink SQL"

    def __init__(self) -> None:
        self.process: Process | None = None

    def open(self, table: Table) -> Side:
        """A job for a query; the one before is cancelled.  A process that has ended is replaced."""
        if self.process is None or self.process.process.poll() is not None:
            self.close()
            self.process = Process("flink", "flink_side.py")
        form: Form = "debezium" if table.query.workload.deleted else "csv"
        side = Watched(table, "flink", self.process, form)
        return start_side(side, sql=table.query.sql, kinds=table.query.kinds, form=form)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.close()
            self.process = None
