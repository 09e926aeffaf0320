"""A stream over a directory that Spark reads, with partitions and deletions.

As a program it is such a stream in a process of its own, to be killed:
`python -m tests.runtime.reading FOLDER`.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from incmrql.plan.assembly import program_of
from incmrql.plan.program import Program
from incmrql.runtime import Driver, StreamOptions
from incmrql.types.typed import Source, SparkReader
from incmrql.types.walk import with_sources
from tests.engine.programs import typed_script
from tests.runtime.streaming import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE_BY_ONE = replace(QUICK, available_now=True, max_files_per_batch=1)
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": type_, "nullable": True, "metadata": {}}
            for name, type_ in (("v", "integer"), ("note", "string"), ("k", "integer"))
        ],
    }
)


class Partitioned:
    """Files of values and notes in partitions by key: the sum of the values of each key."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.data, self.gone = folder / "data", folder / "gone"
        self.checkpoint, self.output = folder / "ck", folder / "out"
        self.options = {"deletes": str(self.gone), **options}
        for folder_of_stream in (self.data, self.gone):
            folder_of_stream.mkdir(parents=True, exist_ok=True)

    def program(self) -> Program:
        """The program: rows are (v, note, k), as Spark has partitions last."""
        reader = SparkReader(
            "csv",
            (str(self.data),),
            SCHEMA,
            ("v", "note", "k"),
            ("k",),
            (("header", "true"), ("multiLine", "true")),
        )

        def read_by_spark(source: Source) -> Source:
            options = tuple(sorted(self.options.items()))
            return replace(source, format="spark", reader=reader, options=options)

        text = (
            f"incr select (k, sum(v), count(note)) from (v, note, k) in "
            f'stream(line, "{self.data}", ",", type((int, string, int))) group by k;'
        )
        script = with_sources(typed_script(text), read_by_spark)
        return program_of(script.items, script)

    def driver(self, spark: SparkSession, options: StreamOptions = QUICK) -> Driver:
        """A driver of the stream; the checkpoint goes on."""
        return Driver(self.program(), self.checkpoint, self.output, spark, options)

    def run(self, spark: SparkSession, options: StreamOptions = QUICK) -> list[Any]:
        """All batches; the answer after them."""
        with self.driver(spark, options) as driver:
            while driver.step() is not None:
                pass
            return sorted(driver.answer())

    def put(self, key: int, name: str, *rows: str, deletes: bool = False, at: int = 1) -> Path:
        """A file in the partition of a key."""
        path = (self.gone if deletes else self.data) / f"k={key}" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("v,note\n" + "".join(f"{row}\n" for row in rows))
        os.utime(path, (1_000_000 + at, 1_000_000 + at))
        return path

    def spools(self) -> Counter[str]:
        """The spools that wait, by their sources."""
        files = (self.checkpoint / "input").glob("source-*/*")
        return Counter(path.parent.name for path in files)


def main(folder: str) -> None:
    """All batches, one file each."""
    from incmrql.spark.session import private, start

    spark = start("local[2]")
    with Partitioned(Path(folder)).driver(private(spark), ONE_BY_ONE) as driver:
        while (report := driver.step()) is not None:
            sys.stdout.write(f"batch {report.number}\n")
            sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
