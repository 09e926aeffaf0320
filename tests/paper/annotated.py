"""What annotated terms mean: each of them written out as a term of our algebra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, assert_never

from incmrql.algebra import rows as build
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term, element
from incmrql.paper.annotated import (
    Annotated,
    CoGrouped,
    Grouped,
    KMap,
    Mix,
    SMap0,
    SMap1,
    SMap2,
    SMap3,
    Swap,
)
from incmrql.paper.form import Source
from incmrql.types import typed
from incmrql.types.model import Collection, Tuple, Type, bag
from incmrql.types.walk import substitute

Mapped: TypeAlias = SMap1 | SMap2 | KMap


def with_below(term: Annotated, f: Callable[[Annotated], Annotated]) -> Annotated:
    """The term with `f` applied to those directly below."""
    match term:
        case SMap0() | SMap3():
            return term
        case CoGrouped(left, right):
            return CoGrouped(f(left), f(right))
        case SMap1() | SMap2() | Swap() | Mix() | Grouped() | KMap():
            return replace(term, source=f(term.source))
        case _:
            assert_never(term)


def expand(term: Annotated, names: Names) -> Term:
    """The term of our algebra that an annotated term stands for."""
    match term:
        case SMap0(variable, body, source):
            return _each(variable, body, source, names, lambda b: build.tuple_of(build.unit(), b))
        case SMap3(variable, body, source):
            return _each(variable, body, source, names, _with_lone_value)
        case SMap1(variable, body, source):
            return _over(variable, body, expand(source, names), names, build.tuple_of)
        case SMap2(variable, body, source):
            return _over(variable, body, expand(source, names), names, _with_lineage)
        case Swap(source):
            return _map_rows(expand(source, names), names, _swap)
        case Mix(source):
            return _mix(expand(source, names), names)
        case Grouped(source):
            return GroupBy(expand(source, names))
        case CoGrouped(left, right):
            return CoGroup(expand(left, names), expand(right, names))
        case KMap(variable, body, source):
            return _map_rows(expand(source, names), names, _map_values(variable, body))
        case _:
            assert_never(term)


def _each(
    variable: typed.Variable,
    body: typed.Expr,
    source: Source,
    names: Names,
    head_of: Callable[[typed.Expr], typed.Expr],
) -> CMap:
    """`made` of every element that the body has for a row of a source."""
    one = names.variable("b", _element(body))
    head = head_of(build.var(one))
    return CMap(variable, typed.MapOver(one, body, head, False, type=bag(head.type)), source)


def _with_lone_value(pair: typed.Expr) -> typed.Expr:
    """`(k, ((), b))` of `(k, b)`."""
    lone = build.tuple_of(build.unit(), build.item(pair, 1))
    return build.tuple_of(build.item(pair, 0), lone)


def _with_lineage(lineage: typed.Expr, pair: typed.Expr) -> typed.Expr:
    """`(k', (θ, b))` of θ and `(k', b)`."""
    known = build.tuple_of(lineage, build.item(pair, 1))
    return build.tuple_of(build.item(pair, 0), known)


def _over(
    variable: typed.Variable,
    body: typed.Expr,
    source: Term,
    names: Names,
    head_of: Callable[[typed.Expr, typed.Expr], typed.Expr],
) -> CMap:
    """`made` of the lineage and each element that the body has for (k, a)."""
    row = names.variable("row", element(source))
    lineage = build.item(build.var(row), 0)
    group = build.tuple_of(build.item(lineage, 0), build.item(build.var(row), 1))
    own = substitute(body, {variable: group})
    one = names.variable("b", _element(body))
    head = head_of(lineage, build.var(one))
    return CMap(row, typed.MapOver(one, own, head, False, type=bag(head.type)), source)


def _map_rows(source: Term, names: Names, head_of: Callable[[typed.Expr], typed.Expr]) -> CMap:
    row = names.variable("row", element(source))
    return CMap(row, build.bag_of(head_of(build.var(row))), source)


def _swap(row: typed.Expr) -> typed.Expr:
    """`((k, θ), v)` of `(k, (θ, v))`."""
    known = build.item(row, 1)
    lineage = build.tuple_of(build.item(row, 0), build.item(known, 0))
    return build.tuple_of(lineage, build.item(known, 1))


def _map_values(variable: typed.Variable, body: typed.Expr) -> Callable[[typed.Expr], typed.Expr]:
    def map_value(row: typed.Expr) -> typed.Expr:
        value = substitute(body, {variable: build.item(row, 1)})
        return build.tuple_of(build.item(row, 0), value)

    return map_value


def _mix(source: Term, names: Names) -> CMap:
    row = names.variable("row", element(source))
    sides = build.item(build.var(row), 1)
    first, second = (_by_lineage(build.item(sides, place), names) for place in (0, 1))
    a, b = (names.variable(name, _element(side)) for name, side in (("xs", first), ("ys", second)))
    lineages = build.tuple_of(build.item(build.var(a), 0), build.item(build.var(b), 0))
    key = build.tuple_of(build.item(build.var(row), 0), lineages)
    value = build.tuple_of(build.item(build.var(a), 1), build.item(build.var(b), 1))
    more = typed.Generator(typed.Bind(b), second)
    return CMap(row, build.for_each(a, first, build.tuple_of(key, value), more), source)


def _by_lineage(rows: typed.Expr, names: Names) -> typed.Expr:
    """Groups inside of a row: pairs (θ, b) to pairs (θ, {b})."""
    pair = _element(rows)
    assert isinstance(pair, Tuple)
    theta, value = names.variable("θ", pair.items[0]), names.variable("b", pair.items[1])
    key = names.like(theta)
    thetas, values = names.variable("θs", bag(theta.type)), names.variable("bs", bag(value.type))
    whole = names.variable("partition", bag(pair))
    group = typed.Group(
        (build.var(theta),),
        (typed.Bind(key),),
        ((theta, thetas), (value, values)),
        whole,
        (theta, value),
    )
    head = build.tuple_of(build.var(key), build.var(values))
    pattern = typed.TupleOf((typed.Bind(theta), typed.Bind(value)))
    qualifiers = (typed.Generator(pattern, rows),)
    return typed.Select(False, head, qualifiers, None, group, None, (), None, type=bag(head.type))


def _element(expr: typed.Expr) -> Type:
    assert isinstance(expr.type, Collection)
    return expr.type.element
