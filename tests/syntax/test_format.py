"""Printing and reading back: `parse . format = identity`, over random trees of every node class."""

from __future__ import annotations

from dataclasses import is_dataclass
from inspect import isclass

import pytest
from hypothesis import Phase, given, settings

from incmrql.errors import QueryError, SourceText, Span
from incmrql.syntax import ast
from incmrql.syntax.parser.cursor import cursor_over
from incmrql.syntax.parser.leaves import parse_type
from incmrql.syntax.parser.patterns import parse_pattern
from incmrql.syntax.parser.scripts import parse_query, parse_script
from incmrql.syntax.printer.expressions import format_expr
from incmrql.syntax.printer.scripts import format_pattern, format_script, format_type
from tests.syntax.strategies import exprs, items, nodes, patterns, scripts, tuples, types

# Trees have many shapes; most examples are small and take no time.
many = settings(max_examples=6 * settings().max_examples)


@many
@given(scripts())
def test_a_printed_script_reads_back(script: ast.Script) -> None:
    text = format_script(script)
    again = parse_script(SourceText(text))
    assert again == script, text
    assert format_script(again) == text


@many
@given(exprs())
def test_a_printed_expression_reads_back(expr: ast.Expr) -> None:
    text = format_expr(expr)
    again = parse_query(SourceText(text))
    assert again == expr, text
    assert format_expr(again) == text


@many
@given(patterns())
def test_a_printed_pattern_reads_back(pattern: ast.Pattern) -> None:
    text = format_pattern(pattern)
    cursor = cursor_over(SourceText(text))
    assert parse_pattern(cursor) == pattern, text
    assert cursor.at_kind("end")


@given(types(3))
def test_a_printed_type_reads_back(tree: ast.TypeTree) -> None:
    text = format_type(tree)
    cursor = cursor_over(SourceText(text))
    assert parse_type(cursor) == tree, text
    assert cursor.at_kind("end")


def test_a_text_of_a_path_stands_on_one_line() -> None:
    """Laying out a long query would else put blanks into the text."""
    with pytest.raises(QueryError, match="P010"):
        parse_script(SourceText("select x from x in X limit xpath(.[a = 'b\nc'])"))


@pytest.mark.slow
def test_the_random_scripts_have_nodes_of_every_class() -> None:
    seen: set[type] = set()

    @settings(max_examples=600, derandomize=True, database=None, phases=[Phase.generate])
    @given(tuples(items(2), 5, 8))
    def collect(many_items: tuple[ast.Item, ...]) -> None:
        seen.update(type(node) for node in nodes(ast.Script(many_items)))

    collect()
    public = (thing for name, thing in vars(ast).items() if not name.startswith("_"))
    classes = {thing for thing in public if isclass(thing) and is_dataclass(thing)}
    assert seen == classes - {Span, ast.Node}


# --- how it looks ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x.A + y.B * 2",
        "(x.A + y.B) * 2",
        "-x.A",
        "-(5)",
        "-5",
        "12L",
        "1e+16",
        "a - (b - c)",
        "a or b and not c",
        "(a or b) and c",
        "not exists (select x from x in X)",
        "1..n",
        "(a + 1)..(b + 2)",
        "<A: (x > 3), B: y < 4>",
        "[if a then b else c, 1]",
        "(if a then b else c) + 1",
        "a = (if b then c else d)",
        r"fold(\(x: int, y: int): int. x + y, 0, s)",
        "sum(select x from x in X)",
        "f((select x from x in X), 1)",
        "select x from x in X where some y in Y: y = x group by k: x.A having count(x) > 3",
        "select x from x in (select y from y in Y) order by x desc, x.A limit 3",
        "(select x from x in X) union (select y from y in Y)",
        "repeat x = e step select y from y in x limit 3",
        "repeat x = e step (select y from y in x limit 3)",
        "repeat x = e step select y from y in x order by y limit 3 limit 4",
        "let v = some(x) in v",
        "case x { Node(t, *, cs): t | CData(s): s }",
        r'"a \"quoted\" \\ text\n\u0001é"',
        '[xml| <a b="1 &#38; {{x}}">&#60;{{y}}<c/></a> |]',
        '[json| {"a": [1, {{x}}, null], "|]": {{ {1} }}} |]',
        "xpath(.//a[@b = 'c\"']/*[1][d = 0.5])",
        "x.select.@from.*.@*#1[2][3:-1]",
    ],
)
def test_ordinary_text_is_printed_as_it_was_written(text: str) -> None:
    assert format_expr(parse_query(SourceText(text))) == text


def test_a_long_select_takes_a_line_per_clause() -> None:
    text = """\
result = select distinct (customer, sum(order_.Price), count(order_))
  from customer in Customers,order_ in (
    select x from x in Orders where x.Shipped and x.Year >= 2020 and x.Price > 1000
    order by x.Price limit 10)
  where order_.Customer = customer.Key
  group by customer: customer.Name
  having sum(order_.Price) > 1000;
"""
    assert format_script(parse_script(SourceText(text))) == """\
result = select distinct (customer, sum(order_.Price), count(order_))
  from customer in Customers, order_ in (select x
    from x in Orders
    where x.Shipped and x.Year >= 2020 and x.Price > 1000
    order by x.Price
    limit 10)
  where order_.Customer = customer.Key
  group by customer: customer.Name
  having sum(order_.Price) > 1000;
"""  # fmt: skip


def test_a_comparison_is_not_printed_as_a_definition() -> None:
    for text in ("(x = 1);\n", "(x = 1 and y);\n", "x.A = 1;\n", "true = x;\n", "x <= 1;\n"):
        assert format_script(parse_script(SourceText(text))) == text
