"""How a query runs on either side: MRQL text by incmrql, and the same by hand.

Both give a frame that has not run yet (a loop has run all its steps but the last action), and
both are timed from the text, or the code, to the end of the action.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from incmrql.algebra.optimize import normal_form
from incmrql.algebra.translate import translate
from incmrql.api import compiled
from incmrql.spark.batch import Batch, _Work
from incmrql.sql.context import NARROW
from incmrql.syntax.depth import room

Kept: TypeAlias = list[Callable[[], object]]
"""What has to be called when the answer is there, to free what was kept meanwhile."""
Expert: TypeAlias = Callable[[SparkSession, Path, Kept], DataFrame]
"""Code by hand: a frame of the answer over the data of a folder."""
Action: TypeAlias = Literal["noop", "collect"]


@contextlib.contextmanager
def by_incmrql(spark: SparkSession, text: str, *, fast: bool) -> Iterator[DataFrame]:
    """The answer of the last item of a script, as a frame."""
    script = compiled(text).typed
    with room():
        query, _ = normal_form(translate(script.items[-1].expr, script))
    batch = Batch(spark, script, fast_sums=fast)
    work = _Work(batch, NARROW, {variable.number: part for variable, part in query.parts})
    try:
        yield work.frame(query.parts[-1][1])
    finally:
        work.runner.close()


@contextlib.contextmanager
def by_hand(spark: SparkSession, data: Path, expert: Expert) -> Iterator[DataFrame]:
    """The answer of an expert's code, as a frame."""
    kept: Kept = []
    try:
        yield expert(spark, data, kept)
    finally:
        for free in reversed(kept):
            free()


def act(frame: DataFrame, action: Action) -> None:
    """Run a frame to its end."""
    if action == "collect":
        frame.collect()
    else:
        frame.write.format("noop").mode("overwrite").save()
