"""Functions of strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from incmrql.catalyst.expressions.rules import (
    Convert,
    Rule,
    Rules,
    call,
    const,
    constant_of,
    rule,
    type_of,
)
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import Scope
from incmrql.reference.spark.strings import like_pattern
from incmrql.types import typed
from incmrql.types.model import BOOL, INT, STRING

_MOST_PARTS: Final = 8
"""The most strings that one call joins."""


def strings_of(node: PlanNode, scope: Scope, *names: str) -> list[typed.Expr]:
    """Operands that have to be strings."""
    operands = scope.expressions([node[name] for name in names])
    for operand in operands:
        if operand.type != STRING:
            message = f"{node.name} of {operand.type} is not converted yet"
            raise Refused("C104", message, node=node)
    return operands


def _test(function: str) -> Rule:
    def convert(node: PlanNode, scope: Scope) -> typed.Expr:
        return call(function, strings_of(node, scope, "left", "right"), BOOL)

    return rule(convert, "left", "right")


def _edit(function: str) -> Rule:
    def convert(node: PlanNode, scope: Scope) -> typed.Expr:
        return call(function, strings_of(node, scope, "child"), STRING)

    return rule(convert, "child")


def _like(node: PlanNode, scope: Scope) -> typed.Expr:
    text, pattern = strings_of(node, scope, "left", "right")
    escape = str(node["escapeChar"])
    known = constant_of(pattern)
    if known is None:
        return call("spark.like", [text, pattern, const(escape, STRING)], BOOL, "ansi")
    if known.value is not None and like_pattern(known.value, escape) is None:
        message = f"the pattern '{known.value}' has an escape with nothing to escape"
        raise Refused("C104", message, "Write the escape character twice.", node)
    return call("spark.like", [text, pattern, const(escape, STRING)], BOOL)


def _substring(node: PlanNode, scope: Scope) -> typed.Expr:
    (text,) = strings_of(node, scope, "str")
    position, length = scope.expressions((node["pos"], node["len"]))
    return call("spark.substring", [text, position, length], STRING)


def _trim(function: str) -> Rule:
    def convert(node: PlanNode, scope: Scope) -> typed.Expr:
        (text,) = strings_of(node, scope, "srcStr")
        if node.fields.get("trimStr") is None:
            return call(function, [text, const(" ", STRING)], STRING)
        return call(function, [text, *strings_of(node, scope, "trimStr")], STRING)

    return rule(convert, "srcStr", "trimStr")


def _concat(node: PlanNode, scope: Scope) -> typed.Expr:
    type_ = type_of(node)
    if type_ != STRING:
        raise Refused("C104", f"concat of {type_} is not converted yet", node=node)
    return joined(scope.expressions(node["children"]))


def joined(parts: Sequence[typed.Expr]) -> typed.Expr:
    """Strings one after the other; null if one of them is."""
    if not parts:
        return const("", STRING)
    whole, rest = parts[0], parts[1:]
    while rest:
        whole = call("concat", [whole, *rest[: _MOST_PARTS - 1]], STRING)
        rest = rest[_MOST_PARTS - 1 :]
    return whole


def _length() -> Convert:
    return lambda node, scope: call("length", strings_of(node, scope, "child"), INT)


STRINGS: Final[Rules] = {
    "Like": rule(_like, "left", "right", "escapeChar"),
    "StartsWith": _test("startsWith"),
    "EndsWith": _test("endsWith"),
    "Contains": _test("contains"),
    "Substring": rule(_substring, "str", "pos", "len"),
    "Upper": _edit("spark.upper"),
    "Lower": _edit("spark.lower"),
    "StringTrim": _trim("spark.trim"),
    "StringTrimLeft": _trim("spark.ltrim"),
    "StringTrimRight": _trim("spark.rtrim"),
    "Concat": rule(_concat, "children", ignores=("legacyImplicitCast",)),
    "Length": rule(_length(), "child"),
}
"""Classes of functions of strings."""
