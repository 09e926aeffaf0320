"""Conditions and values that run over whole columns: the same bits as row by row."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.engine.columns.pipelines import ByRow, Pipeline
from incmrql.engine.columns.rows import of_values, to_values
from incmrql.engine.compile.by_row import work_by_row
from incmrql.engine.compile.program import ProgramCompiler
from incmrql.engine.context import environment
from incmrql.engine.operators.base import MapOp
from incmrql.errors import SourceText
from incmrql.io.by_row import by_row_count
from incmrql.plan.assembly import program_of
from incmrql.plan.nodes import Linear
from incmrql.values import Bag, Record, encode
from tests.effort import examples

ROW = (
    "< a: int, l: long, b: double, c: string, d: date, t: timestamp, e: decimal(12,2), "
    "f: decimal(30,10), xs: [int], bs: {string} >"
)
ROWS = st.fixed_dictionaries({
    "a": st.none() | st.sampled_from([0, 1, 2, 3, -1, 2**31 - 1, -(2**31)]),
    "l": st.none() | st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
    "b": st.none() | st.sampled_from([0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, 1e300]),
    "c": st.none() | st.sampled_from(["", "a", "AIR", "MAIL", "air", "ab\x00b", "é", "😀", "a\nb"]),
    "d": st.none()
    | st.sampled_from([date(1, 1, 1), date(1969, 12, 31), date(1995, 1, 1), date(9999, 12, 31)]),
    "t": st.none()
    | st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999,
                                                               tzinfo=UTC)]),
    "e": st.none() | st.sampled_from(
        [Decimal("0.00"), Decimal("-0.05"), Decimal("1.50"), Decimal("-9999999999.99")]
    ),
    "f": st.none() | st.sampled_from(
        [Decimal("0E-10"), Decimal("-0.0000000001"), Decimal("99999999999999999999.9999999999"),
         Decimal("-3.5000000000")]
    ),
    "xs": st.none() | st.lists(st.none() | st.sampled_from([0, 1, 3, -(2**31)]), max_size=3),
    "bs": st.none() | st.lists(st.none() | st.sampled_from(["", "a", "b"]), max_size=3).map(Bag),
})  # fmt: skip
AT_ONCE = [
    'member(x.c, {"AIR", "MAIL", ""})',
    "member(x.a, {1, 2, 3})",
    "member(x.b, {1.5, 0.0})",
    'member(x.d, {date("1995-01-01"), date("1969-12-31")})',
    "member(x.e, {1.5, -0.05})",
    "member(x.a, x.xs)",
    'member("a", x.bs)',
    "some y in {1, 2, 3}: y = x.a",
    "all y in {1, 2, 3}: y <> x.a",
    'some y in {"a", "A"}: startsWith(x.c, y)',
    "some y in x.xs: y > 0",
    "all y in x.xs: y > 0",
    "exists(select y from y in {1, 2} where y = x.a)",
    'matches(x.c, "a.*b")',
    'matches(x.c, "[A-Z]+")',
    "max(x.xs)",
    "min(x.xs)",
    "sum(x.xs)",
    "max({x.b, 1.0})",
    "min({x.b, 1.0})",
    "sum({x.l, x.l})",
    "max(x.bs)",
    "x.e * (1 - x.e)",
    "x.e * (1 - x.e) * (1 + x.e)",
    "x.f * x.f",
    "x.f * x.e",
    "x.f * x.f * x.f",
    "x.e / x.e",
    "x.f / x.e",
    "x.f % x.e",
    "year(x.d)",
    "hour(x.t)",
    'date_trunc("month", x.d)',
    'x.d < date("1995-01-01")',
]


def value_of(row: dict[str, Any]) -> Record:
    return Record(row)


def compiled(expr: str) -> tuple[MapOp, Pipeline, Any]:
    """The operator of a query, the same row by row, and the environment of both."""
    source = SourceText(f'incr select ({expr}, 0) from x in stream(json, "d", type({ROW}));')
    script = compile_script(source, catalog_for(source, ()), read_include).typed
    program = program_of(script.items, script)
    compiler = ProgramCompiler(program)
    compiler.all_steps()
    nodes = enumerate(program.nodes)
    place, node = next((n, node) for n, node in nodes if isinstance(node, Linear))
    step = compiler.steps[place]
    assert isinstance(step, MapOp)
    (variable, body), *rest = node.steps
    given_ = ((variable, compiler.layouts[node.input]),)
    by_row = Pipeline(ByRow(given_, body, tuple(rest)), step.pipeline.layout)
    return step, by_row, (compiler.layouts[node.input], environment(program))


@pytest.mark.parametrize("expr", AT_ONCE)
def test_the_same_bits_as_row_by_row(expr: str) -> None:
    step, by_row, (layout, env) = compiled(expr)
    assert work_by_row(step) == []

    @examples(20)
    @given(st.lists(st.tuples(ROWS.map(value_of), st.sampled_from([1, 2, -1])), min_size=1))
    def compare(values: list[tuple[Record, int]]) -> None:
        rows = of_values(values, layout)
        before = by_row_count()
        found = step.pipeline.apply(rows, env)
        assert by_row_count() == before
        wanted = by_row.apply(rows, env)
        assert shown(found, step.pipeline) == shown(wanted, step.pipeline)
        for one, other in zip(found.columns, wanted.columns, strict=True):
            assert one.type == other.type
        assert np.array_equal(found.weights, wanted.weights)

    compare()


def shown(rows: Any, pipeline: Pipeline) -> list[tuple[bytes, int]]:
    return [(encode(value), weight) for value, weight in to_values(rows, pipeline.layout)]


def test_what_goes_row_by_row_says_so() -> None:
    step, _, _ = compiled("distinct(x.xs)")
    assert work_by_row(step) == ["for each row: DuckDB has no array_distinct that agrees"]
    step, _, _ = compiled("x.c as decimal(10,2)")
    assert work_by_row(step) == ["for each distinct row of arguments: string as decimal(10,2)"]
