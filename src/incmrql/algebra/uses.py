"""What a query uses of the rows of a source: their type without the fields that nobody asks for."""

from __future__ import annotations

from incmrql.algebra.term import CMap, Query, Scan, Term
from incmrql.algebra.walk import children, terms
from incmrql.types import typed
from incmrql.types.model import Collection, Record, Type
from incmrql.types.walk import children as parts_of

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
