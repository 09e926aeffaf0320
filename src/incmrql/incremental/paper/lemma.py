"""Judgments of annotated terms: the paper's Lemma 1, and where it needs an assumption.

    sMap0, sMap3   ⊎             the source grows
    swap           ⊎             X : ⊎
    sMap2          ⊎             X : ⇑ ⊕, and f : ⊎ for k : □, v : ⊕
    sMap1          ⇑ ⊗           X : ⇑ ⊕, and f = {e}, e : ⊗ for k : □, v : ⊕
    groupBy        ⇑ ⊎           X : ⊎
    coGroup, mix   ⇑ (□, ⊎)      X : □, Y : ⊎
                   assumed       X : ⊎, Y : ⊎

A term over nothing that grows is □.  The paper assumes of every join that it is one to many: the
side of the one has a single row for each key, and each batch brings along the partners of its
rows.  Nothing here checks that; the tests show what breaks without.  (The paper's first version,
coGroup : ⇑ (⊎, ⊎), does not survive mix, which drops a key that has rows on one side only.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from incmrql.incremental.judge import Judge
from incmrql.incremental.monoids import BAG, INVARIANT, Monoid, keyed, product
from incmrql.incremental.paper.annotated import (
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
    below,
)
from incmrql.incremental.paper.form import is_growing
from incmrql.incremental.paper.judgments import Growth, Judgment, judge, show_judgment
from incmrql.types import typed
from incmrql.types.show import show_expr

Side: TypeAlias = Literal["left", "right"]
"""Which side of a join of two growing sides is taken to be □: the side of the one."""


@dataclass(frozen=True, slots=True)
class Lemma:
    """An annotated term, named by its operator, with its monoid."""

    operator: str
    monoid: Monoid
    premises: tuple[Lemma | Judgment, ...]
    assumed: bool = False


class NoMonoidError(Exception):
    """An annotated term is no homomorphism by the rules: a function in it, and what is wrong."""

    def __init__(self, subject: typed.Expr, problem: str) -> None:
        super().__init__(f"{show_expr(subject)} {problem}")
        self.subject, self.problem = subject, problem


def lemma(term: Annotated, one: Side) -> Lemma:
    """The monoid of an annotated term; raises `NoMonoidError`."""
    operator = operator_of(term)
    premises = tuple(lemma(each, one) for each in below(term))
    if isinstance(term, SMap0 | SMap3):
        return Lemma(operator, BAG if is_growing(term.source) else INVARIANT, ())
    if all(each.monoid == INVARIANT for each in premises):
        return Lemma(operator, INVARIANT, premises)
    match term:
        case Swap():
            return Lemma(operator, premises[0].monoid, premises)
        case Mix():
            return Lemma(operator, premises[0].monoid, premises)
        case Grouped():
            return Lemma(operator, keyed(BAG), premises)
        case CoGrouped():
            sides = [each.monoid for each in premises]
            is_assumed = sides == [BAG, BAG]
            if is_assumed:
                sides[one == "right"] = INVARIANT
            return Lemma(operator, keyed(product(*sides)), premises, is_assumed)
        case SMap2(variable, body):
            found = judge(body, growth_of(variable, premises[0].monoid))
            if found is None or found.monoid != BAG:
                raise NoMonoidError(body, _not_additive(found))
            return Lemma(operator, BAG, (*premises, found))
        case SMap1(variable, body):
            found = _single(body, growth_of(variable, premises[0].monoid))
            if found is None:
                raise NoMonoidError(body, "has elements that no rule gives a monoid")
            return Lemma(operator, keyed(found.monoid), (*premises, found))
        case KMap(body=body):
            raise NoMonoidError(body, "is not pulled out")
        case _:
            assert_never(term)


def growth_of(variable: typed.Variable, groups: Monoid) -> Growth:
    """How a variable over groups (k, v) grows: k : □, and v as the groups' values do."""
    value = INVARIANT if groups == INVARIANT else groups.parts[0]
    return {variable: product(INVARIANT, value)}


def _single(body: typed.Expr, growth: Growth) -> Judgment | None:
    """The judgment of e in {e}."""
    match body:
        case typed.MakeCollection((item,)):
            return judge(item, growth)
        case _:
            return None


def _not_additive(found: Judgment | None) -> str:
    if found is None:
        return "stands below a groupBy or coGroup, and no rule gives it ⊎"
    return f"stands below a groupBy or coGroup, and is {found.monoid}, not ⊎"


def show_lemma(found: Lemma, depth: int = 0) -> str:
    """The derivation as text, conclusion first, premises indented under it."""
    indent = "  " * depth
    note = "   assumed: one to many" if found.assumed else ""
    lines = [f"{indent}{found.operator} : {found.monoid}{note}"]
    for premise in found.premises:
        if isinstance(premise, Lemma):
            lines.append(show_lemma(premise, depth + 1))
        else:
            lines.append(show_judgment(premise, depth + 1))
    return "\n".join(lines)


def operator_of(term: Annotated) -> str:
    """The operator of an annotated term."""
    return {"Grouped": "groupBy", "CoGrouped": "coGroup"}.get(
        type(term).__name__, type(term).__name__[0].lower() + type(term).__name__[1:]
    )


def assumptions(found: Lemma) -> int:
    """How many joins are assumed to be one to many."""
    inner = [assumptions(each) for each in found.premises if isinstance(each, Lemma)]
    return found.assumed + sum(inner)


def is_outer(term: Annotated) -> bool:
    """Whether a function of two sides may have rows where one of them has none.

    mix drops such keys: an answer that tells of rows without partners is lost with them.
    """
    match term:
        case SMap1(variable, body, Mix()) | SMap2(variable, body, Mix()):
            sides = Judge(variable, 2).additive(body)
            if sides is None or len(sides) < 2:
                return True
        case _:
            pass
    return any(map(is_outer, below(term)))
