"""h, ⊗ and a of a query: the paper's whole construction.

    state ← state ⊗ h(ΔS)        answer = a(state)

    header          h                                     ⊗          a
    cMap(f, S)      T_q[q]                                ⊎          π2(x)
    cMap(f, e)      T_q[cMap((k, v) → {(k, es)}, e)]      ⇑ (□, ⊗)   cMap(F, π2(reduce(⇑, T(x))))
    reduce(⊕, c)    T_q[c], each value as ⊕ takes it,     ⇑ ⊕        F(reduce(⊕, π2(x)))
                    reduced for each lineage

where f(k, v) = F(k, es(v)) is the factoring below and T forgets all of a lineage but its
first key.  A reduction over an f that is not ⊎ (a count of distinct values, the greatest of
counts) is no part of the homomorphism: then a reduces what the second line answers.

Factoring: a function of a group as F over its largest homomorphic sub-terms.

    f(k, v)  =  F(k, e1(v), …, en(v))        each ei a homomorphism

The sub-terms are found from the root down; what no rule gives a monoid is left to F, in the
worst case all but the bag itself.  Of a tuple its items are kept: F makes the tuple.
Aggregates are first opened to what the paper takes them for:

    sum(e)  =  sum#total({(sum#part(e), 1)})
    avg(e)  =  avg#total({(sum#part(e), count(e), 1)})
"""

from __future__ import annotations

from dataclasses import dataclass

from incmrql.algebra import rows
from incmrql.algebra.rows import Names
from incmrql.algebra.term import CMap, Query
from incmrql.algebra.walk import fingerprint
from incmrql.paper.annotated import SMap0, SMap1, annotated_query
from incmrql.paper.form import Form, TotalHeader, definition2, map_rows, names_after
from incmrql.paper.inference import Growth, Judgment, NoMonoidError, Side, growth_of, judge, lemma
from incmrql.plan.monoids import BAG, INVARIANT, Monoid, keyed_map, product
from incmrql.types import typed
from incmrql.types.model import EXACT_SUM, LONG, Collection, Decimal, Type, is_float, is_integer
from incmrql.types.walk import (
    children,
    free_variables,
    map_children,
    rename_binders,
    substitute,
    used_variables,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A sub-term that is kept, the variable that stands for it in F, and why it may be."""

    variable: typed.Variable
    expr: typed.Expr
    judgment: Judgment

    @property
    def monoid(self) -> Monoid:
        """What it is merged with."""
        return self.judgment.monoid


@dataclass(frozen=True, slots=True)
class Split:
    """F, and what it is a function of."""

    kept: tuple[Kept, ...]
    rest: typed.Expr

    @property
    def values(self) -> typed.Expr:
        """`(e1, …, en)`."""
        return rows.tuple_of(*(part.expr for part in self.kept))

    @property
    def monoid(self) -> Monoid:
        """`(⊕1, …, ⊕n)`."""
        return product(*(part.monoid for part in self.kept))


def split(expr: typed.Expr, growth: Growth, names: Names) -> Split:
    """An expression taken apart.  F may read what of it does not change besides."""
    splitting = _Splitting(growth, names)
    rest = splitting.rest(open_aggregates(expr))
    return Split(tuple(splitting.kept), rest)


class _Splitting:
    def __init__(self, growth: Growth, names: Names) -> None:
        self.growth, self.names = growth, names
        self.kept: list[Kept] = []
        self._known: dict[str, typed.Variable] = {}

    def rest(self, expr: typed.Expr) -> typed.Expr:
        """The expression with variables for what is kept."""
        if not used_variables(expr) & self.growth.keys():
            return expr
        if self._is_key(expr):
            return expr
        judgment = judge(expr, self.growth) if free_variables(expr) <= self.growth.keys() else None
        if judgment is None or judgment.rule == "tuple":
            return map_children(self.rest, expr)
        known = fingerprint(expr)
        if known not in self._known:
            variable = self.names.variable("kept", expr.type)
            self._known[known] = variable
            self.kept.append(Kept(variable, expr, judgment))
        return rows.var(self._known[known])

    def _is_key(self, expr: typed.Expr) -> bool:
        """Whether an expression reads nothing of a group but its key, which F has."""
        match expr:
            case typed.Item(typed.Var(variable), 0) if variable in self.growth:
                return bool(self.growth[variable].parts)
            case typed.Var(variable):
                return variable not in self.growth
            case _:
                below = [
                    child for child in children(expr) if used_variables(child) & self.growth.keys()
                ]
                return bool(below) and all(map(self._is_key, below))


def open_aggregates(expr: typed.Expr) -> typed.Expr:
    """Sums and averages as functions of exact parts."""
    inner = map_children(open_aggregates, expr)
    if not isinstance(inner, typed.Aggregate) or inner.function not in ("sum", "avg"):
        return inner
    assert isinstance(inner.operand.type, Collection)
    part_type = _part_type(inner.operand.type.element)
    if part_type is None:
        return inner
    part = typed.Aggregate("sum#part", inner.operand, type=part_type)
    count = typed.Aggregate("count", inner.operand, type=LONG)
    once = typed.Const(1, type=LONG)
    row = rows.tuple_of(*((part, once) if inner.function == "sum" else (part, count, once)))
    return typed.Aggregate(f"{inner.function}#total", rows.bag_of(row), type=inner.type)


def _part_type(summand: Type) -> Type | None:
    """The type of an exact sum."""
    if is_float(summand):
        return EXACT_SUM
    if is_integer(summand):
        return Decimal(38, 0)
    if isinstance(summand, Decimal) and summand.precision <= 19:
        return Decimal(38, summand.scale)
    return None


# --- h, merge and answer --------------------------------------------------------------------------


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
    total: TotalHeader | None
    proof: Judgment


@dataclass(frozen=True, slots=True)
class Whole:
    """The constructions of the parts of a query, and what its result makes of them."""

    parts: tuple[tuple[typed.Variable, Construction], ...]
    result: typed.Expr


def construct(query: Query) -> Whole:
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
        judgment = judge(whole.body, growth)
        if judgment is not None and judgment.monoid == BAG:
            return _reduction(form, form.total, whole, (groups, judgment), names)
    parts = split(whole.body, growth, names)
    key = rows.item(rows.var(whole.variable), 0)
    kept = rows.bag_of(rows.tuple_of(key, parts.values))
    h = SMap1(whole.variable, kept, whole.source)
    merge = keyed_map(product(INVARIANT, parts.monoid))
    return Construction(form, h, merge, PerKey(whole.variable, parts), form.total, lemma(h, one))


def _reduction(
    form: Form,
    total: TotalHeader,
    whole: SMap0 | SMap1,
    premises: tuple[Judgment, ...],
    names: Names,
) -> Construction:
    """A header as reduce(⊕, c): each element of c adds its own."""
    parts = split(total.head, {total.members: BAG}, names)
    one = names.variable("b", _member(total))
    alone = rows.bag_of(rows.var(one))
    value = rename_binders(substitute(parts.values, {total.members: alone}), names.like)
    body = map_rows(one, value, whole.body)
    h = annotated_query(CMap(whole.variable, body, form.body.source))
    merge = keyed_map(parts.monoid)
    proof = Judgment("reduce", None, merge, premises)
    return Construction(form, h, merge, Reduced(parts), None, proof)


def _member(total: TotalHeader) -> Type:
    assert isinstance(total.members.type, Collection)
    return total.members.type.element
