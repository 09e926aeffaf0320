"""Terms as SQL: texts that were read and found right, and what must not be in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.compiler.compiled import compile_script
from incmrql.errors import SourceText
from incmrql.lower.context import WIDE, Context
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.statements import Statement, show_statements, statement
from incmrql.lower.tree import Dialect
from incmrql.syntax import ast
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.types.show import show_expr
from incmrql.types.walk import free_variables
from tests import golden
from tests.generators.tables import CATALOG

BOUNDED = [
    "count(x)", "sum(x.B)", "sum(x.C)", "avg(x.B)", "avg(x.C)", "min(x.S)", "max(x.C)",
    "variance(x.B)", "stddev(x.B)", "variance(x.C)", "stddev(x.C)", "first(x.S)",
    "(some y in x: y.B > 1)", "(all y in x: y.B > 1)", "exists(x)",
    "sum(select y.C from y in x where y.B > 1)", "variance(select y.C from y in x where y.B > 1)",
    "elem(select y.S from y in x order by y.C desc, y.A)", "(select y from y in x order by y.C)[0]",
]  # fmt: skip
"""Aggregates of a group whose state is some numbers, however many rows the group has."""


def no_include(item: ast.Include, _source: SourceText) -> SourceText:
    raise AssertionError(item.path)


def statement_of(text: str, **options: object) -> Statement:
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    query, _ = normal_form(translate(script.items[0].expr, script))
    ((_, term),) = query.parts
    return statement(term, Context(lower, Dialect.SPARK, script, **options))  # type: ignore[arg-type]


def statement_text(text: str, _args: Mapping[str, str]) -> str:
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    return show_statements(normal_form(translate(script.items[0].expr, script))[0], script)


def test_texts(update_golden: bool) -> None:
    path = Path(__file__).with_name("lowering.golden")
    golden.check(path, {"spark": statement_text}, update=update_golden)


@pytest.mark.parametrize("aggregate", BOUNDED)
@pytest.mark.parametrize("shape", ["group", "total", "beside each row"])
def test_the_state_of_a_group_does_not_grow_with_its_rows(aggregate: str, shape: str) -> None:
    texts = {
        "group": f"select (k, {aggregate}) from x in R group by k: x.A",
        "total": f"select (1, {aggregate}) from x in R group by ()",
        "beside each row": f"select (k, z.B, n) from (k, n, zs) in (select (k, {aggregate}, x) "
        "from x in R group by k: x.A), z in zs",
    }
    text = statement_of(texts[shape]).text
    assert not re.search(r"collect_(list|set)", text), text


def test_sums_of_all_doubles_do_not_keep_the_values_either() -> None:
    text = statement_of(
        "select (k, sum(x.C), avg(x.C)) from x in R group by k: x.A", window=WIDE
    ).text
    assert "collect_list" not in text


@pytest.mark.parametrize(
    "text",
    [
        "debug select (k, sum(select z.A from z in x where z.A > 0)) from x in R group by k: x.A",
        "debug select (k, count(select z.S from z in x where z.B > k)) from x in R group by k: x.A",
        "lineage select (k, (select z.B from z in x where z.A = k)) from x in R group by k: x.A",
    ],
)
def test_python_gets_the_value_of_every_variable_that_it_uses(text: str) -> None:
    """Over the rows of a group there are no values for the variables of a query around it."""
    (item,) = compile_script(SourceText(f"{text};"), CATALOG, no_include).items
    query, _ = item.answer_item.normalized
    ((_, term),) = query.parts
    calls = statement(term, Context(lower, Dialect.SPARK, item.script)).python_calls
    assert calls
    for call in calls:
        assert free_variables(call.body) <= set(call.parameters), show_expr(call.body)


def test_only_the_rounding_of_a_spread_runs_in_python() -> None:
    query = statement_of("select (k, variance(x.C), stddev(x.B)) from x in R group by k: x.A")
    assert [place.reason for place in query.python_calls] == ["rounded once, from exact sums"] * 2


@pytest.mark.parametrize(
    "text",
    [
        "select (m.K, sum(m.items.w)) from m in N",
        "select (m.K, (select avg(m.items.v) + i.w from i in m.items)) from m in N",
        "select (k, (select z.C - avg(x.C) from z in x)) from x in R group by k: x.A",
    ],
)
def test_no_function_of_sql_is_called_where_spark_refuses_it(text: str) -> None:
    translation = statement_of(text)
    assert not translation.python_calls
    for call in re.finditer(r"exact_(sum|sum_wide|mean)\(", translation.text):
        assert "->" not in translation.text[call.start() :].split("\n")[0]
