"""Casts of texts over whole columns: the same values as one by one, and few of them one by one."""

from __future__ import annotations

from decimal import Decimal as DecimalValue
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.engine.columns.pinned import apply, apply_expression, has_column
from incmrql.io.arrow.columns import column_values
from incmrql.io.by_row import by_row_count
from incmrql.reference.spark.casts import cast_in_mode
from incmrql.types import typed
from incmrql.types.model import DATE, INT, STRING, TIMESTAMP, Decimal, Type

TYPES: Final[tuple[Type, ...]] = (
    DATE, Decimal(12, 2), Decimal(38, 0), Decimal(38, 37), Decimal(1, 0),
)  # fmt: skip
COMMON: Final = [
    "1", "-1", "0", "-0", "12.5", "-0.05", "9999999999.99", "2024-02-29", "1969-12-31",
    "0001-01-01", "9999-12-31", None,
]  # fmt: skip
ODD: Final = [
    "", " 1", "1 ", "+1", "1.", ".5", "1e2", "1E-3", "12.345", "99999999999", "-", "x", "\uff11",
    "1\n", "2024-2-9", "2024-02-30", "2023-02-29", "0000-01-01", "2024-01-01T10:00:00",
    "+2024-01-01", "10000-01-01", " 2024-01-01 ", "1" * 40, "0." + "1" * 40,
]  # fmt: skip
TEXTS: Final = st.sampled_from(COMMON + ODD) | st.text("0123456789+-. e", max_size=14)
ONE: Final = typed.Variable("x", 1, STRING)


def cast_to(type_: Type, mode: typed.Mode) -> typed.Cast:
    return typed.Cast(typed.Var(ONE, type=STRING), mode, type=type_)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("mode", ["ansi", "try", "legacy"])
@given(
    st.lists(st.sampled_from(COMMON + ODD) | st.text("0123456789+-. e", max_size=14), max_size=8)
)
def test_columns_are_cast_as_values_are(
    type_: Type, mode: typed.Mode, texts: list[str | None]
) -> None:
    body = cast_to(type_, mode)
    assert has_column(body)
    column = apply_expression([ONE], body, [pa.array(texts, pa.string())])
    expected = [cast_in_mode(text, STRING, type_, mode) for text in texts]
    assert column_values(column, type_) == expected


@pytest.mark.parametrize("type_", [DATE, Decimal(12, 2)], ids=str)
def test_only_uncommon_texts_are_cast_one_by_one(type_: Type) -> None:
    common = ["2024-02-29", "1969-12-31"] if type_ == DATE else ["1", "-0.05", "12.5"]
    before = by_row_count()
    apply_expression([ONE], cast_to(type_, "ansi"), [pa.array([*common * 50, None])])
    assert by_row_count() == before
    apply_expression([ONE], cast_to(type_, "ansi"), [pa.array([*common * 50, " 7", "x", "x"])])
    assert by_row_count() == before + 2


def test_what_is_cast_is_widened_over_the_column() -> None:
    before = by_row_count()
    body = typed.Widen(cast_to(Decimal(12, 2), "ansi"), type=Decimal(14, 3))
    column = apply_expression([ONE], body, [pa.array(["1.5", None, "-2"])])
    assert column_values(column, body.type) == [DecimalValue("1.500"), None, DecimalValue("-2.000")]
    assert by_row_count() == before


def test_what_is_cast_is_added_over_the_column() -> None:
    before = by_row_count()
    one = cast_to(Decimal(12, 2), "ansi")
    body = typed.Arithmetic("+", one, one, type=Decimal(13, 2))
    column = apply_expression([ONE], body, [pa.array(["1.5", None, "-2"])])
    assert column_values(column, body.type) == [DecimalValue("3.00"), None, DecimalValue("-4.00")]
    assert by_row_count() == before


def test_what_is_cast_one_by_one() -> None:
    assert not has_column(cast_to(TIMESTAMP, "ansi"))
    assert not has_column(cast_to(Decimal(3, 3), "ansi"))
    assert not has_column(cast_to(DATE, "total")), "MRQL reads other texts than Spark"
    number = typed.Cast(typed.Const(1, type=INT), "ansi", type=Decimal(12, 2))
    assert not has_column(number)


@pytest.mark.parametrize(
    ("function", "texts", "expected"),
    [
        ("spark.lower", ["Ab", None, ""], ["ab", None, ""]),
        ("spark.upper", ["Ab", None, "é"], ["AB", None, "É"]),
        ("spark.upper", ["ß"], ["SS"]),
    ],
)
def test_case(function: str, texts: list[str | None], expected: list[str | None]) -> None:
    assert apply(function, [pa.array(texts)], [STRING], STRING).to_pylist() == expected


@pytest.mark.parametrize("characters", [" ", "", "xy", "é", None])
@given(st.lists(st.none() | st.text(" xyé\t", max_size=6), max_size=5))
def test_trim(characters: str | None, texts: list[str | None]) -> None:
    columns = [pa.array(texts, pa.string()), pa.array([characters] * len(texts), pa.string())]
    trimmed = apply("spark.trim", columns, [STRING, STRING], STRING).to_pylist()
    assert trimmed == [
        None if text is None or characters is None else text.strip(characters or "\0")
        for text in texts
    ]
