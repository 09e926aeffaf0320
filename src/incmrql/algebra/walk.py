"""Walking terms: their parts, equality up to names of variables, and the fields they use.

This is the one module that knows where a term keeps its parts.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, assert_never, cast

from incmrql.algebra.term import (
    CMap,
    CoGroup,
    GroupBy,
    Loop,
    Part,
    Query,
    Repeat,
    Scan,
    Shared,
    Sort,
    Term,
    Union,
    Values,
    View,
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


def with_views(query: Query, views: Sequence[View]) -> Query:
    """A query with the parts of the views that it uses, through others too, before its own.

    A view comes after those that it uses.
    """
    used = _shared_variables(query.parts)
    wanted: list[View] = []
    for view in reversed(views):
        if view.variable in used:
            wanted.insert(0, view)
            used |= _shared_variables(view.parts)
    parts = tuple(part for view in wanted for part in view.parts)
    return Query((*parts, *query.parts), query.result, tuple(wanted))


def _shared_variables(parts: Sequence[Part]) -> set[typed.Variable]:
    return {t.variable for _, part in parts for t in terms(part) if isinstance(t, Shared)}


_FIELD_NAMES: dict[type, tuple[str, ...]] = {}


def _field_names(kind: type) -> tuple[str, ...]:
    """The fields of a class of terms or expressions that may hold variables."""
    if kind not in _FIELD_NAMES:
        has_variables = is_dataclass(kind) and kind is not Span
        names = [field.name for field in fields(kind)] if has_variables else []
        _FIELD_NAMES[kind] = tuple(n for n in names if n not in ("type", "span", "views"))
    return _FIELD_NAMES[kind]


def variables_of(part: Any) -> Iterator[typed.Variable]:
    """All variables that occur, in the order of the text."""
    if isinstance(part, typed.Variable):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from variables_of(item)
    else:
        for name in _field_names(type(part)):
            yield from variables_of(getattr(part, name))


def distinct_variables(*parts: Any) -> list[typed.Variable]:
    """The variables of parts, each once, in the order of their first occurrence."""
    return list(dict.fromkeys(variables_of(parts)))


P = TypeVar("P")


def map_variables(part: P, f: Callable[[typed.Variable], typed.Variable]) -> P:
    """Any part of a query, or a tuple of parts, with `f` applied to each variable."""
    return cast("P", _map_variables(part, f))


def _map_variables(part: Any, f: Callable[[typed.Variable], typed.Variable]) -> Any:
    if isinstance(part, typed.Variable):
        return f(part)
    if isinstance(part, tuple):
        return tuple([_map_variables(item, f) for item in part])
    changed = {}
    for name in _field_names(type(part)):
        before = getattr(part, name)
        after = _map_variables(before, f)
        if after is not before:
            changed[name] = after
    return replace(part, **changed) if changed else part


# --- Equal but for names ---
#
# With variables numbered in the order in which they occur, two parts are equal exactly when their
# texts are, types and constants included.


def fingerprint(*parts: Any) -> str:
    """A text that is equal for two parts of a query exactly if they differ in names only."""
    numbers: defaultdict[typed.Variable, int] = defaultdict(itertools.count(1).__next__)
    return repr(map_variables(parts, lambda v: typed.Variable("", numbers[v], v.type)))


class Register:
    """Numbers for terms: terms that are equal but for the names of variables share one."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._known: dict[int, tuple[Term, int, int]] = {}

    def number(self, term: Term) -> int:
        """The number of a term that has been entered."""
        return self._known[id(term)][1]

    def is_closed(self, term: Term) -> bool:
        """Whether a term that has been entered uses no variable of a loop around it."""
        return self._known[id(term)][2] == 0

    def enter(self, term: Term, loops: tuple[typed.Variable, ...] = ()) -> int:
        """Number a term and all terms below it.

        A variable of a loop counts by its distance from the innermost loop, so that a loop has
        the same number wherever it stands.
        """
        inner = (*loops, *term.variables) if isinstance(term, Repeat) else loops
        outside = len(term.initial) if isinstance(term, Repeat) else 0
        numbers: list[int] = []
        reach = 0
        for index, child in enumerate(children(term)):
            here = loops if index < outside else inner
            numbers.append(self.enter(child, here))
            reach = max(reach, self._known[id(child)][2] - (len(here) - len(loops)))
        if isinstance(term, Loop):
            reach = len(loops) - loops.index(term.variable) if term.variable in loops else 1
        key = (type(term).__name__, _label(term, loops), tuple(numbers))
        number = self._numbers.setdefault(key, len(self._numbers))
        self._known[id(term)] = (term, number, reach)
        return number


def _label(term: Term, loops: tuple[typed.Variable, ...]) -> object:
    """What tells a term from others of its class, besides the terms below it."""
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
    return _label(one, ()) == _label(other, ()) and all(
        map(same_term, children(one), children(other))
    )


# --- Fields that a query uses ---


Path = tuple[str, ...]
"""Names of fields, and `*` for the elements of a collection."""
_EACH = "*"


def used_type(query: Query, scan: Scan) -> Type:
    """The type of the rows of a source, without the fields that a query does not use.

    Fields are left out of records at any depth; what is used as a whole stays whole.
    """
    uses = _FieldUses()
    for _, part in query.parts:
        if part == scan:
            uses.whole.add(())
        for term in terms(part):
            _note_uses(term, scan, uses)
    return uses.cut(scan.element, ())


def _note_uses(term: Term, scan: Scan, uses: _FieldUses) -> None:
    if isinstance(term, CMap) and term.source == scan:
        uses.visit(term.body, {term.variable: ()})
    elif scan in children(term):
        uses.whole.add(())


class _FieldUses:
    """The paths in a row of which a query uses the whole value, and those it passes through."""

    def __init__(self) -> None:
        self.whole: set[Path] = set()
        self.reached: set[Path] = set()

    def visit(self, expr: typed.Expr, paths: dict[typed.Variable, Path]) -> None:
        """Record what an expression uses; `paths` are the variables that stand for parts."""
        path = _path(expr, paths)
        if path is not None:
            self.whole.add(path)
            return
        match expr:
            case typed.Compare("=", left, right) if left == right:  # a test for null
                path = _path(left, paths)
                if path is None:
                    self.visit(left, paths)
                else:
                    self.reached.add(path)
            case typed.MapOver(variable, subject, body):
                self.visit(body, self._bind(variable, subject, paths))
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
                    inner = self._bind(variable, domain, inner)
                case typed.Generator(_, expr) | typed.Binding(_, expr) | typed.Condition(expr):
                    self.visit(expr, inner)
        others = [query.head, query.where, query.having, query.limit]
        others += [order.expr for order in query.order]
        if query.group is not None:  # its variables become bags
            self.whole.add(())
        for other in others:
            if other is not None:
                self.visit(other, inner)

    def _bind(
        self, variable: typed.Variable, domain: typed.Expr, paths: dict[typed.Variable, Path]
    ) -> dict[typed.Variable, Path]:
        """The paths with a variable that ranges over a domain."""
        path = _path(domain, paths)
        if path is None:
            self.visit(domain, paths)
            return paths
        self.reached.add(path)
        return {**paths, variable: (*path, _EACH)}

    def cut(self, type_: Type, path: Path) -> Type:
        """A type without the fields that are not used."""
        if any(path[: len(whole)] == whole for whole in self.whole):
            return type_
        match type_:
            case Record(fields) if fields:
                kept = [
                    (n, self.cut(t, (*path, n))) for n, t in fields if self._is_used((*path, n))
                ]
                return Record(tuple(kept or fields[:1]))
            case Collection(kind, element):
                return Collection(kind, self.cut(element, (*path, _EACH)))
            case _:
                return type_

    def _is_used(self, path: Path) -> bool:
        return any(used[: len(path)] == path for used in (*self.whole, *self.reached))


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
