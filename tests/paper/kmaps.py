"""Pulling kMaps out: what is no homomorphism leaves a term upwards, by the paper's rules.

    kMap(f, kMap(g, X))                =  kMap(x → f(g(x)), X)
    sMap1(g, kMap(f, X))               =  sMap1((k, v) → g(k, f(v)), X)
    sMap2(g, kMap(f, X))               =  sMap2((k, v) → g(k, f(v)), X)
    groupBy(kMap(f, X))                =  kMap(s → map(f, s), groupBy(X))
    coGroup(kMap(f, X), kMap(g, Y))    =  kMap((xs, ys) → (map(f, xs), map(g, ys)), coGroup(X, Y))

and one that it uses without naming it, for values (θ, v) that lie under a key:

    swap(kMap((θ, v) → (θ, f(v)), X))  =  kMap(f, swap(X))
"""

from __future__ import annotations

from incmrql.algebra import rows as build
from incmrql.algebra.rows import Names
from incmrql.paper.annotated import Annotated, CoGrouped, Grouped, KMap, SMap1, SMap2, Swap
from incmrql.types import typed
from incmrql.types.model import Tuple, bag
from incmrql.types.walk import rename_binders, substitute, used_variables
from tests.paper.annotated import with_below


def pulled_out(term: Annotated, names: Names) -> Annotated:
    """A term whose kMaps stand at its top, as one, or have become part of what is above them."""
    inner = with_below(term, lambda part: pulled_out(part, names))
    outer = pull_out(inner, names)
    return inner if outer is None else outer


def pull_out(term: Annotated, names: Names) -> Annotated | None:
    """One rule at the root of a term, if one applies."""
    match term:
        case KMap(outer, body, KMap(variable, value, source)):
            return KMap(variable, substitute(body, {outer: value}), source)
        case SMap1(group, body, KMap() as below):
            variable, own = _through(group, body, below, names)
            return SMap1(variable, own, below.source)
        case SMap2(group, body, KMap() as below):
            variable, own = _through(group, body, below, names)
            return SMap2(variable, own, below.source)
        case Grouped(KMap() as below):
            members = names.variable("s", bag(below.variable.type))
            return KMap(members, _map(below, build.var(members), names), Grouped(below.source))
        case CoGrouped(KMap() as left, KMap() as right):
            return _both(left, right, names)
        case Swap(KMap() as below):
            return _swap(below, names)
        case _:
            return None


def _through(
    group: typed.Variable, body: typed.Expr, below: KMap, names: Names
) -> tuple[typed.Variable, typed.Expr]:
    """`(k, v) → g(k, f(v))`, over a group of what is below the kMap."""
    assert isinstance(group.type, Tuple)
    variable = names.variable(group.name, Tuple((group.type.items[0], below.variable.type)))
    key, value = (build.item(build.var(variable), place) for place in (0, 1))
    inner = substitute(below.body, {below.variable: value})
    return variable, substitute(body, {group: build.tuple_of(key, inner)})


def _map(below: KMap, rows: typed.Expr, names: Names) -> typed.Expr:
    """`map(f, rows)`, with variables of its own."""
    one = names.like(below.variable)
    value = rename_binders(substitute(below.body, {below.variable: build.var(one)}), names.like)
    return typed.MapOver(one, rows, value, False, type=bag(value.type))


def _both(left: KMap, right: KMap, names: Names) -> KMap:
    sides = Tuple((bag(left.variable.type), bag(right.variable.type)))
    both = names.variable("sides", sides)
    xs, ys = (build.item(build.var(both), place) for place in (0, 1))
    body = build.tuple_of(_map(left, xs, names), _map(right, ys, names))
    return KMap(both, body, CoGrouped(left.source, right.source))


def _swap(below: KMap, names: Names) -> KMap | None:
    """The rule of swap, where the kMap passes the lineage on as it is."""
    match below.body:
        case typed.MakeTuple((typed.Item(typed.Var(variable), 0), value)) if (
            variable == below.variable
        ):
            assert isinstance(variable.type, Tuple)
            theta, own = variable.type.items
            one = names.variable("v", own)
            known = names.variable("θ", theta)
            pair = build.tuple_of(build.var(known), build.var(one))
            body = build.reduce_projections(substitute(value, {variable: pair}))
            return None if known in used_variables(body) else KMap(one, body, Swap(below.source))
        case _:
            return None
