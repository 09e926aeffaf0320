"""`Aggregate`: groups, and totals without keys.

A result column may mix keys, aggregates and other expressions.  Each key and each aggregate in it
becomes an attribute of its own, and what is left is an ordinary expression over these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from incmrql.algebra import rows as build
from incmrql.catalyst.nodes import PlanNode, PlanValue, nodes_of
from incmrql.catalyst.operators.bags import Measure
from incmrql.catalyst.operators.measures import measure
from incmrql.catalyst.operators.rowwise import named_columns, named_expression
from incmrql.catalyst.relation import Relation, naming, over_bag
from incmrql.catalyst.scope import ColumnScope
from incmrql.catalyst.types import require_no_map
from incmrql.types import typed
from incmrql.types.model import Record, bag


def aggregate(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Aggregate`: a row for each group; without keys, one row, even of nothing."""
    child = scope.plan(node["child"])
    grouping: tuple[PlanNode, ...] = node["groupingExpressions"]
    inner = scope.over(child)
    keys = inner.expressions(map(named_expression, grouping))
    for key, part in zip(keys, grouping, strict=True):
        require_no_map(key.type, "a key of GROUP BY", part)
    results = _Results(grouping, keys, inner, _aggregates_in(node["aggregateExpressions"]))
    projections = [_projection(part, results) for part in node["aggregateExpressions"]]
    return (
        _groups(child, projections, results, scope)
        if grouping
        else _total(child, projections, results, scope)
    )


def _projection(part: PlanNode, results: _Results) -> PlanNode:
    """A result column over keys and aggregates."""
    rewritten = results.rewrite(named_expression(part))
    fields = {"child": rewritten, "name": part.fields.get("name"), "exprId": part["exprId"]}
    return PlanNode("Alias", fields, part.place)


def _aggregates_in(parts: Sequence[PlanNode]) -> list[PlanNode]:
    """The aggregates in some result columns."""
    return [node for part in parts for node in nodes_of(part) if node.name == "AggregateExpression"]


class _Results:
    """The keys of the groups and the aggregates that result columns use, as attributes."""

    def __init__(
        self,
        grouping: Sequence[PlanNode],
        keys: Sequence[typed.Expr],
        inner: ColumnScope,
        every: Sequence[PlanNode],
    ):
        self.inner, self.every = inner, every
        self.keys = keys
        self.key_variables = [
            inner.names.variable(str(node.fields.get("name", "key")), value.type)
            for node, value in zip(grouping, keys, strict=True)
        ]
        self.columns: dict[int, typed.Expr] = {}
        self._ids: dict[Hashable, int] = {}
        self._measure_of: dict[int, Measure] = {}
        for node, variable in zip(grouping, self.key_variables, strict=True):
            self.columns[self._id(_content(named_expression(node)))] = build.var(variable)
            if node.name == "AttributeReference":
                self.columns[node["exprId"]] = build.var(variable)

    def rewrite(self, node: PlanNode) -> PlanNode:
        """An expression with attributes in place of keys and aggregates."""
        known = _content(node)
        if known not in self._ids and node.name == "AggregateExpression":
            self._measure_of[self._id(known)] = measure(node, self.inner, self.every)
        if known in self._ids:
            type_ = node.fields.get("$type")
            fields = {"exprId": self._ids[known], "dataType": type_, "$type": type_}
            return PlanNode("AttributeReference", {"name": node.name, **fields})
        parts = {
            name: part if name in ("plan", "$type") else self._rewrite_value(part)
            for name, part in node.fields.items()
        }
        return PlanNode(node.name, parts, node.place)

    def arguments(self) -> list[typed.Expr]:
        """The different arguments of all aggregates."""
        arguments: list[typed.Expr] = []
        for asked in self._measure_of.values():
            arguments += [value for value in asked.arguments if value not in arguments]
        return arguments

    def aggregates(self, bag_of: Callable[[typed.Expr], typed.Expr]) -> dict[int, typed.Expr]:
        """What the attributes of the aggregates are, with a bag for each of their arguments."""
        return {
            key: asked.result([partial(bag_of, argument) for argument in asked.arguments])
            for key, asked in self._measure_of.items()
        }

    def _rewrite_value(self, value: PlanValue) -> PlanValue:
        match value:
            case PlanNode():
                return self.rewrite(value)
            case tuple():
                return tuple(map(self._rewrite_value, value))
            case _:
                return value

    def _id(self, known: Hashable) -> int:
        """The id of the attribute that stands for an expression; no id of the plan is negative."""
        return self._ids.setdefault(known, -1 - len(self._ids))


def _content(value: PlanValue) -> Hashable:
    """What tells expressions apart: an attribute is its id, whatever it is called."""
    match value:
        case PlanNode("AttributeReference", fields):
            return "AttributeReference", fields["exprId"]
        case PlanNode(name, fields):
            parts = [(k, _content(v)) for k, v in fields.items() if k not in ("$type", "resultId")]
            return name, tuple(sorted(parts, key=lambda part: part[0]))
        case tuple():
            return tuple(map(_content, value))
        case _:
            return type(value).__name__, value


# --- Groups and totals ---


def _groups(
    child: Relation, projections: Sequence[PlanNode], results: _Results, scope: ColumnScope
) -> Relation:
    """One row for each key that occurs; keys that are null are equal."""
    names = scope.names
    arguments = results.arguments()
    rows = tuple(names.variable(f"value{n}", a.type) for n, a in enumerate(arguments, 1))
    bags = tuple(names.variable(row.name, bag(row.type)) for row in rows)
    partition = names.variable("partition", bag(Record(tuple((r.name, r.type) for r in rows))))
    bindings = naming(zip(rows, arguments, strict=True))
    group = typed.Group(
        tuple(results.keys),
        tuple(map(typed.Bind, results.key_variables)),
        tuple(zip(rows, bags, strict=True)),
        partition,
        rows,
    )
    columns = results.aggregates(lambda argument: build.var(bags[arguments.index(argument)]))
    inner = scope.over().with_columns({**results.columns, **columns})
    heads = [inner.expression(part["child"]) for part in projections]
    head = build.tuple_of(*heads)
    select = typed.Select(False, head, (*child.qualifiers, *bindings), None, group, None, (), None,
                          type=bag(head.type))  # fmt: skip
    return over_bag(names, select, [part["exprId"] for part in projections], "group")


def _total(
    child: Relation, projections: Sequence[PlanNode], results: _Results, scope: ColumnScope
) -> Relation:
    """One row, over all rows of the child."""
    names = scope.names
    arguments = results.arguments()
    if not arguments:
        return named_columns(Relation((), ()), projections, scope.over())
    row = arguments[0] if len(arguments) == 1 else build.tuple_of(*arguments)
    every = names.variable("every", bag(row.type))
    binding = typed.Binding(typed.Bind(every), child.bag_of(row))

    def bag_of(argument: typed.Expr) -> typed.Expr:
        if len(arguments) == 1:
            return build.var(every)
        one = names.variable("row", row.type)
        part = build.item(build.var(one), arguments.index(argument))
        return typed.MapOver(one, build.var(every), part, False, type=bag(part.type))

    values = results.aggregates(bag_of)
    totals = {key: names.variable("total", value.type) for key, value in values.items()}
    bindings = [binding, *naming((totals[key], value) for key, value in values.items())]
    columns = {key: build.var(variable) for key, variable in totals.items()}
    inner = scope.over().with_columns(columns)
    return named_columns(Relation(tuple(bindings), ()), projections, inner)
