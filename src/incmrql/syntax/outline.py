"""Trees as an indented outline, a node a line: what `explain --stage tree` shows."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from incmrql.diagnostics import Span


def outline(node: Any, depth: int = 0, role: str = "") -> str:
    """A node with its plain fields on one line, and its parts below."""
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
    return [line for item in value for line in _listed(role, item, depth)]


def _listed(role: str, item: Any, depth: int) -> list[str]:
    """One of several parts; a pair (name, part) shows its name."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return _below(f"{role} {item[0]}", item[1], depth)
    return _below(role, item, depth) if not isinstance(item, str) else ["  " * depth + item]
