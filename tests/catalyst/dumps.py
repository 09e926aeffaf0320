"""Reads the plans of all texts and DataFrames of the pool on this version of Spark.

    python -m tests.catalyst.dumps [DIRECTORY]

writes them to `plans/<version>`: all of them on the main version, elsewhere those that differ.  On
the main version a directory may have more texts, with the same kind of files as `texts`: those of
TPC-DS are in an extension of DuckDB, and not in this repository (Spark wants back quotes around
their aliases).  The plans of these are written without the text.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from incmrql.catalyst import (
    AnalyzedPlan,
    PlanNode,
    PlanValue,
    analyzed_from_json,
    analyzed_to_json,
)
from incmrql.errors import QueryError
from incmrql.spark.plans import analyze_sql, read_plan
from tests.catalyst.frames import FRAMES
from tests.catalyst.pool import MAIN, read_plans, write_plans
from tests.catalyst.texts import HERE, tables, texts

VERSION = ".".join(pyspark.__version__.split(".")[:2])


def user_session(spark: SparkSession) -> SparkSession:
    """A session with Spark's own settings, as a user has it, in UTC."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def create_tables(spark: SparkSession, name: str, directory: Path, source: Path = HERE) -> None:
    """Temporary views of empty tables, read from files as Parquet."""
    for table, columns in tables(name, source).items():
        path = directory / table
        path.mkdir(parents=True, exist_ok=True)
        spark.read.schema(columns).parquet(str(path)).createOrReplaceTempView(table)


def frame_of(spark: SparkSession, name: str, directory: Path) -> DataFrame:
    """A DataFrame of the pool over empty tables."""

    @cache
    def table(table_name: str) -> DataFrame:
        path = directory / table_name
        path.mkdir(parents=True, exist_ok=True)
        return spark.read.schema(tables("shapes")[table_name]).parquet(str(path))

    return FRAMES[name](table)


def portable(analyzed: AnalyzedPlan, directory: Path) -> str:
    """A plan as JSON without what differs from machine to machine and from run to run."""
    plan = _without_code(analyzed.plan)
    assert isinstance(plan, PlanNode)
    without_code = replace(analyzed, plan=plan)
    text = analyzed_to_json(without_code).replace(str(directory), "/tables")
    text = re.sub(r"_pyspark_[0-9a-f]{32}|_common_expr_\d+", "_generated", text)
    return re.sub(r"(?<=\w)#\d+L?(?=\))", "", text)  # in names that Spark 4.0 makes


def _without_code(value: PlanValue) -> PlanValue:
    match value:
        case PlanNode("SimplePythonFunction"):
            return PlanNode("SimplePythonFunction", {"command": b"", "pythonVer": "3"})
        case PlanNode(name, fields, place):
            return PlanNode(name, {key: _without_code(v) for key, v in fields.items()}, place)
        case tuple():
            return tuple(map(_without_code, value))
        case _:
            return value


def plans_of_texts(
    spark: SparkSession, name: str, directory: Path, source: Path = HERE
) -> dict[str, str]:
    """The plans of a file of texts, as JSON by name; without texts that this Spark refuses."""
    session = user_session(spark)
    create_tables(session, name, directory, source)

    def plan_of_text(text: str) -> AnalyzedPlan:
        plan = analyze_sql(session, text).analyzed
        return plan if source == HERE else replace(plan, text="")

    return dict(_read_all(texts(name, source), plan_of_text, directory))


def plans_of_frames(spark: SparkSession, directory: Path) -> dict[str, str]:
    """The plans of all DataFrames of the pool, as JSON by name."""
    session = user_session(spark)
    names = {name: name for name in FRAMES}

    def plan_of_frame(name: str) -> AnalyzedPlan:
        return read_plan(frame_of(session, name, directory)).analyzed

    return dict(_read_all(names, plan_of_frame, directory))


def _read_all(
    queries: Mapping[str, str], analyzed: Callable[[str], AnalyzedPlan], directory: Path
) -> Iterator[tuple[str, str]]:
    for name, query in queries.items():
        try:
            yield name, portable(analyzed(query), directory)
        except QueryError as refused:
            sys.stderr.write(f"{name} is refused by Spark {VERSION}: {refused.message}\n")


def main() -> None:
    """Write the plans of this version."""
    from incmrql.spark.session import start

    spark = start("local[1]")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary).resolve()
        sets = {
            path.stem: plans_of_texts(spark, path.stem, directory, path.parent)
            for source in (HERE, *(map(Path, sys.argv[1:]) if VERSION == MAIN else ()))
            for path in sorted(source.glob("*.sql"))
        }
        sets["frames"] = plans_of_frames(spark, directory)
    spark.stop()
    for name, plans in sets.items():
        if VERSION != MAIN:
            main_plans = read_plans(name)
            plans = {
                key: plan
                for key, plan in plans.items()
                if analyzed_from_json(plan) != main_plans.get(key)
            }
        write_plans(name, VERSION, plans)
        sys.stderr.write(f"{name}: {len(plans)} plans of Spark {VERSION}\n")


if __name__ == "__main__":
    main()
