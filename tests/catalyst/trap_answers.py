"""What Spark answers to the texts of `texts/traps.sql`, kept beside their plans.

    python -m tests.catalyst.trap_answers

asks Spark for the answers over three sets of rows (none, plain ones, and values where engines
differ) and writes them with the plans.  `make plans` does so.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from incmrql.catalyst import AnalyzedPlan, analyzed_from_json, plan_from_json, plan_to_json
from incmrql.errors import QueryError
from tests.catalyst.pool import MAIN, PLANS
from tests.catalyst.random_answers import (
    FASTER,
    collect_rows,
    decode_value,
    encode_value,
    rows_of,
    write_tables,
)
from tests.catalyst.texts import texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATH: Final = PLANS / MAIN / "traps.jsonl.xz"
DATA_SETS: Final = (0, 1, 4, 7)
"""The numbers of the rows: none, plain ones, more of them, and hard ones."""


@dataclass(frozen=True, slots=True)
class TrapAnswers:
    """The plan of a text, and for each set of rows what Spark answers, or its error."""

    plan: AnalyzedPlan
    rows: tuple[tuple[Any, ...], ...]
    errors: tuple[str, ...]


@cache
def trap_answers() -> dict[str, TrapAnswers]:
    """The answers by the names of the texts."""
    entries = map(json.loads, lzma.decompress(PATH.read_bytes()).decode().splitlines())
    return {
        entry["name"]: TrapAnswers(
            analyzed_from_json(json.dumps(entry["plan"])),
            tuple(decode_value(plan_from_json(json.dumps(rows))) for rows in entry["rows"]),
            tuple(entry["errors"]),
        )
        for entry in entries
    }


def ask_spark(spark: SparkSession, directory: Path) -> list[str]:
    """The answers of all texts as lines of a file."""
    from incmrql.spark.plans import analyze_sql
    from tests.catalyst.dumps import portable, user_session

    plans: dict[str, str] = {}
    answers: dict[str, list[tuple[str, str]]] = {}
    for number in DATA_SETS:
        session = user_session(spark)
        for name, value in FASTER.items():
            session.conf.set(name, value)
        folder = directory / str(number)
        write_tables(session, rows_of(number), folder)
        for name, text in texts("traps").items():
            try:
                plan = analyze_sql(session, text)
            except QueryError as refused:
                sys.stderr.write(f"{name} is refused by Spark: {refused.message}\n")
                continue
            plans.setdefault(name, portable(plan.analyzed, folder))
            try:
                rows, error = collect_rows(plan.frame)
                answers.setdefault(name, []).append((plan_to_json(encode_value(rows)), error))
            except Exception as problem:  # values that the file cannot keep
                answers.setdefault(name, []).append(("[]", f"not kept: {type(problem).__name__}"))
    return [
        f'{{"name":"{name}","plan":{plan},"rows":[{",".join(rows for rows, _ in answers[name])}],'
        f'"errors":{json.dumps([error for _, error in answers[name]])}}}\n'
        for name, plan in sorted(plans.items())
    ]


def main() -> None:
    """Ask and write."""
    from incmrql.spark.session import start

    spark = start("local[1]")
    with tempfile.TemporaryDirectory() as temporary:
        lines = ask_spark(spark, Path(temporary).resolve())
    spark.stop()
    PATH.write_bytes(lzma.compress("".join(lines).encode()))
    sys.stderr.write(f"{len(lines)} of {len(texts('traps'))} texts have an answer\n")


if __name__ == "__main__":
    main()
