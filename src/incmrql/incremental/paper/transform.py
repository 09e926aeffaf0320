"""T_q, T_e and T_c: a term of Definition 2 with the keys of its groups brought along as lineage.

T_q[cMap(f, S)]             sMap0(f, S)
T_q[cMap(f, e)]             sMap1(f, T_e[e])
T_q[reduce(⊕, c)]           the same, values of equal lineage then reduced by ⊕
T_e[groupBy(c)]             groupBy(swap(T_c[c]))
T_e[coGroup(c1, c2)]        mix(coGroup(T_c[c1], T_c[c2]))
T_c[cMap(f, S)]             sMap3(f, S)
T_c[cMap(f, e)]             sMap2(f, T_e[e])
"""

from __future__ import annotations

from incmrql.algebra.term import CMap, CoGroup, GroupBy, Term
from incmrql.incremental.lineage import Empty, Keyed, Lineage
from incmrql.incremental.paper.annotated import (
    Annotated,
    CoGrouped,
    Grouped,
    Mix,
    SMap0,
    SMap1,
    SMap2,
    SMap3,
    Swap,
)
from incmrql.incremental.paper.form import source_of


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
