"""`xpath(...)` on trees: from an element to the elements or attributes that a path selects.

Steps mean what they mean in XPath: `a` the child elements a, `//a` those at any depth, `@a` an
attribute, `.` the element itself; `[n]` is the nth of a step's children of one element, from 1.
Results come in document order, each once.  Elements are trees, attributes strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, assert_never

from incmrql.formats.scalars import Unparsable, parse_scalar
from incmrql.formats.xml_values import attributes, text_of
from incmrql.syntax.ast import Literal, PathCondition, Step
from incmrql.types.model import DOUBLE
from incmrql.values import Data

Found: TypeAlias = Data | str
_Place: TypeAlias = tuple[int, ...]
"""Where a node stands: the positions that lead to it.  Sorts in document order."""
_Node: TypeAlias = tuple[_Place, Found]


def select(tree: Found, steps: Iterable[Step]) -> list[Found]:
    """What a path selects, starting at an element."""
    nodes: dict[_Place, Found] = {(): tree}
    for step in steps:
        nodes = dict(found for node in nodes.items() for found in _step(node, step))
    return [nodes[place] for place in sorted(nodes)]


def _step(node: _Node, step: Step) -> Iterator[_Node]:
    match step.axis:
        case "self":
            yield from _filtered([node], step)
        case "child":
            yield from _filtered(_next(node, step), step)
        case "descendant":
            for inner in _with_descendants(node):
                yield from _filtered(_next(inner, step), step)
        case _:
            assert_never(step.axis)


def _next(node: _Node, step: Step) -> list[_Node]:
    """The children or attributes of a node that a step names.  Attributes stand before children."""
    place, tree = node
    if not isinstance(tree, Data):
        return []
    if step.attribute:
        pairs = enumerate(attributes(tree))
        return [((*place, -1, i), v) for i, (name, v) in pairs if step.name in ("*", name)]
    return [(p, c) for p, c in _children(place, tree) if step.name in ("*", c.content[0])]


def _children(place: _Place, tree: Data) -> list[tuple[_Place, Data]]:
    if tree.constructor != "Node":
        return []
    numbered = enumerate(tree.content[2])
    return [((*place, i), child) for i, child in numbered if child.constructor == "Node"]


def _with_descendants(node: _Node) -> Iterator[_Node]:
    pending = [node]
    while pending:
        place, tree = pending.pop()
        yield place, tree
        if isinstance(tree, Data):
            pending.extend(reversed(_children(place, tree)))


def _filtered(nodes: list[_Node], step: Step) -> list[_Node]:
    for condition in step.conditions:
        if isinstance(condition, int):
            nodes = nodes[condition - 1 : condition] if condition > 0 else []
        else:
            nodes = [node for node in nodes if _holds(node[1], condition)]
    return nodes


def _holds(tree: Found, condition: PathCondition) -> bool:
    found = select(tree, condition.path)
    if condition.equals is None:
        return bool(found)
    texts = (text_of(item) if isinstance(item, Data) else item for item in found)
    return any(_equals(text, condition.equals) for text in texts)


def _equals(text: str, constant: Literal) -> bool:
    """Text against text; against a number, as a number if it is one."""
    match constant.value:
        case None:
            return False
        case bool():
            return text == str(constant.value).lower()
        case str():
            return text == constant.value
        case number:
            try:
                return bool(parse_scalar(text, DOUBLE) == number)
            except Unparsable:
                return False
