"""Common table expressions that only look at the rows of a leaf, written out where they are used.

A column of an input that is needed above a reference to one has to be a column of it too; written
out, it is a projection like any other.  Nodes that do not change stay the same objects, so that
their places in the plan are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from incmrql.catalyst.computed import ComputedAlias, Path, with_field
from incmrql.catalyst.nodes import PlanNode, PlanValue
from incmrql.catalyst.operators.table import LEAVES

PASSING: Final = {
    **dict.fromkeys(
        (
            "Filter", "SubqueryAlias", "View", "ResolvedHint", "Repartition",
            "RepartitionByExpression", "RebalancePartitions", "CollectMetrics", "PipeOperator",
            "SQLFunctionNode",
        ),
        "child",
    ),
    "WithCTE": "plan",
}  # fmt: skip
"""Operators that pass each row on as it is, with the field of their child."""


@dataclass(slots=True)
class LightDefinitions:
    """Writes out common table expressions; `paths` are those of the nodes of a plan."""

    paths: Mapping[int, Path]
    renamed: dict[int, tuple[int, ComputedAlias]] = field(default_factory=dict)
    """For columns of references, the columns that they are in what they refer to."""

    def written_out(
        self, value: PlanValue, bodies: Mapping[int, tuple[PlanNode, PlanNode]]
    ) -> PlanValue:
        """A plan in which what only looks at the rows of a leaf is written out where it is used.

        `bodies` are such common table expressions by id, as they are and as they were.
        """
        match value:
            case PlanNode("WithCTE"):
                return self._without_definitions(value, bodies)
            case PlanNode("CTERelationRef") if value["cteId"] in bodies:
                return self._reference(value, *bodies[value["cteId"]])
            case PlanNode(name, fields):
                changed = {k: self.written_out(v, bodies) for k, v in fields.items()}
                same = all(changed[key] is part for key, part in fields.items())
                return value if same else PlanNode(name, changed, value.place)
            case tuple():
                parts = tuple(self.written_out(part, bodies) for part in value)
                same = all(one is other for one, other in zip(parts, value, strict=True))
                return value if same else parts
            case _:
                return value

    def _without_definitions(
        self, node: PlanNode, bodies: Mapping[int, tuple[PlanNode, PlanNode]]
    ) -> PlanNode:
        known = dict(bodies)
        kept: list[PlanNode] = []
        for definition in node["cteDefs"]:
            body = self.written_out(definition["child"], known)
            assert isinstance(body, PlanNode)
            if _is_light(body):
                known[definition["id"]] = body, definition["child"]
            else:
                kept.append(with_field(definition, "child", body))
        plan = self.written_out(node["plan"], known)
        return with_field(with_field(node, "plan", plan), "cteDefs", tuple(kept))

    def _reference(self, reference: PlanNode, body: PlanNode, original: PlanNode) -> PlanNode:
        """The rows of a common table expression, under the ids of a reference to it."""
        columns: list[PlanNode] = []
        pairs = zip(reference["output"], _output_of(body), strict=True)
        for place, (attribute, column) in enumerate(pairs):
            if attribute["exprId"] == column["exprId"]:
                columns.append(attribute)
                continue
            if id(reference) in self.paths:
                definition = ComputedAlias(
                    self.paths[id(reference)], place, self.paths[id(original)]
                )
                self.renamed[attribute["exprId"]] = column["exprId"], definition
            type_ = attribute["$type"]
            below = {"name": column["name"], "exprId": column["exprId"], "dataType": type_}
            child = PlanNode("AttributeReference", {**below, "$type": type_})
            above = {"name": attribute["name"], "exprId": attribute["exprId"], "child": child}
            columns.append(PlanNode("Alias", {**above, "$type": type_}))
        return PlanNode("Project", {"projectList": tuple(columns), "child": body})


def _is_light(node: PlanNode) -> bool:
    """Whether the rows of an operator are those of one leaf, looked at one by one."""
    if node.name in LEAVES:
        return node.name == "LogicalRelation"
    is_passing = node.name == "Project" or (node.name in PASSING and node.name != "WithCTE")
    return is_passing and _is_light(node["child"])


def _output_of(node: PlanNode) -> Sequence[PlanNode]:
    """The columns of an operator that is light."""
    if node.name == "Project":
        columns: Sequence[PlanNode] = node["projectList"]
        return columns
    return node["output"] if node.name in LEAVES else _output_of(node["child"])
