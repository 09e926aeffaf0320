"""Operators on scalars as SQL: arithmetic, comparison, logic.

Operations are total, independent of the session's ANSI mode: they use Spark's `try_` functions and
DuckDB's `TRY`.  Operands are values of the language, so none is -0.0, and a result needs `+ 0.0`
only if it can be -0.0: sums and differences cannot.

None instead of a tree means that the dialect has no form that agrees with the reference to the
last bit; `engine.columns.pinned` computes it then.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from incmrql.lower.literals import double, integer
from incmrql.lower.tree import (
    Dialect,
    binary,
    call,
    case,
    cast,
    is_null,
    not_null,
    number,
    text,
    type_text,
    typed_null,
)
from incmrql.types import typed
from incmrql.types.model import FLOAT, LONG, NOTHING, STRING, Basic, Decimal, Type, is_integer
from incmrql.values.numbers import INTEGER_RANGES, MOST_DIGITS

_SPARK_TRY: Final = {
    "+": "try_add",
    "-": "try_subtract",
    "*": "try_multiply",
    "/": "try_divide",
    "%": "try_mod",
}
_KINDS: Final[dict[str, type[exp.Binary]]] = {
    "+": exp.Add,
    "-": exp.Sub,
    "*": exp.Mul,
    "/": exp.Div,
    "%": exp.Mod,
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_SPARK_DIGITS: Final = 39
"""Spark rounds a product of decimals to 39 digits before it rounds it to its scale."""


def arithmetic(
    op: str,
    type_: Type,
    left: exp.Expression,
    right: exp.Expression,
    dialect: Dialect,
    operands: tuple[Type, Type] | None = None,
) -> exp.Expression | None:
    """`left op right` with the result type; for decimals also the types of the operands matter."""
    if type_ == NOTHING:
        return typed_null(type_, dialect)
    if type_ == STRING:
        return binary(exp.DPipe, left, right)
    if isinstance(type_, Decimal):
        return _decimals(op, type_, left, right, dialect, operands)
    if is_integer(type_):
        return _integers(op, type_, left, right, dialect)
    return _floats(op, type_, left, right, dialect)


def arithmetic_in_mode(
    expr: typed.Arithmetic, left: exp.Expression, right: exp.Expression, dialect: Dialect
) -> exp.Expression | None:
    """`left op right` in the mode of an expression, whose operands are `left` and `right`."""
    operands = expr.left.type, expr.right.type
    if expr.mode != "total" and not _is_native_in_mode(expr.op, expr.type, operands, dialect):
        return None
    if expr.mode == "legacy" and is_integer(expr.type):
        return _wrapping_arithmetic(expr.op, expr.type, left, right, dialect)
    return arithmetic(expr.op, expr.type, left, right, dialect, operands)


def negate(
    type_: Type, operand: exp.Expression, dialect: Dialect, mode: typed.Mode = "total"
) -> exp.Expression | None:
    """`-operand`."""
    match type_:
        case _ if type_ == NOTHING:
            return typed_null(type_, dialect)
        case _ if mode != "total" and _is_spark(dialect):
            return None
        case _ if mode == "legacy" and is_integer(type_):
            return _wrapping_arithmetic("-", type_, integer(0, type_, dialect), operand, dialect)
        case Decimal():
            return call("negative", operand) if _is_spark(dialect) else _negative(operand)
        case _ if is_integer(type_) and _is_spark(dialect):
            return call("try_subtract", integer(0, type_, dialect), operand)
        case _ if is_integer(type_):
            return attempt(_negative(operand))
        case _:
            return binary(exp.Sub, _zero(type_, dialect), operand)


def compare(op: str, left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """`left op right` for scalars of one type: both dialects have one NaN, after all numbers."""
    return binary(_KINDS[op], left, right)


def conjunction(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """`left and right`, three-valued."""
    return binary(exp.And, left, right)


def disjunction(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """`left or right`, three-valued."""
    return binary(exp.Or, left, right)


def negation(operand: exp.Expression) -> exp.Expression:
    """`not operand`."""
    return exp.Not(this=exp.paren(operand))


def one_zero(operand: exp.Expression, dialect: Dialect) -> exp.Expression:
    """The double, with 0.0 for -0.0."""
    return binary(exp.Add, operand, double(0.0, dialect))


def attempt(operand: exp.Expression) -> exp.Expression:
    """DuckDB's result, or null if it raises an error."""
    return call("TRY", operand)


def _is_spark(dialect: Dialect) -> bool:
    return dialect is Dialect.SPARK


def _negative(operand: exp.Expression) -> exp.Expression:
    return exp.Neg(this=exp.paren(operand))


def _floats(
    op: str, type_: Type, left: exp.Expression, right: exp.Expression, dialect: Dialect
) -> exp.Expression:
    """Arithmetic of doubles, or of floats, which DuckDB rounds to float at every step."""
    if op in "+-":
        return binary(_KINDS[op], left, right)
    zero = _zero(type_, dialect)
    if op == "*":
        return binary(exp.Add, binary(exp.Mul, left, right), zero)
    if _is_spark(dialect):
        return binary(exp.Add, call(_SPARK_TRY[op], left, right), zero)
    divisor = call("nullif", right, zero.copy())
    return binary(exp.Add, binary(_KINDS[op], left, divisor), zero)


def _zero(type_: Type, dialect: Dialect) -> exp.Expression:
    return cast(number(0), "FLOAT") if type_ == FLOAT else double(0.0, dialect)


def _is_native_in_mode(op: str, type_: Type, operands: tuple[Type, Type], dialect: Dialect) -> bool:
    """Whether the form of arithmetic in one of Spark's modes is native: in DuckDB, if exact."""
    if _is_spark(dialect):
        return False
    if not isinstance(type_, Decimal):
        return True
    first, second = operands
    if not isinstance(first, Decimal) or not isinstance(second, Decimal):
        return False
    return _agrees_in_spark(op, type_, first, second)


def is_rounded_once(expr: typed.Arithmetic) -> bool:
    """Whether arithmetic of decimals has the exact result, rounded once."""
    left, right = expr.left.type, expr.right.type
    if not isinstance(expr.type, Decimal):
        return False
    if not isinstance(left, Decimal) or not isinstance(right, Decimal):
        return False
    return (
        expr.mode == "total" or expr.op == "/" or _agrees_in_spark(expr.op, expr.type, left, right)
    )


def narrow_product(
    expr: typed.Arithmetic, left: exp.Expression, right: exp.Expression
) -> tuple[exp.Expression, exp.Expression] | None:
    """When a product of decimals has 38 digits at most, and the product then, in DuckDB."""
    first, second = expr.left.type, expr.right.type
    if expr.op != "*" or not isinstance(first, Decimal) or not isinstance(second, Decimal):
        return None
    room = MOST_DIGITS - second.precision
    if room < first.scale or not isinstance(expr.type, Decimal):
        return None
    narrow = cast(left, f"DECIMAL({room}, {first.scale})", attempt=True)
    fits = binary(exp.Or, is_null(left.copy()), not_null(narrow))
    product = attempt(binary(exp.Mul, narrow.copy(), right))
    return fits, cast(product, type_text(expr.type, Dialect.DUCKDB), attempt=True)


def _wrapping_arithmetic(
    op: str, type_: Type, left: exp.Expression, right: exp.Expression, dialect: Dialect
) -> exp.Expression:
    """Arithmetic of integers in DuckDB that wraps as in Java; null where a divisor is zero."""
    assert isinstance(type_, Basic)
    if op == "%":
        return _integers(op, type_, left, right, dialect)
    least = INTEGER_RANGES[type_.name].start
    wide = "HUGEINT" if type_ == LONG else "BIGINT"
    if op == "/":
        opposite = binary(exp.EQ, right.copy(), integer(-1, type_, dialect))
        negated = _wrapping_arithmetic("-", type_, integer(0, type_, dialect), left.copy(), dialect)
        return case([(opposite, negated)], attempt(binary(exp.IntDiv, left, right)))
    exact = binary(_KINDS[op], cast(left, wide), cast(right, wide))
    low, mask = (cast(text(str(n)), wide) for n in (least, -2 * least - 1))
    bits = binary(exp.BitwiseAnd, binary(exp.Sub, exact, low), mask)
    return cast(binary(exp.Add, bits, low.copy()), type_text(type_, dialect))


def _integers(
    op: str, type_: Type, left: exp.Expression, right: exp.Expression, dialect: Dialect
) -> exp.Expression:
    zero = integer(0, type_, dialect)
    if op in "+-*":
        if _is_spark(dialect):
            return call(_SPARK_TRY[op], left, right)
        return attempt(binary(_KINDS[op], left, right))
    if op == "%":
        if _is_spark(dialect):
            return call("try_mod", left, right)
        return _remainder(type_, left, right, dialect)
    if not _is_spark(dialect):
        return attempt(binary(exp.IntDiv, left, right))
    quotient = call("div", left, call("nullif", right, zero))  # of longs, and a long
    if type_ != LONG:
        return cast(quotient, type_text(type_, dialect), attempt=True)
    least = binary(exp.EQ, right.copy(), integer(-1, LONG, dialect))
    return case([(least, call("try_subtract", zero, left.copy()))], quotient)


def _remainder(
    type_: Type, left: exp.Expression, right: exp.Expression, dialect: Dialect
) -> exp.Expression:
    """The remainder in DuckDB."""
    # DuckDB reports an overflow for the least integer % -1.  x % -1 and x % 1 are both 0.
    opposite = binary(exp.EQ, right, integer(-1, type_, dialect))
    divisor = case([(opposite, integer(1, type_, dialect))], right.copy())
    return attempt(binary(exp.Mod, left, divisor))


def _decimals(
    op: str,
    type_: Decimal,
    left: exp.Expression,
    right: exp.Expression,
    dialect: Dialect,
    operands: tuple[Type, Type] | None,
) -> exp.Expression | None:
    """The exact result rounded once; None if the dialect does not do that for these types."""
    if operands is None:
        return None
    first, second = operands
    if not isinstance(first, Decimal) or not isinstance(second, Decimal):
        return None
    native = _agrees_in_spark if _is_spark(dialect) else _agrees_in_duckdb
    if not native(op, type_, first, second):
        return None
    if _is_spark(dialect):
        result = call(_SPARK_TRY[op], left, right)
    else:
        result = attempt(binary(_KINDS[op], _wide(op, left, type_, second), right))
    return cast(result, type_text(type_, dialect), attempt=True)


def _wide(op: str, left: exp.Expression, result: Decimal, right: Decimal) -> exp.Expression:
    """The left operand as a wider decimal, so that DuckDB does not compute in 64 bits."""
    if op == "%":
        return left
    digits, scale = result.precision, result.scale
    if op == "*":
        digits, scale = MOST_DIGITS - right.precision, result.scale - right.scale
    return cast(left, f"DECIMAL({digits}, {scale})")


def _agrees_in_spark(op: str, result: Decimal, left: Decimal, right: Decimal) -> bool:
    """Whether Spark rounds the exact result at most once.

    It first rounds a product to 39 digits and a quotient to 38 decimals.  A remainder fails if
    the whole part of the quotient has more than 38 digits.
    """
    match op:
        case "*":
            return left.precision + right.precision <= _SPARK_DIGITS
        case "/":
            # A quotient that is not a tie is farther from any tie than half a unit of the 38th
            # decimal, so that rounding twice gives the same as rounding once.
            exact = result.scale + right.precision <= MOST_DIGITS
            return exact and result.scale + right.scale >= left.scale
        case "%":
            return left.precision - left.scale + right.scale <= MOST_DIGITS
        case _:
            return True


def _agrees_in_duckdb(op: str, result: Decimal, left: Decimal, right: Decimal) -> bool:
    """Whether the exact result fits 38 digits; a quotient of decimals is a double to DuckDB."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    match op:
        case "*":
            return left.precision + right.precision <= MOST_DIGITS
        case "/":
            return False
        case "%":
            return whole + scale <= MOST_DIGITS
        case _:
            return whole + scale + 1 <= MOST_DIGITS and result.scale == scale
