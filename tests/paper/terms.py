"""Monoid inference of terms of our algebra: the paper's rules, without lineage and assumptions.

    source    S : ⊎ if it is a stream, else □       box       X : □        all sources in X are □
    union     X ⊎ Y : ⊎                             X : ⊎, Y : ⊎
    cMap      cMap(f, X) : ⊎                        X : ⊎
    groupBy   groupBy(X) : ⇑ ⊎                      X : ⊎
    coGroup   coGroup(X, Y) : ⇑ (⊕, ⊗)              X : ⊕, Y : ⊗, each ⊎ or □
    groups    cMap(f, X) : ⊎                        X : ⇑ ⊕, f(k, v) : ⊎ for k : □, v : ⊕
    keyed     cMap(f, X) : ⇑ ⊗                      X : ⇑ ⊕, f(k, v) = {(k', e)}, e : ⊗,
                                                    k' the whole of k again

A join of two growing sides has none: what it makes of (⊎, ⊎) is bilinear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from incmrql.algebra.show import show_term
from incmrql.algebra.term import CMap, CoGroup, GroupBy, Loop, Scan, Shared, Sort, Term, Union, pair
from incmrql.algebra.walk import terms
from incmrql.paper.form import is_growing
from incmrql.paper.inference import Judgment, growth_of, judge, show_judgment
from incmrql.plan.monoids import BAG, INVARIANT, Monoid, keyed_map, product
from incmrql.types import typed
from incmrql.types.model import Record, Tuple, Type
from incmrql.types.walk import is_random
from tests.paper.carriers import is_keyed

TermRule: TypeAlias = Literal[
    "source", "box", "union", "cMap", "groupBy", "coGroup", "groups", "keyed"
]
TERM_RULES: Final[tuple[TermRule, ...]] = get_args(TermRule)


@dataclass(frozen=True, slots=True)
class TermJudgment:
    """`subject : monoid` by a rule, from premises about terms below and functions inside."""

    rule: TermRule
    subject: Term
    monoid: Monoid
    premises: tuple[TermJudgment | Judgment, ...] = ()


def show_term_judgment(judgment: TermJudgment, depth: int = 0) -> str:
    """A derivation, conclusion first; of each term its first line."""
    head = show_term(judgment.subject).split("\n")[0]
    lines = [f"{'  ' * depth}{head} : {judgment.monoid}   by {judgment.rule}"]
    for premise in judgment.premises:
        if isinstance(premise, TermJudgment):
            lines.append(show_term_judgment(premise, depth + 1))
        else:
            lines.append(show_judgment(premise, depth + 1))
    return "\n".join(lines)


def judge_term(term: Term) -> TermJudgment | None:
    """The monoid of a term and why; None if no rule gives it one."""
    match term:
        case Scan():
            return TermJudgment("source", term, BAG if term.source.streaming else INVARIANT)
        case _ if not is_growing(term) and not _is_random(term) and _is_closed(term):
            return TermJudgment("box", term, INVARIANT)
        case Union(parts):
            inner = [_judgment_among(part, (BAG,)) for part in parts]
            premises = tuple(judgment for judgment in inner if judgment is not None)
            complete = len(premises) == len(parts)
            return TermJudgment("union", term, BAG, premises) if complete else None
        case GroupBy(source):
            below = _judgment_among(source, (BAG,))
            return below and TermJudgment("groupBy", term, keyed_map(BAG), (below,))
        case CoGroup(left, right):
            return _judge_cogroup(term, left, right)
        case CMap():
            return _judge_map(term)
        case _:
            return None


def _is_closed(term: Term) -> bool:
    """Whether a term uses nothing that stands elsewhere and may grow."""
    return not any(isinstance(part, Loop | Shared) for part in terms(term))


def _is_random(term: Term) -> bool:
    match term:
        case CMap(_, body, source):
            return is_random(body) or _is_random(source)
        case Sort(source=source) | GroupBy(source):
            return _is_random(source)
        case CoGroup(left, right):
            return _is_random(left) or _is_random(right)
        case _:
            return False


def _judgment_among(term: Term, wanted: tuple[Monoid, ...]) -> TermJudgment | None:
    judgment = judge_term(term)
    return judgment if judgment is not None and judgment.monoid in wanted else None


def _judge_cogroup(term: Term, left: Term, right: Term) -> TermJudgment | None:
    sides = [_judgment_among(side, (BAG, INVARIANT)) for side in (left, right)]
    judged_sides = tuple(side for side in sides if side is not None)
    if len(judged_sides) < 2:
        return None
    return TermJudgment(
        "coGroup", term, keyed_map(product(*(side.monoid for side in judged_sides))), judged_sides
    )


def _judge_map(term: CMap) -> TermJudgment | None:
    below = judge_term(term.source)
    if below is None or is_random(term.body):
        return None
    if below.monoid == BAG:
        return TermJudgment("cMap", term, BAG, (below,))
    if not is_keyed(below.monoid):
        return None
    growth = growth_of(term.variable, below.monoid)
    whole = judge(term.body, growth)
    if whole is not None and whole.monoid == BAG:
        return TermJudgment("groups", term, BAG, (below, whole))
    match term.body:
        case typed.MakeCollection((typed.MakeTuple((key, value)),)) if _is_whole_key(
            key, term.variable, pair(term.source)[0]
        ):
            of_value = judge(value, growth)
            if of_value is None:
                return None
            return TermJudgment("keyed", term, keyed_map(of_value.monoid), (below, of_value))
        case _:
            return None


def _is_whole_key(expr: typed.Expr, group: typed.Variable, key: Type) -> bool:
    """Whether an expression holds all of a group's key, so that it is a unique key again."""
    held = set(_paths(expr, group))
    return all(any(path[: len(h)] == h for h in held) for path in _leaves(key, ()))


def _leaves(type_: Type, path: tuple[int | str, ...]) -> list[tuple[int | str, ...]]:
    match type_:
        case Tuple(items):
            parts = [(*path, i) for i in range(len(items))]
            types = list(items)
        case Record(fields):
            parts, types = (
                [(*path, name) for name, _ in fields],
                [field_type for _, field_type in fields],
            )
        case _:
            return [path]
    return [
        leaf
        for part, part_type in zip(parts, types, strict=True)
        for leaf in _leaves(part_type, part)
    ]


def _paths(expr: typed.Expr, group: typed.Variable) -> list[tuple[int | str, ...]]:
    """The parts of a group's key that a tuple or record of such parts is made of."""
    own = _path(expr, group)
    if own is not None:
        return [own]
    match expr:
        case typed.MakeTuple(items) | typed.MakeRecord(items):
            return [path for item in items for path in _paths(item, group)]
        case _:
            return []


def _path(expr: typed.Expr, group: typed.Variable) -> tuple[int | str, ...] | None:
    match expr:
        case typed.Item(typed.Var(variable), 0) if variable == group:
            return ()
        case typed.Item(subject, index):
            below = _path(subject, group)
            return None if below is None else (*below, index)
        case typed.Field(subject, name):
            below = _path(subject, group)
            return None if below is None else (*below, name)
        case _:
            return None
