"""Ways to make queries: joins, groups, orders, quantifiers, and names that hide each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from incmrql.syntax import ast
from incmrql.syntax.parser.patterns import pattern_of
from incmrql.types.model import (
    BOOL,
    DOUBLE,
    INT,
    LONG,
    STRING,
    Collection,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
)
from tests.generators.maker import (
    DEEPEST,
    SCALARS,
    Maker,
    Scope,
    Way,
    call,
    integer,
    names_in,
    reachable,
)
from tests.generators.tables import TABLES


@dataclass(slots=True)
class From:
    """A from clause while it is made: its parts, and what they bind."""

    binds: list[ast.Bind] = field(default_factory=list)
    bound: dict[str, Type] = field(default_factory=dict)


def select(maker: Maker, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """A query whose rows have the wanted type."""
    assert isinstance(wanted, Collection)
    assert wanted.kind != "map"  # only plans of Spark have maps
    return _select(maker, wanted.kind, wanted.element, scope, depth)[0]


def free_select(maker: Maker, scope: Scope, depth: int) -> tuple[ast.Expr, Collection]:
    """A query whose rows are made of what there is, and its type."""
    kind: Literal["bag", "list"] = "list" if maker.chance(4) else "bag"
    query, element = _select(maker, kind, None, scope, depth)
    return query, Collection(kind, element)


def _select(
    maker: Maker, kind: Literal["bag", "list"], element: Type | None, scope: Scope, depth: int
) -> tuple[ast.Expr, Type]:
    inside = scope.inside()
    clause = from_clause(maker, inside, depth)
    rows = inside.bind(clause.bound)
    where = _where(maker, clause, rows, depth)
    keys: tuple[ast.Key, ...] = ()
    having = None
    after = rows
    if clause.bound and maker.chance(2):
        keys, after = _group_by(maker, clause, inside, depth)
        having = maker.expr(BOOL, after, depth) if maker.chance(2) else None
    row = _row_type(maker, after) if element is None else element
    head = maker.expr(row, after, depth)
    order = _order(maker, after, depth) if kind == "list" else ()
    limit = _limit(maker, scope) if maker.chance(5) else None
    query = ast.Select(
        distinct=maker.chance(5),
        head=head,
        binds=tuple(clause.binds),
        where=where,
        keys=keys,
        having=having,
        order=order,
        limit=limit,
    )
    return query, row


def _row_type(maker: Maker, scope: Scope) -> Type:
    """One value of the row, or several as a tuple or record."""
    types = [maker.local_type(scope) for _ in range(maker.pick((2, 1, 3)))]
    if len(types) == 1:
        return types[0]
    names = ("A", "q", "t")
    record = Record(tuple(zip(names, types, strict=False)))
    return record if maker.chance(2) else Tuple(tuple(types))


def quantifier(maker: Maker, _wanted: Type, scope: Scope, depth: int) -> ast.Expr:
    """`some p in e: c`, `all p in e: c`."""
    inside = scope.inside()
    clause = from_clause(maker, inside, depth, most=1)
    body = maker.expr(BOOL, inside.bind(clause.bound), depth)
    return ast.Quantifier(maker.pick(("some", "all")), tuple(clause.binds), body)


def may_query(scope: Scope) -> bool:
    """Whether a query here would not be nested too deep."""
    return scope.level < DEEPEST


# --- from and where ----------------------------------------------------------------------


def from_clause(maker: Maker, scope: Scope, depth: int, most: int = 3) -> From:
    """One to three domains, each in view of the ones before it."""
    clause = From()
    count = min(maker.pick((1, 2, 2, 2, 3)), most, 1 + DEEPEST - scope.level)
    for number_ in range(count):
        inner = scope.bind(clause.bound)
        if number_ > 0 and maker.chance(6):
            type_ = maker.some_type(1)
            value = maker.expr(type_, inner, min(depth, 2))
            clause.binds.append(ast.Binding(_pattern(maker, type_, clause), value))
        else:
            domain, element = _domain(maker, inner, depth)
            clause.binds.append(ast.Generator(_pattern(maker, element, clause), domain))
    return clause


_DOMAINS = ("table",) * 4 + ("local",) * 2 + ("query", "expression", "call", "range")


def _domain(maker: Maker, scope: Scope, depth: int) -> tuple[ast.Expr, Type]:
    """A table, a collection in scope, or an expression."""
    known = [(expr, t.element) for expr, t in reachable(scope) if isinstance(t, Collection)]
    local = [
        pair for pair in known if not (isinstance(pair[0], ast.Name) and pair[0].name in TABLES)
    ]
    match maker.pick(_DOMAINS):
        case "local" if local:
            return maker.pick(local)
        case "query" if scope.level < DEEPEST:
            query, type_ = free_select(maker, scope, min(depth, 3))
            return query, type_.element
        case "expression":
            element = maker.some_type(2)
            kind = maker.pick((bag, bag, list_of))
            return maker.expr(kind(element), scope, min(depth, 3)), element
        case "range":
            last = ast.Binary("%", maker.leaf(INT, scope), integer(4))
            return ast.Range(integer(0), maker.pick((integer(2), last)), maker.chance(2)), LONG
        case "call":
            name = maker.pick(sorted(TABLES))
            argument = ast.Argument(None, ast.Name(name))
            return ast.Call("source", (argument,)), TABLES[name]
        case _:
            name = maker.pick(("R", "R", "S", "N", "R", "W"))
            return ast.Name(name), TABLES[name]


def _pattern(maker: Maker, type_: Type, clause: From) -> ast.Pattern:
    """A pattern that can match a type; a name it binds again means equality."""
    again = [name for name, other in clause.bound.items() if other == type_ and type_ in SCALARS]
    if again and not maker.chance(3):
        return ast.NamePattern(maker.pick(again))
    free = len(clause.bound) < 6
    match type_:
        case Record(fields) if maker.chance(3) and free:
            names = [name for name, _ in fields]
            chosen = sorted({maker.pick(names) for _ in range(2)}, key=names.index)
            types = dict(fields)
            return ast.RecordPattern(
                tuple((name, _pattern(maker, types[name], clause)) for name in chosen)
            )
        case Tuple(items) if maker.chance(2) and free:
            return ast.TuplePattern(tuple(_pattern(maker, item, clause) for item in items))
        case _ if type_ in (INT, STRING, DOUBLE, LONG) and maker.chance(8):
            return ast.LiteralPattern(_constant(maker, type_))
        case _ if not free or maker.chance(10):
            return ast.AnyPattern()
        case _:
            name = maker.fresh(clause.bound)
            clause.bound[name] = type_
            return ast.NamePattern(name)


def _constant(maker: Maker, type_: Type) -> ast.Literal:
    if maker.chance(6):
        return ast.Literal(None, "null")
    if type_ == STRING:
        return ast.Literal("a", "string")
    if type_ == DOUBLE:
        return ast.Literal(maker.pick((1.0, 0.0, 0.5)), "double")
    return ast.Literal(maker.pick((1, 0, 2)), "int")


def _where(maker: Maker, clause: From, rows: Scope, depth: int) -> ast.Expr | None:
    """Mostly a join of two variables; else any condition or none."""
    join = None if maker.chance(4) else _join(maker, clause, rows)
    if not maker.chance(3):
        return join
    other = maker.expr(BOOL, rows, depth)
    return other if join is None else ast.Binary("and", join, other)


def _join(maker: Maker, clause: From, rows: Scope) -> ast.Expr | None:
    """A comparison between parts of two row variables."""
    own = Scope({name: rows.names[name] for name in clause.bound})
    parts = [(expr, t) for expr, t in reachable(own) if t in SCALARS and t != BOOL]
    if not parts:
        return None
    left, type_ = maker.pick(parts)
    partners = [expr for expr, other in parts if other == type_ and expr != left]
    others = [expr for expr in partners if names_in(expr) != names_in(left)]
    if not partners:
        return None
    op: ast.BinaryOp = maker.pick(("=", "=", "=", "<", "<>", ">="))
    return ast.Binary(op, left, maker.pick(others or partners))


# --- group by ----------------------------------------------------------------------------


def _group_by(
    maker: Maker, clause: From, inside: Scope, depth: int
) -> tuple[tuple[ast.Key, ...], Scope]:
    """Keys, and the scope in which the rest of the query stands."""
    rows = inside.bind(clause.bound)
    bound: dict[str, Type] = {}
    plain: list[tuple[ast.Expr, Type]] = []
    count = maker.pick((1, 1, 2))
    keys = [_key(maker, clause, rows, (bound, plain), depth) for _ in range(count)]
    lifted = {name: bag(type_) for name, type_ in clause.bound.items() if name not in bound}
    partition = bag(Record(tuple(clause.bound.items())))
    names: Mapping[str, Type] = {"partition": partition, **lifted, **bound}
    return tuple(keys), inside.bind(names, tuple(plain))


def _key(
    maker: Maker,
    clause: From,
    rows: Scope,
    keys: tuple[dict[str, Type], list[tuple[ast.Expr, Type]]],
    depth: int,
) -> ast.Key:
    bound, plain = keys
    own = [name for name in clause.bound if name not in bound]
    match maker.pick(("named", "plain", "own", "pair")):
        case "plain" if options := _plain(rows, clause, bound):
            expr, type_ = maker.pick(options)
            if type_ == INT and maker.chance(3):
                expr = ast.Binary("+", expr, integer(1))
            plain.append((expr, type_))
            return ast.Key(None, expr)
        case "own" if own:
            name = maker.pick(own)
            bound[name] = clause.bound[name]
            return ast.Key(ast.NamePattern(name), None)
        case "pair":
            names = [_key_name(maker, bound, INT)]
            names.append(_key_name(maker, bound, STRING))
            pattern = ast.TuplePattern(tuple(map(ast.NamePattern, names)))
            values = (maker.expr(INT, rows, min(depth, 2)), maker.leaf(STRING, rows))
            return ast.Key(pattern, ast.TupleExpr(values))
        case _:
            type_ = maker.type_of(INT, STRING, DOUBLE, maker.some_type(2))
            name = _key_name(maker, bound, type_)
            return ast.Key(ast.NamePattern(name), maker.expr(type_, rows, depth))


def _key_name(maker: Maker, bound: dict[str, Type], type_: Type) -> str:
    name = maker.fresh(bound)
    bound[name] = type_
    return name


def _plain(rows: Scope, clause: From, bound: Mapping[str, Type]) -> list[tuple[ast.Expr, Type]]:
    """Parts of row variables that can be keys as they stand."""
    own = Scope({name: rows.names[name] for name in clause.bound if name not in bound})
    return [
        (expr, type_)
        for expr, type_ in reachable(own)
        if pattern_of(expr) is None and not isinstance(type_, Collection)
    ]


# --- order and limit ---------------------------------------------------------------------


def _order(maker: Maker, scope: Scope, depth: int) -> tuple[ast.Order, ...]:
    keys = [_order_key(maker, scope, depth) for _ in range(maker.pick((1, 2)))]
    return tuple(ast.Order(key, maker.chance(2)) for key in keys)


def _order_key(maker: Maker, scope: Scope, depth: int) -> ast.Expr:
    if may_query(scope) and maker.chance(6):
        return call("count", free_select(maker, scope, min(depth, 2))[0])
    return maker.expr(maker.pick((INT, STRING, DOUBLE, LONG)), scope, min(depth, 2))


def _limit(maker: Maker, scope: Scope) -> ast.Expr:
    return maker.pick((integer(1), integer(2), integer(0), maker.leaf(INT, scope)))


def select_ways(wanted: Collection, scope: Scope) -> list[Way]:
    """Queries, three times as likely as any other way."""
    del wanted
    return [select, select, select] if may_query(scope) else []
