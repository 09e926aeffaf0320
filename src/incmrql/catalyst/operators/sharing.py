"""Parts of a plan that are used more than once: each is a named query of the script.

Common table expressions are found by their id in the innermost `WithCTE` around: ids are not unique
in a plan.  A view has no id; two views are one if their plans are equal but for expression ids.
What depends on the rows around it, or only looks at the rows of a source, is written out again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from incmrql.catalyst.nodes import PlanNode, PlanValue, nodes_of, plan_to_json
from incmrql.catalyst.relation import Relation, over_bag
from incmrql.catalyst.scope import ColumnScope, CommonTable
from incmrql.types import typed
from incmrql.types.walk import free_variables

# --- Relations that are used twice ---


def reusable(relation: Relation, scope: ColumnScope, name: str) -> Relation:
    """The relation in a form of which copies cost nothing: light, or with a name."""
    bag = shared_bag(relation, scope, name)
    return relation if bag is None else over_bag(scope.names, bag, relation.ids, name)


def shared_bag(relation: Relation, scope: ColumnScope, name: str) -> typed.Expr | None:
    """The named query of a relation; None if it is light or depends on the rows around it.

    A bag has no order, which a limit above may need: a relation in order stays as it is.
    """
    bag = relation.bag
    if relation.order or relation.is_light or free_variables(bag):
        return None
    return scope.conversion.name_query(name, bag)


# --- Common table expressions ---


def with_definitions(node: PlanNode, scope: ColumnScope) -> Relation:
    """`WithCTE`: a plan that refers to definitions, each of which may refer to those before."""
    definitions: tuple[PlanNode, ...] = node["cteDefs"]
    uses = Counter(ref["cteId"] for ref in nodes_of(node) if ref.name == "CTERelationRef")
    for definition in definitions:
        body, key = definition["child"], definition["id"]
        known = CommonTable(body, scope, _alias(body, "cte"), uses[key])
        scope = scope.with_definitions({key: known})
    return scope.plan(node["plan"])


def reference(node: PlanNode, scope: ColumnScope) -> Relation:
    """`CTERelationRef`: the rows of a definition, its columns bound by position."""
    definition = scope.definitions[node["cteId"]]
    ids = [attribute["exprId"] for attribute in node["output"]]
    if not definition.shared:
        relation = definition.scope.plan(definition.plan)
        bag = shared_bag(relation, scope, definition.name) if definition.uses > 1 else None
        if bag is None:
            return relation.with_ids(ids)
        definition.shared.append(bag)
    return over_bag(scope.names, definition.shared[0], ids, definition.name)


def _alias(plan: PlanNode, otherwise: str) -> str:
    """The name that a plan has in the query."""
    if plan.name == "SubqueryAlias":
        identifier = plan["identifier"]
        name = identifier.fields.get("name") if isinstance(identifier, PlanNode) else identifier
        return str(name)
    return otherwise


# --- Views ---


def view(node: PlanNode, scope: ColumnScope) -> Relation:
    """`View`: the rows of its plan, which may have a name if the view is used again."""
    conversion = scope.conversion
    body: PlanNode = node["child"]
    text = _text_without_ids(body)
    relation = scope.plan(body)
    if text not in conversion.repeated:
        return relation
    if text not in conversion.views:
        name = _view_name(node)
        bag = shared_bag(relation, scope, name)
        if bag is None:
            return relation
        conversion.views[text] = bag
    return over_bag(scope.names, conversion.views[text], relation.ids, _view_name(node))


def repeated_views(plans: Iterable[PlanNode]) -> frozenset[str]:
    """The texts of the views that occur more than once in some plans.

    What stands inside of a view counts once, however often the view is used.
    """
    counts: Counter[str] = Counter()

    def visit(value: PlanValue) -> None:
        match value:
            case PlanNode("View"):
                text = _text_without_ids(value["child"])
                counts[text] += 1
                if counts[text] == 1:
                    visit(value["child"])
            case PlanNode(_, fields):
                for part in fields.values():
                    visit(part)
            case tuple():
                for part in value:
                    visit(part)
            case _:
                pass

    for plan in plans:
        visit(plan)
    return frozenset(text for text, count in counts.items() if count > 1)


def _view_name(node: PlanNode) -> str:
    description = node["desc"]
    identifier = description.fields.get("identifier") if description else None
    if isinstance(identifier, PlanNode):
        return str(identifier.fields.get("table", "view"))
    return _alias(node["child"], "view")


def _text_without_ids(plan: PlanNode) -> str:
    """A plan as text that does not depend on the expression ids, but for which ones are equal."""
    numbers: dict[PlanValue, int] = {}

    def visit(value: PlanValue) -> PlanValue:
        match value:
            case PlanNode("LogicalRDD"):
                return id(value)  # its rows are not in the plan: no two of them are known as equal
            case PlanNode(name, fields):
                return PlanNode(name, {key: field(key, part) for key, part in fields.items()})
            case tuple():
                return tuple(map(visit, value))
            case _:
                return value

    def field(key: str, value: PlanValue) -> PlanValue:
        if key in ("resultId", "$leaf"):
            return None
        if key == "exprId" and not isinstance(value, PlanNode):
            return numbers.setdefault(value, len(numbers))
        return visit(value)

    return plan_to_json(visit(replace(plan, place=None)))
