"""The slope of an expression over one value: what one more of it adds.

    slope(x) = 1    slope(a * e) = a * slope(e)    slope(e / a) = slope(e) / a    slope(a + e) =
    slope(e)    slope(sum {e}) = slope(e)

where x has no part in a.  Anything else is not affine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from incmrql.algebra import rows as build
from incmrql.plan.additivity import Additivity
from incmrql.types import typed
from incmrql.types.model import DOUBLE, EXACT_SUM, Record, Tuple, Type, bag
from incmrql.types.walk import children, component_path, map_children, substitute

Path: TypeAlias = tuple[int | str, ...]

_SUMS: Final = frozenset(("sum", "sum#part", "sum#total"))
_ONE: Final = typed.Const(1.0, type=DOUBLE)
_ZERO: Final = typed.Const(0.0, type=DOUBLE)


class NotAffineError(Exception):
    """A step that is not affine, and why."""


def leaves(row: Type, at: Path = ()) -> Iterator[tuple[Path, Type]]:
    """The components of a row that have no components themselves, with their types."""
    match row:
        case Tuple(items):
            for place, item in enumerate(items):
                yield from leaves(item, (*at, place))
        case Record(fields):
            for name, item in fields:
                yield from leaves(item, (*at, name))
        case _:
            yield at, row


def doubles(row: Type) -> Iterator[Path]:
    """Where a row has doubles."""
    return (path for path, type_ in leaves(row) if type_ == DOUBLE)


def with_zeros(body: typed.Expr, judge: Additivity, side: int) -> typed.Expr:
    """A body with 0.0 in the places of the sums over one side."""
    match body:
        case typed.Aggregate(function, operand, None) if function in _SUMS and judge.additive(
            operand
        ) == frozenset((side,)):
            return _ZERO
        case _:
            return map_children(lambda part: with_zeros(part, judge, side), body)


def simplify(expr: typed.Expr) -> typed.Expr:
    """An expression without components of what is made on the spot, and bags of one element."""
    expr = map_children(simplify, expr)
    match expr:
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case typed.Field(typed.MakeRecord(items) as made, name):
            assert isinstance(made.type, Record)
            return items[made.type.names.index(name)]
        case typed.MapOver(variable, typed.MakeCollection((one,)), body, flatten):
            inner = simplify(substitute(body, {variable: one}))
            return inner if flatten else build.bag_of(inner)
        case typed.Select(False, _, _, _, None, None, (), None) if expr.type == bag(expr.head.type):
            return _selected(expr)
        case _:
            return expr


def _selected(query: typed.Select) -> typed.Expr:
    """A query without generators of one element, and without names for what is known."""
    for place, each in enumerate(query.qualifiers):
        values = _named(each)
        if values is None:
            continue
        rest = typed.Select(
            False,
            query.head,
            (*query.qualifiers[:place], *query.qualifiers[place + 1 :]),
            query.where,
            None,
            None,
            (),
            None,
            type=query.type,
        )
        return simplify(substitute(rest, values))
    conditions = [q.condition for q in query.qualifiers if isinstance(q, typed.Condition)]
    if len(conditions) < len(query.qualifiers):
        return query
    conditions += [] if query.where is None else [query.where]
    rows = build.bag_of(query.head)
    whole = build.conjunction(conditions)
    return rows if whole is None else build.when(whole, rows)


def _named(each: typed.Qualifier) -> dict[typed.Variable, typed.Expr] | None:
    match each:
        case typed.Generator(pattern, typed.MakeCollection((one,))):
            return _matched(pattern, one)
        case typed.Binding(pattern, value):
            return _matched(pattern, value)
        case _:
            return None


def _matched(pattern: typed.Pattern, value: typed.Expr) -> dict[typed.Variable, typed.Expr] | None:
    match pattern:
        case typed.Bind(variable):
            return {variable: value}
        case typed.Anything():
            return {}
        case typed.TupleOf(items):
            parts = [_matched(item, build.item(value, n)) for n, item in enumerate(items)]
        case typed.Fields(fields):
            parts = [_matched(item, build.field(value, name)) for name, item in fields]
        case _:
            return None
    found: dict[typed.Variable, typed.Expr] = {}
    for part in parts:
        if part is None:
            return None
        found.update(part)
    return found


@dataclass(slots=True)
class Slopes:
    """One pass over the rows that a body makes of one row.

    `values` says where variables have the value.  Found on the way: where the rows made have it
    (`path`), the rows themselves (`heads`), whether there is at most one (`is_single`), and
    whether nothing is added to the value (`is_homogeneous`).
    """

    values: Mapping[typed.Variable, Path]
    heads: list[typed.Expr] = field(default_factory=list)
    is_single: bool = True
    is_homogeneous: bool = True
    _paths: set[Path] = field(default_factory=set)

    @property
    def path(self) -> Path:
        """Where all rows have the value."""
        if len(self._paths) != 1:
            raise NotAffineError("rows have the value in several places, or in none")
        return next(iter(self._paths))

    def rows(
        self, body: typed.Expr, made: Callable[[typed.Expr, typed.Expr], typed.Expr]
    ) -> typed.Expr:
        """A body with `made(row, slope)` in the places of rows."""
        match body:
            case typed.MakeCollection(items) if items:
                self.is_single &= len(items) == 1
                return build.bag_of(*[self._row(item, made) for item in items])
            case typed.If(condition, then, typed.MakeCollection(())):
                self._free(condition)
                return build.when(condition, self.rows(then, made))
            case typed.Select(False, head, qualifiers, where, None, None, (), None):
                for each in (*[e for q in qualifiers for e in _inside(q)], where):
                    self._free(each)
                self.is_single = False
                inner = self._row(head, made)
                return typed.Select(
                    False, inner, qualifiers, where, None, None, (), None, type=bag(inner.type)
                )
            case typed.MapOver(variable, subject, inner, flatten):
                self._free(subject)
                self.is_single = False
                rows = self.rows(inner, made) if flatten else self._row(inner, made)
                type_ = rows.type if flatten else bag(rows.type)
                return typed.MapOver(variable, subject, rows, flatten, type=type_)
            case _:
                raise NotAffineError("rows are made in a way that is not followed")

    def copied(self, one: typed.Variable, keys: tuple[Path, ...] | None) -> tuple[Path, ...] | None:
        """Where the rows made have the components that tell rows apart."""
        if keys is None or not self.is_single or len(self.heads) != 1:
            return None
        found = dict(_chains(self.heads[0]))
        places = []
        for key in keys:
            wanted = (0, *key)
            at = [
                (*path, *wanted[len(way) :])
                for path, (variable, way) in found.items()
                if variable == one and wanted[: len(way)] == way
            ]
            if not at:
                return None
            places.append(at[0])
        return tuple(places)

    def _row(
        self, head: typed.Expr, made: Callable[[typed.Expr, typed.Expr], typed.Expr]
    ) -> typed.Expr:
        self.heads.append(head)
        path, slope = self._placed(head)
        self._paths.add(path)
        return made(head, slope)

    def _placed(self, head: typed.Expr) -> tuple[Path, typed.Expr]:
        """Where a row has the value, and its slope there."""
        known = component_path(head)
        if known is not None and known[0] in self.values and self._touches(head):
            return self.values[known[0]][len(known[1]) :], _ONE
        match head:
            case typed.MakeTuple(items):
                return self._one([*enumerate(items)])
            case typed.MakeRecord(items):
                assert isinstance(head.type, Record)
                return self._one([*zip(head.type.names, items, strict=True)])
            case _:
                return (), self.slope(head)

    def _one(self, items: list[tuple[int | str, typed.Expr]]) -> tuple[Path, typed.Expr]:
        moving = [(name, item) for name, item in items if self._touches(item)]
        if len(moving) != 1:
            raise NotAffineError("the value is in no component of a row, or in several")
        name, item = moving[0]
        path, slope = self._placed(item)
        return (name, *path), slope

    def slope(self, expr: typed.Expr) -> typed.Expr:
        """What one more of the value adds to an expression."""
        known = component_path(expr)
        if known is not None and self.values.get(known[0]) == known[1]:
            return _ONE
        match expr:
            case typed.Arithmetic("+" | "-" as op, left, right) if expr.type == DOUBLE:
                if self._touches(left) and self._touches(right):
                    raise NotAffineError("the value is in both parts of a sum")
                self.is_homogeneous = False
                inner = self.slope(left if self._touches(left) else right)
                negative = op == "-" and self._touches(right)
                return typed.Negate(inner, type=DOUBLE) if negative else inner
            case typed.Arithmetic("*", left, right) if expr.type == DOUBLE:
                if self._touches(left) and self._touches(right):
                    raise NotAffineError("the value is multiplied with itself")
                moving, other = (left, right) if self._touches(left) else (right, left)
                return typed.Arithmetic("*", self.slope(moving), other, type=DOUBLE)
            case typed.Arithmetic("/", left, right) if expr.type == DOUBLE:
                self._free(right)
                return typed.Arithmetic("/", self.slope(left), right, type=DOUBLE)
            case typed.Negate(operand) if expr.type == DOUBLE:
                return typed.Negate(self.slope(operand), type=DOUBLE)
            case typed.If(condition, then, otherwise):
                self._free(condition)
                both = [self.slope(e) if self._touches(e) else _ZERO for e in (then, otherwise)]
                self.is_homogeneous &= self._touches(then) and self._touches(otherwise)
                return typed.If(condition, *both, type=DOUBLE)
            case typed.Aggregate("sum", operand, None) if expr.type == DOUBLE:
                return self._summed(operand, self.slope)
            case typed.Aggregate("sum#part", operand, None) if expr.type == EXACT_SUM:
                return self._summed(operand, self.slope)
            case typed.Aggregate("sum#total", operand, None) if expr.type == DOUBLE:
                return self._summed(operand, self._repeated)
            case _:
                raise NotAffineError("the value goes through something else than + - * / and sum")

    def _repeated(self, part: typed.Expr) -> typed.Expr:
        """The slope of a part of a sum that counts several times."""
        assert isinstance(part.type, Tuple)
        value, times = (simplify(build.item(part, n)) for n in (0, len(part.type.items) - 1))
        self._free(times)
        many = typed.Widen(times, type=DOUBLE)
        return typed.Arithmetic("*", self.slope(value), many, type=DOUBLE)

    def _summed(self, operand: typed.Expr, slope: Callable[[typed.Expr], typed.Expr]) -> typed.Expr:
        homogeneous = self.is_homogeneous
        match operand:
            case typed.MakeCollection((one,)):
                inner = slope(one)
            case typed.If(condition, then, typed.MakeCollection(())):
                self._free(condition)
                inner = typed.If(condition, self._summed(then, slope), _ZERO, type=DOUBLE)
            case _:
                raise NotAffineError("a sum over rows that are made in a way not followed")
        if homogeneous and not self.is_homogeneous:
            raise NotAffineError("a constant is summed up as often as there are rows")
        return inner

    def _touches(self, expr: typed.Expr) -> bool:
        """Whether the value has part in an expression."""
        known = component_path(expr)
        if known is not None:
            at = self.values.get(known[0])
            shared = 0 if at is None else min(len(at), len(known[1]))
            return at is not None and at[:shared] == known[1][:shared]
        return any(map(self._touches, children(expr)))

    def _free(self, expr: typed.Expr | None) -> None:
        if expr is not None and self._touches(expr):
            raise NotAffineError("which rows there are depends on the value")


def _inside(each: typed.Qualifier) -> list[typed.Expr]:
    match each:
        case typed.Generator(_, domain):
            return [domain]
        case typed.Binding(_, value):
            return [value]
        case typed.Condition(condition):
            return [condition]


def _chains(head: typed.Expr, at: Path = ()) -> Iterator[tuple[Path, tuple[typed.Variable, Path]]]:
    """Where a row has components of variables as they are."""
    known = component_path(head)
    if known is not None:
        yield at, known
        return
    match head:
        case typed.MakeTuple(items):
            for place, item in enumerate(items):
                yield from _chains(item, (*at, place))
        case typed.MakeRecord(items) if isinstance(head.type, Record):
            for name, item in zip(head.type.names, items, strict=True):
                yield from _chains(item, (*at, name))
