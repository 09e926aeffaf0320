"""Columns of leaves that Spark computes when a row is inserted: how a plan has them.

A leaf has them as its last columns, and lists them in its field `$computed`.  The attribute of one
has the text of its expression in `$text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from incmrql.catalyst.nodes import PlanNode, PlanValue, nodes_of
from incmrql.catalyst.operators.table import LEAVES

Path: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""From the root of a plan to a node: fields, with places in sequences."""


@dataclass(frozen=True, slots=True)
class ComputedAlias:
    """A column that an opaque expression uses: the alias at `path`.

    With a `place` it is a column of the reference to a common table expression at `path`: the
    column at this place of the plan at `of`, under another id.
    """

    path: Path
    place: int | None = None
    of: Path = ()


@dataclass(frozen=True, slots=True)
class OpaqueColumn:
    """An opaque expression as a column of a leaf.

    `text` tells columns apart, in any run: the expression over the columns of the leaf.  `path` is
    where its node is in the plan, `definitions` are the columns between the two, in their order.
    """

    text: str
    shown: str
    data_type: PlanNode
    leaf: int
    path: Path
    definitions: tuple[ComputedAlias, ...]


def attribute_of(column: OpaqueColumn, expr_id: int) -> PlanNode:
    """The attribute that stands for a column."""
    fields: dict[str, PlanValue] = {
        "name": column.shown,
        "dataType": column.data_type,
        "exprId": expr_id,
        "$type": column.data_type,
        "$text": column.text,
    }
    return PlanNode("AttributeReference", fields)


def with_computed(leaf: PlanNode, attribute: PlanNode) -> PlanNode:
    """A leaf with one column more."""
    known = leaf.fields.get("$computed", ())
    assert isinstance(known, tuple)
    fields = {
        **leaf.fields,
        "output": (*leaf["output"], attribute),
        "$computed": (*known, attribute),
    }
    return PlanNode(leaf.name, fields, leaf.place)


def with_equal_leaves(
    changed: PlanNode, original: PlanNode, key: Callable[[PlanNode], str]
) -> PlanNode:
    """The plan with the same columns in all leaves over the same data: these are one input."""
    keys = {leaf["$leaf"]: key(leaf) for leaf in _leaves(original) if "$leaf" in leaf.fields}
    columns: dict[str, dict[str, PlanNode]] = {}
    for leaf in _leaves(changed):
        for attribute in leaf.fields.get("$computed", ()):  # type: ignore[union-attr]
            assert isinstance(attribute, PlanNode)
            columns.setdefault(keys[leaf["$leaf"]], {})[attribute["$text"]] = attribute
    last = max(attribute["exprId"] for some in columns.values() for attribute in some.values())

    def fresh(attribute: PlanNode) -> PlanNode:
        nonlocal last
        last += 1
        return with_field(attribute, "exprId", last)

    def complete(value: PlanValue) -> PlanValue:
        match value:
            case PlanNode(name, fields) if name in LEAVES and "$leaf" in fields:
                wanted = columns.get(keys[value["$leaf"]])
                if not wanted:
                    return value
                own = {attribute["$text"]: attribute for attribute in fields.get("$computed", ())}  # type: ignore[union-attr, index, call-overload]
                computed = tuple(
                    own.get(text) or fresh(attribute) for text, attribute in sorted(wanted.items())
                )
                output = value["output"][: len(value["output"]) - len(own)]
                new = {**fields, "output": (*output, *computed), "$computed": computed}
                return PlanNode(name, new, value.place)
            case PlanNode(name, fields):
                return PlanNode(name, {k: complete(v) for k, v in fields.items()}, value.place)
            case tuple():
                return tuple(map(complete, value))
            case _:
                return value

    whole = complete(changed)
    assert isinstance(whole, PlanNode)
    return whole


def _leaves(plan: PlanNode) -> Iterator[PlanNode]:
    return (node for node in nodes_of(plan) if node.name in LEAVES)


def with_field(node: PlanNode, name: str, value: PlanValue) -> PlanNode:
    """A node with another value in a field."""
    return PlanNode(node.name, {**node.fields, name: value}, node.place)
