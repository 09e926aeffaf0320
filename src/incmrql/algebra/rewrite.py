"""The rewrite engine: named equations, used left to right until none applies.

A rule looks at one node and answers with its replacement, or with None.  The type of what it
replaces must stay; every step is kept, so that a derivation can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from incmrql.algebra.rows import Names
from incmrql.algebra.show import show_term
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Query,
    Repeat,
    Scan,
    Sort,
    Term,
    Union,
    Values,
    element,
)
from incmrql.algebra.walk import bottom_up
from incmrql.diagnostics import InternalError
from incmrql.types import typed
from incmrql.types.show import show_expr
from incmrql.types.walk import map_children

TermRewrite: TypeAlias = Callable[[Term, Names], Term | None]
ExprRewrite: TypeAlias = Callable[[typed.Expr, Names], typed.Expr | None]

MOST_STEPS = 10_000
"""More steps than any sensible query needs: rules that go on longer do not settle."""


@dataclass(frozen=True, slots=True)
class TermRule:
    """An equation between terms."""

    name: str
    law: str
    rewrite: TermRewrite


@dataclass(frozen=True, slots=True)
class ExprRule:
    """An equation between expressions inside a row."""

    name: str
    law: str
    rewrite: ExprRewrite


Rule: TypeAlias = TermRule | ExprRule


@dataclass(frozen=True, slots=True)
class Step:
    """One use of one rule."""

    rule: Rule
    before: Term | typed.Expr
    after: Term | typed.Expr


def show_node(node: Term | typed.Expr) -> str:
    """A term or an expression as text."""
    if isinstance(node, Scan | Values | Loop | CMap | GroupBy | CoGroup | Union | Sort | Repeat):
        return show_term(node)
    return show_expr(node)


def show_step(step: Step) -> str:
    """A step with its law, and what it did."""
    before, after = show_node(step.before), show_node(step.after)
    return f"{step.rule.name}: {step.rule.law}\n{before}\n=\n{after}"


def term_rule(name: str, *, law: str) -> Callable[[TermRewrite], TermRule]:
    """Name a rewrite of terms and state the equation it rests on."""
    return lambda rewrite: TermRule(name, law, rewrite)


def expr_rule(name: str, *, law: str) -> Callable[[ExprRewrite], ExprRule]:
    """Name a rewrite of expressions and state the equation it rests on."""
    return lambda rewrite: ExprRule(name, law, rewrite)


def normalize(query: Query, rules: Sequence[Rule], names: Names) -> tuple[Query, list[Step]]:
    """Apply `rules` until none applies; the final query, and how it was reached."""
    engine = _Engine(rules, names)
    parts = tuple((variable, engine.term(term)) for variable, term in query.parts)
    return replace(query, parts=parts, result=engine.expr(query.result)), engine.steps


class _Engine:
    """The rules in use, and the steps taken so far."""

    def __init__(self, rules: Sequence[Rule], names: Names) -> None:
        self.terms = [rule for rule in rules if isinstance(rule, TermRule)]
        self.exprs = [rule for rule in rules if isinstance(rule, ExprRule)]
        self.names = names
        self.steps: list[Step] = []

    def term(self, term: Term) -> Term:
        """A term in which no rule applies any more."""
        used = -1
        while used != len(self.steps):
            used = len(self.steps)
            term = bottom_up(self._simplified, term)
        return term

    def _simplified(self, term: Term) -> Term:
        term = self._with_simple_bodies(term)
        for rule in self.terms:
            after = rule.rewrite(term, self.names)
            if after is not None:
                self._note(Step(rule, term, after), same_type=element(after) == element(term))
                return self._simplified(after)
        return term

    def _with_simple_bodies(self, term: Term) -> Term:
        match term:
            case CMap(body=body):
                return replace(term, body=self.expr(body))
            case Values(expr):
                return Values(self.expr(expr))
            case Sort(limit=limit) | Repeat(limit=limit) if limit is not None:
                return replace(term, limit=self.expr(limit))
            case _:
                return term

    def expr(self, expr: typed.Expr) -> typed.Expr:
        """An expression in which no rule applies any more."""
        if not self.exprs:
            return expr
        expr = map_children(self.expr, expr)
        for rule in self.exprs:
            after = rule.rewrite(expr, self.names)
            if after is not None:
                self._note(Step(rule, expr, after), same_type=after.type == expr.type)
                return self.expr(after)
        return expr

    def _note(self, step: Step, *, same_type: bool) -> None:
        if not same_type:
            raise InternalError(f"a rule changed the type\n{show_step(step)}")
        self.steps.append(step)
        if len(self.steps) > MOST_STEPS:
            recent = " -> ".join(step.rule.name for step in self.steps[-6:])
            raise InternalError(f"rules do not settle: {recent}\n{show_node(step.after)}")
