"""Texts that DuckDB runs over few rows: parsed once, and yet of the rows at hand."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from incmrql.engine.columns import pipelines
from incmrql.engine.columns.layouts import Leaf
from incmrql.engine.columns.pipelines import FEW, PinnedFunction, Pipeline, SqlText
from incmrql.engine.columns.rows import Rows
from incmrql.io.arrow.types import arrow_type
from incmrql.reference import Environment
from incmrql.types.model import DOUBLE, INT, STRING, Type
from tests.reference.running import world

GREATER = SqlText("SELECT c0 AS r0, _weight FROM given WHERE c0 >= c1")


def apply_pipeline(text: SqlText, type_: Type, *columns: list[Any]) -> list[Any]:
    given = tuple(pa.array(column, arrow_type(type_)) for column in columns)
    rows = Rows(given, np.ones(len(columns[0]), np.int64))
    output = Pipeline(text, Leaf(type_)).apply(rows, Environment(world()))
    assert output.columns[0].type == arrow_type(type_)
    return output.columns[0].to_pylist()  # type: ignore[no-any-return]


def test_one_text_over_columns_of_other_types() -> None:
    """What a text means is decided by the rows that it is given, each time."""
    for _ in range(2):
        assert apply_pipeline(GREATER, INT, [9, 10, None], [10, 9, 1]) == [10]
        assert apply_pipeline(GREATER, STRING, ["9", "10", None], ["10", "9", ""]) == ["9"]
        (number,) = apply_pipeline(GREATER, DOUBLE, [9.0, math.nan], [10.0, 1.0])
        assert math.isnan(number)


def test_few_and_many_rows_by_turns() -> None:
    for count in (1, FEW, FEW + 1, 2):
        assert apply_pipeline(GREATER, INT, [*range(count)], [0] * count) == [*range(count)]


def test_a_text_that_fails_leaves_the_next_one_alone() -> None:
    broken = SqlText("SELECT CAST('x' AS INT) + c0 AS r0, _weight FROM given")
    fine = SqlText("SELECT c0 + 1 AS r0, _weight FROM given")
    with pytest.raises(duckdb.Error):
        apply_pipeline(broken, INT, [1, 2])
    assert apply_pipeline(fine, INT, [1, 2]) == [2, 3]


@pytest.mark.parametrize(
    "text",
    [
        "select * from read_text('{file}')",
        "select * from read_csv('{file}')",
        "select * from '{file}'",
        "copy (select 1) to '{file}.out'",
        "attach '{file}.db' as other",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set memory_limit = '1TB'",
        "pragma threads = 8",
    ],
)
def test_duckdb_reads_and_writes_nothing(text: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(duckdb.Error):
        pipelines._connection().execute(text.format(file=file)).fetchall()
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


def test_duckdb_has_a_limit_of_memory() -> None:
    asked = "select current_setting('memory_limit'), current_setting('temp_directory')"
    ((most, folder),) = pipelines._connection().execute(asked).fetchall()
    assert re.fullmatch(r"[\d.]+ [MG]iB", most)
    assert folder == ""


def test_a_shared_function_takes_several_columns() -> None:
    function = PinnedFunction("pow_of_two_columns", "pow", (DOUBLE, DOUBLE), DOUBLE)
    call = SqlText("SELECT pow_of_two_columns(c0, c1) AS r0, _weight FROM given", (function,))
    assert apply_pipeline(call, DOUBLE, [2.0, 3.0], [3.0, 2.0]) == [8.0, 9.0]
