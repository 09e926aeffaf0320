"""Operators, conditionals and collections: their operands brought to one type."""

from __future__ import annotations

import decimal
import re

from incmrql.errors import Span
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.lattice import castable, comparable, decimal_of, join, widens
from incmrql.types.model import (
    BOOL,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    JSON,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    Collection,
    Decimal,
    Function,
    Type,
    is_float,
    is_integer,
    is_numeric,
)
from incmrql.types.resolve import as_text, cast_hint, condition, fit, joined_text, widen
from incmrql.types.scope import Inference, Scope
from incmrql.values.numbers import decimal_result

# --- Conversions ---


_DECIMAL = re.compile(r"[+-]?\d+(\.\d+)?")


def convert(inference: Inference, node: typed.Expr, target: Type, span: Span) -> typed.Expr:
    """`node as target`."""
    if target == JSON and node.type == NOTHING:
        return typed.Cast(node, type=target, span=span)  # null has a form in JSON
    if widens(node.type, target):
        return widen(node, target)
    if castable(node.type, target):
        return typed.Cast(node, type=target, span=span)
    if (text := joined_text(node)) is not None and castable(STRING, target):
        return typed.Cast(text, type=target, span=span)
    if inference.spoiled(target) or inference.spoiled(node.type):
        return typed.Const(None, type=target, span=span)
    message = f"a value of type {node.type} cannot become {target}"
    hint = ""
    if isinstance(node.type, Collection) and castable(node.type.element, target):
        hint = "It is a collection: take one element with elem(…)."
    return inference.problem("T306", span, message, "no such conversion", hint)


def infer_decimal(inference: Inference, only: typed.Expr, span: Span) -> typed.Expr:
    """`decimal("1.50")` has the digits that are written; of other values, the usual ones."""
    if not (isinstance(only, typed.Const) and only.type == STRING):
        return convert(inference, only, DECIMAL, span)
    number = written_decimal(str(only.value))
    if number is None:
        message = f'"{only.value}" is not a decimal number of at most 38 digits'
        hint = 'Write digits and one point: decimal("-12.50").'
        return inference.problem("T306", span, message, "not a number", hint)
    scale = -int(number.as_tuple().exponent)
    precision = max(len(number.as_tuple().digits), scale)
    return typed.Const(number, type=Decimal(precision, scale), span=span)


def written_decimal(text: str) -> decimal.Decimal | None:
    """The number that a text spells, with the scale that it shows."""
    if not _DECIMAL.fullmatch(text.strip()):
        return None
    number = decimal.Decimal(text.strip())
    digits, scale = number.as_tuple().digits, -int(number.as_tuple().exponent)
    return number if max(len(digits), scale) <= 38 else None


# --- Operators and collections ---


_PARENTHESES = "A range binds tighter than arithmetic: write a..(b + c)."


def infer_binary(inference: Inference, expr: ast.Binary, scope: Scope) -> typed.Expr:
    """`a op b`."""
    left, right = inference.infer(expr.left, scope), inference.infer(expr.right, scope)
    match expr.op:
        case "and" | "or":
            first = condition(inference, left, f'the left side of "{expr.op}"')
            second = condition(inference, right, f'the right side of "{expr.op}"')
            return typed.Logic(expr.op, first, second, type=BOOL, span=expr.span)
        case "union" | "intersect" | "except":
            return _combine(inference, expr.op, left, right, expr.span)
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            return compare(inference, expr.op, left, right, expr.span)
        case _:
            return arithmetic(inference, expr.op, left, right, expr.span)


def infer_unary(inference: Inference, expr: ast.Unary, scope: Scope) -> typed.Expr:
    """`-a`, `+a`, `not a`, `exists a`."""
    operand = inference.infer(expr.operand, scope)
    match expr.op:
        case "not":
            return typed.Not(condition(inference, operand, 'what follows "not"'), type=BOOL,
                             span=expr.span)  # fmt: skip
        case "exists":
            return typed.Exists(collection(inference, operand, 'what follows "exists"'),
                                type=BOOL, span=expr.span)  # fmt: skip
        case "+" | "-":
            if inference.spoiled(operand.type):
                return typed.Const(None, type=NOTHING, span=expr.span)
            if operand.type != NOTHING and not is_numeric(operand.type):
                return _no_arithmetic(inference, expr.op, (operand,), expr.span)
            wanted = _computed_in(operand.type)
            fitted = widen(operand, wanted)
            if expr.op == "+":
                return fitted
            return typed.Negate(fitted, type=wanted, span=expr.span)


def _computed_in(type_: Type) -> Type:
    """The type that arithmetic on one operand gives: no less than int, floats as double."""
    if is_float(type_):
        return DOUBLE
    return INT if is_integer(type_) and type_ != LONG else type_


def arithmetic(
    inference: Inference, op: str, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    """`+ - * / %`; `+` also joins strings and collections."""
    types = [t for t in (left.type, right.type) if t != NOTHING]
    match op:
        case "+" | "-" | "*" | "/" | "%":
            pass
        case _:
            raise AssertionError(op)
    if op == "+" and types and all(t == STRING for t in types):
        return typed.Arithmetic(op, widen(left, STRING), widen(right, STRING), type=STRING,
                                span=span)  # fmt: skip
    collections = bool(types) and all(isinstance(t, Collection) for t in types)
    if op == "+" and collections and inference.adds_collections:
        return _added(inference, left, right, span)
    if op == "+" and STRING in types and (left, right) != (joined := _texts(left, right)):
        return arithmetic(inference, op, *joined, span)
    if not all(is_numeric(t) for t in types):
        if inference.spoiled(left.type) or inference.spoiled(right.type):
            return typed.Const(None, type=NOTHING, span=span)
        return _no_arithmetic(inference, op, (left, right), span)
    result, operands = _arithmetic_types(op, left.type, right.type)
    first, second = (
        node if isinstance(node.type, Decimal) and isinstance(wanted, Decimal)
        else widen(node, wanted)
        for node, wanted in zip((left, right), operands, strict=True)
    )  # fmt: skip
    return typed.Arithmetic(op, first, second, type=result, span=span)


def _arithmetic_types(op: str, left: Type, right: Type) -> tuple[Type, tuple[Type, Type]]:
    """The type of the result and the types in which the operands are taken."""
    if NOTHING in (left, right):
        known = _computed_in(right if left == NOTHING else left)
        return known, (known, known)
    if is_float(left) or is_float(right):
        return DOUBLE, (DOUBLE, DOUBLE)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        a, b = decimal_of(left), decimal_of(right)
        precision, scale = decimal_result(op, (a.precision, a.scale), (b.precision, b.scale))
        return Decimal(precision, scale), (a, b)
    wanted = LONG if LONG in (left, right) else INT
    return wanted, (wanted, wanted)


def _no_arithmetic(
    inference: Inference, op: str, operands: tuple[typed.Expr, ...], span: Span
) -> typed.Expr:
    kinds = " and ".join(str(node.type) for node in operands)
    hint = ""
    if op == "+" and any(node.type == STRING for node in operands):
        hint = 'Convert the other side: "…" + string(x).'
    elif any(isinstance(node, typed.RangeOf) for node in operands):
        hint = _PARENTHESES
    elif any(isinstance(node.type, Collection) for node in operands):
        hint = (
            "One side is a collection, as variables are after group by: "
            f"compute inside an aggregate, sum(x {op} y), which goes row by row."
        )
    elif any(str(node.type) in ("JSON", "any", "XML") for node in operands):
        hint = "Say what it holds: e as double."
    elif any(node.type == STRING for node in operands):
        hint = "Convert the string: e as double (null where that fails)."
    elif any(node.type in (DATE, TIMESTAMP) for node in operands):
        hint = "Use date_add(d, n) for days later and date_diff(a, b) for days between."
    elif any(node.type == BOOL for node in operands):
        hint = "Choose the numbers: if e then 1 else 0."
    return inference.problem("T301", span, f'"{op}" does not apply to {kinds}', kinds, hint)


def compare(
    inference: Inference, op: str, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    """A comparison of two values brought to one type."""
    if STRING in (left.type, right.type):
        left, right = _texts(left, right)
    common = comparable(left.type, right.type)
    if common is None or isinstance(common, Function):
        if inference.spoiled(left.type) or inference.spoiled(right.type):
            return typed.Const(None, type=BOOL, span=span)
        hint = ""
        sides = {str(left.type), str(right.type)}
        if sides & {"JSON", "any", "XML"}:
            other = next(iter(sides - {"JSON", "any", "XML"}), "string")
            hint = f"Say what it holds: e as {other}."
        elif "string" in sides and sides & {"date", "timestamp"}:
            hint = 'Write dates as date("2026-01-31") and timestamp("2026-01-31T10:00:00Z").'
        elif (many := _lifted(inference, left, right)) is not None:
            shown = many.span.text
            hint = (
                f'"{shown}" is the bag of its values in the group: '
                f"use an aggregate such as max({shown})."
            )
        elif any(isinstance(t, Collection) for t in (left.type, right.type)):
            hint = "To look for an element use member(x, s) or some y in s: y = x."
        elif castable(right.type, left.type):
            hint = cast_hint(right, left.type)
        message = f"{left.type} cannot be compared with {right.type}"
        return inference.problem("T302", span, message, f'in "{op}"', hint)
    match op:
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            return typed.Compare(op, widen(left, common), widen(right, common), type=BOOL,
                                 span=span)  # fmt: skip
        case _:
            raise AssertionError(op)


def _texts(left: typed.Expr, right: typed.Expr) -> tuple[typed.Expr, typed.Expr]:
    return as_text(left), as_text(right)


def _lifted(inference: Inference, *sides: typed.Expr) -> typed.Expr | None:
    """The side that is a bag because of a group by, where the other is a single value."""
    many = [side for side in sides if isinstance(side.type, Collection)]
    if len(many) == 1 and _root(many[0]) in inference.lifted and len(many[0].span.text) <= 30:
        return many[0]
    return None


def collection(inference: Inference, node: typed.Expr, what: str) -> typed.Expr:
    """`node` as a collection, or a problem."""
    if isinstance(node.type, Collection):
        return node
    if node.type == NOTHING:
        return widen(node, Collection("bag", NOTHING))
    hint = "Put a single value in braces: {e}."
    if str(node.type) in ("JSON", "any"):
        hint = "Say what it holds: e as [T] for an array of T."
    elif (variable := _root(node)) is not None:
        hint = _ONE_VALUE
        if variable in inference.group_keys:
            hint = f'"{variable.name}" is the key here, one value for the group.'
    message = f"{what} must be a bag or a list, and this is {node.type}"
    inference.problem("T305", node.span, message, f"is {node.type}", hint)
    return typed.Const(None, type=Collection("bag", NOTHING), span=node.span)


_ONE_VALUE = (
    "It is one value here: with group by, variables that are not keys become bags;"
    " over all rows, aggregate a query."
)


def _root(node: typed.Expr) -> typed.Variable | None:
    """The variable that this is, or is a part of."""
    while isinstance(node, typed.Field | typed.Item | typed.MapOver):
        node = node.subject
    return node.variable if isinstance(node, typed.Var) else None


def _added(inference: Inference, left: typed.Expr, right: typed.Expr, span: Span) -> typed.Expr:
    """Two lists one after the other, or the union of a bag and another collection."""
    if not all(t == NOTHING or _is_list(t) for t in (left.type, right.type)):
        return _combine(inference, "union", left, right, span, "+")
    element = join(_element(left), _element(right))
    if element is None:
        return _different_elements(inference, "+", left, right, span)
    one = Collection("list", element)
    both = typed.MakeCollection((widen(left, one), widen(right, one)),
                                type=Collection("list", one), span=span)  # fmt: skip
    return typed.Builtin("flatten", (both,), type=one, span=span)


def _is_list(type_: Type) -> bool:
    return isinstance(type_, Collection) and type_.kind == "list"


def _combine(
    inference: Inference, op: str, left: typed.Expr, right: typed.Expr, span: Span, shown: str = ""
) -> typed.Expr:
    first = collection(inference, left, f'the left side of "{op}"')
    second = collection(inference, right, f'the right side of "{op}"')
    element = join(_element(first), _element(second))
    if element is None:
        return _different_elements(inference, shown or op, first, second, span)
    wanted = Collection("bag", element)
    match op:
        case "union" | "intersect" | "except":
            return typed.Combine(op, widen(first, wanted), widen(second, wanted), type=wanted,
                                 span=span)  # fmt: skip
        case _:
            raise AssertionError(op)


def _different_elements(
    inference: Inference, op: str, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    if inference.spoiled(left.type) or inference.spoiled(right.type):
        return typed.Const(None, type=Collection("bag", NOTHING), span=span)
    message = f'the two sides of "{op}" hold {_element(left)} and {_element(right)}'
    return inference.problem("T304", span, message, "different elements", _TO_ANY)


_TO_ANY = "Convert one of them with as, or both to any."


def _element(node: typed.Expr) -> Type:
    return node.type.element if isinstance(node.type, Collection) else NOTHING


def common_type(
    inference: Inference, nodes: list[typed.Expr], what: str, span: Span
) -> Type | None:
    """The least type of several values; a problem names the first that does not fit."""
    common: Type = NOTHING
    for node in nodes:
        joined = join(common, node.type)
        if joined is None:
            if inference.spoiled(common) or inference.spoiled(node.type):
                return None
            message = f"{what} must be of one type: here are {common} and {node.type}"
            place = node.span if node.span.end else span
            inference.problem("T304", place, message, f"is {node.type}", _TO_ANY)
            return None
        common = joined
    return common


def infer_collection(
    inference: Inference, items: tuple[ast.Expr, ...], kind: str, scope: Scope, span: Span
) -> typed.Expr:
    """`{a, b}` or `[a, b]`."""
    nodes = [inference.infer(item, scope) for item in items]
    element = common_type(inference, nodes, "the elements of a collection", span)
    wanted = Collection("list" if kind == "list" else "bag", element or NOTHING)
    if element is None:
        return typed.Const(None, type=wanted, span=span)
    fitted = tuple(widen(node, element) for node in nodes)
    return typed.MakeCollection(fitted, type=wanted, span=span)


def infer_if(inference: Inference, expr: ast.If, scope: Scope) -> typed.Expr:
    """`if c then a else b`."""
    test = condition(inference, inference.infer(expr.condition, scope), "the condition of if")
    then = inference.infer(expr.then, scope)
    otherwise = inference.infer(expr.otherwise, scope)
    common = common_type(inference, [then, otherwise], "the two branches of if", expr.span)
    if common is None:
        return typed.Const(None, type=NOTHING, span=expr.span)
    return typed.If(test, widen(then, common), widen(otherwise, common), type=common,
                    span=expr.span)  # fmt: skip


def infer_range(inference: Inference, expr: ast.Range, scope: Scope) -> typed.Expr:
    """`a..b` or `a...b`."""
    first, last = (
        fit(inference, inference.infer(bound, scope), LONG, "the bound of a range")
        for bound in (expr.first, expr.last)
    )
    kind = Collection("bag" if expr.distributed else "list", LONG)
    return typed.RangeOf(first, last, type=kind, span=expr.span)
