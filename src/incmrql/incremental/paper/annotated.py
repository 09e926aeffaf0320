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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from incmrql.incremental.paper.form import Source
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
