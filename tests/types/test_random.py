"""Random queries: each one parses, has a type, and keeps the invariants of typed trees."""

from __future__ import annotations

from hypothesis import given

from incmrql.errors import SourceText
from incmrql.syntax import ast
from incmrql.syntax.parser.scripts import parse_query, parse_script
from incmrql.syntax.printer.expressions import format_expr
from incmrql.syntax.printer.scripts import format_script
from incmrql.types.infer.scripts import infer_script
from tests.generators.queries import query_trees, script_trees
from tests.generators.tables import CATALOG
from tests.types.checker import problems


@given(query_trees())
def test_a_random_query_is_well_typed(tree: ast.Expr) -> None:
    text = format_expr(tree)
    read = parse_query(SourceText(text))
    assert read == tree, text
    script = ast.Script((ast.Evaluate(read),))
    assert problems(infer_script(script, CATALOG)) == [], text


@given(script_trees())
def test_a_random_script_is_well_typed(tree: ast.Script) -> None:
    text = format_script(tree)
    read = parse_script(SourceText(text))
    assert read == tree, text
    assert problems(infer_script(read, CATALOG)) == [], text
