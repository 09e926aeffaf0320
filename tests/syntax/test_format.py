"""Printing and reading back: `parse . format = identity`, over random trees of every node class."""

from __future__ import annotations

from dataclasses import is_dataclass
from inspect import isclass

from hypothesis import Phase, given, settings

from incmrql.diagnostics import Source, Span
from incmrql.syntax import ast, parse_query, parse_script
from incmrql.syntax.cursor import cursor_over
from incmrql.syntax.format import format_expr, format_pattern, format_script, format_type
from incmrql.syntax.patterns import parse_pattern
from incmrql.syntax.typetrees import parse_type
from tests.syntax.strategies import exprs, nodes, patterns, scripts, types


@given(scripts())
def test_a_printed_script_reads_back(script: ast.Script) -> None:
    text = format_script(script)
    again = parse_script(Source(text))
    assert again == script, text
    assert format_script(again) == text


@given(exprs())
def test_a_printed_expression_reads_back(expr: ast.Expr) -> None:
    text = format_expr(expr)
    again = parse_query(Source(text))
    assert again == expr, text
    assert format_expr(again) == text


@given(patterns())
def test_a_printed_pattern_reads_back(pattern: ast.Pattern) -> None:
    text = format_pattern(pattern)
    cursor = cursor_over(Source(text))
    assert parse_pattern(cursor) == pattern, text
    assert cursor.at_kind("end")


@given(types(3))
def test_a_printed_type_reads_back(tree: ast.TypeTree) -> None:
    text = format_type(tree)
    cursor = cursor_over(Source(text))
    assert parse_type(cursor) == tree, text
    assert cursor.at_kind("end")


def test_the_random_scripts_have_nodes_of_every_class() -> None:
    found: set[type] = set()

    @settings(max_examples=400, derandomize=True, database=None, phases=[Phase.generate])
    @given(scripts())
    def collect(script: ast.Script) -> None:
        found.update(type(node) for node in nodes(script))

    collect()
    public = (thing for name, thing in vars(ast).items() if not name.startswith("_"))
    classes = {thing for thing in public if isclass(thing) and is_dataclass(thing)}
    assert found == classes - {Span}
