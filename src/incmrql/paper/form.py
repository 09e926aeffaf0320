"""The paper's normal form (Definition 2): groupBys and coGroups joined by cMaps.

    q  ::=  reduce(⊕, c)  |  c
    c  ::=  cMap(f, e)
    e  ::=  groupBy(c)  |  coGroup(c1, c2)  |  S

`paper_form` takes a translated query there, `definition2` sees it as such terms or says why it
is none.  Beyond the paper, S may be a source that does not change, values, or the rows that a
loop holds (all □), and a query may be made of several q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from incmrql.algebra import rows as build
from incmrql.algebra.normalize.rewrite import Rewriter
from incmrql.algebra.normalize.strategy import PHASES
from incmrql.algebra.rows import Names
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Query,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
    element,
)
from incmrql.algebra.walk import terms, variables_of
from incmrql.errors import InternalError
from incmrql.types import typed
from incmrql.types.model import Collection, Tuple, Type, bag
from incmrql.types.walk import rename_binders, substitute, used_variables

Source: TypeAlias = Scan | Values | Loop


@dataclass(frozen=True, slots=True)
class TotalHeader:
    """A header: `head` over all elements of the query below, which `members` holds."""

    members: typed.Variable
    head: typed.Expr


@dataclass(frozen=True, slots=True)
class Form:
    """A term of Definition 2; without `total` the header is the cMap itself."""

    body: CMap
    total: TotalHeader | None = None


class OutsideError(Exception):
    """Why a query is no term of Definition 2."""


def names_after(query: Query) -> Names:
    """Variables that a query does not have yet."""
    return Names(max((variable.number for variable in variables_of(query)), default=0))


def paper_form(query: Query) -> Query:
    """A translated query with its cMaps fused and nothing brought along that is not used.

    The later phases of our own normal form sum up the sides of a join before they meet, which
    the paper does not.
    """
    engine = Rewriter(names_after(query))
    for phase in PHASES[:2]:
        query = engine.run(query, phase.rules)
    return query


def definition2(query: Query, names: Names) -> tuple[tuple[typed.Variable, Form], ...]:
    """The parts that the result of a query uses; raises `OutsideError`."""
    shared: dict[typed.Variable, Term] = {}
    wanted = used_variables(query.result)
    forms = []
    for variable, term in query.parts:
        shared[variable] = term
        if variable in wanted:
            forms.append((variable, form_of(term, names, shared)))
    return tuple(forms)


def form_of(term: Term, names: Names, shared: dict[typed.Variable, Term] | None = None) -> Form:
    """A term as one of Definition 2; raises `OutsideError`."""
    reading = _Reading(names, shared or {})
    total = reading.total(term)
    return Form(reading.cmap(term)) if total is None else total


def source_of(term: Term) -> Source:
    """S: a term that is a source."""
    assert isinstance(term, Scan | Values | Loop)
    return term


def is_growing(term: Term) -> bool:
    """Whether a stream has part in a term; a source that is none never changes."""
    return any(isinstance(scan, Scan) and scan.source.streaming for scan in terms(term))


class _Reading:
    """One pass over a term; what several parts share is written out for each."""

    def __init__(self, names: Names, shared: dict[typed.Variable, Term]) -> None:
        self.names, self.shared = names, shared

    def cmap(self, term: Term) -> CMap:
        """c: a cMap over e, the identity where there is none."""
        match term:
            case CMap(variable, body, CMap(inner, inner_body, source)):
                fused = typed.MapOver(variable, inner_body, body, True, type=body.type)
                return self.cmap(CMap(inner, fused, source))
            case CMap(variable, body, Shared() as source):
                return self.cmap(CMap(variable, body, self._copy(source)))
            case CMap(variable, body, source):
                fresh = self.names.like(variable)
                own = rename_binders(
                    substitute(body, {variable: build.var(fresh)}), self.names.like
                )
                return CMap(fresh, own, self.body(source))
            case Shared():
                return self.cmap(self._copy(term))
            case _:
                one = self.names.variable("x", element(term))
                return CMap(one, build.bag_of(build.var(one)), self.body(term))

    def body(self, term: Term) -> GroupBy | CoGroup | Source:
        """e: groups of c, or a source."""
        match term:
            case Scan() | Values() | Loop():
                return term
            case GroupBy(source):
                return GroupBy(self.cmap(source))
            case CoGroup(left, right):
                return CoGroup(self.cmap(left), self.cmap(right))
            case Union():
                raise OutsideError("a union of terms: Definition 2 has groupBy, coGroup and cMap")
            case Sort():
                raise OutsideError("order by or limit: the paper leaves lists out of its algebra")
            case Repeat():
                raise OutsideError("a loop inside of a query: the paper has them at the top only")
            case CMap() | Shared():
                raise InternalError("a cMap over a cMap is not fused")

    def _copy(self, term: Shared) -> Term:
        return self.shared[term.variable]

    def total(self, term: Term) -> Form | None:
        """reduce: a head over one group `()`, which is there even if it has no rows."""
        match term:
            case CMap(group, body, CoGroup(CMap(_, one, Values(single)), right)) if (
                _has_one(single) and _has_one(one) and _is_unit_pair(one)
            ):
                members = self.names.variable("members", bag(_value_type(right)))
                head = _head(group, body, members)
                if head is None:
                    return None
                return Form(self._values(right), TotalHeader(members, head))
            case _:
                return None

    def _values(self, pairs: Term) -> CMap:
        """The values of pairs."""
        below = self.cmap(pairs)
        pair = self.names.variable("pair", element(pairs))
        body = map_rows(pair, build.item(build.var(pair), 1), below.body)
        return CMap(below.variable, body, below.source)


def _has_one(expr: typed.Expr) -> bool:
    return isinstance(expr, typed.MakeCollection) and len(expr.items) == 1


def _is_unit_pair(expr: typed.Expr) -> bool:
    """Whether a collection of one holds a pair whose key is `()`."""
    match expr:
        case typed.MakeCollection((typed.MakeTuple((key, _)),)):
            return key.type == Tuple(())
        case _:
            return False


def _value_type(pairs: Term) -> Type:
    type_ = element(pairs)
    assert isinstance(type_, Tuple)
    return type_.items[1]


def _head(group: typed.Variable, body: typed.Expr, members: typed.Variable) -> typed.Expr | None:
    """The head of `select head from left in group#1#0`, over the members of the other side."""
    sides = build.item(build.var(group), 1)
    match body:
        case typed.Select(
            False, head, (typed.Generator(typed.Bind(left), domain),), None, None, None, (), None
        ) if domain == build.item(sides, 0):
            alone = build.replace_parts(head, [(build.item(sides, 1), build.var(members))])
            return None if {group, left} & used_variables(alone) else alone
        case _:
            return None


def map_rows(variable: typed.Variable, head: typed.Expr, rows: typed.Expr) -> typed.Expr:
    """`map(variable → head, rows)`, for a bag of rows."""
    type_ = bag(head.type)

    def head_of(row: typed.Expr) -> typed.Expr:
        return build.reduce_projections(substitute(head, {variable: row}))

    match rows:
        case typed.MakeCollection(items) if len(items) < 2:
            return replace(rows, items=tuple(map(head_of, items)), type=type_)
        case typed.If(condition, then, otherwise):
            branches = (map_rows(variable, head, branch) for branch in (then, otherwise))
            return typed.If(condition, *branches, type=type_)
        case typed.Select(False, own, _, _, None, None, (), None):
            return replace(rows, head=head_of(own), type=type_)
        case typed.MapOver(inner, subject, own, False) if _is_bag(subject):
            return typed.MapOver(inner, subject, head_of(own), False, type=type_)
        case _:
            return typed.MapOver(variable, rows, head, False, type=type_)


def _is_bag(expr: typed.Expr) -> bool:
    return isinstance(expr.type, Collection) and expr.type.kind == "bag"
