"""Factoring: splits the answer over a group into mergeable aggregates and a function of them.

    F(k, s)  =  F'(k, e1(s), ..., en(s))        ei(s + t) = merge(ei(s), ei(t))

An aggregate over a bag that is additive in one side (`additivity.py`) becomes a variable of F':
its accumulators merge the elements that each row contributes.  An aggregate that needs values in
order becomes a variable that reads a table, or an accumulator if nothing is ever deleted.  Any
other aggregate of one side becomes a variable too, so that it is computed again only if its side
changes.
"""

from __future__ import annotations

from collections.abc import Collection as Some
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from incmrql.algebra import rows
from incmrql.algebra.rows import Names
from incmrql.algebra.walk import fingerprint
from incmrql.plan.additivity import Additivity
from incmrql.plan.monoids import COUNT, FLOATS, MAX, MIN, SUM, Monoid, commutative_monoid
from incmrql.plan.nodes import (
    Accumulator,
    AccumulatorKind,
    Distinct,
    ReadKind,
    Request,
    Table,
    TableRead,
)
from incmrql.reference.aggregates import SPARK_PERCENTILES
from incmrql.types import typed
from incmrql.types.model import EXACT_SUM, Collection, Tuple, Type, is_float
from incmrql.types.walk import free_variables, map_children, nodes, rename_binders, with_copies

# --- Values in order ---
#
# min(e) first(e) elem(e)                   the first value
# max(e)                                    the last one
# median(e) percentile(e, p)                the two around a rank
# select h from … order by … limit n        the first n
# (select h from … order by …)[i]           the one at i, from either end
# (select h from … order by …)[i:j]         those from i to j
# collect(e), a user aggregation, fold      all
#
# Each is over a bag that is additive in one side (`additivity.py`), so that a table can hold what
# the bag of each row alone brings, and `p n i j` depend on the key of the group at most.


@dataclass(frozen=True, slots=True)
class OrderedRead:
    """A read of values in order: the values as in `Table`, and what is read as in `TableRead`."""

    operand: typed.Expr
    order: tuple[bool, ...] | None
    how: ReadKind
    arguments: tuple[typed.Expr, ...] = ()
    values: typed.Variable | None = None
    """Bound to all values, if the only argument is a function of them."""


def ordered_read(expr: typed.Expr, additivity: Additivity, names: Names) -> OrderedRead | None:
    """The read of values in order that an expression is; None if it is something else."""
    read = _match_ordered_read(expr, names)
    if read is None or one_side(read.operand, additivity) is None:
        return None
    allowed = {additivity.group} if read.values is None else {additivity.group, read.values}
    if any(
        additivity.sides_read(argument) or free_variables(argument) - allowed
        for argument in read.arguments
    ):
        return None
    return read


def one_side(operand: typed.Expr, additivity: Additivity) -> int | None:
    """The side of a bag that is additive in one side and depends on nothing else but the key."""
    sides = additivity.additive(operand)
    if sides is None or len(sides) != 1 or free_variables(operand) - {additivity.group}:
        return None
    return next(iter(sides))


def _match_ordered_read(expr: typed.Expr, names: Names) -> OrderedRead | None:
    match expr:
        case typed.Aggregate("min" | "first", operand) | typed.Builtin("elem", (operand,)):
            return OrderedRead(without_distinct(operand), None, "least")
        case typed.Aggregate("max", operand):
            return OrderedRead(without_distinct(operand), None, "greatest")
        case typed.Aggregate("median", operand):
            return OrderedRead(operand, None, "between")
        case typed.Aggregate(name, operand, extra) if extra is not None and (
            name == "percentile" or name in SPARK_PERCENTILES
        ):
            return OrderedRead(operand, None, "between", (extra,))
        case typed.Aggregate("collect", operand):
            return OrderedRead(operand, None, "first")
        case typed.UserAggregate(_, operand):
            return _read_all(expr, operand, operand, None, names)
        case typed.Fold(_, _, operand) if _is_bag(operand):
            return _read_all(expr, operand, _with_empty_key(operand, names), (), names)
        case typed.At(typed.Select() as query, index):
            return _read_query(query, "at", (index,))
        case typed.SliceOf(typed.Select() as query, first, last):
            return _read_query(query, "slice", (first, last))
        case typed.Select(limit=limit, order=order) if order or limit is not None:
            return _read_query(expr, "first", () if limit is None else (limit,))
        case _:
            return None


def _read_all(
    expr: typed.UserAggregate | typed.Fold,
    operand: typed.Expr,
    values: typed.Expr,
    order: tuple[bool, ...] | None,
    names: Names,
) -> OrderedRead:
    """Reads all values, and evaluates the same aggregate over a variable bound to them."""
    variable = names.variable("values", operand.type)
    over = replace(expr, operand=rows.var(variable))
    return OrderedRead(values, order, "all", (over,), variable)


def _read_query(
    query: typed.Select, how: ReadKind, arguments: tuple[typed.Expr, ...]
) -> OrderedRead | None:
    """Reads the pairs (keys, head) of a query by its order and limit; None if it does more."""
    if query.distinct or query.group is not None or query.having is not None:
        return None
    if how != "first" and (query.limit is not None or not query.order):
        return None
    keys = rows.tuple_of(*(order.expr for order in query.order))
    pairs = rows.select(rows.tuple_of(keys, query.head), query.qualifiers)
    assert isinstance(pairs, typed.Select)
    order = tuple(order.descending for order in query.order)
    return OrderedRead(replace(pairs, where=query.where), order, how, arguments)


def _with_empty_key(operand: typed.Expr, names: Names) -> typed.Expr:
    """Pairs (empty key tuple, element): unlike plain values of a table, they keep nulls."""
    assert isinstance(operand.type, Collection)
    element = names.variable("one", operand.type.element)
    return rows.for_each(element, operand, rows.tuple_of(rows.unit(), rows.var(element)))


def _is_bag(expr: typed.Expr) -> bool:
    return isinstance(expr.type, Collection) and expr.type.kind == "bag"


def without_distinct(operand: typed.Expr) -> typed.Expr:
    """The bag before `distinct`, if that is its last operation; its least value is the same."""
    match operand:
        case typed.Builtin("distinct", (inner,)) if _is_bag(inner):
            return inner
        case typed.Select(distinct=True, group=None, having=None, order=(), limit=None):
            return replace(operand, distinct=False)
        case _:
            return operand


def prefix_length(read: OrderedRead) -> typed.Expr | None:
    """The number of first values that are read, as an expression without variables; else None."""
    match read.how, read.arguments:
        case "first", (limit,) if not free_variables(limit):
            return limit
        case "at", (typed.Const(int(index)) as limit_index,) if index >= 0:
            return replace(limit_index, value=index + 1)
        case _:
            return None


# --- each value once -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DistinctOperand:
    """A bag that is additive in the distinct values of another bag.

    `values` are pairs ((), value), as in a table; `operand` is over a group whose one side has the
    distinct values.
    """

    values: typed.Expr
    group: typed.Variable
    operand: typed.Expr


def distinct_operand(
    operand: typed.Expr, additivity: Additivity, names: Names
) -> DistinctOperand | None:
    """The distinct values that a bag iterates over, if it depends on no other rows; else None."""
    for part in nodes(operand):
        inner = without_distinct(part)
        if inner is part or one_side(inner, additivity) is None:
            continue
        assert isinstance(inner.type, Collection)
        key = (
            additivity.group.type.items[0]
            if isinstance(additivity.group.type, Tuple)
            else inner.type
        )
        group = names.variable("different", Tuple((key, inner.type)))
        over = _replace_part(operand, part, rows.item(rows.var(group), 1))
        side = one_side(over, Additivity(group, 1)) if not additivity.sides_read(over) else None
        if side is not None:
            return DistinctOperand(_with_empty_key(inner, names), group, over)
    return None


def _replace_part(expr: typed.Expr, part: typed.Expr, by: typed.Expr) -> typed.Expr:
    if expr is part:
        return by
    return map_children(lambda child: _replace_part(child, part, by), expr)


# --- Named parts of a group ---
#
#   select (sum(v), avg(v)) from v = (select y.C from y in rows where y.B > 1)
#       = (sum(select y.C ...), avg(select y.C ...))
#   f(rows.C) = sum(rows.C) / count(rows.C)      where f(v) is sum(v) / count(v)
#
# `Factoring` factors each aggregate on its own and keeps equal accumulators once, so nothing is
# computed twice. A value that goes through pairs of rows keeps its name: it would be walked for
# each use.


@dataclass(frozen=True, slots=True)
class ViewExpansion:
    """Replaces names of bags that are additive in one side of a group, and calls over such bags."""

    additivity: Additivity
    names: Names
    functions: Mapping[str, typed.Function]

    def expand(self, expr: typed.Expr, calling: frozenset[str] = frozenset()) -> typed.Expr:
        """The expression without such names; `calling` are the functions being expanded."""
        if not self.additivity.sides_read(expr):
            return expr
        match expr:
            case typed.Select(group=None):
                for index, qualifier in enumerate(expr.qualifiers):
                    if isinstance(qualifier, typed.Binding) and isinstance(
                        qualifier.pattern, typed.Bind
                    ):
                        value = self.expand(qualifier.value, calling)
                        if self._is_view(value):
                            rest = (*expr.qualifiers[:index], *expr.qualifiers[index + 1 :])
                            bound = {qualifier.pattern.variable: value}
                            inlined = self._substitute(replace(expr, qualifiers=rest), bound)
                            return self.expand(inlined, calling)
            case typed.Call(name, arguments) if name not in calling:
                values = [self.expand(argument, calling) for argument in arguments]
                function = self.functions[name]
                if any(map(self._is_view, values)):
                    bound = dict(zip(function.parameters, values, strict=True))
                    inlined = self._substitute(
                        rename_binders(function.body, self.names.like), bound
                    )
                    return self.expand(inlined, calling | {name})
            case _:
                pass
        return map_children(lambda child: self.expand(child, calling), expr)

    def _is_view(self, value: typed.Expr) -> bool:
        is_collection = isinstance(value.type, Collection) and bool(
            self.additivity.sides_read(value)
        )
        return is_collection and one_side(without_distinct(value), self.additivity) is not None

    def _substitute(
        self, expr: typed.Expr, bound: Mapping[typed.Variable, typed.Expr]
    ) -> typed.Expr:
        for variable, value in bound.items():
            expr = with_copies(expr, variable, value, self.names.like)
        return expr


# --- Factoring ---


ACCUMULATORS_OF: Final[dict[str, tuple[AccumulatorKind, ...]]] = {
    "exists": ("rows",),
    "count": ("count",),
    "sum": ("sum",),
    "avg": ("sum", "count"),
    "variance": ("sum", "squares", "count"),
    "stddev": ("sum", "squares", "count"),
    "some": ("true",),
    "all": ("false",),
    "sum#part": ("sum",),
    "sum#total": ("parts",),
    "avg#total": ("parts", "sizes"),
}
"""The kinds of accumulators of each aggregate that has some; all of them have an inverse."""

_EXTREMES: Final[dict[str, AccumulatorKind]] = {"least": "least", "greatest": "greatest"}

_IDEMPOTENT: Final = frozenset(("exists", "some", "all"))
"""Aggregates that give the same value if an element occurs several times."""


class Factoring:
    """One pass over an answer, which collects its requests; equal ones are kept once.

    `growing` are the sides from which nothing is ever deleted.
    """

    def __init__(
        self,
        additivity: Additivity,
        names: Names,
        growing: Some[int] = (),
        aggregations: dict[str, typed.Aggregation] | None = None,
    ) -> None:
        self.additivity, self.names, self.growing = additivity, names, growing
        self.aggregations = aggregations or {}
        self.accumulators: list[Accumulator] = []
        self.tables: list[Table] = []
        self.requests: list[Request] = []
        self._indices: dict[tuple[object, ...], int] = {}
        self._variables: dict[tuple[object, ...], typed.Variable] = {}

    def rewrite(self, expr: typed.Expr) -> typed.Expr:
        """The expression with variables in place of aggregates."""
        read = ordered_read(expr, self.additivity, self.names)
        if read is not None:
            return self._read_table(expr, read)
        match expr:
            case typed.Aggregate(function, operand, None) if function in ACCUMULATORS_OF:
                return self._accumulate(expr, function, operand)
            case typed.Exists(operand):
                return self._accumulate(expr, "exists", operand)
            case typed.Aggregate(function) | typed.UserAggregate(function):
                return self._scan_rows(expr, function)
            case _:
                return map_children(self.rewrite, expr)

    def _accumulate(self, expr: typed.Expr, function: str, operand: typed.Expr) -> typed.Expr:
        """The variable of an aggregate that is computed from accumulators, if it can be."""
        if function in _IDEMPOTENT:
            operand = without_distinct(operand)
        side = one_side(operand, self.additivity)
        if side is not None:
            return self._request(
                expr, function, side, self._accumulator_indices(function, side, operand)
            )
        distinct_values = distinct_operand(operand, self.additivity, self.names)
        if distinct_values is None:
            return self._scan_rows(expr, function)
        side = one_side(distinct_values.values, self.additivity)
        assert side is not None
        distinct = Distinct(
            self._table_index(Table(side, distinct_values.values, ())), distinct_values.group
        )
        indices = self._accumulator_indices(function, side, distinct_values.operand, distinct)
        return self._request(expr, function, side, indices)

    def _read_table(self, expr: typed.Expr, read: OrderedRead) -> typed.Expr:
        """The variable of a read of values in order, from a table or from an accumulator."""
        side = one_side(read.operand, self.additivity)
        assert side is not None
        kind = _EXTREMES.get(read.how)
        # Without deletions the least value can only get smaller, so one value replaces the table.
        if kind is not None and side in self.growing:
            indices = (self._accumulator_index(kind, side, read.operand),)
            return self._request(expr, kind, side, indices)
        if isinstance(expr, typed.UserAggregate):
            monoid = commutative_monoid(self.aggregations[expr.aggregation])
            if monoid is not None and (monoid.invertible or side in self.growing):
                indices = (self._accumulator_index("user", side, read.operand, monoid=monoid),)
                return self._request(expr, "user", side, indices)
        most = prefix_length(read) if side in self.growing else None
        table = self._table_index(Table(side, read.operand, read.order, most))
        reading = TableRead(table, read.how, read.arguments, read.values)
        return self._request(expr, read.how, side, (), reading)

    def _scan_rows(self, expr: typed.Expr, function: str) -> typed.Expr:
        """The variable of an aggregate over all rows of one side; else factors its operand."""
        # Requests inside of the operand are not needed if the whole aggregate becomes one request.
        before = self._snapshot()
        factored = map_children(self.rewrite, expr)
        sides = self.additivity.sides_read(expr)
        if (
            not self.additivity.sides_read(factored)
            or len(sides) != 1
            or free_variables(expr) - {self.additivity.group}
        ):
            return factored
        self._restore(before)
        (side,) = sides
        return self._request(expr, function, side, ())

    def _request(
        self,
        expr: typed.Expr,
        function: str,
        side: int,
        indices: tuple[int, ...],
        reading: TableRead | None = None,
    ) -> typed.Expr:
        """The variable of a request, which equal requests share."""
        content = repr(expr.type) if indices else fingerprint(expr)
        key = function, indices, content
        if key not in self._variables:
            name = expr.function if isinstance(expr, typed.Aggregate) else function
            variable = self.names.variable(name.replace("#", "_"), expr.type)
            self._variables[key] = variable
            self.requests.append(Request(variable, function, indices, side, expr, reading))
        return rows.var(self._variables[key])

    def _accumulator_indices(
        self, function: str, side: int, operand: typed.Expr, distinct: Distinct | None = None
    ) -> tuple[int, ...]:
        kinds = ACCUMULATORS_OF[function]
        return tuple(self._accumulator_index(kind, side, operand, distinct) for kind in kinds)

    def _accumulator_index(
        self,
        kind: AccumulatorKind,
        side: int,
        operand: typed.Expr,
        distinct: Distinct | None = None,
        monoid: Monoid | None = None,
    ) -> int:
        """The index of an accumulator, which equal ones share."""
        table = None if distinct is None else distinct.table
        key = kind, fingerprint(operand), table, monoid
        if key not in self._indices:
            self._indices[key] = len(self.accumulators)
            merge_monoid = monoid or _monoid_of(kind, operand.type)
            self.accumulators.append(Accumulator(kind, side, operand, merge_monoid, distinct))
        return self._indices[key]

    def _table_index(self, table: Table) -> int:
        """The index of a table, which equal ones share."""
        most = None if table.most is None else fingerprint(table.most)
        key = "table", fingerprint(table.operand), table.order, most
        if key not in self._indices:
            self._indices[key] = len(self.tables)
            self.tables.append(table)
        return self._indices[key]

    def _snapshot(self) -> tuple[Any, ...]:
        lists = list(self.accumulators), list(self.tables), list(self.requests)
        return (*lists, dict(self._indices), dict(self._variables))

    def _restore(self, before: tuple[Any, ...]) -> None:
        self.accumulators, self.tables, self.requests, self._indices, self._variables = before


def _monoid_of(kind: AccumulatorKind, operand: Type) -> Monoid:
    """The monoid that merges the elements of a bag."""
    match kind:
        case "least":
            return MIN
        case "greatest":
            return MAX
        case "sum" | "parts":
            return FLOATS if _adds_doubles(kind, operand) else SUM
        case "squares":
            return SUM
        case _:
            return COUNT


def _adds_doubles(kind: AccumulatorKind, operand: Type) -> bool:
    assert isinstance(operand, Collection)
    element = operand.element
    if kind == "sum":
        return is_float(element)
    return isinstance(element, Tuple) and element.items[0] == EXACT_SUM
