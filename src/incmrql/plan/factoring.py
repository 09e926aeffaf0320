"""Factoring: what an answer asks of a group, as what is merged over the rows of one side.

    F(k, s)  =  F'(k, e1(s), ..., en(s))        ei(s + t) = merge(ei(s), ei(t))

An aggregate over a bag that is additive in one side (`additivity.py`) becomes a variable of F':
its accumulators merge what the bag of each row alone holds.  What needs values in order becomes a
variable that reads a table, or an accumulator where nothing is ever taken away.  Any other
aggregate of one side becomes a variable too, so that it is not computed again while its side
stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection as Some
from collections.abc import Iterator, Mapping
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
class Need:
    """Values in order: those of `operand`, as in `Table`, and what is read, as in `TableRead`."""

    operand: typed.Expr
    order: tuple[bool, ...] | None
    how: ReadKind
    arguments: tuple[typed.Expr, ...] = ()
    values: typed.Variable | None = None
    """Holds all values, for the one argument to say what they come to."""


def need(expr: typed.Expr, judge: Additivity, names: Names) -> Need | None:
    """What an expression needs in order, if it is one of these."""
    found = _need(expr, names)
    if found is None or one_side(found.operand, judge) is None:
        return None
    known = {judge.group} if found.values is None else {judge.group, found.values}
    if any(judge.read(each) or free_variables(each) - known for each in found.arguments):
        return None
    return found


def one_side(operand: typed.Expr, judge: Additivity) -> int | None:
    """The one side that a bag is additive in, if it depends on nothing else but the key."""
    sides = judge.additive(operand)
    if sides is None or len(sides) != 1 or free_variables(operand) - {judge.group}:
        return None
    return next(iter(sides))


def _need(expr: typed.Expr, names: Names) -> Need | None:
    match expr:
        case typed.Aggregate("min" | "first", operand) | typed.Builtin("elem", (operand,)):
            return Need(undistinct(operand), None, "least")
        case typed.Aggregate("max", operand):
            return Need(undistinct(operand), None, "greatest")
        case typed.Aggregate("median", operand):
            return Need(operand, None, "between")
        case typed.Aggregate("percentile", operand, extra) if extra is not None:
            return Need(operand, None, "between", (extra,))
        case typed.Aggregate("collect", operand):
            return Need(operand, None, "first")
        case typed.UserAggregate(_, operand):
            return _all(expr, operand, operand, None, names)
        case typed.Fold(_, _, operand) if _is_bag(operand):
            return _all(expr, operand, _paired(operand, names), (), names)
        case typed.At(typed.Select() as query, index):
            return _of_query(query, "at", (index,))
        case typed.SliceOf(typed.Select() as query, first, last):
            return _of_query(query, "slice", (first, last))
        case typed.Select(limit=limit, order=order) if order or limit is not None:
            return _of_query(expr, "first", () if limit is None else (limit,))
        case _:
            return None


def _all(
    expr: typed.UserAggregate | typed.Fold,
    operand: typed.Expr,
    values: typed.Expr,
    order: tuple[bool, ...] | None,
    names: Names,
) -> Need:
    """All values, for the same aggregate over a variable that holds them."""
    variable = names.variable("values", operand.type)
    over = replace(expr, operand=rows.var(variable))
    return Need(values, order, "all", (over,), variable)


def _of_query(query: typed.Select, how: ReadKind, arguments: tuple[typed.Expr, ...]) -> Need | None:
    """The pairs (keys, head) of a query's rows, which its order and limit are about."""
    if query.distinct or query.group is not None or query.having is not None:
        return None
    if how != "first" and (query.limit is not None or not query.order):
        return None
    keys = rows.tuple_of(*(order.expr for order in query.order))
    pairs = rows.select(rows.tuple_of(keys, query.head), query.qualifiers)
    assert isinstance(pairs, typed.Select)
    order = tuple(order.descending for order in query.order)
    return Need(replace(pairs, where=query.where), order, how, arguments)


def _paired(operand: typed.Expr, names: Names) -> typed.Expr:
    """Each element, null too, as the value of a pair without keys."""
    assert isinstance(operand.type, Collection)
    one = names.variable("one", operand.type.element)
    return rows.for_each(one, operand, rows.tuple_of(rows.unit(), rows.var(one)))


def _is_bag(expr: typed.Expr) -> bool:
    return isinstance(expr.type, Collection) and expr.type.kind == "bag"


def undistinct(operand: typed.Expr) -> typed.Expr:
    """The same values, maybe more than once: the least of them is the same."""
    match operand:
        case typed.Builtin("distinct", (inner,)) if _is_bag(inner):
            return inner
        case typed.Select(distinct=True, group=None, having=None, order=(), limit=None):
            return replace(operand, distinct=False)
        case _:
            return operand


def front(wanted: Need) -> typed.Expr | None:
    """How many of the first values are all that is read, if that is the same for every key."""
    match wanted.how, wanted.arguments:
        case "first", (limit,) if not free_variables(limit):
            return limit
        case "at", (typed.Const(int(index)) as place,) if index >= 0:
            return replace(place, value=index + 1)
        case _:
            return None


# --- each value once -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Once:
    """A bag that is additive in the different values of another one.

    `values` are pairs ((), value) as a table has them; `operand` is over a group whose one side
    are the different ones.
    """

    values: typed.Expr
    group: typed.Variable
    operand: typed.Expr


def once(operand: typed.Expr, judge: Additivity, names: Names) -> Once | None:
    """The distinct values that a bag goes through one by one, if that is what it does."""
    for part in _distinct_parts(operand):
        inner = undistinct(part)
        if one_side(inner, judge) is None:
            continue
        assert isinstance(inner.type, Collection)
        key = judge.group.type.items[0] if isinstance(judge.group.type, Tuple) else inner.type
        group = names.variable("different", Tuple((key, inner.type)))
        over = _replaced(operand, part, rows.item(rows.var(group), 1))
        alone = one_side(over, Additivity(group, 1)) if not judge.read(over) else None
        if alone is not None:
            return Once(_paired(inner, names), group, over)
    return None


def _distinct_parts(operand: typed.Expr) -> Iterator[typed.Expr]:
    return (part for part in nodes(operand) if undistinct(part) is not part)


def _replaced(expr: typed.Expr, part: typed.Expr, by: typed.Expr) -> typed.Expr:
    if expr is part:
        return by
    return map_children(lambda child: _replaced(child, part, by), expr)


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
class Views:
    """Writes out the names of what is additive in one side of a group, and calls over that."""

    judge: Additivity
    names: Names
    functions: Mapping[str, typed.Function]

    def written_out(self, expr: typed.Expr, calling: frozenset[str] = frozenset()) -> typed.Expr:
        """The expression without such names; `calling` are the functions that it is inside of."""
        if not self.judge.read(expr):
            return expr
        match expr:
            case typed.Select(group=None):
                for place, each in enumerate(expr.qualifiers):
                    if isinstance(each, typed.Binding) and isinstance(each.pattern, typed.Bind):
                        value = self.written_out(each.value, calling)
                        if self._is_view(value):
                            rest = (*expr.qualifiers[:place], *expr.qualifiers[place + 1 :])
                            bound = {each.pattern.variable: value}
                            over = self._over(replace(expr, qualifiers=rest), bound)
                            return self.written_out(over, calling)
            case typed.Call(name, arguments) if name not in calling:
                values = [self.written_out(each, calling) for each in arguments]
                function = self.functions[name]
                if any(map(self._is_view, values)):
                    bound = dict(zip(function.parameters, values, strict=True))
                    over = self._over(rename_binders(function.body, self.names.like), bound)
                    return self.written_out(over, calling | {name})
            case _:
                pass
        return map_children(lambda child: self.written_out(child, calling), expr)

    def _is_view(self, value: typed.Expr) -> bool:
        is_collection = isinstance(value.type, Collection) and bool(self.judge.read(value))
        return is_collection and one_side(undistinct(value), self.judge) is not None

    def _over(self, expr: typed.Expr, bound: Mapping[typed.Variable, typed.Expr]) -> typed.Expr:
        for variable, value in bound.items():
            expr = with_copies(expr, variable, value, self.names.like)
        return expr


# --- Factoring ---


ACCUMULATED: Final[dict[str, tuple[AccumulatorKind, ...]]] = {
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
"""The accumulators of each aggregate that has some, all of them with an inverse."""

_EXTREMES: Final[dict[str, AccumulatorKind]] = {"least": "least", "greatest": "greatest"}

_IDEMPOTENT: Final = frozenset(("exists", "some", "all"))
"""To these it does not matter how often an element is there."""


class Factoring:
    """One pass over an answer; what is asked twice is kept once.

    `growing` are the sides that nothing is ever taken away from.
    """

    def __init__(
        self,
        judge: Additivity,
        names: Names,
        growing: Some[int] = (),
        aggregations: dict[str, typed.Aggregation] | None = None,
    ) -> None:
        self.judge, self.names, self.growing = judge, names, growing
        self.aggregations = aggregations or {}
        self.accumulators: list[Accumulator] = []
        self.tables: list[Table] = []
        self.requests: list[Request] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._made: dict[tuple[object, ...], typed.Variable] = {}

    def rewritten(self, expr: typed.Expr) -> typed.Expr:
        """The expression with variables in the places of aggregates."""
        wanted = need(expr, self.judge, self.names)
        if wanted is not None:
            return self._in_order(expr, wanted)
        match expr:
            case typed.Aggregate(function, operand, None) if function in ACCUMULATED:
                return self._asked(expr, function, operand)
            case typed.Exists(operand):
                return self._asked(expr, "exists", operand)
            case typed.Aggregate(function) | typed.UserAggregate(function):
                return self._whole(expr, function)
            case _:
                return map_children(self.rewritten, expr)

    def _asked(self, expr: typed.Expr, function: str, operand: typed.Expr) -> typed.Expr:
        """An aggregate that accumulators come to."""
        if function in _IDEMPOTENT:
            operand = undistinct(operand)
        side = one_side(operand, self.judge)
        if side is not None:
            return self._request(expr, function, side, self._places(function, side, operand))
        found = once(operand, self.judge, self.names)
        if found is None:
            return self._whole(expr, function)
        side = one_side(found.values, self.judge)
        assert side is not None
        distinct = Distinct(self._table(Table(side, found.values, ())), found.group)
        places = self._places(function, side, found.operand, distinct)
        return self._request(expr, function, side, places)

    def _in_order(self, expr: typed.Expr, wanted: Need) -> typed.Expr:
        """What is read of a table; where nothing is taken away an extreme is all there is."""
        side = one_side(wanted.operand, self.judge)
        assert side is not None
        kind = _EXTREMES.get(wanted.how)
        if kind is not None and side in self.growing:
            places = (self._place(kind, side, wanted.operand),)
            return self._request(expr, kind, side, places)
        if isinstance(expr, typed.UserAggregate):
            monoid = commutative_monoid(self.aggregations[expr.aggregation])
            if monoid is not None and (monoid.invertible or side in self.growing):
                places = (self._place("user", side, wanted.operand, monoid=monoid),)
                return self._request(expr, "user", side, places)
        most = front(wanted) if side in self.growing else None
        table = self._table(Table(side, wanted.operand, wanted.order, most))
        reading = TableRead(table, wanted.how, wanted.arguments, wanted.values)
        return self._request(expr, wanted.how, side, (), reading)

    def _whole(self, expr: typed.Expr, function: str) -> typed.Expr:
        """An aggregate of something else: of what is asked in turn, or of the rows of one side."""
        before = self._kept()
        inside = map_children(self.rewritten, expr)
        sides = self.judge.read(expr)
        if (
            not self.judge.read(inside)
            or len(sides) != 1
            or free_variables(expr) - {self.judge.group}
        ):
            return inside
        self._restore(before)
        (side,) = sides
        return self._request(expr, function, side, ())

    def _request(
        self,
        expr: typed.Expr,
        function: str,
        side: int,
        places: tuple[int, ...],
        reading: TableRead | None = None,
    ) -> typed.Expr:
        """The variable of a request; the same for what is asked again."""
        same = repr(expr.type) if places else fingerprint(expr)
        known = function, places, same
        if known not in self._made:
            name = expr.function if isinstance(expr, typed.Aggregate) else function
            variable = self.names.variable(name.replace("#", "_"), expr.type)
            self._made[known] = variable
            self.requests.append(Request(variable, function, places, side, expr, reading))
        return rows.var(self._made[known])

    def _places(
        self, function: str, side: int, operand: typed.Expr, distinct: Distinct | None = None
    ) -> tuple[int, ...]:
        kinds = ACCUMULATED[function]
        return tuple(self._place(kind, side, operand, distinct) for kind in kinds)

    def _place(
        self,
        kind: AccumulatorKind,
        side: int,
        operand: typed.Expr,
        distinct: Distinct | None = None,
        monoid: Monoid | None = None,
    ) -> int:
        """The place of an accumulator."""
        table = None if distinct is None else distinct.table
        wanted = kind, fingerprint(operand), table, monoid
        if wanted not in self._known:
            self._known[wanted] = len(self.accumulators)
            merged = monoid or _monoid_of(kind, operand.type)
            self.accumulators.append(Accumulator(kind, side, operand, merged, distinct))
        return self._known[wanted]

    def _table(self, table: Table) -> int:
        """The place of a table."""
        most = None if table.most is None else fingerprint(table.most)
        wanted = "table", fingerprint(table.operand), table.order, most
        if wanted not in self._known:
            self._known[wanted] = len(self.tables)
            self.tables.append(table)
        return self._known[wanted]

    def _kept(self) -> tuple[Any, ...]:
        lists = list(self.accumulators), list(self.tables), list(self.requests)
        return (*lists, dict(self._known), dict(self._made))

    def _restore(self, before: tuple[Any, ...]) -> None:
        self.accumulators, self.tables, self.requests, self._known, self._made = before


def _monoid_of(kind: AccumulatorKind, operand: Type) -> Monoid:
    """What the elements of a bag are merged by."""
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
