"""Terms that carry lineage: the paper's Algorithm 1 in its own words, and what they mean.

    sMap1(f, X)   {((k, θ), b)        | ((k, θ), a) ∈ X, b ∈ f(k, a)}
    sMap2(f, X)   {(k', ((k, θ), b))  | ((k, θ), a) ∈ X, (k', b) ∈ f(k, a)}
    sMap3(f, S)   {(k, ((), b))       | a ∈ S, (k, b) ∈ f(a)}
    sMap0(f, S)   {((), b)            | a ∈ S, b ∈ f(a)}        (the paper gives it no name)
    swap(X)       {((k, θ), v)        | (k, (θ, v)) ∈ X}
    mix(X)        {((k, (θ, θ')), (xs, ys)) | (k, (s, s')) ∈ X,
                                        (θ, xs) ∈ groupBy(s), (θ', ys) ∈ groupBy(s')}
    kMap(f, X)    {(θ, f(v))          | (θ, v) ∈ X}

`tests/paper/annotated.py` writes any of them as a term of our algebra, whose meaning is that of
`algebra.interpret`.

T_q, T_e and T_c: a term of Definition 2 with the keys of its groups brought along as lineage.

T_q[cMap(f, S)]             sMap0(f, S)
T_q[cMap(f, e)]             sMap1(f, T_e[e])
T_q[reduce(⊕, c)]           the same, values of equal lineage then reduced by ⊕
T_e[groupBy(c)]             groupBy(swap(T_c[c]))
T_e[coGroup(c1, c2)]        mix(coGroup(T_c[c1], T_c[c2]))
T_c[cMap(f, S)]             sMap3(f, S)
T_c[cMap(f, e)]             sMap2(f, T_e[e])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term
from incmrql.paper.form import Source, source_of
from incmrql.plan.explain.text import Empty, Keyed, Lineage
from incmrql.types import typed


@dataclass(frozen=True, slots=True)
class SMap0:
    """A map over a source; its values have the lineage `()`."""

    variable: typed.Variable
    body: typed.Expr
    source: Source


@dataclass(frozen=True, slots=True)
class SMap1:
    """A map over groups that passes the lineage on: the query's output."""

    variable: typed.Variable
    body: typed.Expr
    source: Annotated


@dataclass(frozen=True, slots=True)
class SMap2:
    """A map over groups to pairs, for the groupBy or coGroup above."""

    variable: typed.Variable
    body: typed.Expr
    source: Annotated


@dataclass(frozen=True, slots=True)
class SMap3:
    """A map over a source to pairs; their values have the lineage `()`."""

    variable: typed.Variable
    body: typed.Expr
    source: Source


@dataclass(frozen=True, slots=True)
class Swap:
    """The lineage beside the key."""

    source: Annotated


@dataclass(frozen=True, slots=True)
class Mix:
    """Both sides of a coGroup, grouped by their lineages: all combinations."""

    source: Annotated


@dataclass(frozen=True, slots=True)
class Grouped:
    """groupBy."""

    source: Annotated


@dataclass(frozen=True, slots=True)
class CoGrouped:
    """coGroup."""

    left: Annotated
    right: Annotated


@dataclass(frozen=True, slots=True)
class KMap:
    """A function of each value; its lineage, or key, stays."""

    variable: typed.Variable
    body: typed.Expr
    source: Annotated


Annotated: TypeAlias = SMap0 | SMap1 | SMap2 | SMap3 | Swap | Mix | Grouped | CoGrouped | KMap


def below(term: Annotated) -> tuple[Annotated, ...]:
    """The annotated terms directly below."""
    match term:
        case SMap0() | SMap3():
            return ()
        case CoGrouped(left, right):
            return (left, right)
        case SMap1() | SMap2() | Swap() | Mix() | Grouped() | KMap():
            return (term.source,)
        case _:
            assert_never(term)


# --- from terms -----------------------------------------------------------------------------------


def annotated_query(query: CMap) -> SMap0 | SMap1:
    """T_q."""
    if isinstance(query.source, GroupBy | CoGroup):
        return SMap1(query.variable, query.body, annotated_groups(query.source))
    return SMap0(query.variable, query.body, source_of(query.source))


def annotated_groups(groups: GroupBy | CoGroup) -> Annotated:
    """T_e."""
    match groups:
        case GroupBy(source):
            return Grouped(Swap(annotated_pairs(source)))
        case CoGroup(left, right):
            return Mix(CoGrouped(annotated_pairs(left), annotated_pairs(right)))


def annotated_pairs(pairs: Term) -> SMap2 | SMap3:
    """T_c."""
    assert isinstance(pairs, CMap)
    if isinstance(pairs.source, GroupBy | CoGroup):
        return SMap2(pairs.variable, pairs.body, annotated_groups(pairs.source))
    return SMap3(pairs.variable, pairs.body, source_of(pairs.source))


def lineage_of_term(term: Term) -> Lineage:
    """The lineage of what a term of Definition 2 holds; keys are numbered from the root."""
    return _Keys().lineage(term)


class _Keys:
    def __init__(self) -> None:
        self.count = 0

    def lineage(self, term: Term) -> Lineage:
        match term:
            case CMap(source=source):
                return self.lineage(source)
            case GroupBy(source):
                key = self._next()
                return Keyed(key, (self.lineage(source),))
            case CoGroup(left, right):
                key = self._next()
                return Keyed(key, (self.lineage(left), self.lineage(right)))
            case _:
                return Empty()

    def _next(self) -> str:
        self.count += 1
        return f"k{self.count}"
