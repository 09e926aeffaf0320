"""Operators as functions of values: arithmetic, comparison, logic, sets of elements.

Null as a result of `arithmetic` or `negate` is a failure; their operands are not null.  The other
functions handle null as the language defines it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from incmrql.errors import DataError
from incmrql.types.model import STRING, Collection, Type
from incmrql.types.model import Basic as BasicType
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Data, Value, encode, sort_values
from incmrql.values import compare as compare_bytes
from incmrql.values.numbers import (
    INTEGER_RANGES,
    decimal_arithmetic,
    divide_integers,
    fit_or_null,
    normal,
    quantize,
    remainder,
    to_float32,
)

LONGEST_RANGE = 20_000_000
"""The most elements of a range: all of them are in memory at once."""


def fit_to_type(value: Value, type_: Type) -> Value:
    """A number in the form of its type, or null where the type cannot hold it."""
    match type_:
        case BasicType("byte" | "short" | "int" | "long"):
            return fit_or_null(INTEGER_RANGES[type_.name], value)
        case BasicType("double"):
            return normal(value)
        case BasicType("float"):
            return to_float32(value)
        case DecimalType(precision, scale):
            return quantize(value, precision, scale)
        case _:
            return value


def arithmetic(op: str, type_: Type, a: Value, b: Value) -> Value:
    """`a op b`, computed exactly or as IEEE says, then in the form of its type."""
    if type_ == STRING:
        return a + b
    if isinstance(type_, DecimalType):
        return decimal_arithmetic(op, Decimal(a), Decimal(b), (type_.precision, type_.scale))
    result = _float_result(op, a, b) if isinstance(a, float) else integer_arithmetic(op, a, b)
    return None if result is None else fit_to_type(result, type_)


def integer_arithmetic(op: str, a: int, b: int) -> int | None:
    """`a op b`, whatever the size of the result; null where it has none."""
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return divide_integers(a, b)
        case _:
            return remainder(a, b)


def _float_result(op: str, a: float, b: float) -> float | None:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return None if b == 0 else a / b
        case _:
            return None if b == 0 else _float_remainder(a, b)


def _float_remainder(a: float, b: float) -> float:
    """The remainder with the sign of `a`; NaN where `a` is infinite."""
    return math.nan if math.isinf(a) else math.fmod(a, b)


def negate(type_: Type, value: Value) -> Value:
    """`-value`."""
    opposite = value.copy_negate() if isinstance(value, Decimal) else -value
    return fit_to_type(opposite, type_)


def compare(op: str, a: Value, b: Value) -> bool | None:
    """`a op b` for two values of one type: null if one is null, else by canonical bytes.

    On numbers the canonical order is that of the numbers, with NaN equal to itself and after
    all others; on strings it is that of the code points.
    """
    if a is None or b is None:
        return None
    sign = compare_bytes(a, b)
    match op:
        case "=":
            return sign == 0
        case "<>":
            return sign != 0
        case "<":
            return sign < 0
        case "<=":
            return sign <= 0
        case ">":
            return sign > 0
        case _:
            return sign >= 0


def conjunction(a: bool | None, b: bool | None) -> bool | None:
    """`a and b`: null if that depends on an operand that is null."""
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def disjunction(a: bool | None, b: bool | None) -> bool | None:
    """`a or b`: null if that depends on an operand that is null."""
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def negation(a: bool | None) -> bool | None:
    """`not a`."""
    return None if a is None else not a


def elements(value: Value) -> list[Value]:
    """The elements of a collection or JSON array; no elements for other values, such as null."""
    match value:
        case list():
            return value
        case Data(constructor="JArray", content=list() as content):
            return content
        case _:
            return []


def ordered_elements(value: Value) -> list[Value]:
    """The elements of a list in its order, those of a bag in canonical order."""
    return sort_values(value) if isinstance(value, Bag) else elements(value)


def collection(type_: Type, values: Iterable[Value]) -> list[Value]:
    """A bag or list of these values, as the type says."""
    is_list = isinstance(type_, Collection) and type_.kind != "bag"
    return list(values) if is_list else Bag(values)


def combine(op: str, left: Value, right: Value) -> Bag:
    """`union` adds multiplicities, `intersect` takes the minimum, `except` the difference."""
    first, second = elements(left), elements(right)
    if op == "union":
        return Bag([*first, *second])
    budget = Counter([encode(value) for value in second])
    result = Bag()
    for value in first:
        key = encode(value)
        is_match = budget[key] > 0
        budget[key] -= is_match
        if is_match == (op == "intersect"):
            result.append(value)
    return result


def distinct(values: Iterable[Value]) -> list[Value]:
    """The values without repetitions, where each one first occurs."""
    first: dict[bytes, Value] = {}
    for value in values:
        first.setdefault(encode(value), value)
    return list(first.values())


def integers_between(first: int, last: int, place: str = "") -> list[int]:
    """The integers from `first` to `last`, both included; `place` is the location for errors."""
    count = last - first + 1
    if count > LONGEST_RANGE:
        message = f"the range has {count} elements, and at most {LONGEST_RANGE} fit in memory"
        hint = "Use a shorter range, or check the bounds."
        raise DataError("R210", message, place=place, hint=hint)
    return list(range(first, last + 1))
