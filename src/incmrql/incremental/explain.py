"""A plan as a tree of text: what flows where, what is kept for whom, and what it costs."""

from __future__ import annotations

from typing import assert_never

from incmrql.incremental.nodes import (
    Constant,
    Edge,
    Groups,
    Input,
    Join,
    Linear,
    Merge,
    Node,
    Ordered,
    Plan,
    Repeated,
    inputs,
)
from incmrql.incremental.shapes import Shape, shapes
from incmrql.types import typed
from incmrql.types.show import show_expr, show_variable


def show_plan(plan: Plan) -> str:
    """The nodes of every part of the answer, inputs indented under what takes them in.

    A node with several uses is written out once; its number stands in the other places.
    """
    shown: set[int] = set()
    every = shapes(plan)
    lines: list[str] = []
    for part in plan.parts:
        order = "" if part.order is None else ", in order"
        lines.append(f"{show_variable(part.variable)} = all rows of node {part.place}{order}")
        _tree(plan, every, part.place, 1, shown, lines)
    is_last = isinstance(plan.result, typed.Var)
    return "\n".join(lines if is_last else [*lines, f"answer {show_expr(plan.result)}"])


def _tree(
    plan: Plan,
    every: tuple[Shape, ...],
    place: int,
    depth: int,
    shown: set[int],
    lines: list[str],
) -> None:
    indent = "  " * depth
    node, shape = plan.nodes[place], every[place]
    head = f"{indent}{place}: {_head(node, shape)}"
    if place in shown:
        lines.append(f"{indent}{place}: as above")
        return
    shown.add(place)
    lines.append(f"{head}{_edge(plan.edges[place])}")
    inside = indent + "   "
    lines += [f"{inside}{line}" for line in _details(node)]
    for kept in shape.keeps:
        asked = f", for {'; '.join(kept.asked)}" if kept.asked else ""
        lines.append(f"{inside}keeps {kept.what}{asked}")
    if shape.kind != "source":
        lines.append(f"{inside}costs {shape.cost}")
    lines += [f"{inside}warning[{each.code}]: {each.message}" for each in shape.warnings]
    for below in inputs(node):
        _tree(plan, every, below, depth + 1, shown, lines)


def _edge(edge: Edge) -> str:
    if edge.constant:
        return "  [constant]"
    if edge.invariant:
        return "  [invariant]"
    return "  [insert-only]" if edge.insert_only else ""


def _head(node: Node, shape: Shape) -> str:
    match node:
        case Input(name=name, source=source):
            return f"{'stream' if source.streaming else 'source'} {name}"
        case Constant(expr):
            return f"constant {show_expr(expr)}"
        case Linear():
            return "linear: each row on its own"
        case Merge():
            return "linear: rows of several inputs"
        case Join(key=key):
            return f"bilinear: join by {key}"
        case Groups(key=key):
            return f"{shape.kind}: groups by {key}"
        case Ordered(descending=descending, limit=limit):
            keys = ", ".join("desc" if each else "asc" for each in descending)
            return f"per key: the first {show_expr(limit)} rows by ({keys})"
        case Repeated(term=term):
            names = ", ".join(map(show_variable, term.variables))
            return f"loop: repeat ({names}), not incremental"
        case _:
            assert_never(node)


def _details(node: Node) -> list[str]:
    match node:
        case Linear(steps=steps):
            return [f"{show_variable(variable)} -> {show_expr(body)}" for variable, body in steps]
        case Join(group=group, body=body):
            return [f"{show_variable(group)} -> {show_expr(body)}"]
        case Groups(group=group, body=body, requests=requests):
            named = [
                f"{show_variable(request.variable)} = {show_expr(request.asked)}"
                for request in requests
            ]
            return [f"{show_variable(group)} -> {show_expr(body)}", *named]
        case _:
            return []
