"""How a query runs on either side: MRQL text by incmrql, and the same by hand.

Both make a frame from text or code and hand it to a `use` that runs it; all of that is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from pyspark.sql import DataFrame, SparkSession

from incmrql.api.session import Session
from incmrql.spark.batch.queries import QueryRun
from incmrql.spark.batch.scripts import only_term
from incmrql.syntax.depth import deep_recursion

T = TypeVar("T")
Kept: TypeAlias = list[Callable[[], object]]
"""What has to be called when the answer is there, to free what was kept meanwhile."""
Expert: TypeAlias = Callable[[SparkSession, Path, Kept], DataFrame]
"""Code by hand: a frame of the answer over the data of a folder."""
Action: TypeAlias = Literal["noop", "collect"]


def by_incmrql(session: Session, text: str, use: Callable[[DataFrame], T], *, fast: bool) -> T:
    """Use the answer of the last query of a script as `store` would, which writes its rows.

    That is the road of large answers: exact sums start with few limbs, and are done again with
    all of them where those do not hold.
    """
    result = session.query(text)
    with deep_recursion():
        engine = result._prepare_engine()
        engine.fast_sums = fast
        query = engine.query(result.item.expr)
        assert query is not None, "not on Spark"
        term = only_term(query)
        assert term is not None, "not a collection of rows"

        def use_frame(run: QueryRun) -> T:
            return use(run.frame(term))

        with engine._query_context() as context, context.sources.explain_failures():
            output = context.attempt(query, use_frame)
            context.sources.finish()
    return output


def by_hand(spark: SparkSession, data: Path, expert: Expert, use: Callable[[DataFrame], T]) -> T:
    """Use the answer of an expert's code."""
    kept: Kept = []
    try:
        return use(expert(spark, data, kept))
    finally:
        for free in reversed(kept):
            free()


def act(frame: DataFrame, action: Action) -> None:
    """Run a frame to its end."""
    if action == "collect":
        frame.collect()
    else:
        frame.write.format("noop").mode("overwrite").save()
