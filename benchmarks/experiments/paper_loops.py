"""The paper's k-means and PageRank, ten steps each.

By hand k-means ends when the centroids rest, as the loop in the language does: that is the faster
one of the two codes that `benchmarks.iteration` has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks.batch_sides import Expert, Kept
from benchmarks.experiments.paper import Question, experiment
from benchmarks.iteration_queries import HAND, MEANS, SMALL, Case, Way


def _steps(expert: Expert) -> Expert:
    """Without adaptive execution, which would make several jobs of each short step."""

    def run(spark: SparkSession, data: Path, kept: Kept) -> DataFrame:
        plain = spark.newSession()
        plain.conf.set("spark.sql.adaptive.enabled", "false")
        return expert(plain, data, kept)

    return run


def question(name: str, about: str, case: Case, expert: str, ways: tuple[Way, ...]) -> Question:
    """A case of the loops as a question of the paper."""
    return Question(
        name,
        about,
        case.text_of,
        (case.table,),
        _steps(case.experts[expert]),
        rows=case.rows,
        keys=case.keys,
        sizes=case.batches,
        ways=ways,
        is_rounded=case.floats,
    )  # fmt: skip


KMEANS: Final = experiment(
    question(
        "paper-kmeans",
        "k-means of 1M points in 4 squares, 10 steps, 9 increments of 10K to 40K",
        MEANS,
        "hand-until-at-rest",
        ("default", "diffuse"),
    )
)
PAGERANK: Final = experiment(
    question(
        "paper-pagerank",
        "PageRank of an R-MAT graph of 5K nodes and 50K edges, 10 steps, 9 increments of"
        " 100 to 400 edges",
        SMALL,
        HAND,
        ("default", "exact", "diffuse"),
    )
)
