"""Which terms and expressions are equal but for the names of their variables.

Variables are numbered in the order in which they are met; two parts are then equal exactly
when their texts are, types and constants included.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
)
from incmrql.algebra.walk import children, variables_of, with_variables
from incmrql.types import typed


def fingerprint(*parts: Any) -> str:
    """A text that parts of a query share exactly when they differ in names only."""
    numbers: defaultdict[typed.Variable, int] = defaultdict(itertools.count(1).__next__)
    return repr(with_variables(parts, lambda v: typed.Variable("", numbers[v], v.type)))


def places(*parts: Any) -> list[typed.Variable]:
    """The variables of parts in the order in which they are met, each once."""
    return list(dict.fromkeys(variables_of(parts)))


class Register:
    """A number for every term: equal ones, whatever the names of their variables, share it."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._known: dict[int, tuple[Term, int, int]] = {}

    def number(self, term: Term) -> int:
        """The number of a term that was entered."""
        return self._known[id(term)][1]

    def is_closed(self, term: Term) -> bool:
        """Whether a term that was entered uses no variable of a loop around it."""
        return self._known[id(term)][2] == 0

    def enter(self, term: Term, loops: tuple[typed.Variable, ...] = ()) -> int:
        """Number a term and all below it.

        Variables of loops go by their distance from the innermost, so that a loop has the same
        number wherever it stands.
        """
        inner = (*loops, *term.variables) if isinstance(term, Repeat) else loops
        outside = len(term.initial) if isinstance(term, Repeat) else 0
        numbers: list[int] = []
        reach = 0
        for place, child in enumerate(children(term)):
            here = loops if place < outside else inner
            numbers.append(self.enter(child, here))
            reach = max(reach, self._known[id(child)][2] - (len(here) - len(loops)))
        if isinstance(term, Loop):
            reach = len(loops) - loops.index(term.variable) if term.variable in loops else 1
        key = (type(term).__name__, _own(term, loops), tuple(numbers))
        number = self._numbers.setdefault(key, len(self._numbers))
        self._known[id(term)] = (term, number, reach)
        return number


def _own(term: Term, loops: tuple[typed.Variable, ...]) -> object:
    """What a term says besides the terms below it."""
    match term:
        case Scan(source, element):
            return repr((source, element))
        case Values(expr):
            return fingerprint(expr)
        case Loop(variable) if variable in loops:
            return len(loops) - loops.index(variable)
        case Loop(variable) | Shared(variable):
            return variable
        case CMap(variable, body, _):
            return fingerprint(variable, body)
        case Sort(_, descending, limit, ordered):
            return descending, fingerprint(limit), ordered
        case Repeat(variables=variables, flagged=flagged, limit=limit, chosen=chosen):
            return tuple(v.type for v in variables), flagged, fingerprint(limit), chosen
        case GroupBy() | CoGroup() | Union():
            return None


def same_term(one: Term, other: Term) -> bool:
    """Whether two terms differ in the names of their variables only."""
    if one is other:
        return True
    if type(one) is not type(other) or len(children(one)) != len(children(other)):
        return False
    if isinstance(one, Repeat):
        register = Register()
        return register.enter(one) == register.enter(other)
    return _own(one, ()) == _own(other, ()) and all(map(same_term, children(one), children(other)))
