"""Variances of keys from accumulators in columns have the bits of the reference."""

from __future__ import annotations

import math
from decimal import Decimal as DecimalValue
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from incmrql.engine.columns.accumulators import (
    AccumulatorRead,
    How,
    Lift,
    Parts,
    aggregate_column,
    lift_rows,
)
from incmrql.plan.nodes import Request
from incmrql.reference.aggregates import aggregate
from incmrql.types import typed
from incmrql.types.model import DOUBLE, LONG, Decimal, Type
from incmrql.values import Value, identical

MONEY = Decimal(20, 3)
GROUPS: list[tuple[Type, list[list[Value]]]] = [
    (LONG, [[1, 3], [5], [], [2**62, -(2**62), 7, 7]]),
    (MONEY, [[DecimalValue("0.001"), DecimalValue("9" * 17 + ".999")], [DecimalValue(5)], []]),
    (DOUBLE, [[0.1] * 7, [1e308, -1e308], [5e-324, 1.0, 2.0], [1e16, 1.0, -1e16], [3.0], []]),
    (DOUBLE, [[math.inf, 1.0], [math.inf, -math.inf], [math.nan, 0.0], [-math.inf], [1.0, 1.0]]),
]


@pytest.mark.parametrize("function", ["variance", "stddev"])
@pytest.mark.parametrize(("type_", "groups"), GROUPS)
def test_spreads_of_keys(function: str, type_: Type, groups: list[list[Value]]) -> None:
    hows: tuple[How, ...] = ("sum", "squares", "count")
    lifts = tuple(Lift(i, how, (0,), type_) for i, how in enumerate(hows))
    values = [value for group in groups for value in group]
    kind: Any = {LONG: pa.int64(), DOUBLE: pa.float64(), MONEY: pa.decimal128(20, 3)}[type_]
    of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    column, once = pa.array(values, kind), np.ones(len(values), np.int64)
    parts: Parts = {}
    for lift in lifts:
        parts |= lift_rows(lift, [column], once, of, len(groups))
    variable = typed.Variable("v", 1, DOUBLE)
    request = Request(variable, function, (0, 1, 2), 0, typed.Var(variable, type=DOUBLE))
    spreads = aggregate_column(AccumulatorRead(request, lifts), parts, len(groups)).to_pylist()
    expected = [aggregate(function, group, DOUBLE) for group in groups]
    assert all(map(identical, spreads, expected)), (spreads, expected)
