"""Patterns: tokens to trees, and expressions that spell patterns."""

from __future__ import annotations

from incmrql.syntax.ast import (
    AnyPattern,
    DataPattern,
    Expr,
    ListPattern,
    LiteralPattern,
    Name,
    NamePattern,
    Pattern,
    RecordPattern,
    TemplatePattern,
    TupleExpr,
    TuplePattern,
    TypedPattern,
)
from incmrql.syntax.parser.cursor import Cursor
from incmrql.syntax.parser.leaves import (
    at_literal,
    at_special,
    parse_literal,
    parse_special,
    parse_type,
)
from incmrql.syntax.parser.templates import parse_template
from incmrql.syntax.parser.tokens import NUMBERS


def parse_pattern(cursor: Cursor) -> Pattern:
    """A pattern, with any `as T` after it."""
    start = cursor.token.start
    with cursor.deeper():
        pattern = _primary(cursor)
    spine = 0
    while cursor.take("as"):
        pattern = TypedPattern(pattern, parse_type(cursor), span=cursor.since(start))
        spine += 1
        cursor.check_depth(cursor.depth + spine)
    return pattern


def pattern_of(expr: Expr) -> Pattern | None:
    """The pattern with the same text as an expression of names and tuples, else None."""
    match expr:
        case Name(name) if name not in NUMBERS:
            return NamePattern(name, span=expr.span)
        case TupleExpr(items):
            parts = [pattern_of(item) for item in items]
            patterns = tuple(part for part in parts if part is not None)
            return TuplePattern(patterns, span=expr.span) if len(patterns) == len(parts) else None
        case _:
            return None


def _primary(cursor: Cursor) -> Pattern:
    start = cursor.token.start
    if cursor.take("*"):
        return AnyPattern(span=cursor.since(start))
    if at_literal(cursor) or at_special(cursor):
        literal = parse_special(cursor) if at_special(cursor) else parse_literal(cursor)
        return LiteralPattern(literal, span=literal.span)
    if cursor.at("("):
        items = _sequence(cursor, ")")
        if len(items) == 1:
            return items[0]
        return TuplePattern(items, span=cursor.since(start))
    if cursor.at("["):
        return ListPattern(_sequence(cursor, "]"), span=cursor.since(start))
    if cursor.at("<"):
        return _record(cursor)
    if cursor.at_kind("template"):
        body = parse_template(cursor, parse_pattern)
        return TemplatePattern(body, span=cursor.since(start))
    if not cursor.at_kind("id", "keyword"):
        raise cursor.unexpected("a pattern")
    name = cursor.name("a variable").text
    if cursor.at("("):
        return DataPattern(name, _sequence(cursor, ")"), span=cursor.since(start))
    return NamePattern(name, span=cursor.since(start))


def _sequence(cursor: Cursor, closer: str) -> tuple[Pattern, ...]:
    cursor.advance()
    items: list[Pattern] = []
    with cursor.nested():
        while not cursor.at(closer):
            items.append(parse_pattern(cursor))
            if not cursor.take(","):
                break
        cursor.expect(closer)
    return tuple(items)


def _record(cursor: Cursor) -> Pattern:
    start = cursor.advance().start
    fields: list[tuple[str, Pattern]] = []
    with cursor.nested():
        while not cursor.at(">"):
            name = cursor.label("a field name")
            cursor.expect(":", "after the field's name")
            fields.append((name.text, parse_pattern(cursor)))
            if not cursor.take(","):
                break
        cursor.expect(">")
    return RecordPattern(tuple(fields), span=cursor.since(start))


__all__ = ["parse_pattern", "pattern_of"]
