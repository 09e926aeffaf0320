"""h, ⊗ and a of a query: the paper's whole construction.

    state ← state ⊗ h(ΔS)        answer = a(state)

    header          h                                     ⊗          a
    cMap(f, S)      T_q[q]                                ⊎          π2(x)
    cMap(f, e)      T_q[cMap((k, v) → {(k, es)}, e)]      ⇑ (□, ⊗)   cMap(F, π2(reduce(⇑, T(x))))
    reduce(⊕, c)    T_q[c], each value as ⊕ takes it,     ⇑ ⊕        F(reduce(⊕, π2(x)))
                    reduced for each lineage

where f(k, v) = F(k, es(v)) is the factoring of `split` and T forgets all of a lineage but its
first key.  A reduction over an f that is not ⊎ (a count of distinct values, the greatest of
counts) is no part of the homomorphism: then a reduces what the second line answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from incmrql.algebra import build
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, Query
from incmrql.incremental.monoids import BAG, INVARIANT, Monoid, keyed, product
from incmrql.incremental.paper.annotated import SMap0, SMap1
from incmrql.incremental.paper.beta import mapped
from incmrql.incremental.paper.form import Form, Total, definition2, names_after
from incmrql.incremental.paper.judgments import Judgment, judge
from incmrql.incremental.paper.lemma import Lemma, NoMonoidError, Side, growth_of, lemma
from incmrql.incremental.paper.split import Split, split
from incmrql.incremental.paper.transform import annotated_query
from incmrql.types import typed
from incmrql.types.model import Collection, Type
from incmrql.types.walk import renamed, substitute


@dataclass(frozen=True, slots=True)
class Projected:
    """π2(x): the values without their lineage."""


@dataclass(frozen=True, slots=True)
class PerKey:
    """cMap(F, π2(reduce(⇑, T(x)))): F of each key and of what is kept for it."""

    group: typed.Variable
    parts: Split


@dataclass(frozen=True, slots=True)
class Reduced:
    """F(reduce(⊕, π2(x))): F of all values reduced."""

    parts: Split


@dataclass(frozen=True, slots=True)
class Construction:
    """h, ⊗ and a for one term of Definition 2.

    `total` is a header that a itself computes, over what `answer` gives.
    """

    form: Form
    h: SMap0 | SMap1
    merge: Monoid
    answer: Projected | PerKey | Reduced
    total: Total | None
    proof: Lemma


@dataclass(frozen=True, slots=True)
class Whole:
    """The constructions of the parts of a query, and what its result makes of them."""

    parts: tuple[tuple[typed.Variable, Construction], ...]
    result: typed.Expr


def constructed(query: Query) -> Whole:
    """The construction of a query; raises `OutsideError` or `NoMonoidError`."""
    names = names_after(query)
    parts = definition2(query, names)
    return Whole(
        tuple((variable, construction(form, names)) for variable, form in parts), query.result
    )


def construction(form: Form, names: Names) -> Construction:
    """The construction of a term; a join that must be one to many has its one side left, or right.

    Raises `NoMonoidError`.
    """
    try:
        return _construction(form, "left", names)
    except NoMonoidError as problem:
        try:
            return _construction(form, "right", names)
        except NoMonoidError:
            raise problem from None


def _construction(form: Form, one: Side, names: Names) -> Construction:
    whole = annotated_query(form.body)
    if isinstance(whole, SMap0):
        if form.total is not None:
            return _reduction(form, form.total, whole, (lemma(whole, one),), names)
        return Construction(form, whole, BAG, Projected(), None, lemma(whole, one))
    groups = lemma(whole.source, one)
    growth = growth_of(whole.variable, groups.monoid)
    if form.total is not None:
        found = judge(whole.body, growth)
        if found is not None and found.monoid == BAG:
            return _reduction(form, form.total, whole, (groups, found), names)
    parts = split(whole.body, growth, names)
    key = build.item(build.var(whole.variable), 0)
    kept = build.bag_of(build.tuple_of(key, parts.values))
    h = SMap1(whole.variable, kept, whole.source)
    merge = keyed(product(INVARIANT, parts.monoid))
    return Construction(form, h, merge, PerKey(whole.variable, parts), form.total, lemma(h, one))


def _reduction(
    form: Form,
    total: Total,
    whole: SMap0 | SMap1,
    premises: tuple[Lemma | Judgment, ...],
    names: Names,
) -> Construction:
    """A header as reduce(⊕, c): each element of c adds its own."""
    parts = split(total.head, {total.members: BAG}, names)
    one = names.variable("b", _member(total))
    alone = build.bag_of(build.var(one))
    value = renamed(substitute(parts.values, {total.members: alone}), names.like)
    body = mapped(one, value, whole.body)
    h = annotated_query(CMap(whole.variable, body, form.body.source))
    merge = keyed(parts.monoid)
    proof = Lemma("reduce", merge, premises)
    return Construction(form, h, merge, Reduced(parts), None, proof)


def _member(total: Total) -> Type:
    assert isinstance(total.members.type, Collection)
    return total.members.type.element
