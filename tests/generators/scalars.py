"""Ways to make scalars: operators, functions, aggregates, conditions."""

from __future__ import annotations

from collections.abc import Callable

from incmrql.syntax import ast
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    Collection,
    Type,
    bag,
    list_of,
)
from tests.generators.maker import SCALARS, Maker, Scope, Way, call, cast, integer, reachable, text
from tests.generators.selects import free_select, may_query
from tests.generators.tables import PRICE

OVERLOADED = ("abs", "date", "round", "timestamp", "year", "month", "day", "date_diff")
"""Functions whose result depends on the types of their arguments."""


def call_of_builtin(name: str, *parameters: Type) -> Way:
    """The way that calls a built-in with arguments of these types."""

    def way(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
        if name in OVERLOADED:
            return call(name, *(maker.expr(t, scope, depth) for t in parameters))
        return call(name, *(maker.fitting(t, scope, depth) for t in parameters))

    return way


def one_of(*ways: Way) -> Way:
    """One of several ways, as one."""

    def way(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
        return maker.pick(ways)(maker, wanted, scope, depth)

    return way


def cast_from(*sources: Type) -> Way:
    """The way that casts from another type."""

    def way(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
        return cast(maker.expr(maker.pick(sources), scope, depth), wanted)

    return way


def arithmetic(*operands: tuple[Type, Type]) -> Way:
    """The way that computes from operands of these types."""

    def way(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
        left, right = maker.pick(operands)
        op: ast.BinaryOp = maker.pick(("+", "-", "*", "/", "%"))
        return ast.Binary(op, maker.expr(left, scope, depth), maker.expr(right, scope, depth))

    return way


def negation(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`-e`."""
    return ast.Unary("-", maker.expr(wanted, scope, depth))


def of_collection(name: str, *elements: Type) -> Way:
    """The way that aggregates a bag or list of one of these types."""

    def way(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
        element = maker.pick(elements)
        kind = maker.pick((bag, bag, list_of))
        return call(name, maker.expr(kind(element), scope, depth))

    return way


def count_call(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`count(e)`."""
    return call("count", some_collection(maker, scope, depth))


def some_collection(maker: Maker, scope: Scope, depth: int) -> ast.Expr:
    """A collection of anything: one in scope, or a query."""
    collections = [expr for expr, t in reachable(scope.local()) if isinstance(t, Collection)]
    if collections and maker.chance(2):
        return maker.pick(collections)
    if may_query(scope):
        return free_select(maker, scope, depth)[0]
    return maker.expr(bag(maker.some_type(1)), scope, depth)


def percentile(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`percentile(e, p)`."""
    operand = maker.expr(bag(maker.pick((INT, DOUBLE))), scope, depth)
    return call("percentile", operand, ast.Literal(maker.pick((0.5, 0.0, 0.9)), "double"))


def joined_text(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`a + b` of strings."""
    return ast.Binary("+", maker.expr(STRING, scope, depth), maker.expr(STRING, scope, depth))


def notation(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`string(e)`."""
    return call("string", maker.expr(maker.some_type(1), scope, depth))


def substring(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`substring(s, i, j)`."""
    bounds = [integer(maker.pick((0, 1, 2))) for _ in range(maker.pick((1, 2)))]
    return call("substring", maker.expr(STRING, scope, depth), *bounds)


def replacement(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`replace(s, "a", "b")` and its kin."""
    name = maker.pick(("replace", "replaceAll", "replaceFirst"))
    return call(name, maker.expr(STRING, scope, depth), text("a"), maker.expr(STRING, scope, 0))


def date_truncation(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`date_trunc(unit, e)`."""
    unit = maker.pick(("month", "year", "day"))
    return call("date_trunc", text(unit), maker.expr(wanted, scope, depth))


def date_addition(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`date_add(e, n)`."""
    return call("date_add", maker.expr(wanted, scope, depth), maker.expr(INT, scope, 0))


# --- conditions --------------------------------------------------------------------------

_MIXED: tuple[tuple[Type, Type], ...] = ((INT, LONG), (INT, DOUBLE), (LONG, DOUBLE), (PRICE, INT))


def comparison(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """A comparison, mostly of scalars."""
    left = right = maker.some_type(2)
    if maker.chance(4):
        left, right = maker.pick(_MIXED)
    elif not maker.chance(5):
        left = right = maker.type_of(INT, STRING, DOUBLE, INT, *SCALARS)
    op: ast.BinaryOp = maker.pick(("=", "<", "<>", "<=", ">", ">="))
    return ast.Binary(op, maker.expr(left, scope, depth), maker.expr(right, scope, depth))


def logic(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`and`, `or`, `not`."""
    op: ast.BinaryOp | str = maker.pick(("and", "or", "not"))
    left = maker.expr(BOOL, scope, depth)
    if op == "not":
        return ast.Unary("not", left)
    return ast.Binary("and" if op == "and" else "or", left, maker.expr(BOOL, scope, depth))


def exists(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`exists e`."""
    return ast.Unary("exists", some_collection(maker, scope, depth))


def member(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`member(x, s)`."""
    type_ = maker.type_of(INT, STRING, DOUBLE, maker.some_type(2))
    element = DOUBLE if type_ == INT and maker.chance(3) else type_
    return call("member", maker.expr(type_, scope, depth), maker.expr(bag(element), scope, depth))


# --- the table ---------------------------------------------------------------------------

_DOUBLE_FUNCTIONS = ("sqrt", "sin", "cos", "tan", "atan", "exp", "log", "ceil", "floor", "rint")
_TEXT_FUNCTIONS = ("toLowerCase", "toUpperCase", "trim")
_TESTS = ("contains", "startsWith", "endsWith")

SCALAR_WAYS: dict[Type, tuple[Way, ...]] = {
    INT: (
        arithmetic((INT, INT)),
        arithmetic((INT, INT)),
        one_of(
            call_of_builtin("length", STRING),
            one_of(*(call_of_builtin(part, DATE) for part in ("year", "month", "day"))),
            one_of(*(call_of_builtin(part, TIMESTAMP) for part in ("hour", "minute", "second"))),
            call_of_builtin("date_diff", DATE, DATE),
            call_of_builtin("abs", INT),
            call_of_builtin("toInt", DOUBLE),
            cast_from(LONG, DOUBLE, STRING, PRICE),
            negation,
        ),
    ),
    LONG: (
        count_call,
        count_call,
        of_collection("sum", INT, LONG),
        arithmetic((LONG, INT), (LONG, LONG)),
        one_of(
            cast_from(INT, DOUBLE, STRING),
            call_of_builtin("round", DOUBLE),
            call_of_builtin("abs", LONG),
            call_of_builtin("toLong", INT),
            negation,
        ),
    ),
    DOUBLE: (
        arithmetic((DOUBLE, DOUBLE), (INT, DOUBLE), (DOUBLE, LONG), (PRICE, DOUBLE)),
        of_collection("sum", DOUBLE),
        of_collection("avg", INT, DOUBLE, LONG),
        one_of(
            of_collection("variance", INT, DOUBLE),
            of_collection("stddev", INT, DOUBLE),
            of_collection("median", INT, DOUBLE),
            percentile,
        ),
        percentile,
        one_of(
            one_of(*(call_of_builtin(name, DOUBLE) for name in _DOUBLE_FUNCTIONS)),
            call_of_builtin("pow", DOUBLE, INT),
            call_of_builtin("round", DOUBLE, INT),
            call_of_builtin("toDouble", STRING),
            cast_from(INT, LONG, STRING, PRICE),
            negation,
        ),
    ),
    STRING: (
        joined_text,
        notation,
        one_of(
            one_of(*(call_of_builtin(name, STRING) for name in _TEXT_FUNCTIONS)),
            substring,
            replacement,
            call_of_builtin("concat", STRING, STRING, STRING),
        ),
        cast_from(INT, DOUBLE, DATE, BOOL),
    ),
    BOOL: (
        comparison,
        comparison,
        logic,
        exists,
        member,
        one_of(*(call_of_builtin(name, STRING, STRING) for name in _TESTS)),
        of_collection("some", BOOL),
        of_collection("all", BOOL),
        call_of_builtin("toBool", STRING),
    ),
    DATE: (
        date_addition,
        date_truncation,
        call_of_builtin("date", TIMESTAMP),
        cast_from(STRING, TIMESTAMP),
    ),
    TIMESTAMP: (
        date_addition,
        date_truncation,
        call_of_builtin("timestamp", DATE),
        cast_from(STRING, DATE),
    ),
    PRICE: (cast_from(INT, DOUBLE, STRING), call_of_builtin("abs", PRICE), negation),
}
"""The ways to make each scalar type."""


def least(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`min`, `max`, `first`, `elem` of a collection of the wanted type."""
    name = maker.pick(("max", "min", "first", "elem"))
    kind: Callable[[Type], Collection] = maker.pick((bag, bag, list_of))
    return call(name, maker.expr(kind(wanted), scope, depth))


def min_or_max(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`min(a, b)`, `max(a, b)`."""
    name = maker.pick(("max", "min"))
    return call(name, maker.expr(wanted, scope, depth), maker.expr(wanted, scope, depth))
