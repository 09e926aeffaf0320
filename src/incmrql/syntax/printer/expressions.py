"""Expressions back to text: parsing the text gives an equal tree.

Parentheses are printed where the grammar needs them and around open-ended forms
(`select`, `if`, ...) that are operands.  Whether they are needed depends on the context: how
tightly the operators around it bind, and what may follow that the expression would absorb.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import assert_never

from incmrql.syntax.ast import (
    AllAttributes,
    Attribute,
    BagExpr,
    Binary,
    Bind,
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
    Literal,
    Name,
    Order,
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
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.printer.parts import (
    format_fields,
    format_label,
    format_literal,
    format_parameters,
    format_path,
    format_pattern,
    format_template,
    format_type,
)

WIDEST = 88
"""A select that is longer than this takes a line per clause."""

_POWER = {
    "union": 10, "intersect": 10, "except": 10, "or": 20, "and": 30,
    "=": 50, "<>": 50, "<": 50, "<=": 50, ">": 50, ">=": 50,
    "+": 60, "-": 60, "*": 70, "/": 70, "%": 70,
}  # fmt: skip
_CLAUSE, _NOT, _COMPARE, _RANGE, _CAST, _SIGN, _POSTFIX, _CLOSED = 20, 40, 50, 80, 90, 100, 110, 120


class _Next(IntEnum):
    """What may follow an expression and would be parsed as a part of it."""

    NOTHING = 0
    CLAUSE = 1
    """A clause, a comma or a colon: a select would absorb it."""
    OPERATOR = 2
    """An operator: every open-ended form would absorb it."""


@dataclass(frozen=True, slots=True)
class _Context:
    """The surroundings of an expression, which decide whether it needs parentheses."""

    least: int = 0
    next: _Next = _Next.NOTHING
    in_record: bool = False
    in_step: bool = False

    def inner(self, least: int = 0, next_: _Next = _Next.NOTHING) -> _Context:
        """The context of a part, not in brackets, that ends before the expression ends."""
        return replace(self, least=least, next=next_)

    def last(self, least: int = 0) -> _Context:
        """The context of a part that ends where the expression ends."""
        return replace(self, least=least)


_BRACKETS = _Context()
_BEFORE_COMMA = _Context(next=_Next.CLAUSE)


def format_expr(expr: Expr) -> str:
    """The text of an expression."""
    with deep_recursion():
        return _inside(expr)


def format_arguments(exprs: Sequence[Expr]) -> str:
    """The text of expressions between parentheses."""
    with deep_recursion():
        return f"({_sequence(exprs)})"


def _inside(expr: Expr) -> str:
    return _show(expr, _BRACKETS)


# --- expressions -------------------------------------------------------------------------


def _show(expr: Expr, context: _Context) -> str:
    if _needs_parentheses(expr, context):
        return f"({_text(expr, _BRACKETS)})"
    return _text(expr, context)


def _needs_parentheses(expr: Expr, context: _Context) -> bool:
    match expr:
        case Binary((">" | ">="), _, _) if context.in_record:
            return True
        case Select(order=order, limit=limit):
            misread = context.in_step and limit is not None and not order
            return context.least > 0 or context.next > _Next.NOTHING or misread
        case Let() | Repeat():
            return context.least > 0 or context.next > _Next.NOTHING
        case If() | Lambda():
            return context.least > 0 or context.next > _Next.CLAUSE
        case Quantifier() | Unary("exists", _):
            return context.least > _NOT or context.next > _Next.CLAUSE
        case _:
            return _power(expr) < context.least


def _power(expr: Expr) -> int:
    """How tightly the outermost operator of `expr` binds."""
    match expr:
        case Binary(op, _, _):
            return _POWER[op]
        case Unary("not", _):
            return _NOT
        case Range():
            return _RANGE
        case Cast():
            return _CAST
        case Unary():
            return _SIGN
        case Literal(value, "int" | "long" | "double"):
            return _SIGN if str(value).startswith("-") else _CLOSED
        case _:
            return _CLOSED


def _text(expr: Expr, context: _Context) -> str:
    match expr:
        case Literal():
            return format_literal(expr)
        case Name(name):
            return name
        case TupleExpr(items):
            return f"({_sequence(items)})"
        case BagExpr(items):
            return f"{{{_sequence(items)}}}"
        case ListExpr(items):
            return f"[{_sequence(items)}]"
        case RecordExpr(fields):
            inside = replace(_BEFORE_COMMA, in_record=True)
            return format_fields(lambda value: _show(value, inside), fields)
        case Call(function, arguments):
            labels = ["" if a.name is None else f"{a.name}: " for a in arguments]
            return f"{function}({_sequence([a.value for a in arguments], labels)})"
        case TypeExpr(type_):
            return f"type({format_type(type_)})"
        case Trace(inner):
            return f"trace({_inside(inner)})"
        case XPath(steps):
            return f"xpath({format_path(steps)})"
        case Template(body):
            return format_template(_inside, body)
        case Case(subject, branches):
            texts = [f"{format_pattern(b.pattern)}: {_inside(b.body)}" for b in branches]
            subject_context = context.inner(next_=_Next.CLAUSE)
            return f"case {_show(subject, subject_context)} {{ {' | '.join(texts)} }}"
        case Binary() | Unary() | Cast() | Range():
            return _operation(expr, context)
        case If() | Let() | Lambda() | Repeat() | Quantifier() | Select():
            return _open(expr, context)
        case _:
            return _postfix(expr, context)


def _sequence(items: Sequence[Expr], labels: Sequence[str] = ()) -> str:
    """Items between brackets; all but the last are followed by a comma."""
    places = [_BEFORE_COMMA] * (len(items) - 1) + [_BRACKETS]
    texts = [_show(item, context) for item, context in zip(items, places, strict=False)]
    return ", ".join(map("".join, zip(labels or [""] * len(items), texts, strict=True)))


def _operation(expr: Binary | Unary | Cast | Range, context: _Context) -> str:
    match expr:
        case Binary(op, left, right):
            power = _POWER[op]
            first = _show(left, context.inner(power + (power == _COMPARE), _Next.OPERATOR))
            if op == "=" and _spells_quantifier(left):
                first = f"({first})"
            after = context.next if power < _COMPARE else _Next.OPERATOR
            return f"{first} {op} {_show(right, context.inner(power + 1, after))}"
        case Unary("not", operand):
            return f"not {_show(operand, context.last(_NOT))}"
        case Unary("exists", operand):
            return f"exists {_show(operand, context.inner(_SIGN, _Next.OPERATOR))}"
        case Unary(op, Literal() as operand):
            return f"{op}({format_literal(operand)})"
        case Unary(op, operand):
            return f"{op}{_show(operand, context.inner(_SIGN, _Next.OPERATOR))}"
        case Cast(subject, type_):
            return f"{_show(subject, context.inner(_CAST, _Next.OPERATOR))} as {format_type(type_)}"
        case Range(first_, last, distributed):
            low = _show(first_, context.inner(_RANGE, _Next.OPERATOR))
            high = _show(last, context.inner(_RANGE + 1, _Next.OPERATOR))
            return f"{low}{'...' if distributed else '..'}{high}"
        case _:
            assert_never(expr)


def _spells_quantifier(expr: Expr) -> bool:
    """Whether `expr = e` could be the start of a quantifier, as in `some(x) = e: c`."""
    match expr:
        case Call("some" | "all", _):
            return True
        case Cast(subject, _):
            return _spells_quantifier(subject)
        case _:
            return False


def _postfix(
    expr: Project | ProjectAll | Attribute | AllAttributes | Component | Index | Slice,
    context: _Context,
) -> str:
    before = context.inner(_POSTFIX, _Next.OPERATOR)
    number = isinstance(expr.subject, Literal) and expr.subject.kind != "string"
    subject = f"({_inside(expr.subject)})" if number else _show(expr.subject, before)
    match expr:
        case Project(_, name):
            return f"{subject}.{format_label(name)}"
        case ProjectAll(_):
            return f"{subject}.*"
        case Attribute(_, name):
            return f"{subject}.@{format_label(name)}"
        case AllAttributes(_):
            return f"{subject}.@*"
        case Component(_, index):
            return f"{subject}#{index}"
        case Index(_, key):
            return f"{subject}[{_inside(key)}]"
        case Slice(_, first, last):
            return f"{subject}[{_show(first, _BEFORE_COMMA)}:{_inside(last)}]"
        case _:
            assert_never(expr)


def _open(expr: If | Let | Lambda | Repeat | Quantifier | Select, context: _Context) -> str:
    """A form that ends in an expression."""
    inner = context.inner()
    match expr:
        case If(condition, then, otherwise):
            tests = f"if {_show(condition, inner)} then {_show(then, inner)}"
            return f"{tests} else {_show(otherwise, context.last())}"
        case Let(pattern, value, body):
            head = f"let {format_pattern(pattern)} = {_show(value, inner)}"
            return f"{head} in {_show(body, context.last())}"
        case Lambda(parameters, result, body):
            head = f"\\({format_parameters(parameters)}): {format_type(result)}."
            return f"{head} {_show(body, context.last())}"
        case Quantifier(kind, binds, body):
            before = context.inner(next_=_Next.CLAUSE)
            return f"{kind} {_binds(binds, before)}: {_show(body, context.last())}"
        case Repeat():
            return _repeat(expr, context)
        case Select():
            return _select(expr, context)
        case _:
            assert_never(expr)


def _repeat(expr: Repeat, context: _Context) -> str:
    names = expr.names[0] if len(expr.names) == 1 else f"({', '.join(expr.names)})"
    text = f"repeat {names} = {_show(expr.initial, context.inner())} step "
    step = replace(context, least=0, next=_Next.CLAUSE, in_step=True)
    match expr.step:
        case Select(order=order, limit=limit) if bool(order) == (limit is not None):
            # Such a select cannot absorb the limit of the repeat, so it needs no parentheses.
            text += _text(expr.step, step)
        case _:
            text += _show(expr.step, step)
    return (
        text if expr.limit is None else f"{text} limit {_show(expr.limit, context.last(_CLAUSE))}"
    )


# --- queries -----------------------------------------------------------------------------


def _select(query: Select, context: _Context) -> str:
    before, clause = context.inner(next_=_Next.CLAUSE), context.inner(_CLAUSE, _Next.CLAUSE)
    head = _show(query.head, before)
    if head.startswith("distinct("):
        head = f"({head})"
    clauses = [f"select {'distinct ' * query.distinct}{head}"]
    clauses.append(f"from {_binds(query.binds, before)}")
    if query.where is not None:
        clauses.append(f"where {_show(query.where, clause)}")
    if query.keys:
        clauses.append(f"group by {', '.join(_key(key, clause) for key in query.keys)}")
    if query.having is not None:
        clauses.append(f"having {_show(query.having, clause)}")
    if query.order:
        clauses.append(f"order by {', '.join(_order(order, clause) for order in query.order)}")
    if query.limit is not None:
        clauses.append(f"limit {_show(query.limit, clause)}")
    line = " ".join(clauses)
    if len(line) <= WIDEST and "\n" not in line:
        return line
    return "\n  ".join(text.replace("\n", "\n  ") for text in clauses)


def _binds(binds: Sequence[Bind], context: _Context) -> str:
    return ", ".join(_bind(bind, context) for bind in binds)


def _bind(bind: Bind, context: _Context) -> str:
    if isinstance(bind, Generator):
        return f"{format_pattern(bind.pattern)} in {_show(bind.domain, context)}"
    return f"{format_pattern(bind.pattern)} = {_show(bind.value, context)}"


def _key(key: Key, context: _Context) -> str:
    pattern = "" if key.pattern is None else format_pattern(key.pattern)
    expr = "" if key.expr is None else _show(key.expr, context)
    return f"{pattern}: {expr}" if pattern and expr else pattern or expr


def _order(order: Order, context: _Context) -> str:
    return _show(order.expr, context) + (" desc" if order.descending else "")
