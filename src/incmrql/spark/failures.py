"""Errors that come out of Spark, as what they are.

A problem with the data that is met in a Python worker travels in the text of the exception that
Spark makes of it, and is the same error again here.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incmrql.diagnostics import DataError, InternalError
from incmrql.spark.clusters import watched

_MARK = "incmrql-problem:"


class Carried(Exception):
    """A data error on its way from a worker."""

    def __init__(self, error: DataError) -> None:
        parts = [error.code, error.message, error.place, error.hint]
        packed = base64.b64encode(json.dumps(parts).encode()).decode()
        super().__init__(f"{_MARK}{packed}:")


@contextmanager
def told(spark: SparkSession) -> Iterator[None]:
    """An action of Spark whose failure is told in our words."""
    try:
        with watched(spark):
            yield
    except PySparkException as problem:
        raise translated(problem) from None


def is_out_of_memory(text: str) -> bool:
    """Whether an exception of Spark says that Java or a Python worker had too little memory."""
    return any(word in text for word in ("OutOfMemoryE", "Java heap space", "MemoryError"))


def translated(problem: PySparkException) -> Exception:
    """What an exception of Spark is about."""
    found = re.search(rf"{_MARK}([A-Za-z0-9+/=]+):", str(problem))
    if found is not None:
        code, message, place, hint = json.loads(base64.b64decode(found[1]))
        return DataError(code, message, place=place, hint=hint)
    text = str(problem)
    if is_out_of_memory(text):
        hint = "Give Spark more, as in --conf spark.driver.memory=8g."
        return DataError("R211", "Spark ran out of memory", hint=hint)
    first = text.strip().splitlines()[0] if text.strip() else type(problem).__name__
    return InternalError(f"Spark: {first[:500]}")
