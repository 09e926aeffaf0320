"""Reference, DuckDB, pinned expressions and plain Spark agree in Spark's evaluation modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from incmrql.lower.tree import Dialect
from incmrql.types.model import TIMESTAMP_NTZ
from tests.effort import sample
from tests.lower.agreement import (
    Question,
    differences,
    questions,
    reference_values,
    stored_type,
)
from tests.lower.spark_agreement import (
    SparkCase,
    arithmetic_cases,
    cast_cases,
    function_cases,
    null_cases,
)
from tests.lower.spark_functions import (
    array_cases,
    more_cases,
    number_cases,
    string_cases,
    time_cases,
)
from tests.lower.spark_types import binary_cases, local_time_cases, span_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAMILIES: dict[str, Callable[[], Iterator[SparkCase]]] = {
    "arithmetic": arithmetic_cases,
    "casts": cast_cases,
    "functions": function_cases,
    "nulls": null_cases,
    "strings": string_cases,
    "numbers": number_cases,
    "times": time_cases,
    "arrays": array_cases,
    "more": more_cases,
    "binaries": binary_cases,
    "local times": local_time_cases,
    "spans": span_cases,
}


@cache
def cases(family: str) -> tuple[SparkCase, ...]:
    return tuple(sample(FAMILIES[family](), 2))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_duckdb(family: str) -> None:
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        problems = []
        for question in questions(cases(family), 1):
            text, able = question.query(Dialect.DUCKDB)
            connection.register("arguments", question.table())
            results = connection.sql(text).to_arrow_table().sort_by("row0")
            for i, case in enumerate(able):
                problems += differences(case, results[f"r{i}"])
    assert not problems


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_pinned(family: str) -> None:
    problems = []
    for question in questions(cases(family), 1):
        table = question.table()
        for case in question.cases:
            assert case.pin is not None
            columns = [table[name] for name in question.names(case)]
            problems += differences(case, case.pin(columns))
    assert not problems


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ansi", "try", "legacy"])
@pytest.mark.parametrize("family", FAMILIES)
def test_spark(family: str, mode: str, spark: SparkSession) -> None:
    """Spark gives what the reference gives, for rows with a result."""
    chosen = [case for case in cases(family) if case.mode == mode]
    usual = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", str(mode != "legacy").lower())
    try:
        problems = []
        for question in questions(chosen, 8):
            _arguments(spark, _with_results(question), question)
            results = spark.sql(_question_text(question)).toArrow().sort_by("row0")
            for i, case in enumerate(question.cases):
                problems += _unlike(case, _with_nulls(results[f"r{i}"], case))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", usual or "false")
    assert not problems


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_spark_fails_where_there_is_no_result(family: str, spark: SparkSession) -> None:
    """In ANSI mode, of every operation a row without a result."""
    usual = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        silent = []
        for question in questions([c for c in cases(family) if c.mode == "ansi"], 8):
            _arguments(spark, question.table(), question)
            for case in question.cases:
                row = _failing_row(case)
                if row is not None and not _fails(_text(question, case), row, spark):
                    silent.append(f"{case} of {case.rows()[row]}")
    finally:
        spark.conf.set("spark.sql.ansi.enabled", usual or "false")
    assert not silent


def _arguments(spark: SparkSession, table: Any, question: Question) -> None:
    """Register the arguments; from a table Spark takes all timestamps for such with a zone."""
    frame = spark.createDataFrame(table)
    for case in question.cases:
        for name, type_ in zip(question.names(case), case.parameters, strict=True):
            if type_ == TIMESTAMP_NTZ:
                frame = frame.withColumn(name, frame[name].cast("timestamp_ntz"))
    frame.createOrReplaceTempView("arguments")


def _unlike(case: Any, column: Any) -> list[str]:
    """Where Spark says something else; it has a negative zero, which here is zero."""
    return [p for p in differences(case, column) if not p.endswith("gives -0.0")]


def _with_nulls(column: Any, case: Any) -> Any:
    """A column of arrays in the type of arrays whose elements may be null."""
    wanted = stored_type(case.result)
    return column.cast(wanted) if pa.types.is_list(wanted) else column


def _text(question: Question, case: Any) -> str:
    return str(case.text.format(*question.names(case)))


def _with_results(question: Question) -> Any:
    """The arguments, and whether each case has a result for them."""
    table = question.table()
    for i, case in enumerate(question.cases):
        rows = case.rows()
        known = [
            value is not None or None in row or case.mode != "ansi"  # type: ignore[attr-defined]
            for value, row in zip(reference_values(case), rows, strict=True)
        ]
        known += [False] * (len(table) - len(rows))
        table = table.append_column(f"known{i}", pa.array(known))
    return table


def _question_text(question: Question) -> str:
    columns = [
        f"CASE WHEN known{i} THEN {_text(question, case)} END AS r{i}"
        for i, case in enumerate(question.cases)
    ]
    return f"SELECT row0, {', '.join(columns)} FROM arguments"


def _failing_row(case: Any) -> int | None:
    """A row without a result, of an operation of which null is none."""
    if not case.fails:
        return None
    for number, (value, row) in enumerate(zip(reference_values(case), case.rows(), strict=True)):
        if value is None and None not in row:
            return number
    return None


def _fails(text: str, row: int, spark: SparkSession) -> bool:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        spark.sql(f"SELECT {text} FROM arguments WHERE row0 = {row}").collect()
    except PySparkException:
        return True
    except Py4JJavaError as error:  # Spark has no error of its own for a negative length
        return "NegativeArraySizeException" in str(error)
    except ValueError:
        return True  # a time that only Spark has a value for
    return False
