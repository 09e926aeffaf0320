"""Arithmetic and functions of numbers."""

from __future__ import annotations

import math
from typing import Final

from incmrql.catalyst.expressions.rules import (
    MODES,
    Convert,
    Rule,
    Rules,
    call,
    compare,
    const,
    constant_of,
    let,
    mode_of,
    require_one_type,
    rule,
    type_of,
    when,
)
from incmrql.catalyst.expressions.spans import (
    absolute,
    is_interval,
    number_of,
    opposite_of,
    sum_of_intervals,
)
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.types import typed
from incmrql.types.model import BOOL, DOUBLE, FLOAT, INT, LONG, Decimal, Type, is_integer
from incmrql.values.numbers import MOST_DIGITS


def _operands(node: PlanNode, scope: ColumnScope) -> tuple[typed.Expr, typed.Expr]:
    left, right = scope.expression(node["left"]), scope.expression(node["right"])
    if not (isinstance(left.type, Decimal) and isinstance(right.type, Decimal)):
        require_one_type(node, (left, right))
    return left, right


def _operator(op: typed.ArithmeticOp) -> Convert:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        left, right = _operands(node, scope)
        if is_interval(type_of(node)):
            return sum_of_intervals(op, left, right, node)
        if op == "%":
            _require_divisible(node, left.type, right.type)
        return typed.Arithmetic(op, left, right, mode_of(node), type=type_of(node))

    return convert


def _require_divisible(node: PlanNode, left: Type, right: Type) -> None:
    """Raise `Refused` if Spark raises an error, in whatever mode, where a quotient is too long."""
    if not isinstance(left, Decimal) or not isinstance(right, Decimal):
        return
    fits = left.precision - left.scale + right.scale <= MOST_DIGITS
    if not fits and mode_of(node) != "ansi":
        message = f"{node.name} of {left} and {right}, where Java cannot divide some"
        raise Refused("C104", message, "Cast both to decimals with fewer digits.", node)


def _arithmetic(op: typed.ArithmeticOp) -> Rule:
    return rule(_operator(op), "left", "right", *MODES)


def _whole_quotient(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`div`, whose result is a long."""
    left, right = _operands(node, scope)
    mode = mode_of(node)
    if isinstance(left.type, Decimal):
        _require_divisible(node, left.type, right.type)
        return call("spark.div", [left, right], LONG, mode)
    return typed.Arithmetic("/", left, right, mode, type=LONG)


def _pmod(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    left, right = _operands(node, scope)
    _require_divisible(node, left.type, right.type)
    return call("spark.pmod", [left, right], type_of(node), mode_of(node))


def _minus(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    operand = scope.expression(node["child"])
    if is_interval(operand.type):
        return opposite_of(operand)
    return typed.Negate(operand, mode_of(node), type=type_of(node))


def _absolute(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    operand, mode = scope.expression(node["child"]), mode_of(node)
    type_ = type_of(node)
    if is_interval(type_):
        return absolute(operand)
    if mode != "legacy" or not is_integer(type_):
        return call("abs", [operand], type_, mode)

    def wrapped(value: typed.Expr) -> typed.Expr:
        negative = compare("<", value, const(0, type_))
        return when(negative, typed.Negate(value, "legacy", type=type_), value)

    return let(scope, operand, wrapped)


def _round(function: str) -> Convert:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        operand, digits = scope.expression(node["child"]), scope.expression(node["scale"])
        count, type_ = constant_of(digits), type_of(node)
        if count is None:
            raise Refused("C104", f"{node.name} to a number of digits from data", node=node)
        if count.value is None:
            return const(None, type_)
        if is_integer(type_):
            return _rounded_integer(function, operand, count, node)
        return call(function, [operand, digits], type_)

    return convert


def _rounded_integer(
    function: str, operand: typed.Expr, digits: typed.Const, node: PlanNode
) -> typed.Expr:
    if digits.value >= 0:
        return operand
    mode = mode_of(node)
    if mode == "legacy":
        message = f"{node.name} of integers to tens, without ANSI, is not converted yet"
        raise Refused("C104", message, node=node)
    return call(function, [operand, digits], type_of(node), mode)


def _to_digits(function: str) -> Convert:
    """`ceil` and `floor` to a constant number of digits, of decimals."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        operand, digits = scope.expression(node["child"]), scope.expression(node["scale"])
        if not isinstance(operand.type, Decimal) or constant_of(digits) is None:
            raise Refused("C104", f"{node.name} of {operand.type} is not converted", node=node)
        return call(function, [operand, digits], type_of(node), "ansi")

    return convert


def _bit(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The bit of an integer at a place; it fails beyond the bits of the type."""
    number, place = scope.expressions((node["left"], node["right"]))
    if number.type not in (INT, LONG) or place.type != INT:
        raise Refused("C104", f"bit_get of {number.type} is not converted yet", node=node)
    bit = call("spark.bit_at", [number, place], INT, "ansi")
    return typed.Cast(bit, "try", type=type_of(node))


def _bucket(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    names = ("value", "minValue", "maxValue", "numBucket")
    operands = scope.expressions([node[name] for name in names])
    if [operand.type for operand in operands] != [DOUBLE, DOUBLE, DOUBLE, LONG]:
        raise Refused("C104", "width_bucket of other types than double", node=node)
    return call("spark.width_bucket", operands, LONG)


def _to_whole(function: str) -> Convert:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        operand = scope.expression(node["child"])
        if is_integer(operand.type):
            return operand
        return call(function, [operand], type_of(node))

    return convert


def _root(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return call("sqrt", [scope.expression(node["child"])], DOUBLE)


def _binary(function: str) -> Rule:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        return call(function, scope.expressions((node["left"], node["right"])), type_of(node))

    return rule(convert, "left", "right")


def _invert_bits(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return call("spark.bitnot", [scope.expression(node["child"])], type_of(node))


def _bit_count(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    operand = scope.expression(node["child"])
    if operand.type == BOOL:
        operand = typed.Cast(operand, "ansi", type=LONG)
    return call("spark.bit_count", [operand], INT)


def _of_double(function: str) -> Rule:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        operand = scope.expression(node["child"])
        if is_interval(operand.type):
            operand = typed.Widen(number_of(operand), type=DOUBLE)
        return call(function, [operand], DOUBLE)

    return rule(convert, "child")


def _factorial(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return call("spark.factorial", [scope.expression(node["child"])], LONG)


def _pi(_node: PlanNode, _scope: ColumnScope) -> typed.Expr:
    return const(math.pi, DOUBLE)


def _e(_node: PlanNode, _scope: ColumnScope) -> typed.Expr:
    return const(math.e, DOUBLE)


def _operand(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    return scope.expression(node["child"])


def _is_nan(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """Whether a number is NaN: false of null."""
    operand = scope.expression(node["child"])
    if operand.type not in (FLOAT, DOUBLE):
        raise Refused("C104", f"{node.name} of {operand.type} is not converted yet", node=node)
    same = typed.Compare("=", operand, const(float("nan"), operand.type), type=BOOL)
    return when(same, const(True, BOOL), const(False, BOOL))


def _nan_to(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The left operand, or the right one where the left one is NaN."""
    left, right = _operands(node, scope)

    def chosen(value: typed.Expr) -> typed.Expr:
        return when(compare("=", value, const(float("nan"), value.type)), right, value)

    return let(scope, left, chosen)


ARITHMETIC: Final[Rules] = {
    "Add": _arithmetic("+"),
    "Subtract": _arithmetic("-"),
    "Multiply": _arithmetic("*"),
    "Divide": _arithmetic("/"),
    "Remainder": _arithmetic("%"),
    "IntegralDivide": rule(_whole_quotient, "left", "right", *MODES),
    "Pmod": rule(_pmod, "left", "right", *MODES),
    "UnaryMinus": rule(_minus, "child", "failOnError"),
    "UnaryPositive": rule(_operand, "child"),
    "Abs": rule(_absolute, "child", "failOnError"),
    "Round": rule(_round("spark.round"), "child", "scale", "ansiEnabled"),
    "BRound": rule(_round("spark.bround"), "child", "scale", "ansiEnabled"),
    "RoundCeil": rule(_to_digits("spark.ceil_at"), "child", "scale"),
    "RoundFloor": rule(_to_digits("spark.floor_at"), "child", "scale"),
    "BitwiseGet": rule(_bit, "left", "right"),
    "WidthBucket": rule(_bucket, "value", "minValue", "maxValue", "numBucket"),
    "Ceil": rule(_to_whole("spark.ceil"), "child"),
    "Floor": rule(_to_whole("spark.floor"), "child"),
    "Sqrt": rule(_root, "child"),
    "BitwiseAnd": _binary("spark.bitand"),
    "BitwiseOr": _binary("spark.bitor"),
    "BitwiseXor": _binary("spark.bitxor"),
    "BitwiseNot": rule(_invert_bits, "child"),
    "ShiftLeft": _binary("spark.shiftleft"),
    "ShiftRight": _binary("spark.shiftright"),
    "ShiftRightUnsigned": _binary("spark.shiftrightunsigned"),
    "BitwiseCount": rule(_bit_count, "child"),
    "Signum": _of_double("spark.signum"),
    "Rint": _of_double("rint"),
    "ToDegrees": _of_double("spark.degrees"),
    "ToRadians": _of_double("spark.radians"),
    "Factorial": rule(_factorial, "child"),
    "Pi": rule(_pi),
    "EulerNumber": rule(_e),
    "IsNaN": rule(_is_nan, "child"),
    "NaNvl": rule(_nan_to, "left", "right"),
}
"""Classes of arithmetic."""
