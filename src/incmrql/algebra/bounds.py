"""Which operations can fail: overflow and division by zero, decided from types and constants.

    may_fail(e)  is false only if e has a value for all operands that are not null

Integers are bounded by their types: `a + b` of two ints that were widened to long always fits,
`a + b` computed as int may not.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from incmrql.types import typed
from incmrql.types.model import Basic, Decimal, Type, is_float, is_integer
from incmrql.values.numbers import INTEGER_RANGES, decimal_result

Interval: TypeAlias = tuple[int, int]

_WIDEST: Final = 38
"""Digits of the widest decimal."""
_NOT_NEGATIVE: Final = frozenset(("count",))


def may_fail(expr: typed.Expr) -> bool:
    """Whether an operation may have no result although none of its operands is null."""
    match expr:
        case typed.Arithmetic(op, left, right) if is_float(expr.type):
            return op in ("/", "%") and _may_be_zero(right)
        case typed.Arithmetic(op, left, right) if isinstance(expr.type, Decimal):
            if op in ("/", "%") and _may_be_zero(right):
                return True
            return op != "%" and not _fits_decimal(op, left.type, right.type, expr.type)
        case typed.Arithmetic(op, left, right) if is_integer(expr.type):
            if op in ("/", "%") and _may_be_zero(right):
                return True
            return op != "%" and not _fits(_result(op, _interval(left), _interval(right)), expr)
        case typed.Negate(operand) if is_integer(expr.type):
            low, high = _interval(operand)
            return not _fits((-high, -low), expr)
        case typed.Builtin("abs", (operand,)) if is_integer(expr.type):
            low, high = _interval(operand)
            return not _fits((0, max(abs(low), abs(high))), expr)
        case typed.Aggregate("sum"):
            return isinstance(expr.type, Decimal) or is_integer(expr.type)
        case typed.Aggregate("avg"):
            return isinstance(expr.type, Decimal) and expr.type.precision == _WIDEST
        case _:
            return False


def _may_be_zero(divisor: typed.Expr) -> bool:
    """Whether a divisor is not a constant other than zero."""
    while isinstance(divisor, typed.Widen):
        divisor = divisor.operand
    return not isinstance(divisor, typed.Const) or divisor.value is None or divisor.value == 0


def _interval(expr: typed.Expr) -> Interval:
    """The integers that an expression may be; those of its type if no more is known."""
    bounds = _of_type(expr.type)
    match expr:
        case typed.Const(value) if isinstance(value, int):
            return value, value
        case typed.Widen(operand) if is_integer(operand.type):
            return _interval(operand)
        case typed.Aggregate(function) if function in _NOT_NEGATIVE:
            return 0, bounds[1]
        case typed.Arithmetic(op, left, right) if is_integer(expr.type):
            found = _result(op, _interval(left), _interval(right))
            return found if _fits(found, expr) else bounds
        case _:
            return bounds


def _of_type(type_: Type) -> Interval:
    name = type_.name if isinstance(type_, Basic) else "long"
    values = INTEGER_RANGES.get(name, INTEGER_RANGES["long"])
    return values[0], values[-1]


def _fits(found: Interval, expr: typed.Expr) -> bool:
    low, high = _of_type(expr.type)
    return low <= found[0] and found[1] <= high


def _result(op: str, left: Interval, right: Interval) -> Interval:
    """An interval that has all results."""
    match op:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "*":
            ends = [a * b for a in left for b in right]
            return min(ends), max(ends)
        case "/":
            if right[0] > 0:
                return min(left[0], 0), max(left[1], 0)
            most = max(abs(left[0]), abs(left[1])) // (2 if right[1] < -1 else 1)
            return -most, most
        case _:
            most = max(abs(right[0]), abs(right[1]))
            return -most, most


def _fits_decimal(op: str, left: Type, right: Type, result: Decimal) -> bool:
    """Whether a decimal result has room for all digits that its operands may give it."""
    if not isinstance(left, Decimal) or not isinstance(right, Decimal):
        return False
    digits = decimal_result(op, (left.precision, left.scale), (right.precision, right.scale))
    return result.precision < _WIDEST and digits == (result.precision, result.scale)
