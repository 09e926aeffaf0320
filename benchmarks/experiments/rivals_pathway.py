"""Pathway, in a process for each query: it watches folders of CSV files and keeps all in memory."""

from __future__ import annotations

from benchmarks.experiments.rivals_files import Form
from benchmarks.experiments.rivals_process import Process, Watched, start_side
from benchmarks.experiments.rivals_sides import Side, Table

FORM: Form = "signed csv"


class _Alone(Watched):
    """A query with a process of its own."""

    def close(self) -> None:
        """End the process."""
        self.process.close()


class Pathway:
    """Pathway, where it is installed."""

    name = "Pathway"

    def open(self, table: Table) -> Side:
        """A graph of Pathway's is run once, so each query has its process."""
        process = Process("pathway", "pathway_side.py")
        try:
            return start_side(_Alone(table, "pathway", process, FORM))
        except BaseException:
            process.close()
            raise

    def close(self) -> None:
        """Nothing runs beside the sides."""
