"""Terms as SQL: texts that were read and found right, and what must not be in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.errors import SourceText
from incmrql.lower.context import WIDE, Context
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.statements import Statement, show_statements, statement
from incmrql.lower.tree import Dialect
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
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


def made(text: str, **options: object) -> Statement:
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    query, _ = normal_form(translate(script.items[0].expr, script))
    ((_, term),) = query.parts
    return statement(term, Context(lower, Dialect.SPARK, script, **options))  # type: ignore[arg-type]


def shown(text: str, _args: Mapping[str, str]) -> str:
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    return show_statements(normal_form(translate(script.items[0].expr, script))[0], script)


def test_texts(update_golden: bool) -> None:
    path = Path(__file__).with_name("lowering.golden")
    golden.check(path, {"spark": shown}, update=update_golden)


@pytest.mark.parametrize("aggregate", BOUNDED)
@pytest.mark.parametrize("shape", ["group", "total", "beside each row"])
def test_the_state_of_a_group_does_not_grow_with_its_rows(aggregate: str, shape: str) -> None:
    texts = {
        "group": f"select (k, {aggregate}) from x in R group by k: x.A",
        "total": f"select (1, {aggregate}) from x in R group by ()",
        "beside each row": f"select (k, z.B, n) from (k, n, zs) in (select (k, {aggregate}, x) "
        "from x in R group by k: x.A), z in zs",
    }
    found = made(texts[shape]).text
    assert not re.search(r"collect_(list|set)", found), found


def test_sums_of_all_doubles_do_not_keep_the_values_either() -> None:
    found = made("select (k, sum(x.C), avg(x.C)) from x in R group by k: x.A", window=WIDE).text
    assert "collect_list" not in found


def test_only_the_rounding_of_a_spread_runs_in_python() -> None:
    found = made("select (k, variance(x.C), stddev(x.B)) from x in R group by k: x.A")
    assert [place.reason for place in found.python_calls] == ["rounded once, from exact sums"] * 2


@pytest.mark.parametrize(
    "text",
    [
        "select (m.K, sum(m.items.w)) from m in N",
        "select (m.K, (select avg(m.items.v) + i.w from i in m.items)) from m in N",
        "select (k, (select z.C - avg(x.C) from z in x)) from x in R group by k: x.A",
    ],
)
def test_no_function_of_sql_is_called_where_spark_refuses_it(text: str) -> None:
    found = made(text)
    assert not found.python_calls
    for call in re.finditer(r"exact_(sum|sum_wide|mean)\(", found.text):
        assert "->" not in found.text[call.start() :].split("\n")[0]
