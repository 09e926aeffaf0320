"""Conversions of typed expressions: implicit ones that cannot fail, and explicit casts."""

from __future__ import annotations

import decimal
import re

from incmrql.errors import QueryError, SourceText, Span
from incmrql.syntax import ast
from incmrql.syntax.parser.scripts import parse_query
from incmrql.types import typed
from incmrql.types.lattice import castable, widens
from incmrql.types.model import (
    BOOL,
    BYTE,
    DECIMAL,
    DOUBLE,
    INT,
    JSON,
    LONG,
    NOTHING,
    PREDEFINED,
    SHORT,
    STRING,
    XML,
    Collection,
    Decimal,
    Function,
    Tuple,
    Type,
    bag,
    is_float,
    is_integer,
    list_of,
)
from incmrql.types.scope import Inference, placeholder

_NODE = next(c for c in PREDEFINED["XML"] if c.name == "Node")
_DECIMAL = re.compile(r"[+-]?\d+(\.\d+)?")


def widen(node: typed.Expr, target: Type) -> typed.Expr:
    """`node` in a type that its own type widens to."""
    if node.type == target:
        return node
    if isinstance(node, typed.Const):
        if (node.type in (BYTE, SHORT, INT) and target == LONG) or node.value is None:
            return typed.Const(node.value, type=target, span=node.span)
        if node.type in (INT, LONG) and target == DOUBLE:
            return typed.Const(float(node.value), type=target, span=node.span)
    return typed.Widen(node, type=target, span=node.span)


def fit(
    inference: Inference, node: typed.Expr, target: Type, what: str, code: str = "T308"
) -> typed.Expr:
    """`node` in the type `target`, without a cast; reports a problem if it does not fit."""
    if widens(node.type, target):
        return widen(node, target)
    if target == STRING and (text := joined_text(node)) is not None:
        return text
    if inference.has_error(target, node.type):
        return placeholder(node.span, target)
    message = f"{what} must be {target}, not {node.type}"
    return inference.problem(code, node.span, message, f"is {node.type}", cast_hint(node, target))


def condition(inference: Inference, node: typed.Expr, what: str) -> typed.Expr:
    """`node` as a condition; reports a problem if it is not bool."""
    return fit(inference, node, BOOL, what, "T303")


def convert(inference: Inference, node: typed.Expr, target: Type, span: Span) -> typed.Expr:
    """`node as target`."""
    if target == JSON and node.type == NOTHING:
        return typed.Cast(node, type=target, span=span)  # JSON has a null of its own
    if widens(node.type, target):
        return widen(node, target)
    if castable(node.type, target):
        return typed.Cast(node, type=target, span=span)
    if (text := joined_text(node)) is not None and castable(STRING, target):
        return typed.Cast(text, type=target, span=span)
    if inference.has_error(target, node.type):
        return placeholder(span, target)
    message = f"a value of type {node.type} cannot be converted to {target}"
    hint = ""
    if isinstance(node.type, Collection) and castable(node.type.element, target):
        hint = "This is a collection: take one element with elem(…)."
    return inference.problem("T306", span, message, "no such conversion", hint)


def infer_decimal(inference: Inference, only: typed.Expr, span: Span) -> typed.Expr:
    """`decimal(e)`: a constant string keeps its digits, all else is cast to `decimal(38, 18)`."""
    if not (isinstance(only, typed.Const) and only.type == STRING):
        return convert(inference, only, DECIMAL, span)
    number = _decimal_constant(str(only.value).strip())
    if number is None:
        message = f'"{only.value}" is not a decimal number of at most 38 digits'
        hint = 'Write digits, with a point if needed: decimal("-12.50").'
        return inference.problem("T306", span, message, "not a number", hint)
    scale = -int(number.as_tuple().exponent)
    precision = max(len(number.as_tuple().digits), scale)
    return typed.Const(number, type=Decimal(precision, scale), span=span)


def _decimal_constant(text: str) -> decimal.Decimal | None:
    """The decimal that a text spells, with all digits after the point."""
    if not _DECIMAL.fullmatch(text):
        return None
    number = decimal.Decimal(text)
    digits, scale = number.as_tuple().digits, -int(number.as_tuple().exponent)
    return number if max(len(digits), scale) <= 38 else None


def cast_hint(node: typed.Expr, target: Type) -> str:
    """A hint how to convert a value to the target type, or the empty text."""
    if target == BOOL:
        return "Compare it with something: a condition is true or false."
    if not isinstance(target, Function) and castable(node.type, target):
        text = node.span.text.strip()
        shown = _before_as(text) if text and len(text) <= 30 and "\n" not in text else "e"
        cuts = is_integer(target) and (is_float(node.type) or isinstance(node.type, Decimal))
        note = "fractions are cut off" if cuts else "null where that fails"
        return f"Convert it: {shown} as {target} ({note})."
    if isinstance(node.type, Collection) and widens(node.type.element, target):
        return "This is a collection: take one element with elem(…), or aggregate it, as in sum(…)."
    return ""


def _before_as(text: str) -> str:
    """The text of an expression, in parentheses if it needs them before `as`."""
    try:
        tree = parse_query(SourceText(f"{text} as int"))
    except QueryError:
        return f"({text})"
    whole = isinstance(tree, ast.Cast) and tree.subject.span.text == text
    return text if whole else f"({text})"


def constant_text(inference: Inference, expr: ast.Expr) -> str | None:
    """The string value of an expression that is constant before the script runs, or None."""
    match expr:
        case ast.Literal(str(value), "string"):
            return value
        case ast.Binary("+", left, right):
            first, second = constant_text(inference, left), constant_text(inference, right)
            return None if first is None or second is None else first + second
        case ast.Index(ast.Name("args"), ast.Literal(int(index), "int")):
            words = inference.catalog.arguments or ()
            return words[index] if 0 <= index < len(words) else None
        case ast.Name(name) if (definition := inference.query_named(name)) is not None:
            query = inference.queries.get(definition.key)
            is_string = isinstance(query, typed.Const) and query.type == STRING
            return str(query.value) if isinstance(query, typed.Const) and is_string else None
        case _:
            return None


# --- `text(xs)` of several trees ---
#
# On its own `text(xs)` is the collection of the trees' texts.  Where a collection does not fit but
# a string does, as in `text(x.name.first) = "Ann"`, it is the text of all trees joined, as in
# Apache MRQL: of a list in its order, of a bag in canonical order.


def joined_text(node: typed.Expr) -> typed.Expr | None:
    """The joined text of all trees if `node` is `text` of a collection, else None."""
    match node:
        case typed.MapOver(one, trees, typed.Builtin("text", (typed.Var(argument),)), False):
            if argument != one or not isinstance(trees.type, Collection):
                return None
        case _:
            return None
    span = node.span
    children: typed.Expr = trees
    if trees.type.kind == "bag":
        children = typed.Builtin("sort", (trees,), type=list_of(XML), span=span)
    pair: Type = Tuple((STRING, STRING))
    # `text` joins all text below an element.  Putting the trees into an element saves every engine
    # a built-in of its own.
    content = typed.MakeTuple(
        (
            typed.Const("", type=STRING, span=span),
            typed.MakeCollection((), type=bag(pair), span=span),
            children,
        ),
        type=_NODE.content,
        span=span,
    )
    around = typed.MakeData(_NODE, content, type=XML, span=span)
    return typed.Builtin("text", (around,), type=STRING, span=span)


def as_text(node: typed.Expr) -> typed.Expr:
    """The joined text if `node` is `text` of a collection, else `node`."""
    return joined_text(node) or node
