"""Operators that look at one row at a time: projections, filters, `Expand` and `Generate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from incmrql.algebra import rows as build
from incmrql.catalyst.classes import check_node
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.operators.subqueries import conditions
from incmrql.catalyst.operators.table import GENERATORS
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.relation import Relation, components, naming, null
from incmrql.catalyst.scope import ColumnScope
from incmrql.types import typed
from incmrql.types.model import BOOL, INT, LONG, Collection, Tuple, Type, bag, is_map, list_of

# --- Project and Filter ---


def project(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Project`: a value for each column."""
    child = scope.plan(node["child"])
    return named_columns(child, node["projectList"], scope.over(child))


def named_columns(
    relation: Relation, projections: Sequence[PlanNode], scope: ColumnScope
) -> Relation:
    """The relation with the columns of a list of projections; what is computed gets a name."""
    columns: list[tuple[int, typed.Expr]] = []
    computed: list[tuple[typed.Variable, typed.Expr]] = []
    bindings: list[typed.Qualifier] = []
    scope = replace(scope, bindings=bindings)
    for projection in projections:
        value = scope.any_expression(named_expression(projection))
        if not _is_free(value):
            variable = scope.names.variable(str(projection.fields.get("name", "value")), value.type)
            computed.append((variable, value))
            value = build.var(variable)
        columns.append((projection["exprId"], value))
    return relation.binding([*bindings, *naming(computed)]).with_columns(columns)


def named_expression(projection: PlanNode) -> PlanNode:
    """The expression that a projection names."""
    if projection.name != "Alias":
        return projection
    if "sessionWindow" in repr(projection.fields.get("explicitMetadata")):
        message = "session windows are not converted yet"
        raise Refused("C104", message, "Use window() for windows of one length.", projection)
    child: PlanNode = projection["child"]
    return child


def _is_free(value: typed.Expr) -> bool:
    """Whether a value may stand at several places, as it costs nothing."""
    match value:
        case typed.Var() | typed.Const():
            return True
        case typed.Field(subject, _) | typed.Item(subject, _):
            return _is_free(subject)
        case typed.MakeCollection(items):  # a pivot, of which each column takes one
            return all(map(_is_free, items))
        case _:
            return False


def filter_rows(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Filter`: the rows for which a condition is true."""
    child = scope.plan(node["child"])
    inner = scope.over(child).taking_bindings()
    tests = conditions(node["condition"], inner)
    child = child.binding(inner.bindings or ())
    for test in tests:
        child = child.where(test)
    return child


def child_itself(node: PlanNode, scope: ColumnScope) -> Relation:
    """The rows of the child: the operator has no part in the answer."""
    return scope.plan(node["child"])


# --- Expand and Generate ---


def expand(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Expand`: a row for each of several projections, as grouping sets ask for."""
    child = scope.plan(node["child"])
    inner = scope.over(child)
    tuples = [build.tuple_of(*map(inner.any_expression, row)) for row in node["projections"]]
    columns = [_common_column([row.items[i] for row in tuples if isinstance(row, typed.MakeTuple)])
               for i in range(len(node["output"]))]  # fmt: skip
    rows = [build.tuple_of(*values) for values in zip(*columns, strict=True)]
    one = scope.names.variable("expanded", rows[0].type)
    generator = typed.Generator(typed.Bind(one), build.bag_of(*rows))
    ids = [attribute["exprId"] for attribute in node["output"]]
    return child.binding([generator]).with_columns(
        zip(ids, components(build.var(one)), strict=True)
    )


def _common_column(values: Sequence[typed.Expr]) -> list[typed.Expr]:
    """The values of a column in one type: a null literal may have none of its own."""
    type_ = build.least_type(value.type for value in values)
    return [widened(value, type_) for value in values]


def widened(value: typed.Expr, type_: Type) -> typed.Expr:
    """A value in a wider type."""
    if value.type == type_:
        return value
    if isinstance(value, typed.Const) and value.value is None:
        return null(type_)
    return typed.Widen(value, type=type_)


def generate(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Generate`: each row with the rows that a generator makes of it."""
    child = scope.plan(node["child"])
    generator: PlanNode = node["generator"]
    check_node(generator, GENERATORS)
    rows = _GENERATED[generator.name](generator, scope.over(child))
    if node["outer"]:
        rows = _with_null_row(rows)
    assert isinstance(rows.type, Collection)
    one = scope.names.variable("generated", rows.type.element)
    ids = [attribute["exprId"] for attribute in node["generatorOutput"]]
    columns = (*child.columns, *zip(ids, components(build.var(one)), strict=True))
    return child.binding([typed.Generator(typed.Bind(one), rows)]).with_columns(columns)


def _with_null_row(rows: typed.Expr) -> typed.Expr:
    """The rows, or one row of nulls if there are none."""
    assert isinstance(rows.type, Collection)
    assert isinstance(rows.type.element, Tuple)
    nulls = build.tuple_of(*map(null, rows.type.element.items))
    one = typed.MakeCollection((nulls,), type=rows.type)
    return typed.If(typed.Exists(rows, type=BOOL), rows, one, type=rows.type)


def _explode(generator: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The elements of an array, or the keys and values of a map."""
    values = scope.expression(generator["child"])
    if is_map(values.type):
        assert isinstance(values.type, Collection)
        entries = typed.Widen(values, type=list_of(values.type.element))
        one = scope.names.variable("entry", values.type.element)
        return _row_for_each(entries, one, build.tuple_of(*components(build.var(one))))
    assert isinstance(values.type, Collection)
    one = scope.names.variable("element", values.type.element)
    return _row_for_each(values, one, build.tuple_of(build.var(one)))


def _pos_explode(generator: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The elements of an array with their positions, from 0."""
    values = scope.expression(generator["child"])
    assert isinstance(values.type, Collection)
    of_map = is_map(values.type)
    if of_map:
        values = typed.Widen(values, type=list_of(values.type.element))
    assert isinstance(values.type, Collection)
    pair = Tuple((values.type.element, LONG))
    numbered = typed.Builtin("index", (values,), type=list_of(pair))
    one = scope.names.variable("numbered", pair)
    position = typed.Cast(build.item(build.var(one), 1), type=INT)
    value = build.item(build.var(one), 0)
    parts = components(value) if of_map else [value]
    return _row_for_each(numbered, one, build.tuple_of(position, *parts))


def _inline(generator: PlanNode, scope: ColumnScope) -> typed.Expr:
    """The structs of an array as rows; a struct that is null is a row of nulls."""
    values = scope.expression(generator["child"])
    assert isinstance(values.type, Collection)
    one = scope.names.variable("struct", values.type.element)
    return _row_for_each(values, one, build.tuple_of(*components(build.var(one))))


def _stack(generator: PlanNode, scope: ColumnScope) -> typed.Expr:
    """`stack(n, a, b, …)`: the values in n rows, filled up with nulls."""
    count, *parts = generator["children"]
    if count.name != "Literal":
        raise Refused("C104", "stack with a number of rows that is not a literal", node=generator)
    values = scope.expressions(parts)
    width = -(-len(values) // count["value"])
    columns: list[list[typed.Expr | None]] = [
        [values[row * width + column] if row * width + column < len(values) else None
         for row in range(count["value"])]
        for column in range(width)
    ]  # fmt: skip
    filled: list[list[typed.Expr]] = []
    for column in columns:
        type_ = build.least_type(value.type for value in column if value is not None)
        filled.append([null(type_) if v is None else widened(v, type_) for v in column])
    return build.bag_of(*(build.tuple_of(*row) for row in zip(*filled, strict=True)))


def _row_for_each(values: typed.Expr, one: typed.Variable, row: typed.Expr) -> typed.Expr:
    """A row for each of some values; the order does not count from here on."""
    assert isinstance(values.type, Collection)
    kind = bag(row.type) if values.type.kind == "bag" else list_of(row.type)
    return typed.MapOver(one, values, row, False, type=kind)


_GENERATED = {
    "Explode": _explode,
    "PosExplode": _pos_explode,
    "Inline": _inline,
    "Stack": _stack,
}
