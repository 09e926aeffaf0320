"""Scripts: text to a tree of items.

A problem in one item does not hide those of the next: the parser skips to the item's
semicolon and continues there, and reports all problems at the end.
"""

from __future__ import annotations

from typing import Literal

from incmrql.errors import Diagnostic, QueryError, SourceText, Span
from incmrql.syntax.ast import (
    DeclareAggregation,
    DeclareData,
    DeclareFunction,
    DeclareMacro,
    DeclareParser,
    DeclareType,
    Define,
    Evaluate,
    Expr,
    Import,
    Include,
    Incremental,
    Inspect,
    Item,
    Output,
    Script,
    StoreValue,
    TypeTree,
)
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.cursor import Cursor, cursor_over
from incmrql.syntax.parser.expressions import parse_expr
from incmrql.syntax.parser.leaves import parse_parameters, parse_type
from incmrql.syntax.parser.tokens import CONSTANTS, NUMBERS, scan


def parse_script(source: SourceText) -> Script:
    """Parse a script; raises one `QueryError` with every problem of the text."""
    script, problems = parse_items(source)
    if problems:
        raise QueryError(*problems)
    return script


def parse_items(source: SourceText) -> tuple[Script, list[Diagnostic]]:
    """The items of a script that parse, and the problems of the others."""
    tokens, problems = scan(source)
    if problems:
        return Script((), span=Span(source, 0, len(source.text))), problems
    cursor = Cursor(source, tokens)
    items: list[Item] = []
    problems_of_items: list[Diagnostic] = []
    while not cursor.at_kind("end"):
        if cursor.take(";"):
            continue
        try:
            with deep_recursion():
                items.append(parse_item(cursor))
            if not cursor.at_kind("end"):
                cursor.expect(";", "after an item")
        except QueryError as error:
            problems_of_items.extend(error.problems)
            _recover(cursor)
    return Script(tuple(items), span=cursor.since(0)), problems_of_items


def parse_query(source: SourceText) -> Expr:
    """Parse a text that is a single expression."""
    cursor = cursor_over(source)
    with deep_recursion():
        expr = parse_expr(cursor)
    if not cursor.at_kind("end"):
        raise cursor.unexpected("the end of the query")
    return expr


def parse_type_text(source: SourceText) -> TypeTree:
    """Parse a text that is a single type."""
    cursor = cursor_over(source)
    with deep_recursion():
        tree = parse_type(cursor)
    if not cursor.at_kind("end"):
        raise cursor.unexpected("the end of the type")
    return tree


def parse_item(cursor: Cursor) -> Item:
    """One item, without its semicolon."""
    token = cursor.token
    defines = token.kind == "id" and token.text not in (*CONSTANTS, *NUMBERS)
    if defines and cursor.peek().text == "=" and cursor.peek().kind == "op":
        start = cursor.advance().start
        cursor.advance()
        return Define(token.text, parse_expr(cursor), span=cursor.since(start))
    match token.value if token.kind == "keyword" else None:
        case "store" | "dump":
            return _output(cursor)
        case "incr":
            start = cursor.advance().start
            return Incremental(parse_expr(cursor), span=cursor.since(start))
        case "lineage" | "debug":
            start = cursor.advance().start
            expr = parse_expr(cursor)
            how: Literal["lineage", "debug"] = "lineage" if token.value == "lineage" else "debug"
            return Inspect(how, expr, span=cursor.since(start))
        case "data" | "function" | "macro" | "aggregation" | "import" | "parser" | "include":
            return _declaration(cursor)
        case "type" if cursor.peek().text != "(":
            return _declaration(cursor)
        case _:
            start = token.start
            return Evaluate(parse_expr(cursor), span=cursor.since(start))


def _recover(cursor: Cursor) -> None:
    """Skip past the semicolon of the item that failed."""
    cursor.depth = cursor.reach = 0
    cursor.in_record = cursor.in_step = cursor.in_let = False
    while not cursor.at_kind("end") and not cursor.take(";"):
        cursor.advance()


def _output(cursor: Cursor) -> Item:
    word = cursor.advance()
    start = word.start
    if word.value == "store" and cursor.at_kind("id"):
        name = cursor.name("a stored value").text
        cursor.expect(":=", "after the name of a stored value")
        return StoreValue(name, parse_expr(cursor), span=cursor.since(start))
    path = cursor.expect_kind("string", "a path in quotes" if word.value == "dump" else
                              "a name or a path in quotes")  # fmt: skip
    cursor.expect("from", "after the path")
    incremental = cursor.take("incr")
    expr = parse_expr(cursor)
    kind: Literal["store", "dump"] = "store" if word.value == "store" else "dump"
    return Output(kind, str(path.value), incremental, expr, span=cursor.since(start))


def _declaration(cursor: Cursor) -> Item:
    word = cursor.advance()
    start = word.start
    match word.value:
        case "type":
            here, name = cursor.here(), cursor.name("a type").text
            cursor.expect("=")
            type_ = parse_type(cursor)
            return DeclareType(name, type_, span=cursor.since(start), name_span=here)
        case "data":
            return _data(cursor, start)
        case "function":
            return _function(cursor, start)
        case "macro":
            return _macro(cursor, start)
        case "aggregation":
            return _aggregation(cursor, start)
        case "import":
            spans = [cursor.here()]
            names = [cursor.name("a function").text]
            while cursor.take(","):
                spans.append(cursor.here())
                names.append(cursor.name("a function").text)
            cursor.expect("from", "after the names to import")
            module = cursor.expect_kind("string", "a module in quotes")
            return Import(tuple(names), str(module.value), span=cursor.since(start),
                          name_spans=tuple(spans))  # fmt: skip
        case "parser":
            name = cursor.name("a format").text
            cursor.expect("=")
            path = cursor.expect_kind("string", "a class in quotes")
            return DeclareParser(name, str(path.value), span=cursor.since(start))
        case _:
            path = cursor.expect_kind("string", "a file in quotes")
            return Include(str(path.value), span=cursor.since(start))


def _data(cursor: Cursor, start: int) -> Item:
    here, name = cursor.here(), cursor.name("a data type").text
    cursor.expect("=")
    constructors: list[tuple[str, TypeTree]] = []
    spans: list[Span] = []
    while True:
        spans.append(cursor.here())
        constructor = cursor.name("a constructor").text
        cursor.expect(":", "after the constructor")
        constructors.append((constructor, parse_type(cursor)))
        if not cursor.take("|"):
            break
    return DeclareData(name, tuple(constructors), span=cursor.since(start), name_span=here,
                       constructor_spans=tuple(spans))  # fmt: skip


def _function(cursor: Cursor, start: int) -> Item:
    here, name = cursor.here(), cursor.name("a function").text
    parameters = parse_parameters(cursor)
    cursor.expect(":", "before the result type")
    result = parse_type(cursor)
    body = _body(cursor)
    return DeclareFunction(name, parameters, result, body, span=cursor.since(start),
                           name_span=here)  # fmt: skip


def _macro(cursor: Cursor, start: int) -> Item:
    here, name = cursor.here(), cursor.name("a macro").text
    cursor.expect("(")
    parameters: list[str] = []
    spans: list[Span] = []
    while not cursor.at(")"):
        spans.append(cursor.here())
        parameters.append(cursor.name("a parameter").text)
        if not cursor.take(","):
            break
    cursor.expect(")")
    body = _body(cursor)
    return DeclareMacro(name, tuple(parameters), body, span=cursor.since(start), name_span=here,
                        parameter_spans=tuple(spans))  # fmt: skip


def _body(cursor: Cursor) -> Expr:
    cursor.expect("{", "before the body")
    with cursor.nested():
        body = parse_expr(cursor)
        cursor.expect("}", "after the body")
    return body


def _aggregation(cursor: Cursor, start: int) -> Item:
    here, name = cursor.here(), cursor.name("an aggregation").text
    cursor.expect("(")
    with cursor.nested():
        merge = parse_expr(cursor)
        cursor.expect(",", "between merge and zero")
        zero = parse_expr(cursor)
        unit = parse_expr(cursor) if cursor.take(",") else None
        inverse = parse_expr(cursor) if unit is not None and cursor.take(",") else None
        cursor.expect(")")
    cursor.expect(":", "before the type of the aggregation")
    type_ = parse_type(cursor)
    return DeclareAggregation(name, merge, zero, unit, inverse, type_, span=cursor.since(start),
                              name_span=here)  # fmt: skip
