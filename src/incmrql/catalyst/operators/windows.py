"""`Window`: each row with the values of functions over the ordered rows of its partition.

    select w from p in (select window(rows, …) from … group by keys), w in p

Frames are explicit in an analysed plan.  Where Spark leaves the order of rows open, canonical order
decides: rows with equal sort keys are in the order of the whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Final, Literal, TypeAlias

from incmrql.algebra import rows as build
from incmrql.catalyst.classes import check_node
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.operators.measures import measure
from incmrql.catalyst.operators.rowwise import named_expression, widened
from incmrql.catalyst.operators.sorting import sort_keys
from incmrql.catalyst.operators.subqueries import is_null
from incmrql.catalyst.operators.table import STRUCTURAL
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.relation import Relation, null
from incmrql.catalyst.scope import ColumnScope
from incmrql.types import typed
from incmrql.types.model import (
    DOUBLE,
    FLOAT,
    INT,
    Record,
    Tuple,
    Type,
    bag,
    is_float,
    list_of,
)
from incmrql.types.model import Decimal as DecimalType


def window(node: PlanNode, scope: ColumnScope) -> Relation:
    """`Window`: the columns of the child, and one for each window expression."""
    child = scope.plan(node["child"])
    names = scope.names
    values = child.by_id
    row = names.variable("row", build.tuple_of(*values.values()).type)
    columns = [(key, build.item(build.var(row), index)) for index, key in enumerate(values)]
    inner = scope.over(Relation((), tuple(columns)))
    order = sort_keys(node["orderSpec"], inner)
    parts = [_window_column(part, order, inner) for part in node["windowExpressions"]]
    functions = tuple(part.function for part in parts)
    keys = scope.over(child).expressions(node["partitionSpec"])

    element = Tuple((row.type, Tuple(tuple(part.type for part in parts))))
    rows = names.variable("rows", bag(row.type))
    windowed = typed.Window(build.var(rows), row, order, functions, type=bag(element))
    partition = names.variable("partition", bag(element))
    one = names.variable("one", element)
    qualifiers = (
        typed.Generator(
            typed.Bind(partition), _partitions(child, row, rows, keys, windowed, scope)
        ),
        typed.Generator(typed.Bind(one), build.var(partition)),
    )
    below, beside = build.item(build.var(one), 0), build.item(build.var(one), 1)
    places = {key: build.item(below, index) for index, key in enumerate(values)}
    results = [
        (part.expr_id, part.finish(build.item(beside, index))) for index, part in enumerate(parts)
    ]
    return Relation(qualifiers, (*((key, places[key]) for key in child.ids), *results))


def _partitions(
    child: Relation,
    row: typed.Variable,
    rows: typed.Variable,
    keys: Sequence[typed.Expr],
    head: typed.Expr,
    scope: ColumnScope,
) -> typed.Expr:
    """The bag with `head` for each partition; without keys all rows are one."""
    names = scope.names
    source = names.like(row)
    keys = keys or [build.unit()]
    members = names.variable("partition", bag(Record(((source.name, source.type),))))
    patterns = tuple(typed.Bind(names.variable("key", key.type)) for key in keys)
    group = typed.Group(tuple(keys), patterns, ((source, rows),), members, (source,))
    binding = typed.Binding(typed.Bind(source), build.tuple_of(*child.by_id.values()))
    return typed.Select(False, head, (*child.qualifiers, binding), None, group, None, (), None,
                        type=bag(head.type))  # fmt: skip


# --- Functions ---


@dataclass(frozen=True, slots=True)
class _Column:
    """A window expression: its function, the type of its values, and what becomes of them."""

    expr_id: int
    function: typed.WindowFunction
    type: Type
    finish: Callable[[typed.Expr], typed.Expr] = lambda value: value


_Convert: TypeAlias = Callable[[int, PlanNode, PlanNode, ColumnScope], _Column]
"""Converts a function, with the id of its column and its frame."""


def _window_column(part: PlanNode, order: Sequence[typed.Order], scope: ColumnScope) -> _Column:
    expression = named_expression(part)
    check_node(expression, STRUCTURAL)
    specification: PlanNode = expression["windowSpec"]
    check_node(specification, STRUCTURAL)
    bounds: PlanNode = specification["frameSpecification"]
    check_node(bounds, STRUCTURAL)
    function: PlanNode = expression["windowFunction"]
    check_node(function, STRUCTURAL)
    convert = _FUNCTIONS.get(function.name)
    if convert is None:
        frame = _frame(bounds, order, scope)
        return _over_frame(part["exprId"], function, frame, order, scope)
    return convert(part["exprId"], function, bounds, scope)


def _rank(name: typed.RankName, type_: Type) -> _Convert:
    def rank(expr_id: int, _function: PlanNode, _bounds: PlanNode, scope: ColumnScope) -> _Column:
        if name in ("row_number", "ntile"):
            _note_ties(scope, name)
        return _Column(expr_id, typed.Rank(name, type_), type_)

    return rank


def _ntile(expr_id: int, function: PlanNode, _bounds: PlanNode, scope: ColumnScope) -> _Column:
    buckets = scope.expression(function["buckets"])
    if not isinstance(buckets, typed.Const) or not buckets.value or buckets.value < 0:
        message = "ntile with a number of buckets that is not a positive constant"
        raise Refused("C104", f"{message} is not converted", node=function)
    _note_ties(scope, "ntile")
    return _Column(expr_id, typed.Rank("ntile", INT, int(buckets.value)), INT)


def _neighbour(expr_id: int, function: PlanNode, bounds: PlanNode, scope: ColumnScope) -> _Column:
    """`lag` and `lead`: their frame says how many rows away the value is."""
    _note_ties(scope, function.name.lower())
    argument = scope.expression(function["input"])
    default = widened(scope.expression(function["default"]), argument.type)
    distance = int(_constant(bounds["lower"], scope))
    if not function["ignoreNulls"] or distance == 0:
        frame, position = typed.Frame("rows", distance, distance), 1
    elif distance < 0:
        frame, position = typed.Frame("rows", None, -1), distance
    else:
        frame, position = typed.Frame("rows", 1, None), distance
    skips = bool(function["ignoreNulls"]) and distance != 0
    picked = typed.Pick(frame, argument, position, skips, default)
    return _Column(expr_id, picked, argument.type)


def _over_frame(
    expr_id: int,
    function: PlanNode,
    frame: typed.Frame,
    order: Sequence[typed.Order],
    scope: ColumnScope,
) -> _Column:
    """An aggregate, or the value at a row, over a frame."""
    if function.name == "NthValue":
        position = int(_constant(function["offset"], scope))
        return _pick_value(expr_id, function["input"], position, function, frame, None, scope)
    if function.name != "AggregateExpression":
        raise Refused("C104", f"{function.name} over a window is not converted", node=function)
    aggregate: PlanNode = function["aggregateFunction"]
    if aggregate.name in _ENDS:
        check_node(aggregate, STRUCTURAL)
        position = _ENDS[aggregate.name]
        condition = function["filter"]
        return _pick_value(
            expr_id, aggregate["child"], position, aggregate, frame, condition, scope
        )
    if aggregate.name in _IN_ORDER and order:
        return _in_order(expr_id, function, frame, scope)
    if frame.kind == "rows" and (frame.first, frame.last) != (None, None):
        _note_ties(scope, aggregate.name.lower())
    taken = measure(function, scope)
    argument = build.key_of(taken.arguments)
    values = scope.names.variable("values", bag(argument.type))

    def bag_of(index: int) -> typed.Expr:
        if len(taken.arguments) == 1:
            return build.var(values)
        one = scope.names.variable("value", argument.type)
        return build.for_each(one, build.var(values), build.item(build.var(one), index))

    result = taken.result([partial(bag_of, index) for index in range(len(taken.arguments))])
    return _Column(expr_id, typed.Total(frame, argument, values, result), result.type)


_IN_ORDER: Final = ("CollectList", "ListAgg")
"""Aggregates whose value depends on the order of the rows, which a window may give."""


def _in_order(expr_id: int, function: PlanNode, frame: typed.Frame, scope: ColumnScope) -> _Column:
    """The list of the values of a frame, in the order of the window."""
    aggregate: PlanNode = function["aggregateFunction"]
    if aggregate.name != "CollectList":
        message = f"{aggregate.name} over a window with an order is not converted"
        raise Refused("C104", message, "Join the elements of collect_list(…).", aggregate)
    check_node(aggregate, STRUCTURAL)
    _note_ties(scope, "collect_list")
    argument = scope.expression(aggregate["child"])
    # In tuples, so that what the filter leaves out and what is null are not the same.
    kept = build.tuple_of(argument)
    if aggregate.fields.get("ignoreNulls", True):
        kept = _unless(is_null(argument), kept)
    if function["filter"] is not None:
        condition = scope.expression(function["filter"])
        kept = typed.If(condition, kept, null(kept.type), type=kept.type)
    values = scope.names.variable("values", list_of(kept.type))
    one = scope.names.variable("one", kept.type)
    items = list_of(argument.type)
    none, some = (
        typed.MakeCollection(parts, type=items) for parts in ((), (build.item(build.var(one), 0),))
    )
    body = typed.If(is_null(build.var(one)), none, some, type=items)
    result = typed.MapOver(one, build.var(values), body, True, type=items)
    return _Column(expr_id, typed.Total(frame, kept, values, result), items)


def _unless(condition: typed.Expr, value: typed.Expr) -> typed.Expr:
    return typed.If(condition, null(value.type), value, type=value.type)


_ENDS: Final = {"First": 1, "Last": -1}


def _pick_value(  # noqa: PLR0913, PLR0917 (a function, and the parts of its call)
    expr_id: int,
    input_: PlanNode,
    position: int,
    function: PlanNode,
    frame: typed.Frame,
    condition: PlanNode | None,
    scope: ColumnScope,
) -> _Column:
    """The value of an argument at a row of the frame, or null."""
    _note_ties(
        scope, {"First": "first_value", "Last": "last_value"}.get(function.name, "nth_value")
    )
    argument = scope.expression(input_)
    type_ = argument.type
    skips = bool(function["ignoreNulls"])
    if condition is None:
        picked = typed.Pick(frame, argument, position, skips, null(type_))
        return _Column(expr_id, picked, type_)
    # Rows that the filter leaves out are null.  Where nulls count, the values are in tuples.
    value = argument if skips else build.tuple_of(argument)
    kept = typed.If(scope.expression(condition), value, null(value.type), type=value.type)
    picked = typed.Pick(frame, kept, position, True, null(value.type))
    if skips:
        return _Column(expr_id, picked, type_)
    return _Column(expr_id, picked, value.type, lambda pair: build.item(pair, 0))


def _note_ties(scope: ColumnScope, name: str) -> None:
    scope.conversion.note(
        f"Rows that {name} finds equal in the order of its window are in canonical order."
    )


_FUNCTIONS: Final[dict[str, _Convert]] = {
    "RowNumber": _rank("row_number", INT),
    "Rank": _rank("rank", INT),
    "DenseRank": _rank("dense_rank", INT),
    "PercentRank": _rank("percent_rank", DOUBLE),
    "CumeDist": _rank("cume_dist", DOUBLE),
    "NTile": _ntile,
    "Lag": _neighbour,
    "Lead": _neighbour,
}
"""Functions that have a frame of their own."""


# --- Frames ---


def _frame(bounds: PlanNode, order: Sequence[typed.Order], scope: ColumnScope) -> typed.Frame:
    kind: Literal["rows", "range"] = "rows" if bounds["frameType"].name == "RowFrame" else "range"
    first = _bound(bounds["lower"], kind, order, scope)
    last = _bound(bounds["upper"], kind, order, scope)
    return typed.Frame(kind, first, last)


def _bound(
    node: PlanNode, kind: str, order: Sequence[typed.Order], scope: ColumnScope
) -> int | float | Decimal | None:
    """An end of a frame; None without one, 0 for the current row."""
    if node.name in ("UnboundedPreceding", "UnboundedFollowing"):
        return None
    if node.name == "CurrentRow":
        return 0
    offset = _constant(node, scope)
    if kind == "rows" or not offset:
        return int(offset)
    type_ = order[-1].expr.type
    if is_float(type_) and type_ != FLOAT:
        return float(offset)
    if isinstance(type_, DecimalType):
        return Decimal(offset)
    if isinstance(offset, int) and type_ != FLOAT:
        return offset
    message = f"a RANGE frame over a key of type {type_}"
    raise Refused("C104", f"{message} is not converted", "Cast the key to double.", node)


def _constant(node: PlanNode, scope: ColumnScope) -> int | float | Decimal:
    """The number that an offset is: of days for dates, of microseconds for timestamps."""
    match node:
        case PlanNode("UnaryMinus"):
            return -_constant(node["child"], scope)
        case PlanNode("Cast"):
            return _constant(node["child"], scope)
        case PlanNode(
            "Literal", {"dataType": PlanNode("DayTimeIntervalType"), "value": int(micros)}
        ):
            return micros
        case PlanNode("Literal", {"dataType": PlanNode("YearMonthIntervalType")}):
            hint = "Give the frame in days, or number the months: year(d) * 12 + month(d)."
            raise Refused("C104", "a frame in months is not converted", hint, node)
        case _:
            value = scope.expression(node)
            if isinstance(value, typed.Const) and value.value is not None:
                number: int | float | Decimal = value.value
                return number
            raise Refused("C104", "an offset of a window that is no constant", node=node)
