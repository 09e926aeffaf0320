"""Means of 32-bit integers whose sums are above 2^53, which no test has the rows for."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from incmrql.lower import tree
from incmrql.lower.context import NARROW, WIDE, Context, SumWindow
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.sums.rounding import narrow_mean
from incmrql.lower.tree import Dialect
from incmrql.spark.session import create_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


def sums() -> list[tuple[int, int]]:
    """Sums and how many were summed: any, and those whose mean is near the middle of doubles."""
    chance = random.Random(7)
    pairs = [(0, 0), (0, 5), (2**53, 3), (-(2**53) - 1, 2**23 + 1), (2**53 + 1, 2**23)]
    for _ in range(2_000):
        number = chance.randrange(2**22, 2**30)
        pairs.append((chance.randrange(-number * 2**31, number * 2**31), number))
    for _ in range(2_000):
        bits = chance.randrange(23, 30)
        number = 2**bits * chance.randrange(1, 2 ** (30 - bits))
        quotient = chance.randrange(2 ** (53 - bits), min(2 ** (54 - bits), 2**31))
        rest = (2 * chance.randrange(2 ** (bits - 1)) + 1) * number >> bits
        sign = chance.choice((-1, 1))
        pairs.append((sign * (quotient * number + rest + chance.randrange(-1, 2)), number))
    return pairs


@pytest.mark.parametrize("window", [NARROW, WIDE])
def test_means_are_rounded_once(spark: SparkSession, window: SumWindow) -> None:
    ctx = Context(lower, Dialect.SPARK, window=window)
    mean = narrow_mean(tree.column("sum1"), tree.column("number1"), ctx)
    text = tree.print_tree(mean, Dialect.SPARK)
    create_functions(spark, text)
    given = sums()
    rows = spark.createDataFrame(given, "sum1 long, number1 long").selectExpr(f"{text} AS mean")
    expected = [total / number if number else None for total, number in given]
    assert [row.mean for row in rows.collect()] == expected
