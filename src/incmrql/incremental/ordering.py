"""Which parts of an answer need values in order, and what they read of them.

    min(e) first(e) elem(e)                   the first value
    max(e)                                    the last one
    median(e) percentile(e, p)                the two around a rank
    select h from … order by … limit n        the first n
    (select h from … order by …)[i]           the one at i, from either end
    (select h from … order by …)[i:j]         those from i to j
    collect(e), a user aggregation, fold      all

Each is over a bag that is additive in one side (`judge.py`), so that a table can hold what the
bag of each row alone brings, and `p n i j` depend on the key of the group at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from incmrql.algebra import build
from incmrql.algebra.rows import Names
from incmrql.incremental.judge import Judge
from incmrql.incremental.nodes import Reader
from incmrql.types import typed
from incmrql.types.model import Collection, Tuple
from incmrql.types.walk import free, map_children, nodes


@dataclass(frozen=True, slots=True)
class Need:
    """Values in order: those of `operand`, as in `Table`, and what is read, as in `Reading`."""

    operand: typed.Expr
    order: tuple[bool, ...] | None
    how: Reader
    arguments: tuple[typed.Expr, ...] = ()
    values: typed.Variable | None = None
    """Holds all values, for the one argument to say what they come to."""


def need(expr: typed.Expr, judge: Judge, names: Names) -> Need | None:
    """What an expression needs in order, if it is one of these."""
    found = _need(expr, names)
    if found is None or one_side(found.operand, judge) is None:
        return None
    known = {judge.group} if found.values is None else {judge.group, found.values}
    if any(judge.read(each) or free(each) - known for each in found.arguments):
        return None
    return found


def one_side(operand: typed.Expr, judge: Judge) -> int | None:
    """The one side that a bag is additive in, if it depends on nothing else but the key."""
    sides = judge.additive(operand)
    if sides is None or len(sides) != 1 or free(operand) - {judge.group}:
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
    over = replace(expr, operand=build.var(variable))
    return Need(values, order, "all", (over,), variable)


def _of_query(query: typed.Select, how: Reader, arguments: tuple[typed.Expr, ...]) -> Need | None:
    """The pairs (keys, head) of a query's rows, which its order and limit are about."""
    if query.distinct or query.group is not None or query.having is not None:
        return None
    if how != "first" and (query.limit is not None or not query.order):
        return None
    keys = build.tuple_of(*(order.expr for order in query.order))
    pairs = build.select(build.tuple_of(keys, query.head), query.qualifiers)
    assert isinstance(pairs, typed.Select)
    order = tuple(order.descending for order in query.order)
    return Need(replace(pairs, where=query.where), order, how, arguments)


def _paired(operand: typed.Expr, names: Names) -> typed.Expr:
    """Each element, null too, as the value of a pair without keys."""
    assert isinstance(operand.type, Collection)
    one = names.variable("one", operand.type.element)
    return build.for_each(one, operand, build.tuple_of(build.unit(), build.var(one)))


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
        case "first", (limit,) if not free(limit):
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


def once(operand: typed.Expr, judge: Judge, names: Names) -> Once | None:
    """The distinct values that a bag goes through one by one, if that is what it does."""
    for part in _distinct_parts(operand):
        inner = undistinct(part)
        if one_side(inner, judge) is None:
            continue
        assert isinstance(inner.type, Collection)
        key = judge.group.type.items[0] if isinstance(judge.group.type, Tuple) else inner.type
        group = names.variable("different", Tuple((key, inner.type)))
        over = _replaced(operand, part, build.item(build.var(group), 1))
        alone = one_side(over, Judge(group, 1)) if not judge.read(over) else None
        if alone is not None:
            return Once(_paired(inner, names), group, over)
    return None


def _distinct_parts(operand: typed.Expr) -> Iterator[typed.Expr]:
    return (part for part in nodes(operand) if undistinct(part) is not part)


def _replaced(expr: typed.Expr, part: typed.Expr, by: typed.Expr) -> typed.Expr:
    if expr is part:
        return by
    return map_children(lambda child: _replaced(child, part, by), expr)
