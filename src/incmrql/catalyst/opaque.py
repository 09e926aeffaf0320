"""Opaque expressions: what Spark evaluates once for each inserted row, kept as a column.

An expression that is not converted, a function in Python say, becomes a column of the one input
that it looks at, if nothing stands between that keeps state:

    select f(a) from t where b > 1    =    select c from t' where b > 1        t' = t with c = f(a)

Only the smallest such part of an expression is opaque.  An alias of a projection in between is
evaluated again below the function.  What the column is called in a plan, and where its node is in
the plan of Spark, is in `OpaqueColumn`; the identity of the input has its text, without ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from incmrql.algebra import rows as build
from incmrql.algebra.rows import Names
from incmrql.catalyst.computed import (
    ComputedAlias,
    OpaqueColumn,
    Path,
    attribute_of,
    with_computed,
    with_equal_leaves,
    with_field,
)
from incmrql.catalyst.expressions import SCALARS, convert_expression, is_deterministic
from incmrql.catalyst.light import PASSING, LightDefinitions
from incmrql.catalyst.nodes import PlanNode, PlanValue, nodes_of, plan_to_json
from incmrql.catalyst.operators.table import AGGREGATES, GENERATORS, LEAVES, OPERATORS, SUBQUERIES
from incmrql.catalyst.refusals import Refusals, Refused
from incmrql.catalyst.relation import Relation
from incmrql.catalyst.scope import ColumnScope, Conversion, placeholder
from incmrql.catalyst.types import model_type
from incmrql.errors import InternalError
from incmrql.types import typed

_FIRST_ID: Final = 10**9
"""The ids of new columns; those of a plan are counted from 1."""
_ROWWISE: Final = {
    "Project": ("projectList",),
    "Filter": ("condition",),
    "Join": ("condition",),
    "Sort": ("order",),
    "Expand": ("projections",),
    "Generate": ("generator",),
    "Aggregate": ("groupingExpressions", "aggregateExpressions"),
}
"""Operators with expressions over the rows of their children, and the fields of these."""
_KEEPING: Final[dict[str, tuple[str, ...]]] = {
    "Inner": ("left", "right"),
    "Cross": ("left", "right"),
    "LeftOuter": ("left",),
    "RightOuter": ("right",),
    "LeftSemi": ("left",),
    "LeftAnti": ("left",),
}
"""The sides of a join whose rows it does not pad with nulls."""
_ROW_FUNCTIONS: Final = (100, 101, 200, 204, 250, 251)
"""The kinds of Python functions that give one value for each row."""


@dataclass(frozen=True, slots=True)
class OpaquePlan:
    """A plan with opaque expressions as columns of its leaves, and these columns."""

    plan: PlanNode
    columns: tuple[OpaqueColumn, ...]


def with_opaque_columns(
    plan: PlanNode,
    settings: Mapping[str, str],
    takes: Callable[[PlanNode], bool],
    key: Callable[[PlanNode], str],
) -> OpaquePlan:
    """A plan in which what is not converted is a column of a leaf, where that is possible.

    `takes` says whether a leaf may have more columns; leaves with the same `key` get the same ones.
    """
    search = _Search(plan, settings, takes)
    light = LightDefinitions(search.paths)
    whole = light.written_out(plan, {})
    assert isinstance(whole, PlanNode)
    search.renamed = light.renamed
    changed = search.operator(whole)
    if not search.columns:
        return OpaquePlan(plan, ())
    return OpaquePlan(with_equal_leaves(changed, plan, key), tuple(search.columns.values()))


@dataclass(slots=True)
class _Search:
    root: PlanNode
    settings: Mapping[str, str]
    takes: Callable[[PlanNode], bool]
    columns: dict[tuple[int, str], OpaqueColumn] = field(default_factory=dict)
    paths: dict[int, Path] = field(default_factory=dict)
    aliases: dict[int, PlanNode] = field(default_factory=dict)
    renamed: dict[int, tuple[int, ComputedAlias]] = field(default_factory=dict)
    """For columns of references to common table expressions, the columns that they are there."""
    last_id: int = _FIRST_ID

    def __post_init__(self) -> None:
        for path, node in _nodes_with_paths(self.root, ()):
            self.paths[id(node)] = path
            if node.name == "Alias":
                self.aliases.setdefault(node["exprId"], node)

    # --- operators ---

    def operator(self, node: PlanNode) -> PlanNode:
        """An operator whose expressions are converted, as far as that is possible."""
        if node.name in LEAVES or node.name not in OPERATORS:
            return node
        fields = dict(node.fields)
        for name, value in node.fields.items():
            if isinstance(value, PlanNode) and _is_operator(value):
                fields[name] = self.operator(value)
            elif isinstance(value, tuple) and value and all(map(_is_operator, value)):
                fields[name] = tuple(self.operator(part) for part in value)  # type: ignore[arg-type]
        level = _Level(self, PlanNode(node.name, fields, node.place))
        for name in _ROWWISE.get(node.name, ()):
            if name == "aggregateExpressions":
                keys = [_content(part) for part in node["groupingExpressions"]]
                value = tuple(level.over_groups(part, keys) for part in node[name])
            else:
                value = level.parts(node[name])
            level.set(name, value)
        return level.node

    # --- what is converted, and what may be opaque ---

    def is_converted(self, node: PlanNode) -> bool:
        """Whether an expression is converted, over columns of the types that it uses."""
        refusals = Refusals()
        names = Names(0)
        conversion = Conversion(
            _no_leaf, _no_plan, convert_expression, _subquery, names, refusals, self.settings
        )
        columns: dict[int, typed.Expr] = {}
        try:
            for part in nodes_of(node):
                if part.name in ("AttributeReference", "NamedLambdaVariable"):
                    type_ = model_type(part["dataType"])
                    columns[part["exprId"]] = build.var(names.variable("column", type_))
            ColumnScope(conversion, columns).expression(node)
        except Refused:
            return False
        except Exception:
            # Outside of what binds its parts, a rule may not find what it needs.
            return False
        return not refusals.problems

    def may_be_opaque(self, node: PlanNode) -> bool:
        """Whether an expression is a function of one row alone, with values that have a type."""
        try:
            model_type(node["$type"])
        except Refused:
            return False
        return self.is_of_row(node)

    def is_of_row(self, node: PlanNode) -> bool:
        """Whether an expression is a function of one row alone."""
        inside = {
            argument["exprId"]
            for part in nodes_of(node)
            if part.name == "LambdaFunction"
            for argument in part["arguments"]
        }
        names = {part.name for part in nodes_of(node)}
        if "CommonExpressionRef" in names and "With" not in names:
            return False
        for part in nodes_of(node):
            support = SCALARS.get(part.name)
            if support is not None and support.code == "C103":
                return False
            if part.name in _NEVER or part.name.startswith("Current"):
                return False
            if part.name == "NamedLambdaVariable" and part["exprId"] not in inside:
                return False
            if not is_deterministic(part):
                return False
            if part.name == "PythonUDF" and part["evalType"] not in _ROW_FUNCTIONS:
                return False
        return True

    # --- columns ---

    def carry(
        self, node: PlanNode, wanted: _Wanted, definitions: tuple[int, ...] = ()
    ) -> tuple[PlanNode, PlanNode] | None:
        """An operator with a column more, and the attribute; None where that is not possible."""
        if node.name in LEAVES:
            return self._in_leaf(node, wanted, definitions)
        if node.name == "Project":
            return self._below_project(node, wanted, definitions)
        if node.name in PASSING:
            return self._through(node, PASSING[node.name], wanted, definitions)
        if node.name == "Join":
            for side in _KEEPING.get(node["joinType"].name, ()):
                carried = self._through(node, side, wanted, definitions)
                if carried is not None:
                    return carried
        return None

    def _through(
        self, node: PlanNode, child: str, wanted: _Wanted, definitions: tuple[int, ...]
    ) -> tuple[PlanNode, PlanNode] | None:
        carried = self.carry(node[child], wanted, definitions)
        if carried is None:
            return None
        below, attribute = carried
        return with_field(node, child, below), attribute

    def _below_project(
        self, node: PlanNode, wanted: _Wanted, definitions: tuple[int, ...]
    ) -> tuple[PlanNode, PlanNode] | None:
        items = {item["exprId"]: item for item in node["projectList"]}
        needed: set[int] = set()
        new: list[int] = []
        for expr_id in sorted(wanted.ids):
            item = items.get(expr_id)
            if item is None:
                return None
            if item.name == "AttributeReference":
                needed.add(expr_id)
                continue
            if expr_id in self.renamed:
                new.append(expr_id)
                needed.add(self.renamed[expr_id][0])
                continue
            if expr_id not in self.aliases:
                return None
            definition = self.aliases[expr_id]
            if not self.is_of_row(definition["child"]):
                return None
            new.append(expr_id)
            needed |= _columns_of(definition["child"])
        inner = replace(wanted, ids=frozenset(needed))
        carried = self.carry(node["child"], inner, (*new, *definitions))
        if carried is None:
            return None
        below, attribute = carried
        listed = node["projectList"]
        if attribute["exprId"] not in items:
            listed = (*listed, attribute)
        return with_field(with_field(node, "child", below), "projectList", listed), attribute

    def _in_leaf(
        self, leaf: PlanNode, wanted: _Wanted, definitions: tuple[int, ...]
    ) -> tuple[PlanNode, PlanNode] | None:
        known = leaf.fields.get("$computed", ())
        assert isinstance(known, tuple)
        places = {
            column["exprId"]: place
            for place, column in enumerate(leaf["output"][: len(leaf["output"]) - len(known)])
        }
        if not self.takes(leaf) or not wanted.ids or not wanted.ids <= set(places):
            return None
        text = plan_to_json(self._over_leaf(wanted.node, places))
        number = leaf["$leaf"]
        column = self.columns.get((number, text))
        if column is None:
            shown = show_expression(wanted.node)
            paths = tuple(map(self._definition, definitions))
            column = OpaqueColumn(
                text, shown, wanted.node["$type"], number, self.paths[id(wanted.node)], paths
            )
            self.columns[number, text] = column
        for attribute in known:
            if isinstance(attribute, PlanNode) and attribute["$text"] == text:
                return leaf, attribute
        self.last_id += 1
        attribute = attribute_of(column, self.last_id)
        return with_computed(leaf, attribute), attribute

    def _definition(self, expr_id: int) -> ComputedAlias:
        """Where a column is defined that an expression uses."""
        if expr_id in self.renamed:
            return self.renamed[expr_id][1]
        return ComputedAlias(self.paths[id(self.aliases[expr_id])])

    def _over_leaf(self, value: PlanValue, places: Mapping[int, int]) -> PlanValue:
        """An expression over the columns of a leaf by their places, without ids."""
        match value:
            case PlanNode("AttributeReference", fields):
                expr_id = fields["exprId"]
                assert isinstance(expr_id, int)
                if expr_id in places:
                    return PlanNode("Column", {"place": places[expr_id]})
                if expr_id in self.renamed:
                    fields = {**fields, "exprId": self.renamed[expr_id][0]}
                    return self._over_leaf(PlanNode("AttributeReference", fields), places)
                return self._over_leaf(self.aliases[expr_id]["child"], places)
            case PlanNode(name, fields):
                kept = {
                    key: self._over_leaf(part, places)
                    for key, part in fields.items()
                    if key not in ("resultId", "$type")
                }
                return PlanNode(name, kept)
            case tuple():
                return tuple(self._over_leaf(part, places) for part in value)
            case _:
                return value


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An expression that is to be a column, and the columns that it uses."""

    node: PlanNode
    ids: frozenset[int]


@dataclass(slots=True)
class _Level:
    """An operator whose expressions are looked at; its children may get columns."""

    search: _Search
    node: PlanNode

    def set(self, name: str, value: PlanValue) -> None:
        """Set a field of the operator."""
        self.node = with_field(self.node, name, value)

    def parts(self, value: PlanValue) -> PlanValue:
        """Expressions of a row in a field, converted as far as possible."""
        match value:
            case PlanNode():
                return self.of_row(value)
            case tuple():
                return tuple(map(self.parts, value))
            case _:
                return value

    def over_groups(self, node: PlanNode, keys: Sequence[object]) -> PlanNode:
        """A result of groups: its keys and the arguments of its aggregates are of a row."""
        if _content(node) in keys:
            return self.of_row(node)
        if node.name == "AggregateExpression":
            function: PlanNode = node["aggregateFunction"]
            changed = self._with_parts(function, self.parts)
            return with_field(
                with_field(node, "aggregateFunction", changed),
                "filter",
                self.parts(node["filter"]),
            )
        return self._with_parts(node, lambda part: self._over_groups_part(part, keys))

    def _over_groups_part(self, value: PlanValue, keys: Sequence[object]) -> PlanValue:
        match value:
            case PlanNode():
                return self.over_groups(value, keys)
            case tuple():
                return tuple(self._over_groups_part(part, keys) for part in value)
            case _:
                return value

    def of_row(self, node: PlanNode) -> PlanNode:
        """An expression of a row, with attributes in place of its opaque parts."""
        if node.name in _CARRIERS:
            return self._with_parts(node, self.parts)
        if not _is_expression(node) or self.search.is_converted(node):
            return node
        chosen: dict[int, PlanNode] = {}
        changed = self._with_input_columns(self._with_placeholders(node, chosen), chosen)
        assert isinstance(changed, PlanNode)
        return changed

    def _with_placeholders(self, node: PlanNode, chosen: dict[int, PlanNode]) -> PlanNode:
        """An expression with attributes for its smallest parts that can be opaque.

        `chosen` gets these parts by the ids of the attributes, which are negative.
        """
        if not _is_expression(node) or self.search.is_converted(node):
            return node
        inside: dict[int, PlanNode] = {}

        def change(value: PlanValue) -> PlanValue:
            match value:
                case PlanNode():
                    return self._with_placeholders(value, inside)
                case tuple():
                    return tuple(map(change, value))
                case _:
                    return value

        changed = self._with_parts(node, change)
        is_left = not inside or not self.search.is_converted(changed)
        if is_left and id(node) in self.search.paths and self.search.may_be_opaque(node):
            expr_id, type_ = -id(node), node["$type"]
            chosen[expr_id] = node
            fields = {"name": "", "dataType": type_, "exprId": expr_id, "$type": type_}
            return PlanNode("AttributeReference", fields)
        chosen.update(inside)
        return changed

    def _with_input_columns(self, value: PlanValue, chosen: Mapping[int, PlanNode]) -> PlanValue:
        """Expressions with the columns of inputs in the place of placeholders."""
        match value:
            case PlanNode("AttributeReference", fields) if fields["exprId"] in chosen:
                node = chosen[value["exprId"]]
                return self._opaque(node) or node
            case PlanNode(name, fields):
                parts = {
                    key: self._with_input_columns(part, chosen) for key, part in fields.items()
                }
                return PlanNode(name, parts, value.place)
            case tuple():
                return tuple(self._with_input_columns(part, chosen) for part in value)
            case _:
                return value

    def _opaque(self, node: PlanNode) -> PlanNode | None:
        """The attribute that stands for an expression, if it can be a column of a leaf."""
        wanted = _Wanted(node, frozenset(_columns_of(node)))
        sides = self.node.fields.items()
        if self.node.name == "Join":
            # A condition looks at the rows of both sides before any of them is padded.
            sides = {name: self.node[name] for name in ("left", "right")}.items()
        for name, value in sides:
            if isinstance(value, PlanNode) and _is_operator(value):
                carried = self.search.carry(value, wanted)
                if carried is not None:
                    below, attribute = carried
                    self.set(name, below)
                    return attribute
        return None

    @staticmethod
    def _with_parts(node: PlanNode, change: Callable[[PlanValue], PlanValue]) -> PlanNode:
        fields = {
            name: value if name in _NO_PARTS else change(value)
            for name, value in node.fields.items()
        }
        return PlanNode(node.name, fields, node.place)


_CARRIERS: Final = ("Alias", "SortOrder", *GENERATORS)
"""Nodes that are not values themselves."""
_NO_PARTS: Final = ("$type", "dataType", "plan", "func", "query", "schema", "$computed")
"""Fields that have no expressions of the row in them."""
_NEVER: Final = frozenset(
    (*SUBQUERIES, *AGGREGATES, *GENERATORS, "OuterReference", "WindowExpression",
     "CallMethodViaReflection")
)  # fmt: skip
"""Nodes that are no functions of one row."""


def _is_operator(value: PlanValue) -> bool:
    return isinstance(value, PlanNode) and (value.name in OPERATORS or value.name in LEAVES)


def _is_expression(node: PlanNode) -> bool:
    return isinstance(node.fields.get("$type"), PlanNode)


def _columns_of(node: PlanNode) -> set[int]:
    return {part["exprId"] for part in nodes_of(node) if part.name == "AttributeReference"}


def _content(node: PlanNode) -> object:
    """What tells expressions apart: an attribute is its id."""
    return _without_types(node["child"] if node.name == "Alias" else node)


def _without_types(value: PlanValue) -> PlanValue:
    match value:
        case PlanNode("AttributeReference", fields):
            return PlanNode("AttributeReference", {"exprId": fields["exprId"]})
        case PlanNode(name, fields):
            kept = {
                k: _without_types(v) for k, v in fields.items() if k not in ("$type", "resultId")
            }
            return PlanNode(name, kept)
        case tuple():
            return tuple(map(_without_types, value))
        case _:
            return value


def _nodes_with_paths(node: PlanNode, path: Path) -> Iterator[tuple[Path, PlanNode]]:
    """The nodes of a plan with their paths, without those of sub-queries."""
    yield path, node
    for name, value in node.fields.items():
        if name.startswith("$") or name in ("dataType", "schema"):
            continue
        if name == "plan" and node.name != "WithCTE":
            continue
        yield from _in_value(value, name, (), path)


def _in_value(
    value: PlanValue, name: str, places: tuple[int, ...], path: Path
) -> Iterator[tuple[Path, PlanNode]]:
    match value:
        case PlanNode():
            yield from _nodes_with_paths(value, (*path, (name, places)))
        case tuple():
            for place, part in enumerate(value):
                yield from _in_value(part, name, (*places, place), path)
        case _:
            pass


def show_expression(node: PlanNode) -> str:
    """An expression as a short text: `f(a, 'x')`."""
    match node.name:
        case "AttributeReference" | "NamedLambdaVariable":
            return str(node["name"])
        case "Literal":
            value = node["value"]
            return value.name if isinstance(value, PlanNode) else repr(value)
        case "PythonUDF":
            arguments = node["children"]
            name = str(node["name"])
        case "Invoke":
            arguments = node["arguments"]
            name = f"{show_expression(node['targetObject'])}.{node['functionName']}"
        case "StaticInvoke":
            arguments = node["arguments"]
            name = str(node["functionName"])
        case _:
            arguments = [
                part
                for value in node.fields.values()
                for part in (value if isinstance(value, tuple) else (value,))
                if isinstance(part, PlanNode) and _is_expression(part)
            ]
            name = node.name
    return f"{name}({', '.join(map(show_expression, arguments))})"


# --- Parts of a conversion that is only tried ---


def _no_leaf(_leaf: PlanNode) -> typed.Expr:
    raise InternalError("an expression has no leaves")


def _no_plan(_node: PlanNode, _scope: ColumnScope) -> Relation:
    return Relation((), ())


def _subquery(node: PlanNode, _scope: ColumnScope) -> typed.Expr:
    return placeholder(node)
