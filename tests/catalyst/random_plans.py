"""A pool of random plans: SQL texts, DataFrames, and queries that a condition cuts into three.

    python -m tests.catalyst.random_plans COUNT [PATH] [--first SEED]

analyses COUNT random queries of each kind with Spark and writes their plans.  The small pool in the
repository is read by the tests; `make show-spark` makes a large one under `build`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from incmrql.catalyst import AnalyzedPlan, analyzed_from_json
from incmrql.catalyst.nodes import nodes_of
from tests.catalyst.pool import MAIN, PLANS
from tests.catalyst.wide_texts import partitioned_texts, wide_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATH: Final = PLANS / MAIN / "wide.jsonl.xz"
KINDS: Final = ("sql", "frame", "parts")


@dataclass(frozen=True, slots=True)
class RandomPlan:
    """A random query: its plan; of kind `parts` also those of its three parts."""

    kind: str
    seed: int
    plans: tuple[AnalyzedPlan, ...]

    @property
    def is_cut(self) -> bool:
        """Whether the parts have all rows of the whole.

        They do not where the condition has `IN (query)`: in Spark it is false where it should be
        null, and so is its opposite.
        """
        if self.kind != "parts":
            return False
        whole, part, *_ = (
            sum(node.name == "InSubquery" for node in nodes_of(plan.plan)) for plan in self.plans
        )
        return whole == part

    @property
    def name(self) -> str:
        """How it is spoken of: what `texts_of` and `frame_of` need to make it again."""
        return f"{self.kind} {self.seed}"


def texts_of(kind: str, seed: int) -> tuple[str, ...]:
    """The SQL texts of a random query; none of a DataFrame."""
    match kind:
        case "sql":
            return (wide_text(seed),)
        case "parts":
            return partitioned_texts(seed)
        case _:
            return ()


def frames_of(spark: SparkSession, kind: str, seed: int) -> tuple[DataFrame, ...]:
    """The frames of a random query, in a session that has the tables."""
    from tests.catalyst.random_frames import random_frame

    if kind == "frame":
        return (random_frame(seed, cache(spark.table)),)
    return tuple(spark.sql(text) for text in texts_of(kind, seed))


def read_pool(path: Path = PATH) -> list[RandomPlan]:
    """The plans of a pool."""
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    return [
        RandomPlan(
            entry["kind"],
            entry["seed"],
            tuple(analyzed_from_json(json.dumps(plan)) for plan in entry["plans"]),
        )
        for entry in map(json.loads, lines)
    ]


def analyzed_entries(spark: SparkSession, kind: str, seeds: Iterable[int]) -> Iterator[str]:
    """Random queries of a kind as lines of a pool, without those that Spark refuses."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from incmrql.errors import QueryError
    from incmrql.spark.plans import analyze_sql, read_plan
    from tests.catalyst.dumps import create_tables, portable, user_session

    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary).resolve()
        session = user_session(spark)
        create_tables(session, "random", directory)
        refused: Counter[str] = Counter()
        for seed in seeds:
            try:
                if kind == "frame":
                    frames = frames_of(session, kind, seed)
                    analyzed = [read_plan(frame).analyzed for frame in frames]
                else:
                    texts = texts_of(kind, seed)
                    analyzed = [analyze_sql(session, text).analyzed for text in texts]
            except (QueryError, PySparkException, Py4JJavaError) as problem:
                refused[type(problem).__name__ + str(problem)[:60]] += 1
                continue
            plans = [portable(replace(plan, text=""), directory) for plan in analyzed]
            yield f'{{"kind":"{kind}","seed":{seed},"plans":[{",".join(plans)}]}}\n'
    sys.stderr.write(f"{kind}: {refused.total()} refused by Spark\n")


def write_pool(spark: SparkSession, count: int, path: Path = PATH, first: int = 0) -> None:
    """Write the plans of this many random queries of each kind."""
    lines = [
        line
        for kind in KINDS
        for line in analyzed_entries(spark, kind, range(first, first + count))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress("".join(lines).encode()))


def main() -> None:
    """Analyse and write."""
    from incmrql.spark.session import start

    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else ""
    )
    parser.add_argument("count", type=int)
    parser.add_argument("path", type=Path, nargs="?", default=PATH)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    spark = start("local[1]")
    write_pool(spark, chosen.count, chosen.path, chosen.first)
    spark.stop()


if __name__ == "__main__":
    main()
