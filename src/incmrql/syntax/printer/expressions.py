"""Expressions back to text: parsing what is printed here gives an equal tree.

Parentheses stand where the grammar needs them and around forms without an end of their own
(`select`, `if`, ...) that are operands.  What needs them depends on the place: how tightly the
operators around it bind, and what may follow that the expression would take for its own.
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
from incmrql.syntax.depth import room
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
    """What may follow an expression that it would take for its own."""

    NOTHING = 0
    CLAUSE = 1
    """A clause, a comma or a colon: a select would go on with it."""
    OPERATOR = 2
    """An operator: every form without an end of its own would go on with it."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an expression stands."""

    least: int = 0
    next: _Next = _Next.NOTHING
    in_record: bool = False
    in_step: bool = False

    def inner(self, least: int = 0, next_: _Next = _Next.NOTHING) -> _Place:
        """A place inside the expression, not in brackets, that does not end where it ends."""
        return replace(self, least=least, next=next_)

    def last(self, least: int = 0) -> _Place:
        """A place inside the expression that ends where it ends."""
        return replace(self, least=least)


_BRACKETS = _Place()
_BEFORE_COMMA = _Place(next=_Next.CLAUSE)


def format_expr(expr: Expr) -> str:
    """The text of an expression."""
    with room():
        return _inside(expr)


def format_arguments(exprs: Sequence[Expr]) -> str:
    """The text of expressions between parentheses."""
    with room():
        return f"({_sequence(exprs)})"


def _inside(expr: Expr) -> str:
    return _show(expr, _BRACKETS)


# --- expressions -------------------------------------------------------------------------


def _show(expr: Expr, place: _Place) -> str:
    if _needs_parentheses(expr, place):
        return f"({_text(expr, _BRACKETS)})"
    return _text(expr, place)


def _needs_parentheses(expr: Expr, place: _Place) -> bool:
    match expr:
        case Binary((">" | ">="), _, _) if place.in_record:
            return True
        case Select(order=order, limit=limit):
            misread = place.in_step and limit is not None and not order
            return place.least > 0 or place.next > _Next.NOTHING or misread
        case Let() | Repeat():
            return place.least > 0 or place.next > _Next.NOTHING
        case If() | Lambda():
            return place.least > 0 or place.next > _Next.CLAUSE
        case Quantifier() | Unary("exists", _):
            return place.least > _NOT or place.next > _Next.CLAUSE
        case _:
            return _power(expr) < place.least


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


def _text(expr: Expr, place: _Place) -> str:
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
            shown = [f"{format_pattern(b.pattern)}: {_inside(b.body)}" for b in branches]
            before = place.inner(next_=_Next.CLAUSE)
            return f"case {_show(subject, before)} {{ {' | '.join(shown)} }}"
        case Binary() | Unary() | Cast() | Range():
            return _operation(expr, place)
        case If() | Let() | Lambda() | Repeat() | Quantifier() | Select():
            return _open(expr, place)
        case _:
            return _postfix(expr, place)


def _sequence(items: Sequence[Expr], labels: Sequence[str] = ()) -> str:
    """Items between brackets; all but the last stand before a comma."""
    places = [_BEFORE_COMMA] * (len(items) - 1) + [_BRACKETS]
    shown = [_show(item, place) for item, place in zip(items, places, strict=False)]
    return ", ".join(map("".join, zip(labels or [""] * len(items), shown, strict=True)))


def _operation(expr: Binary | Unary | Cast | Range, place: _Place) -> str:
    match expr:
        case Binary(op, left, right):
            power = _POWER[op]
            first = _show(left, place.inner(power + (power == _COMPARE), _Next.OPERATOR))
            if op == "=" and _spells_quantifier(left):
                first = f"({first})"
            after = place.next if power < _COMPARE else _Next.OPERATOR
            return f"{first} {op} {_show(right, place.inner(power + 1, after))}"
        case Unary("not", operand):
            return f"not {_show(operand, place.last(_NOT))}"
        case Unary("exists", operand):
            return f"exists {_show(operand, place.inner(_SIGN, _Next.OPERATOR))}"
        case Unary(op, Literal() as operand):
            return f"{op}({format_literal(operand)})"
        case Unary(op, operand):
            return f"{op}{_show(operand, place.inner(_SIGN, _Next.OPERATOR))}"
        case Cast(subject, type_):
            return f"{_show(subject, place.inner(_CAST, _Next.OPERATOR))} as {format_type(type_)}"
        case Range(first_, last, distributed):
            low = _show(first_, place.inner(_RANGE, _Next.OPERATOR))
            high = _show(last, place.inner(_RANGE + 1, _Next.OPERATOR))
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
    place: _Place,
) -> str:
    before = place.inner(_POSTFIX, _Next.OPERATOR)
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


def _open(expr: If | Let | Lambda | Repeat | Quantifier | Select, place: _Place) -> str:
    """A form that ends in an expression."""
    inner = place.inner()
    match expr:
        case If(condition, then, otherwise):
            tests = f"if {_show(condition, inner)} then {_show(then, inner)}"
            return f"{tests} else {_show(otherwise, place.last())}"
        case Let(pattern, value, body):
            head = f"let {format_pattern(pattern)} = {_show(value, inner)}"
            return f"{head} in {_show(body, place.last())}"
        case Lambda(parameters, result, body):
            head = f"\\({format_parameters(parameters)}): {format_type(result)}."
            return f"{head} {_show(body, place.last())}"
        case Quantifier(kind, binds, body):
            before = place.inner(next_=_Next.CLAUSE)
            return f"{kind} {_binds(binds, before)}: {_show(body, place.last())}"
        case Repeat():
            return _repeat(expr, place)
        case Select():
            return _select(expr, place)
        case _:
            assert_never(expr)


def _repeat(expr: Repeat, place: _Place) -> str:
    names = expr.names[0] if len(expr.names) == 1 else f"({', '.join(expr.names)})"
    text = f"repeat {names} = {_show(expr.initial, place.inner())} step "
    step = replace(place, least=0, next=_Next.CLAUSE, in_step=True)
    match expr.step:
        case Select(order=order, limit=limit) if bool(order) == (limit is not None):
            # Such a select does not take the limit of the repeat, so it may go without brackets.
            text += _text(expr.step, step)
        case _:
            text += _show(expr.step, step)
    return text if expr.limit is None else f"{text} limit {_show(expr.limit, place.last(_CLAUSE))}"


# --- queries -----------------------------------------------------------------------------


def _select(query: Select, place: _Place) -> str:
    before, clause = place.inner(next_=_Next.CLAUSE), place.inner(_CLAUSE, _Next.CLAUSE)
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


def _binds(binds: Sequence[Bind], place: _Place) -> str:
    return ", ".join(_bind(bind, place) for bind in binds)


def _bind(bind: Bind, place: _Place) -> str:
    if isinstance(bind, Generator):
        return f"{format_pattern(bind.pattern)} in {_show(bind.domain, place)}"
    return f"{format_pattern(bind.pattern)} = {_show(bind.value, place)}"


def _key(key: Key, place: _Place) -> str:
    pattern = "" if key.pattern is None else format_pattern(key.pattern)
    expr = "" if key.expr is None else _show(key.expr, place)
    return f"{pattern}: {expr}" if pattern and expr else pattern or expr


def _order(order: Order, place: _Place) -> str:
    return _show(order.expr, place) + (" desc" if order.descending else "")
