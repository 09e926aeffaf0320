"""Functions of strings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import Final

from incmrql.catalyst.expressions.rules import (
    Convert,
    Rule,
    Rules,
    call,
    compare,
    const,
    constant_of,
    either,
    every_of,
    failure,
    is_null,
    let,
    null,
    rule,
    type_of,
    when,
)
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import ColumnScope
from incmrql.reference.spark.strings import like_pattern
from incmrql.types import typed
from incmrql.types.model import BINARY, BOOL, INT, LONG, NOTHING, STRING, Type, list_of

_MOST_PARTS: Final = 8
"""The most strings that one call joins."""


def strings_of(node: PlanNode, scope: ColumnScope, *names: str) -> list[typed.Expr]:
    """Operands that have to be strings."""
    operands = scope.expressions([node[name] for name in names])
    for operand in operands:
        if operand.type != STRING:
            message = f"{node.name} of {operand.type} is not converted yet"
            raise Refused("C104", message, node=node)
    return operands


def type_at(node: PlanNode, name: str) -> Type:
    """The type of the operand that stands in a field."""
    return type_of(node[name])


def _test(function: str) -> Rule:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        if type_at(node, "left") == BINARY:
            operands = scope.expressions((node["left"], node["right"]))
            return call(f"spark.{function}", operands, BOOL)
        return call(function, strings_of(node, scope, "left", "right"), BOOL)

    return rule(convert, "left", "right")


def _edit(function: str) -> Rule:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        return call(function, strings_of(node, scope, "child"), STRING, "ansi")

    return rule(convert, "child")


def _like(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    text, pattern = strings_of(node, scope, "left", "right")
    escape = str(node["escapeChar"])
    known = constant_of(pattern)
    if known is None:
        return call("spark.like", [text, pattern, const(escape, STRING)], BOOL, "ansi")
    if known.value is not None and like_pattern(known.value, escape) is None:
        message = f"the pattern '{known.value}' has an escape with nothing to escape"
        raise Refused("C104", message, "Write the escape character twice.", node)
    return call("spark.like", [text, pattern, const(escape, STRING)], BOOL)


def _substring(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """Characters of a string, or bytes."""
    subject, position, length = scope.expressions((node["str"], node["pos"], node["len"]))
    if subject.type == BINARY:
        return call("spark.substring", [subject, position, length], BINARY)
    (text,) = strings_of(node, scope, "str")
    return call("spark.substring", [text, position, length], STRING)


def _trim(function: str) -> Rule:
    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        (text,) = strings_of(node, scope, "srcStr")
        if node.fields.get("trimStr") is None:
            return call(function, [text, const(" ", STRING)], STRING)
        return call(function, [text, *strings_of(node, scope, "trimStr")], STRING)

    return rule(convert, "srcStr", "trimStr")


def _concat(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    type_ = type_of(node)
    if type_ == BINARY:
        return concatenation(scope.expressions(node["children"]))
    if type_ != STRING:
        raise Refused("C104", f"concat of {type_} is not converted yet", node=node)
    return text_concatenation(scope.expressions(node["children"]))


def concatenation(parts: Sequence[typed.Expr]) -> typed.Expr:
    """Bytes one after the other; null if one part is."""
    if not parts:
        return const(b"", BINARY)
    return reduce(lambda one, other: call("spark.concat", [one, other], BINARY), parts)


def text_concatenation(parts: Sequence[typed.Expr]) -> typed.Expr:
    """Strings one after the other; null if one of them is."""
    if not parts:
        return const("", STRING)
    whole, rest = parts[0], parts[1:]
    while rest:
        whole = call("concat", [whole, *rest[: _MOST_PARTS - 1]], STRING)
        rest = rest[_MOST_PARTS - 1 :]
    return whole


def _length(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    if type_at(node, "child") == BINARY:
        return call("spark.octet_length", [scope.expression(node["child"])], INT)
    return call("length", strings_of(node, scope, "child"), INT)


def _function(function: str, result: Type, *names: str, mode: typed.Mode = "try") -> Rule:
    """A function of strings and integers, which stand in these fields."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        operands = scope.expressions([node[name] for name in names])
        if any(operand.type not in (STRING, INT, LONG, NOTHING) for operand in operands):
            raise Refused("C104", f"{node.name} of other types than string", node=node)
        return call(function, operands, result, mode)

    return rule(convert, *names)


def _digest(function: str, result: Type, *names: str) -> Rule:
    """A function of bytes; those of a string have a cast to binary around it in the plan."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        first, *rest = [node[name] for name in names]
        is_text = first.name == "Cast" and first["child"]["$type"].name == "StringType"
        operands = scope.expressions((first["child"] if is_text else first, *rest))
        return call(function, operands, result)

    return rule(convert, *names)


def _hex(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    operand = scope.expression(node["child"])
    if operand.type not in (STRING, BINARY, LONG):
        raise Refused("C104", f"hex of {operand.type} is not converted yet", node=node)
    return call("spark.hex", [operand], STRING)


def _instr(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    text, part = strings_of(node, scope, "str", "substr")
    return call("spark.locate", [part, text, const(1, INT)], INT)


def _locate(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    part, text = strings_of(node, scope, "substr", "str")
    start = scope.expression(node["start"])
    place = call("spark.locate", [part, text, start], INT)
    return when(is_null(start), const(0, INT), place)


def _concat_ws(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The texts that are not null, with a separator between them."""
    separator, *parts = scope.expressions(node["children"])
    texts = [part for part in parts if part.type == STRING]
    if len(texts) != len(parts) or separator.type != STRING:
        raise Refused("C104", "concat_ws of arrays is not converted yet", node=node)
    array = typed.MakeCollection(tuple(texts), type=list_of(STRING))
    return call("spark.array_join", [array, separator], STRING)


def _levenshtein(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    operands = strings_of(node, scope, "left", "right")
    if isinstance(node["threshold"], PlanNode):
        operands.append(scope.expression(node["threshold"]))
    return call("spark.levenshtein", operands, INT)


_LITERAL: Final = re.compile(r"(?:[^\\.^$|?*+()\[\]{}]|\\[^A-Za-z0-9])+")
"""A regular expression of Java that only matches one text."""


def _split(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`split` at a constant text: the parts between, also empty ones at the end."""
    (text,) = strings_of(node, scope, "str")
    pattern = constant_of(scope.expression(node["regex"]))
    limit = constant_of(scope.expression(node["limit"]))
    known = "" if pattern is None else str(pattern.value)
    if not _LITERAL.fullmatch(known) or limit is None or limit.value is None or limit.value > 0:
        raise Refused("C104", "split by a regular expression is not converted", node=node)
    delimiter = re.sub(r"\\(.)", r"\1", known, flags=re.DOTALL)
    return call("spark.split_at", [text, const(delimiter, STRING)], list_of(STRING))


def _elt(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`elt`: the operand with a number from 1; null or a failure where there is none."""
    index, *texts = scope.expressions(node["children"])
    if any(text.type not in (STRING, NOTHING) for text in texts):
        raise Refused("C104", "elt of other types than string is not converted yet", node=node)

    def choose(number: typed.Expr) -> typed.Expr:
        missing: typed.Expr = null(STRING)
        if node["failOnError"]:
            outside = failure("the number of elt is not that of an operand", STRING)
            missing = when(is_null(number), null(STRING), outside)
        for place, text in reversed(list(enumerate(texts, 1))):
            part = text if text.type == STRING else null(STRING)
            missing = when(compare("=", number, const(place, number.type)), part, missing)
        return missing

    return let(scope, index, choose)


def _like_some(every: bool, negated: bool) -> Convert:
    """`like any`, `like all` and their opposites, with constant patterns."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        (text,) = strings_of(node, scope, "child")
        escape = const("\\", STRING)
        tests: list[typed.Expr] = []
        for pattern in node["patterns"]:
            if pattern is not None and like_pattern(pattern, "\\") is None:
                raise Refused("C104", f"the pattern '{pattern}' has a lonely escape", node=node)
            test = call("spark.like", [text, const(pattern, STRING), escape], BOOL)
            tests.append(typed.Not(test, type=BOOL) if negated else test)
        return every_of(tests) if every else either(tests)

    return convert


def _static(node: PlanNode, scope: ColumnScope) -> typed.Expr:
    """A method of Java that Spark calls: many functions of bytes, and the padding of char(n)."""
    owner = str(node["staticObject"]).rsplit(".", 1)[-1].removesuffix("$")
    name = f"{owner}.{node['functionName']}"
    if node["functionName"] == "readSidePadding":
        return call("spark.pad_char", scope.expressions(node["arguments"]), STRING)
    if name in _OF_BYTES:
        function, result, mode = _OF_BYTES[name]
        return call(function, scope.expressions(node["arguments"]), result, mode)
    if name in _CODECS:
        subject, charset, *switches = scope.expressions(node["arguments"])
        if any(constant_of(switch) != const(False, BOOL) for switch in switches):
            message = f"{node['functionName']} by Spark's old rules is not converted"
            raise Refused("C104", message, node=node)
        function, result = _CODECS[name]
        return call(function, [subject, charset], result, "ansi")
    raise Refused("C101", f"StaticInvoke of {name} is not known here", node=node)


_OF_BYTES: Final[dict[str, tuple[str, Type, typed.Mode]]] = {
    "Base64.encode": ("spark.base64", STRING, "try"),
    "ByteArrayMethods.contains": ("spark.contains", BOOL, "try"),
    "ByteArrayMethods.startsWith": ("spark.startsWith", BOOL, "try"),
    "ByteArrayMethods.endsWith": ("spark.endsWith", BOOL, "try"),
    "ByteArray.lpad": ("spark.lpad", BINARY, "ansi"),
    "ByteArray.rpad": ("spark.rpad", BINARY, "ansi"),
}
_CODECS: Final[dict[str, tuple[str, Type]]] = {
    "Encode.encode": ("spark.encode", BINARY),
    "StringDecode.decode": ("spark.decode", STRING),
}


def _octets(bits: int) -> Rule:
    """The number of bytes, or of bits, of a string or of bytes."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        operand = scope.expression(node["child"])
        count = call("spark.octet_length", [operand], INT)
        if bits == 1:
            return count
        return typed.Arithmetic("*", count, const(bits, INT), "try", type=INT)

    return rule(convert, "child")


def _bytes_of(function: str, failing: typed.Mode) -> Rule:
    """The bytes that a string denotes, in the mode in which Spark has no result for others."""

    def convert(node: PlanNode, scope: ColumnScope) -> typed.Expr:
        mode: typed.Mode = "ansi" if node["failOnError"] else failing
        return call(function, strings_of(node, scope, "child"), BINARY, mode)

    return rule(convert, "child", "failOnError")


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
    "Length": rule(_length, "child"),
    "StringLPad": _function("spark.lpad", STRING, "str", "len", "pad", mode="ansi"),
    "StringRPad": _function("spark.rpad", STRING, "str", "len", "pad", mode="ansi"),
    "StringRepeat": _function("spark.repeat", STRING, "str", "times", mode="ansi"),
    "StringReplace": _function("spark.replace", STRING, "srcExpr", "searchExpr", "replaceExpr"),
    "StringTranslate": _function(
        "spark.translate", STRING, "srcExpr", "matchingExpr", "replaceExpr"
    ),
    "SubstringIndex": _function(
        "spark.substring_index", STRING, "strExpr", "delimExpr", "countExpr"
    ),
    "StringSplitSQL": _function("spark.split_at", list_of(STRING), "str", "delimiter"),
    "StringInstr": rule(_instr, "str", "substr"),
    "StringLocate": rule(_locate, "substr", "str", "start"),
    "ConcatWs": rule(_concat_ws, "children"),
    "Ascii": _function("spark.ascii", INT, "child"),
    "Chr": _function("spark.chr", STRING, "child"),
    "Hex": rule(_hex, "child"),
    "Bin": _function("spark.bin", STRING, "child"),
    "OctetLength": _octets(1),
    "BitLength": _octets(8),
    "Unhex": _bytes_of("spark.unhex", "try"),
    "UnBase64": _bytes_of("spark.unbase64", "ansi"),
    "Md5": _digest("spark.md5", STRING, "child"),
    "Sha1": _digest("spark.sha1", STRING, "child"),
    "Sha2": _digest("spark.sha2", STRING, "left", "right"),
    "Crc32": _digest("spark.crc32", LONG, "child"),
    "LikeAny": rule(_like_some(every=False, negated=False), "child", "patterns"),
    "LikeAll": rule(_like_some(every=True, negated=False), "child", "patterns"),
    "NotLikeAny": rule(_like_some(every=False, negated=True), "child", "patterns"),
    "NotLikeAll": rule(_like_some(every=True, negated=True), "child", "patterns"),
    "Overlay": _function("spark.overlay", STRING, "input", "replace", "pos", "len"),
    "Levenshtein": rule(_levenshtein, "left", "right", "threshold"),
    "FindInSet": _function("spark.find_in_set", INT, "left", "right"),
    "StringSpace": _function("spark.space", STRING, "child"),
    "StringSplit": rule(_split, "str", "regex", "limit"),
    "Elt": rule(_elt, "children", "failOnError"),
    "StaticInvoke": rule(
        _static,
        "staticObject",
        "functionName",
        "arguments",
        ignores=(
            "dataType",
            "inputTypes",
            "propagateNull",
            "returnNullable",
            "isDeterministic",
            "scalarFunction",
        ),
    ),
}
"""Classes of functions of strings."""
