"""The directory that relative paths of Spark start from, which is that of its Java process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_directory(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Let Spark resolve relative paths as a Java would that was started in a folder."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(spark.sparkContext._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(hadoop.Path(str(folder)))
    try:
        yield
    finally:
        files.setWorkingDirectory(before)
