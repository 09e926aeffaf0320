"""Pinned functions on columns of any shape; that their values are right is in tests/sql."""

from __future__ import annotations

import math
import random
from decimal import Decimal as DecimalValue

import pyarrow as pa
import pytest

from incmrql.engine.columns.pinned import apply, apply_cast
from incmrql.errors import InternalError
from incmrql.types.model import BOOL, DOUBLE, INT, LONG, STRING, Decimal, Tuple, Type, list_of
from incmrql.values.numbers import decimal_arithmetic

TWO = (STRING, STRING)


def test_chunks_slices_and_empty_columns() -> None:
    numbers = pa.chunked_array([[0.0, None], [1.0, 0.0]])
    assert apply("cos", [numbers], [DOUBLE], DOUBLE).to_pylist()[:2] == [1.0, None]
    assert apply("cos", [pa.array([9.0, 0.0, 8.0]).slice(1, 1)], [DOUBLE], DOUBLE).to_pylist() == [
        1.0
    ]
    nothing = pa.array([], pa.string())
    for function in ("toUpperCase", "trim"):
        assert apply(function, [nothing], [STRING], STRING).to_pylist() == []
    assert apply("matches", [nothing, nothing], TWO, list_of(STRING)).type == pa.list_(pa.string())
    assert apply_cast(nothing, STRING, INT).type == pa.int32()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a.", [True, False, None]),
        ("(", [None, None, None]),
        ("a)(b", [None, None, None]),
        (r"\Qab", [True, False, None]),
        (None, [None, None, None]),
    ],
)
def test_one_pattern_for_all_texts(pattern: str | None, expected: list[bool | None]) -> None:
    texts = pa.array(["ab", "abc", None])
    patterns = pa.array([pattern] * 3, pa.string())
    assert apply("matches", [texts, patterns], TWO, BOOL).to_pylist() == expected


def test_letters_beyond_ascii() -> None:
    column = pa.array(["\u00df", "a", None])
    assert apply("toUpperCase", [column], [STRING], STRING).to_pylist() == ["SS", "A", None]


def test_structured_arguments_and_results() -> None:
    pair = Tuple((INT, STRING))
    rows = pa.array(
        [{"_1": 1, "_2": "a"}, None], pa.struct([("_1", pa.int32()), ("_2", pa.string())])
    )
    assert apply("string", [rows], [pair], STRING).to_pylist() == ['(1,"a")', None]
    pieces = apply("split", [pa.array(["a,b"]), pa.array([","])], TWO, list_of(STRING))
    assert pieces.to_pylist() == [["a", "b"]]


def test_what_is_no_function_of_scalars() -> None:
    with pytest.raises(InternalError):
        apply("random", [pa.array([1])], [LONG], LONG)


@pytest.mark.parametrize("op", "+-*/%")
@pytest.mark.parametrize("scale", [0, 18, 37])
def test_random_decimals(op: str, scale: int) -> None:
    chosen = random.Random(scale)
    types: list[Type] = [Decimal(38, scale), Decimal(38, 18)]

    def number(scale: int) -> DecimalValue:
        unscaled = chosen.randrange(10 ** chosen.randrange(1, 39)) * chosen.choice((1, -1))
        return DecimalValue((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))

    rows = [(number(scale), number(18)) for _ in range(300)]
    columns = [
        pa.array(column, pa.decimal128(38, s))
        for column, s in zip(zip(*rows, strict=True), (scale, 18), strict=True)
    ]
    numbers = apply(op, columns, types, Decimal(38, 6)).to_pylist()
    assert numbers == [decimal_arithmetic(op, a, b, (38, 6)) for a, b in rows]


def test_the_spread_of_two_values_and_of_fewer() -> None:
    """Of 1.0 and 3.0, also in halves; of fewer it is null, of one that is not finite NaN."""
    columns = [
        pa.array([2, 2, 1, None, 3]),
        pa.array([0.0, 0.0, 0.0, 0.0, math.inf]),
        pa.array([[4], [8], [4], [0], [4]]),
        pa.array([[10], [40], [10], [0], [10]]),
        pa.array([0, -1, 0, 0, 0]),
    ]
    longs = list_of(LONG)
    types: list[Type] = [LONG, DOUBLE, longs, longs, INT]
    variances = apply("variance#sums", columns, types, DOUBLE)
    assert str(variances.to_pylist()) == "[2.0, 2.0, None, None, nan]"
    assert apply("stddev#sums", columns, types, DOUBLE).to_pylist()[0] == math.sqrt(2.0)
