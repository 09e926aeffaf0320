"""Expressions: tokens to trees, by precedence climbing.

Binding powers, lowest to highest, as in the language's precedence table; a form that ends in
an expression (`if`, `let`, `select`, a quantifier, a lambda, `repeat`) takes the longest one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from incmrql.errors import Diagnostic, QueryError, Span
from incmrql.syntax.ast import (
    AllAttributes,
    Argument,
    Attribute,
    BagExpr,
    Binary,
    BinaryOp,
    Bind,
    Binding,
    Branch,
    Call,
    Case,
    Cast,
    Component,
    Expr,
    Generator,
    If,
    Index,
    Key,
    Lambda,
    Let,
    ListExpr,
    Name,
    Order,
    Pattern,
    Project,
    ProjectAll,
    Quantifier,
    Range,
    RecordExpr,
    Repeat,
    Select,
    Slice,
    Template,
    Trace,
    TupleExpr,
    TypeExpr,
    Unary,
    XPath,
)
from incmrql.syntax.parser.cursor import Cursor
from incmrql.syntax.parser.leaves import at_literal, parse_literal, parse_parameters, parse_type
from incmrql.syntax.parser.paths import parse_path
from incmrql.syntax.parser.patterns import parse_pattern, pattern_of
from incmrql.syntax.parser.templates import parse_template

Parsed = TypeVar("Parsed")

_POWER: dict[str, int] = {
    "union": 10, "intersect": 10, "except": 10, "or": 20, "and": 30,
    "=": 50, "<>": 50, "<": 50, "<=": 50, ">": 50, ">=": 50,
    "+": 60, "-": 60, "*": 70, "/": 70, "%": 70, "mod": 70, "..": 80, "...": 80, "as": 90,
}  # fmt: skip
_NOT, _COMPARE, _RANGE, _UNARY = 40, 50, 80, 100
CONDITION = 20
"""The binding power that a clause of a select (where, key, having, ...) allows unparenthesised."""

_BINARY: dict[str, BinaryOp] = {
    "union": "union", "intersect": "intersect", "except": "except", "or": "or", "and": "and",
    "=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "mod": "%",
}  # fmt: skip
_CALLABLE_KEYWORDS = ("mod", "distinct", "some", "all")


def parse_expr(cursor: Cursor) -> Expr:
    """Parse the longest expression ahead."""
    return parse_operators(cursor, 0)


def parse_operators(cursor: Cursor, least: int) -> Expr:
    """An expression whose operators bind at least as tightly as `least`."""
    start, outer = cursor.token.start, cursor.reach
    cursor.depth += 1
    cursor.reach = cursor.depth
    cursor.check_depth(cursor.reach)
    left = _prefix(cursor)
    while (power := _power(cursor)) >= max(least, 1):
        op = cursor.token
        left = _operator(cursor, left, str(op.value or op.text), power, start)
        cursor.sink()
    cursor.depth -= 1
    cursor.reach = max(outer, cursor.reach)
    return left


def _power(cursor: Cursor) -> int:
    token = cursor.token
    if token.kind == "op":
        if cursor.in_record and token.text in (">", ">="):
            return 0
        return _POWER.get(token.text, 0)
    return _POWER.get(str(token.value), 0) if token.kind == "keyword" else 0


def _operator(cursor: Cursor, left: Expr, op: str, power: int, start: int) -> Expr:
    cursor.advance()
    if op == "as":
        return Cast(left, parse_type(cursor), span=cursor.since(start))
    right = parse_operators(cursor, power + 1)
    if power == _COMPARE and _power(cursor) == _COMPARE:
        raise _chained_comparison(cursor)
    if power == _RANGE:
        return Range(left, right, op == "...", span=cursor.since(start))
    return Binary(_BINARY[op], left, right, span=cursor.since(start))


def _chained_comparison(cursor: Cursor) -> QueryError:
    return QueryError(
        Diagnostic(
            "P006", "comparisons do not chain", cursor.here(), "second comparison",
            "Write a < b and b < c, or put one comparison in parentheses.",
        )
    )  # fmt: skip


def _prefix(cursor: Cursor) -> Expr:
    token, start = cursor.token, cursor.token.start
    if token.kind == "keyword":
        return _keyword(cursor)
    if token.kind == "op":
        if token.text == "-" and at_literal(cursor) and not _postfix_follows(cursor, 2):
            return parse_literal(cursor)
        if token.text in ("-", "+"):
            cursor.advance()
            operand = parse_operators(cursor, _UNARY)
            return Unary("-" if token.text == "-" else "+", operand, span=cursor.since(start))
        if token.text == "\\":
            return _lambda(cursor)
    return _postfix(cursor, _primary(cursor), start)


def _postfix_follows(cursor: Cursor, ahead: int) -> bool:
    token = cursor.peek(ahead)
    return token.kind == "op" and token.text in (".", "#", "[")


def _keyword(cursor: Cursor) -> Expr:
    word, start = cursor.token.value, cursor.token.start
    match word:
        case "not":
            cursor.advance()
            return Unary("not", parse_operators(cursor, _NOT), span=cursor.since(start))
        case "exists":
            cursor.advance()
            return Unary("exists", _collection(cursor), span=cursor.since(start))
        case "select":
            return _select(cursor)
        case "some" | "all":
            quantified = _quantifier(cursor)
            return quantified if quantified is not None else _call_keyword(cursor)
        case "if":
            return _if(cursor)
        case "let":
            return _let(cursor)
        case "repeat":
            return _repeat(cursor)
        case _:
            return _postfix(cursor, _closed_keyword(cursor), start)


def _collection(cursor: Cursor) -> Expr:
    """The operand of `exists`: the longest expression that can be a collection.

    Comparisons, `and` and `or` give no collection and therefore come after: `exists (X) and p`.
    """
    start = cursor.token.start
    left = parse_operators(cursor, _RANGE)
    while cursor.at("union", "intersect", "except"):
        op = str(cursor.advance().value)
        right = parse_operators(cursor, _RANGE)
        left = Binary(_BINARY[op], left, right, span=cursor.since(start))
        cursor.sink()
    return left


def _closed_keyword(cursor: Cursor) -> Expr:
    word, start = cursor.token.value, cursor.token.start
    match word:
        case "case":
            return _case(cursor)
        case "type" | "trace":
            cursor.advance()
            cursor.expect("(", f"after {word}")
            inner: Expr
            with cursor.nested():
                if word == "type":
                    inner = TypeExpr(parse_type(cursor))
                else:
                    inner = Trace(parse_expr(cursor))
                cursor.expect(")")
            span = cursor.since(start)
            if isinstance(inner, TypeExpr):
                return TypeExpr(inner.type, span=span)
            return Trace(inner.expr, span=span)
        case _ if word in _CALLABLE_KEYWORDS and cursor.peek().text == "(":
            return _call_keyword(cursor)
        case _:
            raise cursor.unexpected("an expression")


def _call_keyword(cursor: Cursor) -> Expr:
    start = cursor.token.start
    name = cursor.advance()
    return _postfix(cursor, _call(cursor, str(name.value), start, name.end), start)


def _primary(cursor: Cursor) -> Expr:
    token, start = cursor.token, cursor.token.start
    if at_literal(cursor):
        return parse_literal(cursor)
    if token.kind == "id":
        cursor.advance()
        if cursor.at("("):
            return _call(cursor, token.text, start, token.end)
        return Name(token.text, span=cursor.since(start))
    if token.kind == "template":
        body = parse_template(cursor, parse_expr)
        return Template(body, span=cursor.since(start))
    if token.kind == "xpath":
        return XPath(parse_path(cursor), span=cursor.since(start))
    if cursor.at("("):
        items = _sequence(cursor, ")")
        if len(items) == 1:
            return items[0]
        return TupleExpr(items, span=cursor.since(start))
    if cursor.at("{"):
        return BagExpr(_sequence(cursor, "}"), span=cursor.since(start))
    if cursor.at("["):
        return ListExpr(_sequence(cursor, "]"), span=cursor.since(start))
    if cursor.at("<"):
        return _record(cursor)
    raise cursor.unexpected("an expression")


def _sequence(cursor: Cursor, closer: str) -> tuple[Expr, ...]:
    cursor.advance()
    items: list[Expr] = []
    with cursor.nested():
        while not cursor.at(closer):
            items.append(parse_expr(cursor))
            if not cursor.take(","):
                break
        cursor.expect(closer)
    return tuple(items)


def _call(cursor: Cursor, name: str, start: int, name_end: int) -> Expr:
    cursor.expect("(")
    arguments: list[Argument] = []
    with cursor.nested():
        while not cursor.at(")"):
            first = cursor.token.start
            label = None
            if cursor.at_kind("id", "keyword") and cursor.peek().text == ":":
                label = cursor.advance().text
                cursor.advance()
            value = parse_expr(cursor)
            arguments.append(Argument(label, value, span=cursor.since(first)))
            if not cursor.take(","):
                break
        cursor.expect(")", f"to close the arguments of {name}")
    name_span = Span(cursor.source, start, name_end)
    return Call(name, tuple(arguments), span=cursor.since(start), name_span=name_span)


def _record(cursor: Cursor) -> Expr:
    start = cursor.advance().start
    fields: list[tuple[str, Expr]] = []
    with cursor.nested():
        cursor.in_record = True
        while not cursor.at(">"):
            name = cursor.label("a field name")
            cursor.expect(":", "after the field's name")
            fields.append((name.text, parse_expr(cursor)))
            if not cursor.take(","):
                break
        if cursor.at(">="):
            raise _record_comparison(cursor)
        cursor.expect(">", "to close the record")
    cursor.record_end = cursor.index
    return RecordExpr(tuple(fields), span=cursor.since(start))


def _record_comparison(cursor: Cursor) -> QueryError:
    return QueryError(
        Diagnostic(
            "P007", "a comparison in a record field needs parentheses", cursor.here(),
            "the > of this closes the record",
            "Write (x >= y); or put a space between > and = to compare the record.",
        )
    )  # fmt: skip


def _postfix(cursor: Cursor, subject: Expr, start: int) -> Expr:
    while True:
        if cursor.at("."):
            subject = _dot(cursor, subject, start)
        elif cursor.take("#"):
            index = cursor.expect_kind("int", "a number after #")
            subject = Component(subject, int(index.text), span=cursor.since(start))
        elif cursor.at("["):
            subject = _index(cursor, subject, start)
        else:
            return subject
        cursor.sink()


def _dot(cursor: Cursor, subject: Expr, start: int) -> Expr:
    cursor.advance()
    if cursor.take("*"):
        return ProjectAll(subject, span=cursor.since(start))
    if cursor.take("@"):
        if cursor.take("*"):
            return AllAttributes(subject, span=cursor.since(start))
        name = cursor.label("an attribute's name")
        return Attribute(subject, name.text, span=cursor.since(start))
    name_span = cursor.here()
    name = cursor.label("a field name after the point")
    return Project(subject, name.text, span=cursor.since(start), name_span=name_span)


def _index(cursor: Cursor, subject: Expr, start: int) -> Expr:
    cursor.advance()
    with cursor.nested():
        first = parse_expr(cursor)
        last = parse_expr(cursor) if cursor.take(":") else None
        cursor.expect("]")
    if last is None:
        return Index(subject, first, span=cursor.since(start))
    return Slice(subject, first, last, span=cursor.since(start))


def _if(cursor: Cursor) -> Expr:
    start = cursor.advance().start
    condition = parse_expr(cursor)
    cursor.expect("then", "after the condition")
    then = parse_expr(cursor)
    cursor.expect("else", "(every if has one)")
    return If(condition, then, parse_expr(cursor), span=cursor.since(start))


def _let(cursor: Cursor) -> Expr:
    start = cursor.advance().start
    pattern = parse_pattern(cursor)
    cursor.expect("=")
    outer, cursor.in_let = cursor.in_let, True
    value = parse_expr(cursor)
    cursor.in_let = outer
    cursor.expect("in", "after the value of let")
    return Let(pattern, value, parse_expr(cursor), span=cursor.since(start))


def _case(cursor: Cursor) -> Expr:
    start = cursor.advance().start
    subject = parse_expr(cursor)
    cursor.expect("{", "before the branches of case")
    branches: list[Branch] = []
    with cursor.nested():
        while True:
            first = cursor.token.start
            pattern = parse_pattern(cursor)
            cursor.expect(":", "after the pattern")
            branches.append(Branch(pattern, parse_expr(cursor), span=cursor.since(first)))
            if not cursor.take("|"):
                break
        cursor.expect("}", "to close the branches")
    return Case(subject, tuple(branches), span=cursor.since(start))


def _lambda(cursor: Cursor) -> Expr:
    start = cursor.advance().start
    parameters = parse_parameters(cursor)
    cursor.expect(":", "before the result type of a lambda")
    result = parse_type(cursor)
    cursor.expect(".", "before the body of a lambda")
    return Lambda(parameters, result, parse_expr(cursor), span=cursor.since(start))


def _repeat(cursor: Cursor) -> Expr:
    start = cursor.advance().start
    names = _repeat_names(cursor)
    cursor.expect("=")
    initial = parse_expr(cursor)
    cursor.expect("step")
    outer, cursor.in_step = cursor.in_step, True
    step = parse_expr(cursor)
    cursor.in_step = outer
    limit = parse_operators(cursor, CONDITION) if cursor.take("limit") else None
    if len(names) > 1 and limit is None:
        raise cursor.unexpected('"limit"', "(a repeat of several variables needs one)")
    return Repeat(names, initial, step, limit, span=cursor.since(start))


def _repeat_names(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.take("("):
        return (cursor.name("the variable of a repeat").text,)
    names = [cursor.name("a variable of a repeat").text]
    while cursor.take(","):
        names.append(cursor.name("a variable of a repeat").text)
    cursor.expect(")")
    return tuple(names)


# --- queries -----------------------------------------------------------------------------


def _select(cursor: Cursor) -> Expr:
    """`select [distinct] e from …`, up to and with its last clause."""
    start = cursor.advance().start
    distinct = cursor.take("distinct")
    head = parse_expr(cursor)
    cursor.expect("from", "after the head of a select")
    binds = _binds(cursor)
    where = parse_operators(cursor, CONDITION) if cursor.take("where") else None
    keys, having = _grouping(cursor)
    order = _ordering(cursor)
    takes_limit = bool(order) or not cursor.in_step
    limit = None
    if takes_limit and cursor.take("limit"):
        limit = parse_operators(cursor, CONDITION)
    span = cursor.since(start)
    return Select(distinct, head, binds, where, keys, having, order, limit, span=span)


def _quantifier(cursor: Cursor) -> Expr | None:
    """`some p in e: c`, or nothing where `some(e)` is a call."""
    start, index = cursor.token.start, cursor.index
    doubtful = cursor.peek().text == "(" and (cursor.in_let or not _binds_ahead(cursor))
    if index in cursor.calls:
        return None
    binds = _attempt(cursor, _quantifier_binds) if doubtful else _quantifier_binds(cursor)
    if binds is None:
        cursor.calls.add(index)
        return None
    kind = cursor.source.text[start : start + 3].lower()
    body = parse_expr(cursor)
    return Quantifier("all" if kind == "all" else "some", binds, body, span=cursor.since(start))


def _quantifier_binds(cursor: Cursor) -> tuple[Bind, ...]:
    cursor.advance()
    binds = _binds(cursor)
    cursor.expect(":", "before the condition of a quantifier")
    return binds


def _labelled_pattern(cursor: Cursor) -> Pattern:
    pattern = parse_pattern(cursor)
    cursor.expect(":")
    return pattern


def _attempt(cursor: Cursor, parse: Callable[[Cursor], Parsed]) -> Parsed | None:
    """The result of `parse`, or None with the cursor reset to where it was."""
    outer, cursor.trying = cursor.trying, True
    position = cursor.index, cursor.depth, cursor.reach
    context = cursor.in_record, cursor.in_step, cursor.in_let
    try:
        return parse(cursor)
    except QueryError as error:
        if error.code == "P008":
            raise
        cursor.index, cursor.depth, cursor.reach = position
        cursor.in_record, cursor.in_step, cursor.in_let = context
        return None
    finally:
        cursor.trying = outer


def _binds_ahead(cursor: Cursor) -> bool:
    """Whether the parenthesis after `some` closes just before an `in`, and so is a pattern."""
    depth, ahead = 0, 1
    while cursor.peek(ahead).kind != "end":
        token = cursor.peek(ahead)
        depth += (token.text == "(") - (token.text == ")") if token.kind == "op" else 0
        ahead += 1
        if depth == 0:
            after = cursor.peek(ahead)
            return after.kind == "keyword" and after.value == "in"
    return False


def _binds(cursor: Cursor) -> tuple[Bind, ...]:
    binds = [_bind(cursor)]
    while cursor.take(","):
        binds.append(_bind(cursor))
    return tuple(binds)


def _bind(cursor: Cursor) -> Bind:
    start = cursor.token.start
    pattern = parse_pattern(cursor)
    if cursor.take("="):
        return Binding(pattern, parse_expr(cursor), span=cursor.since(start))
    if not cursor.take("in"):
        raise cursor.unexpected('"in" or "="', "after a pattern of the from clause")
    return Generator(pattern, parse_expr(cursor), span=cursor.since(start))


def _grouping(cursor: Cursor) -> tuple[tuple[Key, ...], Expr | None]:
    if not cursor.take("group"):
        return (), None
    cursor.expect("by", "after group")
    keys = [_key(cursor)]
    while cursor.take(","):
        keys.append(_key(cursor))
    having = parse_operators(cursor, CONDITION) if cursor.take("having") else None
    return tuple(keys), having


def _key(cursor: Cursor) -> Key:
    """`p: e`, else an expression; an expression of names alone is also its own pattern."""
    start = cursor.token.start
    pattern = _attempt(cursor, _labelled_pattern)
    if pattern is not None:
        return Key(pattern, parse_operators(cursor, CONDITION), span=cursor.since(start))
    expr = parse_operators(cursor, CONDITION)
    own = pattern_of(expr)
    if own is not None:
        return Key(own, None, span=cursor.since(start))
    return Key(None, expr, span=cursor.since(start))


def _ordering(cursor: Cursor) -> tuple[Order, ...]:
    if not cursor.take("order"):
        return ()
    cursor.expect("by", "after order")
    order = [_order(cursor)]
    while cursor.take(","):
        order.append(_order(cursor))
    return tuple(order)


def _order(cursor: Cursor) -> Order:
    start = cursor.token.start
    expr = parse_operators(cursor, CONDITION)
    descending = cursor.take("desc")
    if not descending:
        cursor.take("asc")
    return Order(expr, descending, span=cursor.since(start))
