"""An analysed plan as an indented outline, for `explain --stage tree`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from incmrql.catalyst.nodes import PlanNode, PlanValue

_CHILDREN: Final = ("child", "left", "right", "children", "plan", "cteDefs", "recursion", "anchor")
_WIDEST: Final = 120


def outline(plan: PlanNode) -> str:
    """A line for each operator, with its expressions; those below it are indented."""
    return "\n".join(_lines(plan, 0))


def _lines(node: PlanNode, depth: int) -> Iterator[str]:
    below: list[PlanNode] = []
    words = [node.name]
    for name, value in node.fields.items():
        if name in _CHILDREN:
            parts = value if isinstance(value, tuple) else (value,)
            below += [part for part in parts if isinstance(part, PlanNode)]
        elif not name.startswith("$") and value not in (None, (), False):
            words.append(f"{name}={_text(value)}")
    line = " ".join(words)
    yield "  " * depth + (line if len(line) <= _WIDEST else f"{line[:_WIDEST]}...")
    for child in below:
        yield from _lines(child, depth + 1)


def _text(value: PlanValue) -> str:
    """An expression in a line; columns are named with their ids."""
    match value:
        case PlanNode("AttributeReference", fields):
            return f"{fields['name']!s}#{fields['exprId']!s}"
        case PlanNode("Literal", fields):
            return repr(fields["value"])
        case PlanNode("Alias", fields):
            return f"{_text(fields['child'])} AS {fields['name']!s}#{fields['exprId']!s}"
        case PlanNode(name, fields):
            parts = [
                _text(part)
                for key, part in fields.items()
                if not key.startswith("$") and part not in (None, (), False)
            ]
            return f"{name}({', '.join(parts)})" if parts else name
        case tuple():
            return f"[{', '.join(map(_text, value))}]"
        case _:
            return str(value)


__all__ = ["outline"]
