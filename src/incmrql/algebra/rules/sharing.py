"""Rules that compute once what a query asks for several times.

They come last: a term that is written out at each of its uses can be fused and narrowed there.
"""

from __future__ import annotations

from collections import Counter

from incmrql.algebra.alpha import Register
from incmrql.algebra.rewrite import query_rule
from incmrql.algebra.rows import Names
from incmrql.algebra.rules.grouping import share_groups
from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Query,
    Repeat,
    Shared,
    Sort,
    Term,
    Values,
    element,
)
from incmrql.algebra.walk import children, map_children, terms
from incmrql.types import typed
from incmrql.types.model import bag
from incmrql.types.walk import is_random


@query_rule("share-terms", law="q(T, …, T)  =  q(s, …, s) where s = T")
def share_terms(query: Query, names: Names) -> Query | None:
    """Equal terms are computed once, loops' too if they do not depend on the loop.

    Shared are maps over groups, sorted rows and loops.  Other maps keep nothing and are fused
    with what uses them, and groups belong to the map over them: these stay where they are.
    """
    register = Register()
    for _, term in query.parts:
        register.enter(term)
    several = _used_more_than_once(query, register)
    return _Sharing(register, several, names).query(query) if several else None


def _used_more_than_once(query: Query, register: Register) -> set[int]:
    uses: Counter[int] = Counter()
    found: set[int] = set()

    def visit(term: Term) -> None:
        number = register.number(term)
        uses[number] += 1
        if uses[number] > 1 and is_worth_sharing(term, register):
            found.add(number)
            return
        for child in children(term):
            visit(child)

    for _, term in query.parts:
        for part in children(term) if _is_in_order(term) else (term,):
            visit(part)
    return found


def is_worth_sharing(term: Term, register: Register) -> bool:
    """Whether a term that occurs twice should be, and can be, computed once."""
    match term:
        case CMap(source=GroupBy() | CoGroup()) | Sort() | Repeat():
            return register.is_closed(term) and not any(map(is_by_chance, terms(term)))
        case _:
            return False


def is_by_chance(term: Term) -> bool:
    """Whether a node may have other elements each time it is evaluated."""
    match term:
        case CMap(body=expr) | Values(expr):
            return is_random(expr)
        case Sort(limit=limit) | Repeat(limit=limit):
            return limit is not None and is_random(limit)
        case _:
            return False


def _is_in_order(term: Term) -> bool:
    """Whether a part is a list: its order would be lost if it were shared as rows."""
    return isinstance(term, Sort) and term.ordered


class _Sharing:
    """The parts made so far, and the variable of each shared term."""

    def __init__(self, register: Register, several: set[int], names: Names) -> None:
        self.register = register
        self.several = several
        self.names = names
        self.parts: list[tuple[typed.Variable, Term]] = []
        self.made: dict[int, typed.Variable] = {}

    def query(self, query: Query) -> Query:
        for variable, term in query.parts:
            number = self.register.number(term)
            if number in self.several and number not in self.made and not _is_in_order(term):
                body = map_children(self.term, term)
                self.made[number] = variable
            elif _is_in_order(term):
                body = map_children(self.term, term)
            else:
                body = self.term(term)
            self.parts.append((variable, body))
        return Query(tuple(self.parts), query.result)

    def term(self, term: Term) -> Term:
        """A term with what is shared replaced; the shared terms become parts before it."""
        number = self.register.number(term)
        if number not in self.several:
            return map_children(self.term, term)
        if number not in self.made:
            variable = self.names.variable("shared", bag(element(term)))
            body = map_children(self.term, term)
            self.made[number] = variable
            self.parts.append((variable, body))
        return Shared(self.made[number])


RULES = (share_groups, share_terms)
