"""Conversions that a script asks for: `e as T`, and decimals that are written out."""

from __future__ import annotations

import decimal
import re

from incmrql.diagnostics import Span
from incmrql.types import typed
from incmrql.types.lattice import castable, widens
from incmrql.types.model import DECIMAL, JSON, NOTHING, STRING, Collection, Decimal, Type
from incmrql.types.resolve import widen
from incmrql.types.scope import Inference
from incmrql.types.tree_text import joined_text

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
