"""The slope of an expression over one value: how much the expression grows per unit of the value.

    slope(x) = 1    slope(a * e) = a * slope(e)    slope(e / a) = slope(e) / a    slope(a + e) =
    slope(e)    slope(sum {e}) = slope(e)

where a does not depend on x.  Anything else is not affine.
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
    """The step is not affine; the message says why."""


def leaves(row: Type, at: Path = ()) -> Iterator[tuple[Path, Type]]:
    """The paths and types of all components of a row that have no components themselves."""
    match row:
        case Tuple(items):
            for index, item in enumerate(items):
                yield from leaves(item, (*at, index))
        case Record(fields):
            for name, item in fields:
                yield from leaves(item, (*at, name))
        case _:
            yield at, row


def doubles(row: Type) -> Iterator[Path]:
    """The paths of the doubles of a row."""
    return (path for path, type_ in leaves(row) if type_ == DOUBLE)


def with_zeros(body: typed.Expr, additivity: Additivity, side: int) -> typed.Expr:
    """A body with 0.0 in place of the sums over one side."""
    match body:
        case typed.Aggregate(function, operand, None) if function in _SUMS and additivity.additive(
            operand
        ) == frozenset((side,)):
            return _ZERO
        case _:
            return map_children(lambda part: with_zeros(part, additivity, side), body)


def simplify(expr: typed.Expr) -> typed.Expr:
    """The expression with components of literal tuples and maps over literal bags evaluated."""
    expr = map_children(simplify, expr)
    match expr:
        case typed.Item(typed.MakeTuple(items), index):
            return items[index]
        case typed.Field(typed.MakeRecord(items) as record, name):
            assert isinstance(record.type, Record)
            return items[record.type.names.index(name)]
        case typed.MapOver(variable, typed.MakeCollection((element,)), body, flatten):
            inner = simplify(substitute(body, {variable: element}))
            return inner if flatten else build.bag_of(inner)
        case typed.Select(False, _, _, _, None, None, (), None) if expr.type == bag(expr.head.type):
            return _simplify_query(expr)
        case _:
            return expr


def _simplify_query(query: typed.Select) -> typed.Expr:
    """The query with generators over one element and bindings replaced by their values."""
    for index, qualifier in enumerate(query.qualifiers):
        values = _qualifier_values(qualifier)
        if values is None:
            continue
        rest = typed.Select(
            False,
            query.head,
            (*query.qualifiers[:index], *query.qualifiers[index + 1 :]),
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


def _qualifier_values(qualifier: typed.Qualifier) -> dict[typed.Variable, typed.Expr] | None:
    match qualifier:
        case typed.Generator(pattern, typed.MakeCollection((element,))):
            return _pattern_values(pattern, element)
        case typed.Binding(pattern, value):
            return _pattern_values(pattern, value)
        case _:
            return None


def _pattern_values(
    pattern: typed.Pattern, value: typed.Expr
) -> dict[typed.Variable, typed.Expr] | None:
    match pattern:
        case typed.Bind(variable):
            return {variable: value}
        case typed.Anything():
            return {}
        case typed.TupleOf(items):
            parts = [_pattern_values(item, build.item(value, n)) for n, item in enumerate(items)]
        case typed.Fields(fields):
            parts = [_pattern_values(item, build.field(value, name)) for name, item in fields]
        case _:
            return None
    values: dict[typed.Variable, typed.Expr] = {}
    for part in parts:
        if part is None:
            return None
        values.update(part)
    return values


@dataclass(slots=True)
class Slopes:
    """One pass over the rows that a body makes of one row.

    `values` maps variables to the path of the value in them.  The pass collects where the new rows
    have the value (`path`), the rows themselves (`heads`), whether there is at most one
    (`is_single`), and whether no constant is added to the value (`is_homogeneous`).
    """

    values: Mapping[typed.Variable, Path]
    heads: list[typed.Expr] = field(default_factory=list)
    is_single: bool = True
    is_homogeneous: bool = True
    _paths: set[Path] = field(default_factory=set)

    @property
    def path(self) -> Path:
        """The path of the value, the same in all rows."""
        if len(self._paths) != 1:
            raise NotAffineError("rows have the value in several places, or in none")
        return next(iter(self._paths))

    def rows(
        self, body: typed.Expr, make_row: Callable[[typed.Expr, typed.Expr], typed.Expr]
    ) -> typed.Expr:
        """The body with `make_row(row, slope)` in place of each row."""
        match body:
            case typed.MakeCollection(items) if items:
                self.is_single &= len(items) == 1
                return build.bag_of(*[self._row(item, make_row) for item in items])
            case typed.If(condition, then, typed.MakeCollection(())):
                self._require_independent(condition)
                return build.when(condition, self.rows(then, make_row))
            case typed.Select(False, head, qualifiers, where, None, None, (), None):
                for free in (*[e for q in qualifiers for e in _qualifier_exprs(q)], where):
                    self._require_independent(free)
                self.is_single = False
                inner = self._row(head, make_row)
                return typed.Select(
                    False, inner, qualifiers, where, None, None, (), None, type=bag(inner.type)
                )
            case typed.MapOver(variable, subject, inner, flatten):
                self._require_independent(subject)
                self.is_single = False
                rows = self.rows(inner, make_row) if flatten else self._row(inner, make_row)
                type_ = rows.type if flatten else bag(rows.type)
                return typed.MapOver(variable, subject, rows, flatten, type=type_)
            case _:
                raise NotAffineError("rows are made in a way that is not supported")

    def key_paths(
        self, row: typed.Variable, keys: tuple[Path, ...] | None
    ) -> tuple[Path, ...] | None:
        """The paths of the keys of old rows in the new rows; None if one is missing or repeated."""
        if keys is None or not self.is_single or len(self.heads) != 1:
            return None
        copies = dict(_copied_components(self.heads[0]))
        paths = []
        for key in keys:
            target = (0, *key)
            at = [
                (*path, *target[len(way) :])
                for path, (variable, way) in copies.items()
                if variable == row and target[: len(way)] == way
            ]
            if not at:
                return None
            paths.append(at[0])
        return tuple(paths)

    def _row(
        self, head: typed.Expr, make_row: Callable[[typed.Expr, typed.Expr], typed.Expr]
    ) -> typed.Expr:
        self.heads.append(head)
        path, slope = self._locate(head)
        self._paths.add(path)
        return make_row(head, slope)

    def _locate(self, head: typed.Expr) -> tuple[Path, typed.Expr]:
        """The path of the value in a row, and its slope there."""
        chain = component_path(head)
        if chain is not None and chain[0] in self.values and self._depends_on_value(head):
            return self.values[chain[0]][len(chain[1]) :], _ONE
        match head:
            case typed.MakeTuple(items):
                return self._locate_in_parts([*enumerate(items)])
            case typed.MakeRecord(items):
                assert isinstance(head.type, Record)
                return self._locate_in_parts([*zip(head.type.names, items, strict=True)])
            case _:
                return (), self.slope(head)

    def _locate_in_parts(
        self, items: list[tuple[int | str, typed.Expr]]
    ) -> tuple[Path, typed.Expr]:
        varying = [(name, item) for name, item in items if self._depends_on_value(item)]
        if len(varying) != 1:
            raise NotAffineError("the value is in no component of a row, or in several")
        name, item = varying[0]
        path, slope = self._locate(item)
        return (name, *path), slope

    def slope(self, expr: typed.Expr) -> typed.Expr:
        """The derivative of an expression by the value."""
        chain = component_path(expr)
        if chain is not None and self.values.get(chain[0]) == chain[1]:
            return _ONE
        match expr:
            case typed.Arithmetic("+" | "-" as op, left, right) if expr.type == DOUBLE:
                if self._depends_on_value(left) and self._depends_on_value(right):
                    raise NotAffineError("the value is in both parts of a sum")
                self.is_homogeneous = False  # the other operand is a constant
                inner = self.slope(left if self._depends_on_value(left) else right)
                negative = op == "-" and self._depends_on_value(right)
                return typed.Negate(inner, type=DOUBLE) if negative else inner
            case typed.Arithmetic("*", left, right) if expr.type == DOUBLE:
                if self._depends_on_value(left) and self._depends_on_value(right):
                    raise NotAffineError("the value is multiplied with itself")
                varying, factor = (left, right) if self._depends_on_value(left) else (right, left)
                return typed.Arithmetic("*", self.slope(varying), factor, type=DOUBLE)
            case typed.Arithmetic("/", left, right) if expr.type == DOUBLE:
                self._require_independent(right)
                return typed.Arithmetic("/", self.slope(left), right, type=DOUBLE)
            case typed.Negate(operand) if expr.type == DOUBLE:
                return typed.Negate(self.slope(operand), type=DOUBLE)
            case typed.If(condition, then, otherwise):
                self._require_independent(condition)
                both = [
                    self.slope(e) if self._depends_on_value(e) else _ZERO for e in (then, otherwise)
                ]
                self.is_homogeneous &= self._depends_on_value(then) and self._depends_on_value(
                    otherwise
                )
                return typed.If(condition, *both, type=DOUBLE)
            case typed.Aggregate("sum", operand, None) if expr.type == DOUBLE:
                return self._sum_slope(operand, self.slope)
            case typed.Aggregate("sum#part", operand, None) if expr.type == EXACT_SUM:
                return self._sum_slope(operand, self.slope)
            case typed.Aggregate("sum#total", operand, None) if expr.type == DOUBLE:
                return self._sum_slope(operand, self._weighted_slope)
            case _:
                raise NotAffineError("the value is used by an operation other than + - * / and sum")

    def _weighted_slope(self, part: typed.Expr) -> typed.Expr:
        """The slope of a summand (value, ..., times) of an exact sum that repeats it."""
        assert isinstance(part.type, Tuple)
        value, times = (simplify(build.item(part, n)) for n in (0, len(part.type.items) - 1))
        self._require_independent(times)
        many = typed.Widen(times, type=DOUBLE)
        return typed.Arithmetic("*", self.slope(value), many, type=DOUBLE)

    def _sum_slope(
        self, operand: typed.Expr, slope: Callable[[typed.Expr], typed.Expr]
    ) -> typed.Expr:
        homogeneous = self.is_homogeneous
        match operand:
            case typed.MakeCollection((element,)):
                inner = slope(element)
            case typed.If(condition, then, typed.MakeCollection(())):
                self._require_independent(condition)
                inner = typed.If(condition, self._sum_slope(then, slope), _ZERO, type=DOUBLE)
            case _:
                raise NotAffineError("a sum over rows that are made in a way that is not supported")
        # A constant per row adds up to constant * count, which depends on which rows exist.
        if homogeneous and not self.is_homogeneous:
            raise NotAffineError("a constant is summed up as often as there are rows")
        return inner

    def _depends_on_value(self, expr: typed.Expr) -> bool:
        """Whether an expression depends on the value."""
        chain = component_path(expr)
        if chain is not None:
            at = self.values.get(chain[0])
            # A whole row and a component of the value both overlap with the path of the value.
            shared = 0 if at is None else min(len(at), len(chain[1]))
            return at is not None and at[:shared] == chain[1][:shared]
        return any(map(self._depends_on_value, children(expr)))

    def _require_independent(self, expr: typed.Expr | None) -> None:
        if expr is not None and self._depends_on_value(expr):
            raise NotAffineError("which rows there are depends on the value")


def _qualifier_exprs(qualifier: typed.Qualifier) -> list[typed.Expr]:
    match qualifier:
        case typed.Generator(_, domain):
            return [domain]
        case typed.Binding(_, value):
            return [value]
        case typed.Condition(condition):
            return [condition]


def _copied_components(
    head: typed.Expr, at: Path = ()
) -> Iterator[tuple[Path, tuple[typed.Variable, Path]]]:
    """The paths of a row that hold components of variables unchanged, with these components."""
    chain = component_path(head)
    if chain is not None:
        yield at, chain
        return
    match head:
        case typed.MakeTuple(items):
            for index, item in enumerate(items):
                yield from _copied_components(item, (*at, index))
        case typed.MakeRecord(items) if isinstance(head.type, Record):
            for name, item in zip(head.type.names, items, strict=True):
                yield from _copied_components(item, (*at, name))
