"""Every node knows its text: spans nest, and the text of an expression is that expression."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import SourceText, Span
from incmrql.syntax import ast
from incmrql.syntax.parser.scripts import parse_query, parse_script
from incmrql.syntax.parser.tokens import scan
from incmrql.syntax.printer.expressions import format_expr
from incmrql.syntax.printer.parts import format_label
from incmrql.syntax.printer.scripts import format_script
from tests.syntax.strategies import children, exprs, scripts

GAPS = st.sampled_from([" ", "\n", "\t ", " /* ; */ ", " // )\n"])


@st.composite
def with_other_spaces(draw: st.DrawFn, text: str) -> str:
    """`text` with other spaces and comments between its tokens."""
    tokens, _ = scan(SourceText(text))
    words = [text[token.start : token.end] for token in tokens]
    return "".join(draw(GAPS) + word for word in words)


def span_of(node: object) -> Span:
    span = getattr(node, "span", None)
    assert isinstance(span, Span)
    return span


def check(node: object, source: SourceText) -> None:
    span = span_of(node)
    assert span.source is source, node
    assert span.text == span.text.strip() or isinstance(node, ast.XmlText), node
    for field in fields(node) if is_dataclass(node) else ():
        if field.name == "name_span":
            name = getattr(node, field.name)
            assert span.start <= name.start < name.end <= span.end
            named = getattr(node, "name", getattr(node, "function", ""))
            assert name.text.lower() in (named.lower(), format_label(named).lower())
    last = span.start
    for child in children(node):
        inner = span_of(child)
        assert span.start <= inner.start <= inner.end <= span.end, (node, child)
        assert last <= inner.start, (node, child)
        # The constant of a JSON leaf and a branch, say, may be the whole of their parent.
        last = inner.end if inner != span else last
        check(child, source)
    if isinstance(node, get_args(ast.Expr)) and not isinstance(node, ast.Literal):
        assert parse_query(SourceText(span.text)) == node


@given(st.data())
def test_spans_of_expressions(data: st.DataObject) -> None:
    tree = data.draw(exprs(2))
    source = SourceText(data.draw(with_other_spaces(format_expr(tree))))
    parsed = parse_query(source)
    assert parsed == tree
    check(parsed, source)


@given(st.data())
def test_spans_of_scripts(data: st.DataObject) -> None:
    tree = data.draw(scripts())
    source = SourceText(data.draw(with_other_spaces(format_script(tree))))
    parsed = parse_script(source)
    assert parsed == tree
    for item in parsed.items:
        check(item, source)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("x = (a + b) * -c.D;", ["x = (a + b) * -c.D", "(a + b) * -c.D", "a + b", "a", "b", "-c.D",
                                 "c.D", "c"]),
        ("f( x , k : 1 ) ;", ["f( x , k : 1 )", "f( x , k : 1 )", "x", "x", "k : 1", "1"]),
        ("xpath( a [1]/b ).c;", ["xpath( a [1]/b ).c", "xpath( a [1]/b ).c", "xpath( a [1]/b )",
                                 "a [1]", "/b"]),
        ("[xml| <a>{{ x }}</a> |] ;", ["[xml| <a>{{ x }}</a> |]", "[xml| <a>{{ x }}</a> |]",
                                       "<a>{{ x }}</a>", "{{ x }}", "x"]),
    ],
)  # fmt: skip
def test_the_text_of_each_node(text: str, spans: list[str]) -> None:
    def walk(node: object) -> list[str]:
        return [span_of(node).text] + [t for child in children(node) for t in walk(child)]

    (item,) = parse_script(SourceText(text)).items
    assert walk(item) == spans
