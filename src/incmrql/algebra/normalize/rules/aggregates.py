"""Aggregation below a join: the join meets what is left of each side, not every pair of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from incmrql.algebra import rows as build
from incmrql.algebra.comprehensions import is_plain
from incmrql.algebra.normalize.rewrite import term_rule
from incmrql.algebra.normalize.rules.joins import (
    JoinBody,
    Path,
    as_join,
    at,
    is_unique,
    leaves,
    with_key,
)
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term, element, pair
from incmrql.algebra.walk import fingerprint
from incmrql.types import typed
from incmrql.types.model import (
    EXACT_SUM,
    LONG,
    Collection,
    Decimal,
    Type,
    bag,
    is_float,
    is_integer,
)
from incmrql.types.walk import (
    children,
    conjuncts,
    free_variables,
    is_random,
    map_children,
    nodes,
    substitute,
)

_REPEATABLE = ("min", "max", "some", "all")
"""Aggregates that do not mind how often a value is there."""

_COUNTED = ("count", "sum", "avg")
"""Aggregates to which a value adds as often as it is there."""


class _NotMine(Exception):
    """The term does not have the shape that the rule is about."""


@dataclass(frozen=True, slots=True)
class _Request:
    """An aggregate of an expression over the rows of one side."""

    function: str
    expr: typed.Expr
    side: int
    type: Type


@term_rule(
    "aggregate-below-join",
    law="sum{e(b) | (a, b) in A join B, group by f(a)}"
    "  =  sum{n * s | (n, s) in A' join B', group by f}"
    " where A' counts A by (k, f(a)), or is A, and B' sums e(b) by k;"
    " count and avg likewise, min, max, some and all without n",
)
def aggregate_below_join(term: Term, names: Names) -> Term | None:
    """Rows that agree on the join key and their part of the group key meet the other side once.

    Holds as the body takes only aggregates of the joined rows, each of one side's values.  Parts
    of sums are exact (`reference.aggregates`), so they are rounded, or found too large, at the
    end as before.  A side that is one row for each key already is not grouped again, nor is one
    that is only counted and has a part in the group key: it may be as long afterwards, and as the
    other side has one row for each join key, the join is no longer than it.
    """
    match term:
        case CMap(group, body, GroupBy(CMap(match, rows, CoGroup() as both))):
            return _push_down((group, body), (1,), (match, rows, both), GroupBy, names)
        case CMap(group, body, CoGroup(left, CMap(match, rows, CoGroup() as both))):
            above = _right_of(left)
            return _push_down((group, body), (1, 1), (match, rows, both), above, names)
        case _:
            return None


def _right_of(left: Term) -> Callable[[Term], Term]:
    return lambda right: CoGroup(left, right)


def _push_down(
    over: tuple[typed.Variable, typed.Expr],
    path: Path,
    joined: tuple[typed.Variable, typed.Expr, CoGroup],
    above: Callable[[Term], Term],
    names: Names,
) -> Term | None:
    (group, body), (match, rows, both) = over, joined
    join = as_join(match, rows)
    if join is None or join.conditions or not isinstance(join.head, typed.MakeTuple):
        return None
    if any(map(is_random, (body, join.head))):
        return None
    try:
        return _Pushing(join, both, names).term(group, body, path, above)
    except _NotMine:
        return None


class _Pushing:
    """One use of the rule."""

    def __init__(self, join: JoinBody, both: CoGroup, names: Names) -> None:
        assert isinstance(join.head, typed.MakeTuple)
        self.join = join
        self.below = (both.left, both.right)
        self.names = names
        self.key, self.value = join.head.items
        self.keys: list[list[typed.Expr]] = [[], []]
        for leaf in leaves(self.key):
            self._side(leaf, self.keys)
        self.once = [
            is_unique(self.below[side], join.sides[side], self.keys[side], names) for side in (0, 1)
        ]

    def _side(self, leaf: typed.Expr, keys: list[list[typed.Expr]]) -> None:
        sides = self.join.sides_of(leaf)
        if len(sides) > 1:
            raise _NotMine
        for side in sides:
            if leaf not in keys[side]:
                keys[side].append(leaf)

    def term(
        self,
        group: typed.Variable,
        body: typed.Expr,
        path: Path,
        above: Callable[[Term], Term],
    ) -> Term:
        """The map over the groups of the smaller join."""
        pairs = self._requests(group, body, path)
        requests = [request for _, request in pairs]
        if all(self.once[request.side] for request in requests):
            raise _NotMine
        sides = [_Side(self, side, requests) for side in (0, 1)]
        smaller = CoGroup(sides[0].term, sides[1].term)
        match = self.names.variable("group", element(smaller))
        key = self._rebuilt_key(self.key, sides, match)
        columns: dict[typed.Expr, int] = {}
        wanted = [
            [columns.setdefault(column, len(columns)) for column in _columns(request, sides)]
            for request in requests
        ]
        head = build.tuple_of(key, build.tuple_of(*columns))
        ranges = [typed.Generator(typed.Bind(s.variable), at(match, (1, s.side))) for s in sides]
        source = above(CMap(match, build.select(head, ranges), smaller))
        fresh = self.names.variable(group.name, element(source))
        members = at(fresh, path)

        def visit(node: typed.Expr) -> typed.Expr:
            for (aggregate, request), places in zip(pairs, wanted, strict=True):
                if node == aggregate:
                    return self._total(request, members, places)
            for other in _others(path):
                if node == at(group, other):
                    return at(fresh, other)
            return map_children(visit, node)

        return CMap(fresh, visit(body), source)

    def _requests(
        self, group: typed.Variable, body: typed.Expr, path: Path
    ) -> list[tuple[typed.Expr, _Request]]:
        """The aggregates that the body takes of the joined rows; it may take nothing else."""
        members = at(group, path)
        others = [at(group, other) for other in _others(path)]
        requests: list[tuple[typed.Expr, _Request]] = []

        def visit(node: typed.Expr) -> None:
            if node in others:
                return
            if isinstance(node, typed.Var) and node.variable == group:
                raise _NotMine
            if isinstance(node, typed.Aggregate) and any(n == members for n in nodes(node)):
                requests.append((node, self._request(node, members)))
                return
            for child in children(node):
                visit(child)

        visit(body)
        if not requests:
            raise _NotMine
        return requests

    def _request(self, node: typed.Aggregate, members: typed.Expr) -> _Request:
        if node.function not in (*_REPEATABLE, *_COUNTED):
            raise _NotMine
        expr = build.reduce_projections(self._element(node.operand, members))
        if node.function in ("sum", "avg"):
            _part_type(expr.type)
        if node.function == "count" and isinstance(expr, typed.MakeTuple | typed.MakeRecord):
            expr = build.unit()  # never null: all that counts is that it is there
        sides = self.join.sides_of(expr)
        if len(sides) > 1 or not free_variables(expr) <= {*self.join.sides, self.join.group}:
            raise _NotMine
        side = next(iter(sides)) if sides else int(not self.once[1])
        return _Request(node.function, expr, side, node.type)

    def _element(self, operand: typed.Expr, members: typed.Expr) -> typed.Expr:
        """An element of what is aggregated, over one pair of rows; null if it is left out."""
        if operand == members:
            return self.value
        match operand:
            case typed.MapOver(variable, subject, body, False):
                return substitute(body, {variable: self._element(subject, members)})
            case typed.Widen(subject) if isinstance(operand.type, Collection):
                one = self._element(subject, members)
                wanted = operand.type.element
                return one if one.type == wanted else typed.Widen(one, type=wanted)
            case typed.Select(
                qualifiers=(typed.Generator(typed.Bind(variable), domain), *rest)
            ) if is_plain(operand) and all(isinstance(q, typed.Condition) for q in rest):
                values = {variable: self._element(domain, members)}
                tests = [q.condition for q in rest if isinstance(q, typed.Condition)]
                test = build.conjunction([*tests, *conjuncts(operand.where)])
                head = operand.head
                if test is not None:
                    nothing = typed.Const(None, type=head.type)
                    head = typed.If(test, head, nothing, type=head.type)
                return substitute(head, values)
            case _:
                raise _NotMine

    def _rebuilt_key(
        self, key: typed.Expr, sides: list[_Side], match: typed.Variable
    ) -> typed.Expr:
        if isinstance(key, typed.MakeTuple | typed.MakeRecord):
            return map_children(lambda part: self._rebuilt_key(part, sides, match), key)
        for side in sides:
            if key in self.keys[side.side]:
                return side.key(self.keys[side.side].index(key))
        return with_key(self.join.group, key, at(match, (0,)))

    def _total(self, request: _Request, members: typed.Expr, columns: list[int]) -> typed.Expr:
        """The aggregate of the joined rows, made of the aggregates of their sides."""
        assert isinstance(members.type, Collection)
        member = self.names.variable("each", members.type.element)
        parts = [build.item(build.var(member), place) for place in columns]
        one = parts[0] if request.function in _REPEATABLE else build.tuple_of(*parts)
        rows: typed.Expr = typed.MapOver(member, members, one, False, type=bag(one.type))
        if one.type == member.type and columns == list(range(len(parts))):
            rows = members
        totals = {"count": "sum#total", "sum": "sum#total", "avg": "avg#total"}
        function = totals.get(request.function, request.function)
        return typed.Aggregate(function, rows, type=request.type)


def _others(path: Path) -> list[Path]:
    """The key, and the other side of a coGroup: of these a body may take what it likes."""
    return [(0,)] if len(path) == 1 else [(0,), (1, 0)]


def _part_type(summand: Type) -> Type:
    """The type of an exact sum of some values, not yet rounded or cut to size."""
    if is_float(summand):
        return EXACT_SUM
    if is_integer(summand):
        return Decimal(38, 0)
    if isinstance(summand, Decimal) and summand.precision <= 19:
        return Decimal(38, summand.scale)
    raise _NotMine


class _Side:
    """One side of the smaller join: rows (k, (group key parts, aggregates))."""

    def __init__(self, pushing: _Pushing, side: int, requests: list[_Request]) -> None:
        self.side = side
        self.pushing = pushing
        self.names = pushing.names
        self.join = pushing.join
        self.keys = pushing.keys[side]
        self.own = [request for request in requests if request.side == side]
        self.is_counted = any(
            request.function in _COUNTED and request.side != side for request in requests
        )
        is_longest = bool(self.keys) and not pushing.keys[1 - side] and not self.own
        self.is_as_before = is_longest or (
            pushing.once[side] and all(request.function in _REPEATABLE for request in self.own)
        )
        self.columns: list[tuple[str, str]] = []
        self.term = self._as_before() if self.is_as_before else self._aggregate_term()
        self.variable = self.names.variable(("left", "right")[side], pair(self.term)[1])

    def _as_before(self) -> Term:
        row, values = self._row()
        self.columns = [(request.function, fingerprint(request.expr)) for request in self.own]
        parts = [*self.keys, *(request.expr for request in self.own)]
        head = build.tuple_of(at(row, (0,)), build.tuple_of(*map(values, parts)))
        return CMap(row, build.bag_of(head), self.pushing.below[self.side])

    def _row(self) -> tuple[typed.Variable, Callable[[typed.Expr], typed.Expr]]:
        """A variable for the pairs of this side, and how an expression looks over it."""
        row = self.names.variable("row", element(self.pushing.below[self.side]))
        member = {self.join.sides[self.side]: at(row, (1,))}
        group, key = self.join.group, at(row, (0,))
        return row, lambda expr: with_key(group, substitute(expr, member), key)

    def _aggregate_term(self) -> Term:
        row, values = self._row()
        exprs = list({fingerprint(request.expr): request.expr for request in self.own}.values())
        key = build.tuple_of(at(row, (0,)), *map(values, self.keys))
        is_bare = len(exprs) == 1 and not self.is_counted  # to be counted, rows are not null
        member = (build.key_of if is_bare else _tuple_of)(list(map(values, exprs)))
        body = build.bag_of(build.tuple_of(key, member))
        groups = GroupBy(CMap(row, body, self.pushing.below[self.side]))
        group = self.names.variable("group", element(groups))
        aggregates: list[typed.Expr] = []
        if self.is_counted:
            self.columns.append(("times", ""))
            aggregates.append(typed.Aggregate("count", at(group, (1,)), type=LONG))
        for request in self.own:
            for function in _PARTS.get(request.function, (request.function,)):
                column = function, fingerprint(request.expr)
                if column in self.columns:
                    continue
                self.columns.append(column)
                place = None if is_bare else exprs.index(request.expr)
                aggregates.append(self._aggregate(function, request, at(group, (1,)), place))
        parts = [at(group, (0, 1 + place)) for place in range(len(self.keys))]
        head = build.tuple_of(at(group, (0, 0)), build.tuple_of(*parts, *aggregates))
        return CMap(group, build.bag_of(head), groups)

    def _aggregate(
        self, function: str, request: _Request, members: typed.Expr, place: int | None
    ) -> typed.Expr:
        assert isinstance(members.type, Collection)
        values = members
        if place is not None:
            member = self.names.variable("each", members.type.element)
            one = build.item(build.var(member), place)
            values = typed.MapOver(member, members, one, False, type=bag(one.type))
        types = {"count": LONG, "sum#part": None}
        type_ = types.get(function, request.type) or _part_type(request.expr.type)
        return typed.Aggregate(function, values, type=type_)

    def key(self, place: int) -> typed.Expr:
        """A part of the group key."""
        return build.item(build.var(self.variable), place)

    def column(self, function: str, expr: typed.Expr) -> typed.Expr:
        """An aggregate of this side."""
        place = self.columns.index((function, fingerprint(expr)))
        return build.item(build.var(self.variable), len(self.keys) + place)

    def times(self) -> typed.Expr:
        """How many rows of this side there are."""
        if self.is_as_before:
            return typed.Const(1, type=LONG)
        return build.item(build.var(self.variable), len(self.keys))


def _tuple_of(parts: list[typed.Expr]) -> typed.Expr:
    return build.tuple_of(*parts)


_PARTS = {"sum": ("sum#part",), "avg": ("sum#part", "count")}
"""What a side keeps for an aggregate, if not the aggregate itself."""


def _columns(request: _Request, sides: list[_Side]) -> list[typed.Expr]:
    """What the total of an aggregate is made of, in a pair of the smaller join."""
    own, other = sides[request.side], sides[1 - request.side]
    functions = _PARTS.get(request.function, (request.function,))
    columns = [own.column(function, request.expr) for function in functions]
    return columns if request.function in _REPEATABLE else [*columns, other.times()]


RULES = (aggregate_below_join,)
