"""Walking terms: their parts, equality up to names of variables, and the fields they use.

This is the one module that knows where a term keeps its parts.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, assert_never

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
)
from incmrql.errors import Span
from incmrql.types import typed
from incmrql.types.model import Collection, Record, Type
from incmrql.types.walk import children as parts_of

# --- Parts of a term ---


def children(term: Term) -> tuple[Term, ...]:
    """The terms directly below."""
    match term:
        case Scan() | Values() | Loop() | Shared():
            return ()
        case CMap(source=source) | GroupBy(source) | Sort(source=source):
            return (source,)
        case CoGroup(left, right):
            return (left, right)
        case Union(parts):
            return parts
        case Repeat(initial=initial, step=step):
            return (*initial, *step)
        case _:
            assert_never(term)


def map_children(f: Callable[[Term], Term], term: Term) -> Term:
    """`term` with `f` applied to each term directly below; the same term if nothing changed."""
    below = children(term)
    changed = tuple(map(f, below))
    if all(before is after for before, after in zip(below, changed, strict=True)):
        return term
    return _with_children(term, changed)


def _with_children(term: Term, below: tuple[Term, ...]) -> Term:
    match term:
        case Scan() | Values() | Loop() | Shared():
            return term
        case CMap() | GroupBy() | Sort():
            return replace(term, source=below[0])
        case CoGroup():
            return CoGroup(below[0], below[1])
        case Union():
            return Union(below)
        case Repeat(initial=initial):
            return replace(term, initial=below[: len(initial)], step=below[len(initial) :])
        case _:
            assert_never(term)


def terms(term: Term) -> Iterator[Term]:
    """`term` and all terms below it."""
    yield term
    for child in children(term):
        yield from terms(child)


def variables_of(part: Any) -> Iterator[typed.Variable]:
    """All variables that occur, in the order of the text."""
    if isinstance(part, typed.Variable):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from variables_of(item)
    elif is_dataclass(part) and not isinstance(part, Span | type):
        for each in fields(part):
            if each.name not in ("type", "span"):
                yield from variables_of(getattr(part, each.name))


def map_variables(query: Query, f: Callable[[typed.Variable], typed.Variable]) -> Query:
    """A query with its variables replaced."""
    mapped: Query = with_variables(query, f)
    return mapped


def with_variables(part: Any, f: Callable[[typed.Variable], typed.Variable]) -> Any:
    """Any part of a query, or several in a tuple, with the variables replaced."""
    if isinstance(part, typed.Variable):
        return f(part)
    if isinstance(part, tuple):
        return tuple([with_variables(item, f) for item in part])
    if is_dataclass(part) and not isinstance(part, Span | type):
        changed = {}
        for each in fields(part):
            if each.name in ("type", "span"):
                continue
            before = getattr(part, each.name)
            after = with_variables(before, f)
            if after is not before:
                changed[each.name] = after
        return replace(part, **changed) if changed else part
    return part


# --- Equal but for names ---
#
# Variables are numbered in the order in which they are met; two parts are then equal exactly when
# their texts are, types and constants included.


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


# --- Fields that a query uses ---


Path = tuple[str, ...]
"""Names of fields, and `*` for the elements of a collection."""
_EACH = "*"


def used_type(query: Query, scan: Scan) -> Type:
    """The type of the rows of a source with the fields that a query uses, at any depth.

    Holds for records and what they hold: a row that is used whole stays whole.
    """
    found = _Uses()
    for _, part in query.parts:
        if part == scan:
            found.whole.add(())
        for term in terms(part):
            _note(term, scan, found)
    return found.cut(scan.element, ())


def _note(term: Term, scan: Scan, found: _Uses) -> None:
    if isinstance(term, CMap) and term.source == scan:
        found.visit(term.body, {term.variable: ()})
    elif scan in children(term):
        found.whole.add(())


class _Uses:
    """The parts of a row that are used as they are, and those that are gone through."""

    def __init__(self) -> None:
        self.whole: set[Path] = set()
        self.reached: set[Path] = set()

    def visit(self, expr: typed.Expr, paths: dict[typed.Variable, Path]) -> None:
        """Note what an expression uses, with variables that stand for parts of the row."""
        path = _path(expr, paths)
        if path is not None:
            self.whole.add(path)
            return
        match expr:
            case typed.Compare("=", left, right) if left == right:  # asks if it is null
                path = _path(left, paths)
                if path is None:
                    self.visit(left, paths)
                else:
                    self.reached.add(path)
            case typed.MapOver(variable, subject, body):
                self.visit(body, self._bound(variable, subject, paths))
            case typed.Select():
                self._select(expr, paths)
            case _:
                for child in parts_of(expr):
                    self.visit(child, paths)

    def _select(self, query: typed.Select, paths: dict[typed.Variable, Path]) -> None:
        inner = dict(paths)
        for qualifier in query.qualifiers:
            match qualifier:
                case typed.Generator(typed.Bind(variable), domain):
                    inner = self._bound(variable, domain, inner)
                case typed.Generator(_, expr) | typed.Binding(_, expr) | typed.Condition(expr):
                    self.visit(expr, inner)
        others = [query.head, query.where, query.having, query.limit]
        others += [order.expr for order in query.order]
        if query.group is not None:  # its variables become bags
            self.whole.add(())
        for each in others:
            if each is not None:
                self.visit(each, inner)

    def _bound(
        self, variable: typed.Variable, domain: typed.Expr, paths: dict[typed.Variable, Path]
    ) -> dict[typed.Variable, Path]:
        """The paths with a variable that goes through a domain."""
        path = _path(domain, paths)
        if path is None:
            self.visit(domain, paths)
            return paths
        self.reached.add(path)
        return {**paths, variable: (*path, _EACH)}

    def cut(self, type_: Type, path: Path) -> Type:
        """A type without the fields that are not used."""
        if any(path[: len(each)] == each for each in self.whole):
            return type_
        match type_:
            case Record(fields) if fields:
                kept = [(n, self.cut(t, (*path, n))) for n, t in fields if self._is_met((*path, n))]
                return Record(tuple(kept or fields[:1]))
            case Collection(kind, element):
                return Collection(kind, self.cut(element, (*path, _EACH)))
            case _:
                return type_

    def _is_met(self, path: Path) -> bool:
        return any(each[: len(path)] == path for each in (*self.whole, *self.reached))


def _path(expr: typed.Expr, paths: dict[typed.Variable, Path]) -> Path | None:
    """The part of the row that an expression is, if it is one."""
    match expr:
        case typed.Var(variable):
            return paths.get(variable)
        case typed.Field(subject, name) if isinstance(subject.type, Record):
            path = _path(subject, paths)
            return None if path is None else (*path, name)
        case _:
            return None
