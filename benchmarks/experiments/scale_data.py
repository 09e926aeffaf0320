"""The data of `scale`: histories of up to 100M rows that Spark makes, and batches beside them.

Facts have a key and a number below a million; the small side of the join has a row for each key,
with the group that the key is in.  A history of facts is made once for each number of rows and
keys, and serves the group-by and the join.  Integers only: their averages do not depend on order.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any as Arrow
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from benchmarks.incremental_data import FILES, Draw, Size, Table
from benchmarks.incremental_queries import NUMBERS

BELOW: Final = 1_000_000
GROUPS: Final = 1_000
RARE: Final = 0.001
"""The share of a batch that is on the small side: each of its rows meets many facts."""
VERSION: Final = 1


def _groups(draw: Draw) -> dict[str, Arrow]:
    keys = draw.each(draw.size.keys)
    return {"C": keys, "A": (keys % GROUPS).astype(np.int32)}


FACTS: Final = NUMBERS
MANY: Final = replace(FACTS, share=1 - RARE)
FEW: Final = Table("groups", "C int, A int", _groups, share=RARE)


def history(spark: SparkSession, root: Path, size: Size) -> Path:
    """The folder with facts and groups, made by Spark where it is missing."""
    folder = root / f"scale-{VERSION}-{size.rows}-{size.keys}"
    if folder.exists():
        return folder
    making = folder.with_name(f".{folder.name}")
    shutil.rmtree(making, ignore_errors=True)
    facts = spark.range(0, size.rows, 1, FILES)
    key, number = (
        sql.pmod(sql.xxhash64("id", sql.lit(salt)), sql.lit(below)).cast("int")
        for salt, below in ((1, size.keys), (2, BELOW))
    )
    _write(facts.select(key.alias("K"), number.alias("V")), making / FACTS.name)
    groups = spark.range(0, size.keys, 1, 1)
    group = (sql.col("id") % GROUPS).cast("int")
    _write(groups.select(sql.col("id").cast("int").alias("C"), group.alias("A")), making / FEW.name)
    making.rename(folder)
    return folder


def _write(rows: DataFrame, folder: Path) -> None:
    """Parquet files with the names that histories have, and nothing else."""
    rows.write.parquet(str(folder))
    for place, file in enumerate(sorted(folder.glob("part-*.parquet"))):
        file.rename(folder / f"history-{place:02d}.parquet")
    for other in [*folder.glob("_*"), *folder.glob(".*")]:
        other.unlink()
