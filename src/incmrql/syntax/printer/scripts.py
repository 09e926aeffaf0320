"""Scripts back to text that parses to an equal tree, and trees as an outline."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import Any, assert_never

from incmrql.errors import Span
from incmrql.syntax.ast import (
    DeclareAggregation,
    DeclareData,
    DeclareFunction,
    DeclareMacro,
    DeclareParser,
    DeclareType,
    Define,
    Evaluate,
    Import,
    Include,
    Incremental,
    Inspect,
    Item,
    Output,
    Pattern,
    Script,
    StoreValue,
    TypeTree,
)
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.printer import parts as format_parts
from incmrql.syntax.printer.expressions import format_arguments, format_expr
from incmrql.syntax.printer.parts import format_parameters, quote

_DEFINITION = re.compile(r"(?!(true|false|null) )[A-Za-z_]\w* =")


def format_script(script: Script) -> str:
    """The text of a script, each item on lines of its own."""
    return "".join(f"{format_item(item)};\n" for item in script.items)


def format_item(item: Item) -> str:
    """The text of an item, without its semicolon."""
    with deep_recursion():
        return _item(item)


def format_pattern(pattern: Pattern) -> str:
    """The text of a pattern."""
    with deep_recursion():
        return format_parts.format_pattern(pattern)


def format_type(tree: TypeTree) -> str:
    """The text of a type."""
    with deep_recursion():
        return format_parts.format_type(tree)


def _item(item: Item) -> str:
    match item:
        case Evaluate(expr):
            text = format_expr(expr)
            return f"({text})" if _DEFINITION.match(text) else text
        case Define(name, expr):
            return f"{name} = {format_expr(expr)}"
        case StoreValue(name, expr):
            return f"store {name} := {format_expr(expr)}"
        case Output(kind, path, incremental, expr):
            return f"{kind} {quote(path)} from {'incr ' * incremental}{format_expr(expr)}"
        case Incremental(expr):
            return f"incr {format_expr(expr)}"
        case Inspect(kind, expr):
            return f"{kind} {format_expr(expr)}"
        case _:
            return _declaration(item)


def _declaration(
    item: DeclareType | DeclareData | DeclareFunction | DeclareMacro | DeclareAggregation
    | Import | DeclareParser | Include,
) -> str:  # fmt: skip
    match item:
        case DeclareType(name, type_):
            return f"type {name} = {format_type(type_)}"
        case DeclareData(name, constructors):
            return f"data {name} = " + " | ".join(f"{c}: {format_type(t)}" for c, t in constructors)
        case DeclareFunction(name, parameters, result, body):
            head = f"function {name}({format_parameters(parameters)}): {format_type(result)}"
            return f"{head} {{ {format_expr(body)} }}"
        case DeclareMacro(name, names, body):
            return f"macro {name}({', '.join(names)}) {{ {format_expr(body)} }}"
        case DeclareAggregation(name, merge, zero, unit, inverse, type_):
            parts = (merge, zero, *(part for part in (unit, inverse) if part is not None))
            return f"aggregation {name}{format_arguments(parts)}: {format_type(type_)}"
        case Import(names, module):
            return f"import {', '.join(names)} from {quote(module)}"
        case DeclareParser(name, path):
            return f"parser {name} = {quote(path)}"
        case Include(path):
            return f"include {quote(path)}"
        case _:
            assert_never(item)


# --- Outline ---


def outline(node: Any, depth: int = 0, role: str = "") -> str:
    """A node with its plain fields on one line and its children indented below."""
    plain: list[str] = []
    parts: list[tuple[str, Any]] = []
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Span) or value is None or value == ():
            continue
        if is_dataclass(value) or isinstance(value, tuple):
            parts.append((field.name, value))
        else:
            plain.append(
                repr(value) if field.name in ("name", "value") else f"{field.name}={value}"
            )
    label = f"{role}: " if role else ""
    lines = ["  " * depth + f"{label}{type(node).__name__} {' '.join(plain)}".rstrip()]
    for name, value in parts:
        lines += _below(name, value, depth + 1)
    return "\n".join(lines)


def _below(role: str, value: Any, depth: int) -> list[str]:
    if is_dataclass(value):
        return [outline(value, depth, role)]
    if isinstance(value, tuple) and all(isinstance(item, str | int) for item in value):
        return ["  " * depth + f"{role}: {', '.join(map(str, value))}"]
    return [line for item in value for line in _below_item(role, item, depth)]


def _below_item(role: str, item: Any, depth: int) -> list[str]:
    """One of several children; a pair (name, child) is printed with its name."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return _below(f"{role} {item[0]}", item[1], depth)
    return _below(role, item, depth) if not isinstance(item, str) else ["  " * depth + item]
