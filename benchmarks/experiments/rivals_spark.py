"""Plain Spark: data frames by hand, over all files again at each batch, into the `noop` sink."""

from __future__ import annotations

import time

from pyspark.sql import DataFrame

from benchmarks.batch_sides import act, by_hand
from benchmarks.experiments.rivals_files import Form
from benchmarks.experiments.rivals_sides import Answer, Side, Table


class Again:
    """The same frames over more files."""

    form: Form = "parquet"

    def __init__(self, table: Table) -> None:
        self.table = table
        self.folder = table.files.open("spark")
        self.spark = table.session.spark.newSession()
        is_loop = table.query.hand is not None  # short steps: more jobs would cost more
        self.spark.conf.set("spark.sql.adaptive.enabled", str(not is_loop).lower())

    def take(self, number: int, expected: Answer) -> float:  # noqa: ARG002 - it is done when it ends
        """From the files to the last row."""
        self.table.files.reveal(number, "spark", self.form)
        begun = time.perf_counter()
        by_hand(self.spark, self.folder, self.table.query.expert, lambda frame: act(frame, "noop"))
        return time.perf_counter() - begun

    def answer(self) -> Answer:
        """The answer once more, as a table."""
        return by_hand(self.spark, self.folder, self.table.query.expert, DataFrame.toArrow)

    def close(self) -> None:
        """Nothing is kept."""


class PlainSpark:
    """Spark by hand, in the process of the experiment."""

    name = "Spark, again"

    def open(self, table: Table) -> Side:
        """All queries can be computed again."""
        return Again(table)

    def close(self) -> None:
        """Nothing runs beside the sides."""
