"""Shows that queries of Spark are kept right: after every batch they answer as plain Spark does.

    python -m tests.spark.show [--seeds N] [--batches N] [--only NAME ...]

Part by part: the questions of TPC-H, the texts and DataFrames of many shapes that tests of the
conversion read, the questions of TPC-DS, and, if asked for, random windows.  What is refused is
counted with its reason, and what is not run is named.  The exit code is 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException

import incmrql
from incmrql.compiler.plans import PlanQuery, PlanScript, compile_plans
from incmrql.spark.session import start
from tests.catalyst.frames import FRAMES
from tests.catalyst.pool import read_plans
from tests.catalyst.random_windows import random_query
from tests.catalyst.texts import texts
from tests.spark.changing import ChangingTables, rows_of
from tests.spark.shapes import shape_tables, window_tables
from tests.spark.tpch import QUESTIONS, tpch_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.api.results import Result


OPEN: Final = ("drop_duplicates", "first_last", "limit", "collect")
"""Queries that leave Spark a choice of rows: they are compared by how many there are."""


@dataclass(slots=True)
class Part:
    """What came of the queries of a part, by their names."""

    name: str
    right: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    spark_fails: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """The part for a reader."""
        queries = {*self.right, *self.refused, *self.spark_fails, *self.wrong}
        yield f"{self.name}: {len(set(self.right) - self.wrong.keys())} of {len(queries)} right"
        for reason, _ in Counter(self.refused.values()).most_common():
            names = [name for name, why in self.refused.items() if why == reason]
            yield f"  refused, {len(names)}: {reason} ({', '.join(names[:5])})"
        if self.spark_fails:
            yield f"  raise an error in Spark itself: {', '.join(self.spark_fails)}"
        for name, why in self.wrong.items():
            yield f"  WRONG {name}: {why}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query over tables that change: as users ask it, and as plain Spark is asked."""

    name: str
    tables: ChangingTables
    users: SparkSession
    ask: Ask
    plain: Plain


Ask = Callable[[incmrql.Session], "Result"]
Plain = Callable[["SparkSession"], "DataFrame"]


def follow(part: Part, query: Query, batches: int) -> None:
    """Follow a query over some batches, and note what came of it."""
    name, tables, users = query.name, query.tables, query.users
    for table in tables.schemas:
        tables.frame(users, table).createOrReplaceTempView(table)
    try:
        with (
            incmrql.Session(spark=users) as session,
            query.ask(session).start(settle=0, on_arithmetic="null") as run,
        ):
            for batch in range(batches):
                tables.change()
                run.step()
                try:
                    expected = rows_of(query.plain(tables.plain_session(users)))
                except Exception:  # an error of ANSI mode, mostly
                    part.spark_fails.append(name)
                    return
                answer = rows_of(run.answer_df())
                is_open = name in OPEN and answer.total() == expected.total()
                if answer != expected and not is_open:
                    missing, extra = list(expected - answer)[:2], list(answer - expected)[:2]
                    part.wrong[name] = f"batch {batch}: missing {missing}, too many {extra}"
                    return
        part.right.append(name)
    except incmrql.QueryError as refusal:
        part.refused[name] = refusal.message
    except incmrql.DataError as refusal:
        part.refused[name] = refusal.message
    except AnalysisException as problem:  # the tables lack columns of types that we do not have
        part.refused[name] = str(problem.getCondition())
    except Exception as problem:  # a finding like any other
        part.wrong[name] = f"{type(problem).__name__}: {str(problem)[:300]}"


def tpch(spark: SparkSession, folder: Path, seeds: int, batches: int) -> Part:
    """The questions of TPC-H."""
    part = Part("TPC-H")
    for seed in range(seeds):
        for name, text in QUESTIONS.items():
            tables = tpch_tables(folder / f"tpch-{name}-{seed}", 100 * seed + int(name[1:]))
            query = Query(
                name, tables, spark.newSession(),
                lambda session, text=text: session.sql(text),  # type: ignore[misc]
                lambda plain, text=text: plain.sql(text),  # type: ignore[misc]
            )  # fmt: skip
            follow(part, query, batches)
    return part


def shapes(spark: SparkSession, folder: Path, seeds: int, batches: int) -> Part:
    """SQL texts of many shapes over three tables."""
    part = Part("texts of many shapes")
    for seed in range(seeds):
        for name, text in texts("shapes").items():
            tables = shape_tables(folder / f"shapes-{name}-{seed}", seed)
            query = Query(
                name, tables, spark.newSession(),
                lambda session, text=text: session.sql(text),  # type: ignore[misc]
                lambda plain, text=text: plain.sql(text),  # type: ignore[misc]
            )  # fmt: skip
            follow(part, query, batches)
    return part


def frames(spark: SparkSession, folder: Path, seeds: int, batches: int) -> Part:
    """DataFrames of many shapes over the same tables."""
    part = Part("DataFrames of many shapes")
    for seed in range(seeds):
        for name, build in FRAMES.items():
            tables = shape_tables(folder / f"frames-{name}-{seed}", seed)
            users = spark.newSession()
            table = cache(users.table)
            query = Query(
                name, tables, users,
                lambda session, b=build, t=table: session.query(b(t)),  # type: ignore[misc]
                lambda plain, b=build: b(cache(plain.table)),  # type: ignore[misc]
            )  # fmt: skip
            follow(part, query, batches)
    return part


def windows(spark: SparkSession, folder: Path, seeds: int, batches: int) -> Part:
    """Random queries with windows, whose orders leave no choice; a hundred for each seed."""
    part = Part("random windows")
    for number in range(100 * seeds):
        text = random_query(random.Random(number), total=True).text
        query = Query(
            f"w{number}", window_tables(folder / f"windows-{number}", number), spark.newSession(),
            lambda session, text=text: session.sql(text),  # type: ignore[misc]
            lambda plain, text=text: plain.sql(text),  # type: ignore[misc]
        )  # fmt: skip
        follow(part, query, batches)
        if f"w{number}" in part.wrong:
            part.wrong[f"w{number}"] += f"\n    {text}"
    return part


def tpcds_coverage() -> Part:
    """The questions of TPC-DS as far as they convert; their data are not in this repository."""
    part = Part("TPC-DS, converted and planned (not run: its data need an extension of DuckDB)")
    for name, analyzed in read_plans("tpcds").items():
        try:
            compiled = compile_plans(PlanScript((PlanQuery(analyzed, name),)))
            compiled.program(compiled.items)
            part.right.append(name)
        except incmrql.QueryError as refusal:
            part.refused[name] = "; ".join(sorted({each.message for each in refusal.problems}))
    return part


def main() -> int:
    """Run the parts, print them, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--only", nargs="*", default=["tpch", "shapes", "frames", "tpcds"])
    chosen = parser.parse_args()
    is_right = True
    with tempfile.TemporaryDirectory(prefix="incmrql-show-") as directory:
        spark = start("local[2]", {"spark.sql.shuffle.partitions": "2"})
        for name in chosen.only:
            if name == "tpcds":
                part = tpcds_coverage()
            else:
                parts = {"tpch": tpch, "shapes": shapes, "frames": frames, "windows": windows}
                part = parts[name](spark, Path(directory), chosen.seeds, chosen.batches)
            sys.stdout.write("\n".join(part.lines()) + "\n")
            sys.stdout.flush()
            is_right &= not part.wrong
        spark.stop()
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
