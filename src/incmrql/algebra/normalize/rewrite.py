"""The rewrite engine: named equations, used left to right until none applies.

A rule looks at one node and answers with its replacement, or with None.  The type of what it
replaces must stay; every step is kept, so that a derivation can be shown.  A rule that has to
compare what stands at several places looks at the whole query, after the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from incmrql.algebra.rows import Names
from incmrql.algebra.show import show_query, show_term
from incmrql.algebra.term import CMap, Query, Repeat, Sort, Term, Values, element
from incmrql.algebra.walk import map_children as map_terms
from incmrql.errors import InternalError
from incmrql.types import typed
from incmrql.types.show import show_expr
from incmrql.types.walk import map_children

TermRewrite: TypeAlias = Callable[[Term, Names], Term | None]
ExprRewrite: TypeAlias = Callable[[typed.Expr, Names], typed.Expr | None]
QueryRewrite: TypeAlias = Callable[[Query, Names], Query | None]

MOST_STEPS = 100_000
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


@dataclass(frozen=True, slots=True)
class QueryRule:
    """An equation between whole queries."""

    name: str
    law: str
    rewrite: QueryRewrite


Rule: TypeAlias = TermRule | ExprRule | QueryRule
Node: TypeAlias = Term | typed.Expr | Query


@dataclass(frozen=True, slots=True)
class RewriteStep:
    """One use of one rule."""

    rule: Rule
    before: Node
    after: Node


def show_node(node: Node) -> str:
    """A term, an expression or a query as text."""
    if isinstance(node, Query):
        return show_query(node)
    return show_term(node) if isinstance(node, Term) else show_expr(node)


def show_step(step: RewriteStep) -> str:
    """A step with its law, and what it did."""
    before, after = show_node(step.before), show_node(step.after)
    return f"{step.rule.name}: {step.rule.law}\n{before}\n=\n{after}"


def term_rule(name: str, *, law: str) -> Callable[[TermRewrite], TermRule]:
    """Name a rewrite of terms and state the equation it rests on."""
    return lambda rewrite: TermRule(name, law, rewrite)


def expr_rule(name: str, *, law: str) -> Callable[[ExprRewrite], ExprRule]:
    """Name a rewrite of expressions and state the equation it rests on."""
    return lambda rewrite: ExprRule(name, law, rewrite)


def query_rule(name: str, *, law: str) -> Callable[[QueryRewrite], QueryRule]:
    """Name a rewrite of whole queries and state the equation it rests on."""
    return lambda rewrite: QueryRule(name, law, rewrite)


def normalize(query: Query, rules: Sequence[Rule], names: Names) -> tuple[Query, list[RewriteStep]]:
    """Apply `rules` until none applies; the final query, and how it was reached."""
    engine = Rewriter(names)
    return engine.run(query, rules), engine.steps


class Rewriter:
    """The rules in use, and the steps taken so far.

    Nodes in which no rule applies are settled: known by their identity, they are not looked at
    again.  So are terms that were visited: the rows around a sub-query stand on both sides of its
    coGroup, so that a term of n sub-queries has 2^n occurrences of its innermost rows.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.steps: list[RewriteStep] = []
        self.terms: list[TermRule] = []
        self.exprs: list[ExprRule] = []
        self.queries: list[QueryRule] = []
        self._settled_terms: dict[int, Term] = {}
        self._visited: dict[int, tuple[Term, Term]] = {}
        """By its identity, a term and what became of it."""
        self._settled_exprs: dict[int, typed.Expr] = {}

    def run(self, query: Query, rules: Sequence[Rule]) -> Query:
        """Apply `rules` until none applies."""
        exprs = [rule for rule in rules if isinstance(rule, ExprRule)]
        if exprs != self.exprs:
            self._settled_exprs = {}
        self._settled_terms, self._visited = {}, {}
        self.exprs = exprs
        self.terms = [rule for rule in rules if isinstance(rule, TermRule)]
        self.queries = [rule for rule in rules if isinstance(rule, QueryRule)]
        return self.query(query)

    def query(self, query: Query) -> Query:
        """A query in which no rule applies any more."""
        parts = tuple((variable, self.term(term)) for variable, term in query.parts)
        query = Query(parts, self.expr(query.result))
        for rule in self.queries:
            after = rule.rewrite(query, self.names)
            if after is not None:
                same_type = after.result.type == query.result.type
                self._note(RewriteStep(rule, query, after), same_type=same_type)
                return self.query(after)
        return query

    def term(self, term: Term) -> Term:
        """A term in which no rule applies any more."""
        used = -1
        while used != len(self.steps):
            used = len(self.steps)
            term = self._visit(term)
        return term

    def _visit(self, term: Term) -> Term:
        """A term after one look at every node of it, children before parents."""
        if id(term) in self._settled_terms:
            return term
        if id(term) in self._visited:
            return self._visited[id(term)][1]
        used = len(self.steps)
        after = self._simplify(map_terms(self._visit, term))
        if used == len(self.steps):
            self._settled_terms[id(after)] = after
        self._visited[id(term)] = term, after
        return after

    def _simplify(self, term: Term) -> Term:
        term = self._with_simple_bodies(term)
        for rule in self.terms:
            after = rule.rewrite(term, self.names)
            if after is not None:
                self._note(
                    RewriteStep(rule, term, after), same_type=element(after) == element(term)
                )
                return self._simplify(after)
        return term

    def _with_simple_bodies(self, term: Term) -> Term:
        match term:
            case CMap(body=body):
                after = self.expr(body)
                return term if after is body else replace(term, body=after)
            case Values(expr):
                after = self.expr(expr)
                return term if after is expr else Values(after)
            case Sort(limit=limit) | Repeat(limit=limit) if limit is not None:
                after = self.expr(limit)
                return term if after is limit else replace(term, limit=after)
            case _:
                return term

    def expr(self, expr: typed.Expr) -> typed.Expr:
        """An expression in which no rule applies any more."""
        if not self.exprs or id(expr) in self._settled_exprs:
            return expr
        expr = map_children(self.expr, expr)
        for rule in self.exprs:
            after = rule.rewrite(expr, self.names)
            if after is not None:
                self._note(RewriteStep(rule, expr, after), same_type=after.type == expr.type)
                return self.expr(after)
        self._settled_exprs[id(expr)] = expr
        return expr

    def _note(self, step: RewriteStep, *, same_type: bool) -> None:
        if not same_type:
            raise InternalError(f"a rule changed the type\n{show_step(step)}")
        self.steps.append(step)
        if len(self.steps) > MOST_STEPS:
            recent = " -> ".join(step.rule.name for step in self.steps[-6:])
            raise InternalError(f"rules do not settle: {recent}\n{show_node(step.after)}")
