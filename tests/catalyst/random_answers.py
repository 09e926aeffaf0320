"""What Spark answers to random texts over random rows, kept beside the plans.

    python -m tests.catalyst.random_answers COUNT

asks Spark for the answers of COUNT easy and COUNT hard texts, and writes them with their plans.
The rows are those of `rows_of`, for every seed the same, so they need not be kept.
"""

from __future__ import annotations

import json
import lzma
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from incmrql.catalyst import (
    AnalyzedPlan,
    PlanNode,
    PlanValue,
    analyzed_from_json,
    plan_from_json,
    plan_to_json,
)
from incmrql.errors import QueryError
from tests.catalyst.pool import MAIN, PLANS
from tests.catalyst.random_texts import HARD, random_text
from tests.catalyst.texts import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATH: Final = PLANS / MAIN / "random.jsonl.xz"
DATA_SETS: Final = 6
"""A text reads the data set of its seed modulo this; the first has no rows at all.

Hard texts read other data sets.
"""
Rows = Mapping[str, Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Answered:
    """A text that Spark answered: its plan and the rows, which have no order, or Spark's error."""

    seed: int
    text: str
    plan: AnalyzedPlan
    rows: tuple[tuple[Any, ...], ...]
    error: str = ""

    @property
    def data(self) -> Rows:
        """The rows of the tables that the text read."""
        return rows_of(_data_set(self.seed))


def _data_set(seed: int) -> int:
    return seed % DATA_SETS + (DATA_SETS if seed >= HARD else 0)


def answers() -> list[Answered]:
    """All texts with an answer, by seed."""
    entries = map(json.loads, lzma.decompress(PATH.read_bytes()).decode().splitlines())
    return [
        Answered(
            entry["seed"],
            random_text(entry["seed"]),
            analyzed_from_json(json.dumps(entry["plan"])),
            decode_value(plan_from_json(json.dumps(entry["rows"]))),
            entry["error"],
        )
        for entry in entries
    ]


# --- rows ---

_VALUES: Final[dict[str, Sequence[Any]]] = {
    "int": (0, 1, 1, 2, 3, -1),
    "bigint": (0, 1, 2, 3),
    "string": ("x", "y", "xy", "", "z "),
    "decimal(10,2)": tuple(map(Decimal, ("0.00", "0.25", "1.50", "2.00", "-3.10"))),
    "double": (0.0, 0.5, -2.5, 1.0, 3.25),
    "date": tuple(date(2024, 1, 1) + timedelta(days) for days in (0, 0, 59, -1)),
    "boolean": (True, False),
}


_HARD_VALUES: Final[dict[str, Sequence[Any]]] = {
    **_VALUES,
    "int": (0, 1, 2, 7, -3, 100),
    "string": ("x", "7", " 12 ", "2024-03-31", "-0.5", "\N{LATIN SMALL LETTER E WITH ACUTE}"),
    "double": (0.0, -0.0, math.nan, math.inf, 0.1, 2.5, -7.75),
    "decimal(10,2)": tuple(map(Decimal, ("0.05", "2.25", "-2.25", "99.99", "1.15"))),
    "date": (date(2024, 2, 29), date(2023, 12, 31), date(1969, 12, 31), date(2024, 3, 31)),
}


def rows_of(number: int) -> Rows:
    """The rows of all tables in a data set."""
    chance = Random(number)
    values = _VALUES if number < DATA_SETS else _HARD_VALUES
    most = 7 if number % DATA_SETS else 0
    return {
        name: [_row(columns, chance, values) for _ in range(chance.randint(3, 7) if most else 0)]
        for name, columns in tables("random").items()
    }


def _row(columns: str, chance: Random, values: Mapping[str, Sequence[Any]]) -> tuple[Any, ...]:
    def value(kind: str) -> Any:
        return None if chance.random() < 0.25 else chance.choice(values[kind])

    if columns.startswith("id "):
        xs = [value("int") for _ in range(chance.randint(0, 3))]
        struct = (value("int"), value("string"))
        return (
            value("int"),
            None if chance.random() < 0.2 else xs,
            None if chance.random() < 0.2 else struct,
        )
    return tuple(value(column.split(" ", 1)[1]) for column in columns.split(", "))


# --- answers of Spark ---


def ask_spark(spark: SparkSession, seeds: Sequence[int], directory: Path) -> list[str]:
    """A line of JSON for each text that Spark accepts."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    from incmrql.spark.plans import analyze_sql
    from tests.catalyst.dumps import portable, user_session

    lines = []
    for number in sorted({_data_set(seed) for seed in seeds}):
        session = user_session(spark)
        for name, value in FASTER.items():
            session.conf.set(name, value)
        folder = directory / str(number)
        write_tables(session, rows_of(number), folder)
        for seed in seeds:
            if _data_set(seed) != number:
                continue
            try:
                plan = analyze_sql(session, random_text(seed))
            except QueryError:
                continue
            try:
                rows, error = collect_rows(plan.frame)
            except Py4JError:  # an internal error of Spark, which is a bug of its own
                continue
            without_text = portable(replace(plan.analyzed, text=""), folder)
            lines.append((seed, without_text, plan_to_json(encode_value(rows)), error))
    return [
        f'{{"seed":{seed},"plan":{plan},"rows":{rows},"error":{json.dumps(error)}}}\n'
        for seed, plan, rows, error in sorted(lines)
    ]


FASTER: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Tiny rows are answered faster without compiling every query."""


def write_tables(spark: SparkSession, data: Rows, directory: Path) -> None:
    for name, columns in tables("random").items():
        path = str(directory / name)
        frame = spark.createDataFrame(list(data[name]), columns)
        frame.coalesce(1).write.parquet(path)
        spark.read.schema(columns).parquet(path).createOrReplaceTempView(name)


def collect_rows(frame: Any) -> tuple[list[Any], str]:
    """The rows of a frame in some order, or Spark's error."""
    from pyspark.errors import PySparkException

    try:
        return sorted(map(tuple, frame.collect()), key=repr), ""
    except PySparkException as problem:
        return [], problem.getCondition() or type(problem).__name__


def encode_value(value: Any) -> PlanValue:
    match value:
        case date():
            return PlanNode("date", {"text": value.isoformat()})
        case list() | tuple():
            return tuple(map(encode_value, value))
        case _:
            return value  # type: ignore[no-any-return]


def decode_value(value: Any) -> Any:
    match value:
        case PlanNode("date"):
            text = value["text"]
            return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)
        case tuple():
            return tuple(map(decode_value, value))
        case _:
            return value


def main() -> None:
    """Ask and write."""
    from incmrql.spark.session import start

    spark = start("local[1]")
    count = int(sys.argv[1])
    seeds = (*range(count), *range(HARD, HARD + count))
    with tempfile.TemporaryDirectory() as temporary:
        lines = ask_spark(spark, seeds, Path(temporary).resolve())
    spark.stop()
    PATH.write_bytes(lzma.compress("".join(lines).encode()))
    sys.stderr.write(f"{len(lines)} of {len(seeds)} random texts have an answer\n")


if __name__ == "__main__":
    main()
