"""Type inference of operators, conditionals and collections: operands are brought to one type."""

from __future__ import annotations

from incmrql.errors import Span
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.infer.conversions import as_text, cast_hint, condition, fit, widen
from incmrql.types.lattice import castable, comparable, decimal_of, join
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    INT,
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
from incmrql.types.scope import Inference, Scope, placeholder
from incmrql.values.numbers import decimal_result

_ONE_VALUE = (
    "It is one value here: after group by, variables that are not keys become bags;"
    " to aggregate over all rows, aggregate a query."
)
_TO_ANY = "Convert one of them with as, or both to any."


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
            test = condition(inference, operand, 'the operand of "not"')
            return typed.Not(test, type=BOOL, span=expr.span)
        case "exists":
            rows = collection(inference, operand, 'the operand of "exists"')
            return typed.Exists(rows, type=BOOL, span=expr.span)
        case "+" | "-":
            if inference.has_error(operand.type):
                return placeholder(expr.span)
            if operand.type != NOTHING and not is_numeric(operand.type):
                return _no_arithmetic(inference, expr.op, (operand,), expr.span)
            type_ = _arithmetic_type(operand.type)
            fitted = widen(operand, type_)
            if expr.op == "+":
                return fitted
            return typed.Negate(fitted, type=type_, span=expr.span)


def _arithmetic_type(type_: Type) -> Type:
    """The type in which an operand is computed: at least int, and double for floats."""
    if is_float(type_):
        return DOUBLE
    return INT if is_integer(type_) and type_ != LONG else type_


def arithmetic(
    inference: Inference,
    op: typed.ArithmeticOp,
    left: typed.Expr,
    right: typed.Expr,
    span: Span,
) -> typed.Expr:
    """`+ - * / %`; `+` also joins strings and collections."""
    types = [t for t in (left.type, right.type) if t != NOTHING]
    if op == "+" and types and all(t == STRING for t in types):
        first, second = widen(left, STRING), widen(right, STRING)
        return typed.Arithmetic(op, first, second, type=STRING, span=span)
    collections = bool(types) and all(isinstance(t, Collection) for t in types)
    if op == "+" and collections and inference.adds_collections:
        return _concatenation(inference, left, right, span)
    if op == "+" and STRING in types:
        texts = as_text(left), as_text(right)
        if texts != (left, right):
            return arithmetic(inference, op, *texts, span)
    if not all(is_numeric(t) for t in types):
        if inference.has_error(left.type, right.type):
            return placeholder(span)
        return _no_arithmetic(inference, op, (left, right), span)
    result, operands = _arithmetic_types(op, left.type, right.type)
    # A decimal operand keeps its type: the precision of the result already follows from both.
    first, second = (
        node if isinstance(node.type, Decimal) and isinstance(target, Decimal)
        else widen(node, target)
        for node, target in zip((left, right), operands, strict=True)
    )  # fmt: skip
    return typed.Arithmetic(op, first, second, type=result, span=span)


def _arithmetic_types(
    op: typed.ArithmeticOp, left: Type, right: Type
) -> tuple[Type, tuple[Type, Type]]:
    """The type of the result, and the types to which the operands are widened."""
    if NOTHING in (left, right):
        type_ = _arithmetic_type(right if left == NOTHING else left)
        return type_, (type_, type_)
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
        hint = "A range binds tighter than arithmetic: write a..(b + c)."
    elif any(isinstance(node.type, Collection) for node in operands):
        hint = (
            "One side is a collection, as variables are after group by: "
            f"compute inside an aggregate, as in sum(x {op} y), which works row by row."
        )
    elif any(str(node.type) in ("JSON", "any", "XML") for node in operands):
        hint = "Convert it to a type: e as double."
    elif any(node.type == STRING for node in operands):
        hint = "Convert the string: e as double (null where that fails)."
    elif any(node.type in (DATE, TIMESTAMP) for node in operands):
        hint = "Use date_add(d, n) to add days and date_diff(a, b) to count days between dates."
    elif any(node.type == BOOL for node in operands):
        hint = "Convert the condition to a number: if e then 1 else 0."
    return inference.problem("T301", span, f'"{op}" does not apply to {kinds}', kinds, hint)


def compare(
    inference: Inference,
    op: typed.CompareOp,
    left: typed.Expr,
    right: typed.Expr,
    span: Span,
) -> typed.Expr:
    """A comparison of two values, widened to a common type."""
    if STRING in (left.type, right.type):
        left, right = as_text(left), as_text(right)
    common = comparable(left.type, right.type)
    if common is not None and not isinstance(common, Function):
        first, second = widen(left, common), widen(right, common)
        return typed.Compare(op, first, second, type=BOOL, span=span)
    if inference.has_error(left.type, right.type):
        return placeholder(span, BOOL)
    message = f"{left.type} cannot be compared with {right.type}"
    hint = _comparison_hint(inference, left, right)
    return inference.problem("T302", span, message, f'in "{op}"', hint)


def _comparison_hint(inference: Inference, left: typed.Expr, right: typed.Expr) -> str:
    sides = {str(left.type), str(right.type)}
    if sides & {"JSON", "any", "XML"}:
        other = next(iter(sides - {"JSON", "any", "XML"}), "string")
        return f"Convert it to a type: e as {other}."
    if "string" in sides and sides & {"date", "timestamp"}:
        return 'Write dates as date("2026-01-31") and timestamp("2026-01-31T10:00:00Z").'
    collections = [side for side in (left, right) if isinstance(side.type, Collection)]
    if len(collections) == 1 and _variable_of(collections[0]) in inference.lifted:
        shown = collections[0].span.text
        if len(shown) <= 30:
            return (
                f'"{shown}" is the bag of its values in the group: '
                f"use an aggregate such as max({shown})."
            )
    if collections:
        return "To look for an element use member(x, s) or some y in s: y = x."
    return cast_hint(right, left.type) if castable(right.type, left.type) else ""


def collection(inference: Inference, node: typed.Expr, what: str) -> typed.Expr:
    """`node` as a collection; reports a problem if it is none."""
    if isinstance(node.type, Collection):
        return node
    if node.type == NOTHING:
        return widen(node, Collection("bag", NOTHING))
    hint = "Put a single value in braces: {e}."
    if str(node.type) in ("JSON", "any"):
        hint = "Convert it to an array type: e as [T]."
    elif (variable := _variable_of(node)) is not None:
        hint = _ONE_VALUE
        if variable in inference.group_keys:
            hint = f'"{variable.name}" is a group-by key, which has one value in each group.'
    message = f"{what} must be a bag or a list, not {node.type}"
    inference.problem("T305", node.span, message, f"is {node.type}", hint)
    return placeholder(node.span, Collection("bag", NOTHING))


def _variable_of(node: typed.Expr) -> typed.Variable | None:
    """The variable that `node` is or starts from."""
    while isinstance(node, typed.Field | typed.Item | typed.MapOver):
        node = node.subject
    return node.variable if isinstance(node, typed.Var) else None


def _concatenation(
    inference: Inference, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    """Two lists one after the other, or the union of a bag and another collection."""
    if any(isinstance(t, Collection) and t.kind == "bag" for t in (left.type, right.type)):
        return _combine(inference, "union", left, right, span, "+")
    element = join(_element(left), _element(right))
    if element is None:
        return _different_elements(inference, "+", left, right, span)
    list_type = Collection("list", element)
    parts = widen(left, list_type), widen(right, list_type)
    both = typed.MakeCollection(parts, type=Collection("list", list_type), span=span)
    return typed.Builtin("flatten", (both,), type=list_type, span=span)


def _combine(
    inference: Inference,
    op: typed.CombineOp,
    left: typed.Expr,
    right: typed.Expr,
    span: Span,
    symbol: str = "",
) -> typed.Expr:
    first = collection(inference, left, f'the left side of "{op}"')
    second = collection(inference, right, f'the right side of "{op}"')
    element = join(_element(first), _element(second))
    if element is None:
        return _different_elements(inference, symbol or op, first, second, span)
    type_ = Collection("bag", element)
    return typed.Combine(op, widen(first, type_), widen(second, type_), type=type_, span=span)


def _different_elements(
    inference: Inference, op: str, left: typed.Expr, right: typed.Expr, span: Span
) -> typed.Expr:
    if inference.has_error(left.type, right.type):
        return placeholder(span, Collection("bag", NOTHING))
    message = f'the two sides of "{op}" hold {_element(left)} and {_element(right)}'
    return inference.problem("T304", span, message, "different elements", _TO_ANY)


def _element(node: typed.Expr) -> Type:
    return node.type.element if isinstance(node.type, Collection) else NOTHING


def common_type(
    inference: Inference, nodes: list[typed.Expr], what: str, span: Span
) -> Type | None:
    """The least common type of several values; reports the first value that does not fit."""
    common: Type = NOTHING
    for node in nodes:
        joined = join(common, node.type)
        if joined is None:
            if inference.has_error(common, node.type):
                return None
            message = f"{what} must have one type, not {common} and {node.type}"
            blamed_span = node.span if node.span.end else span
            inference.problem("T304", blamed_span, message, f"is {node.type}", _TO_ANY)
            return None
        common = joined
    return common


def infer_collection(
    inference: Inference, items: tuple[ast.Expr, ...], kind: str, scope: Scope, span: Span
) -> typed.Expr:
    """`{a, b}` or `[a, b]`."""
    nodes = [inference.infer(item, scope) for item in items]
    element = common_type(inference, nodes, "the elements of a collection", span)
    type_ = Collection("list" if kind == "list" else "bag", element or NOTHING)
    if element is None:
        return placeholder(span, type_)
    elements = tuple(widen(node, element) for node in nodes)
    return typed.MakeCollection(elements, type=type_, span=span)


def infer_if(inference: Inference, expr: ast.If, scope: Scope) -> typed.Expr:
    """`if c then a else b`."""
    test = condition(inference, inference.infer(expr.condition, scope), "the condition of if")
    then = inference.infer(expr.then, scope)
    otherwise = inference.infer(expr.otherwise, scope)
    common = common_type(inference, [then, otherwise], "the two branches of if", expr.span)
    if common is None:
        return placeholder(expr.span)
    branches = widen(then, common), widen(otherwise, common)
    return typed.If(test, *branches, type=common, span=expr.span)


def infer_range(inference: Inference, expr: ast.Range, scope: Scope) -> typed.Expr:
    """`a..b` or `a...b`."""
    first, last = (
        fit(inference, inference.infer(bound, scope), LONG, "the bound of a range")
        for bound in (expr.first, expr.last)
    )
    kind = Collection("bag" if expr.distributed else "list", LONG)
    return typed.RangeOf(first, last, type=kind, span=expr.span)
