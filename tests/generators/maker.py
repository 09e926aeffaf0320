"""How random well-typed expressions are made: an expression of type T in scope Γ.

A `Maker` draws; every way to make an expression is a function of (maker, wanted type, scope,
depth).  The ways are in the modules `queries_scalars`, `queries_collections` and
`queries_selects`; `Maker.expr` chooses among those that give the wanted type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from hypothesis import strategies as st

from incmrql.syntax import ast
from incmrql.types.model import (
    BOOL,
    DATE,
    DOUBLE,
    INT,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    Basic,
    Collection,
    Data,
    Decimal,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
)
from tests.generators.tables import PRICE, TABLES

Item = TypeVar("Item")

SCALARS: tuple[Type, ...] = (INT, STRING, DOUBLE, LONG, BOOL, DATE, PRICE, TIMESTAMP)
NAMES = ("x", "y", "z", "u", "v", "i", "j", "k")
"""Few names, so that inner ones often hide outer ones."""
DEEPEST = 3
"""How deep queries may be nested."""


@dataclass(frozen=True, slots=True)
class Callee:
    """A function, macro or aggregation that a script declares."""

    name: str
    parameters: tuple[Type, ...]
    result: Type


@dataclass(frozen=True, slots=True)
class Scope:
    """The names in view with their types, and the expressions that are group keys."""

    names: Mapping[str, Type] = field(
        default_factory=lambda: {name: bag(row) for name, row in TABLES.items()}
    )
    keys: tuple[tuple[ast.Expr, Type], ...] = ()
    callees: tuple[Callee, ...] = ()
    shapes: bool = False
    """Whether the data type `Shape` is declared."""
    level: int = 0
    """How many queries are around."""

    def bind(
        self, names: Mapping[str, Type], keys: tuple[tuple[ast.Expr, Type], ...] = ()
    ) -> Scope:
        """The scope with more names; a key whose names are hidden is none any more."""
        kept = tuple(key for key in self.keys if not names_in(key[0]) & set(names))
        merged = {**self.names, **names}
        return Scope(merged, (*keys, *kept), self.callees, self.shapes, self.level)

    def local(self) -> Scope:
        """The scope without the tables."""
        names = {name: type_ for name, type_ in self.names.items() if name not in TABLES}
        return Scope(names, self.keys)

    def inside(self) -> Scope:
        """The scope of a query within this one."""
        return Scope(self.names, self.keys, self.callees, self.shapes, self.level + 1)


Way: TypeAlias = "Callable[[Maker, Type, Scope, int], ast.Expr]"
"""One way to make an expression of a type."""


@dataclass(slots=True)
class Maker:
    """Draws the choices of one query."""

    draw: st.DrawFn
    ways: Callable[[Type, Scope], Sequence[Way]]
    fuel: int = 70
    """How many more expressions may be made before all that is left is leaves."""

    def pick(self, options: Sequence[Item]) -> Item:
        """One of several, the first of them when the example shrinks."""
        return options[self.draw(_BELOW[min(len(options), len(_BELOW)) - 1])]

    def chance(self, one_in: int) -> bool:
        """True with probability 1 / `one_in`; false when the example shrinks."""
        return self.draw(_BELOW[one_in - 1]) == one_in - 1

    def expr(self, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
        """An expression of exactly this type."""
        self.fuel -= 1
        if depth <= 0 or self.fuel <= 0:
            return self.leaf(wanted, scope)
        ways = self.ways(wanted, scope)
        known = any(type_ == wanted for _, type_ in reachable(scope.local()))
        leaves = [leaf] * (len(ways) // 2 if known else 2)
        return self.pick([*leaves, *ways])(self, wanted, scope, depth - 1)

    def fitting(self, wanted: Type, scope: Scope, depth: int) -> ast.Expr:
        """An expression of this type, or of one that widens to it."""
        if not self.chance(4):
            return self.expr(wanted, scope, depth)
        narrower = self.narrower(wanted)
        return ast.Literal(None, "null") if narrower is None else self.expr(narrower, scope, depth)

    def narrower(self, wanted: Type) -> Type | None:
        """A type that widens to this one, or None for that of null."""
        match wanted:
            case Tuple(items):
                return Tuple((*items[:-1], self.narrower(items[-1]) or items[-1]))
            case Record(fields):
                return Record((*fields, (f"more{len(fields)}", INT)))
            case Collection("bag", element):
                return (
                    list_of(element) if self.chance(2) else bag(self.narrower(element) or element)
                )
            case Collection(_, element):
                return list_of(self.narrower(element) or element)
            case _ if wanted == DOUBLE:
                return self.type_of(INT, LONG, PRICE)
            case _:
                return INT if wanted == LONG else None

    def leaf(self, wanted: Type, scope: Scope) -> ast.Expr:
        """A variable of a row or a part of it, else a part of a table, else a constant."""
        local = list(reachable(scope.local()))
        everything = list(reachable(scope))
        for known in (local, list(summaries(local, wanted)), everything):
            candidates = [expr for expr, type_ in known if type_ == wanted]
            if candidates and not self.chance(8):
                return self.pick(candidates)
        if local and isinstance(wanted, Tuple):
            return ast.TupleExpr(tuple(self.leaf(item, scope) for item in wanted.items))
        if local and isinstance(wanted, Record):
            parts = tuple((name, self.leaf(type_, scope)) for name, type_ in wanted.fields)
            return ast.RecordExpr(parts)
        return self.constant(wanted)

    def local_type(self, scope: Scope) -> Type:
        """The type of something that the row holds, or any other."""
        types = [type_ for _, type_ in reachable(scope.local())]
        plain = [type_ for type_ in types if not isinstance(type_, Collection)]
        if plain and not self.chance(3):
            return self.pick(plain)
        return self.some_type(1)

    def constant(self, wanted: Type) -> ast.Expr:
        """A value written out."""
        if self.chance(16):
            return cast(ast.Literal(None, "null"), wanted)
        match wanted:
            case Tuple(items):
                return ast.TupleExpr(tuple(self.constant(item) for item in items))
            case Record(fields):
                return ast.RecordExpr(tuple((name, self.constant(t)) for name, t in fields))
            case Collection(kind, element):
                count = self.pick((1, 2, 0))
                if count == 0:
                    return cast(ast.BagExpr(()), wanted)
                parts = tuple(self.constant(element) for _ in range(count))
                return ast.BagExpr(parts) if kind == "bag" else ast.ListExpr(parts)
            case Data():
                return call(*self.pick(_SHAPES))
            case _:
                return self._scalar(wanted)

    def _scalar(self, wanted: Type) -> ast.Expr:
        if wanted == INT:
            return integer(self.pick((0, 1, 2, 3, 2147483647)))
        if wanted == LONG:
            return ast.Cast(integer(self.pick((0, 1, 2))), tree_of(LONG))
        if wanted == DOUBLE:
            special = tuple(map(ast.Name, ("NaN", "Infinity", "PI")))
            return self.pick((*map(number, (0.0, 1.0, 0.5, 2.5, 1e300)), *special))
        if wanted == STRING:
            return text(self.pick(("", "a", "b", "ab", "1", "é", "\n'\"\\")))
        if wanted == BOOL:
            return ast.Literal(self.pick((True, False)), "bool")
        if wanted == DATE:
            return call("date", text(self.pick(("2026-01-31", "1970-01-01", "no date"))))
        if wanted == TIMESTAMP:
            return call("timestamp", text(self.pick(("2026-01-31T10:00:00Z", "?"))))
        assert isinstance(wanted, Decimal), wanted
        return cast(number(self.pick((0.0, 1.5, 2.25))), wanted)

    def type_of(self, *options: Type) -> Type:
        """One of several types."""
        return self.pick(options)

    def some_type(self, depth: int) -> Type:
        """A type, of collections, tuples and records too."""
        if depth <= 0 or not self.chance(3):
            return self.pick(SCALARS)
        one = self.some_type(depth - 1)
        match self.pick(("tuple", "record", "bag", "list")):
            case "tuple":
                return Tuple((one, self.some_type(depth - 1)))
            case "record":
                return Record((("A", one), ("q", self.some_type(depth - 1))))
            case "bag":
                return bag(one)
            case _:
                return list_of(one)

    def fresh(self, used: Mapping[str, Type]) -> str:
        """A name that is not among these."""
        return self.pick([name for name in NAMES if name not in used])


def leaf(maker: Maker, wanted: Type, scope: Scope, _depth: int) -> ast.Expr:
    """Something in scope, or a constant."""
    return maker.leaf(wanted, scope)


_BELOW = [st.integers(0, most) for most in range(60)]


# --- what is in scope --------------------------------------------------------------------


def reachable(scope: Scope) -> Iterator[tuple[ast.Expr, Type]]:
    """Names, group keys, and what can be taken out of them, with their types."""
    yield from scope.keys
    for name, type_ in scope.names.items():
        yield from _below(ast.Name(name), type_, scope, 2)


def _below(
    expr: ast.Expr, type_: Type, scope: Scope, depth: int
) -> Iterator[tuple[ast.Expr, Type]]:
    known = [key_type for key, key_type in scope.keys if key == expr]
    shown = known[0] if known else type_
    yield expr, shown
    if depth == 0:
        return
    one, wrap = _inside(shown)
    match one:
        case Record(fields):
            for name, inner in fields:
                yield from _below(ast.Project(expr, name), wrap(inner), scope, depth - 1)
        case Tuple(items):
            for index, inner in enumerate(items):
                yield from _below(ast.Component(expr, index), wrap(inner), scope, depth - 1)
        case _:
            return


def _inside(type_: Type) -> tuple[Type, Callable[[Type], Type]]:
    """What a projection looks at, and what it gives for what it finds there."""
    if not isinstance(type_, Collection):
        return type_, lambda inner: inner
    if isinstance(type_.element, Tuple) and type_.element.items[:1] == (STRING,):
        return NOTHING, lambda inner: inner
    one, wrap = _inside(type_.element)
    return one, lambda inner: Collection(type_.kind, wrap(inner))


def summaries(known: list[tuple[ast.Expr, Type]], wanted: Type) -> Iterator[tuple[ast.Expr, Type]]:
    """Aggregates of the wanted type over collections in scope."""
    for expr, type_ in known:
        if not isinstance(type_, Collection):
            continue
        names = ["max", "min", "first"] if type_.element == wanted else []
        if wanted == LONG:
            names += ["count", *(["sum"] if type_.element in (INT, LONG) else [])]
        if wanted == DOUBLE and type_.element in (INT, LONG, DOUBLE):
            names += ["avg", "median", "stddev", "variance"]
            names += ["sum"] if type_.element == DOUBLE else []
        yield from ((call(name, expr), wanted) for name in names)


def names_in(node: object) -> set[str]:
    """The names that occur in an expression."""
    if isinstance(node, ast.Name):
        return {node.name}
    if isinstance(node, tuple):
        return set().union(*map(names_in, node))
    fields = getattr(node, "__dataclass_fields__", {})
    inner = (getattr(node, name) for name in fields if "span" not in name)
    return set().union(*map(names_in, inner))


# --- short forms -------------------------------------------------------------------------


def integer(value: int) -> ast.Expr:
    """A whole number."""
    return ast.Literal(value, "int")


def number(value: float) -> ast.Expr:
    """A number with a point."""
    return ast.Literal(value, "double")


def text(value: str) -> ast.Expr:
    """A string."""
    return ast.Literal(value, "string")


def call(name: str, *arguments: ast.Expr) -> ast.Expr:
    """`name(arguments)`."""
    return ast.Call(name, tuple(ast.Argument(None, argument) for argument in arguments))


def cast(expr: ast.Expr, wanted: Type) -> ast.Expr:
    """`expr as wanted`."""
    return ast.Cast(expr, tree_of(wanted))


def tree_of(type_: Type) -> ast.TypeTree:
    """A type as it is written."""
    match type_:
        case Tuple(items):
            return ast.TupleType(tuple(map(tree_of, items)))
        case Record(fields):
            return ast.RecordType(tuple((name, tree_of(inner)) for name, inner in fields))
        case Collection(kind, element):
            inner = tree_of(element)
            return ast.BagType(inner) if kind == "bag" else ast.ListType(inner)
        case Decimal(precision, scale):
            return ast.DecimalType(precision, scale)
        case Basic() | Data():
            return ast.NamedType(type_.name)
        case _:
            raise AssertionError(type_)


_SHAPES: tuple[tuple[str] | tuple[str, ast.Expr] | tuple[str, ast.Expr, ast.Expr], ...] = (
    ("Dot",),
    ("Circle", number(1.5)),
    ("Box", integer(1), number(2.5)),
)
SHAPE = Data("Shape")
"""Declared by random scripts: `data Shape = Circle: double | Box: (double, double) | Dot: ()`."""
