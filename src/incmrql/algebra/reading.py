"""Which expressions read sources, and what names and functions stand for.

A named query or a function that reads a source is put in the place of its use, with variables
of its own, so that translation sees the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol

from incmrql.algebra import rows
from incmrql.algebra.rows import Names, Rows
from incmrql.algebra.term import Term
from incmrql.errors import Diagnostic, QueryError
from incmrql.types import typed
from incmrql.types.model import Collection, Tuple
from incmrql.types.walk import (
    bound_variables,
    children,
    free_variables,
    nodes,
    rename_binders,
    substitute,
    with_copies,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The script around an expression, and the loop variables that hold terms."""

    script: typed.Script
    loops: frozenset[typed.Variable] = frozenset()
    known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def inside(self, variables: Iterable[typed.Variable]) -> Reading:
        """The same within a loop over these variables."""
        return Reading(self.script, self.loops | frozenset(variables), self.known)

    def reads(self, expr: typed.Expr) -> bool:
        """Whether an expression reads a source, or a loop's rows, anywhere inside."""
        match expr:
            case typed.Read():
                return True
            case typed.Var(variable):
                return variable in self.loops
            case typed.Global(key):
                return self._memo(f"query {key}", self.script.queries[key])
            case typed.Call(name):
                body = self.script.functions[name].body
                return self._memo(f"function {name}", body) or any(map(self.reads, children(expr)))
            case _:
                return any(map(self.reads, children(expr)))

    def is_never_null(self, expr: typed.Expr) -> bool:
        """Whether a collection is surely there: a term has no way to be null."""
        match expr:
            case typed.Read() | typed.Select() | typed.Combine() | typed.MakeCollection():
                return True
            case typed.Var(variable):
                return variable in self.loops
            case typed.Global(key):
                return self.is_never_null(self.script.queries[key])
            case typed.Widen(operand):
                return self.is_never_null(operand)
            case typed.MapOver(subject=subject):
                return self.is_never_null(subject)
            case typed.Builtin("distinct"):
                return True
            case typed.If(_, then, otherwise):
                return self.is_never_null(then) and self.is_never_null(otherwise)
            case typed.Repeat(variables=variables):
                inside = self.inside(variables)
                return all(map(inside.is_never_null, (*expr.initial, *expr.step)))
            case _:
                return False

    def _memo(self, name: str, expr: typed.Expr) -> bool:
        if name not in self.known:
            self.known[name] = False  # a function that calls itself reads what the rest of it does
            self.known[name] = self.reads(expr)
        return self.known[name]

    def resolved(self, expr: typed.Expr, names: Names, depth: int = 0) -> typed.Expr:
        """The expression that a name or a call stands for, if that reads a source."""
        match expr:
            case typed.Global(key) if self.reads(expr):
                found = rename_binders(self.script.queries[key], names.like)
                return self.resolved(found, names, depth)
            case typed.Call(name, arguments) if self._memo(
                f"function {name}", self.script.functions[name].body
            ):
                return self._inlined(expr, name, arguments, names)
            case typed.Case(subject, (typed.Branch(typed.Bind(variable), body),)) if (
                self._is_local_query(subject)
            ):
                found = with_copies(body, variable, subject, names.like)
                return self.resolved(found, names, depth)
            case _:
                return expr

    def _is_local_query(self, expr: typed.Expr) -> bool:
        """Whether `let` names a query that no row has part in: as good as a query of the script.

        Values that may differ each time are computed once, as written.
        """
        is_closed = isinstance(expr.type, Collection) and free_variables(expr) <= self.loops
        return is_closed and self.reads(expr) and self._is_fixed(expr)

    def _is_fixed(self, expr: typed.Expr) -> bool:
        """Whether an expression surely has the same value each time, and says nothing meanwhile."""
        for node in nodes(expr):
            match node:
                case typed.Call() | typed.PythonCall() | typed.UserAggregate() | typed.Trace():
                    return False
                case typed.Builtin("random"):
                    return False
                case typed.Global(key):
                    if not self._is_fixed(self.script.queries[key]):
                        return False
                case _:
                    pass
        return True

    def _inlined(
        self, expr: typed.Call, name: str, arguments: tuple[typed.Expr, ...], names: Names
    ) -> typed.Expr:
        """The body of a function over its arguments."""
        function = self.script.functions[name]
        if self._calls(name, name, set()):
            raise refused("A002", expr, f'the function "{name}" calls itself and reads a source')
        pattern = typed.TupleOf(tuple(map(typed.Bind, function.parameters)))
        types = Tuple(tuple(argument.type for argument in arguments))
        values = typed.MakeTuple(arguments, type=types, span=expr.span)
        case = typed.Case(values, (typed.Branch(pattern, function.body),), type=expr.type,
                          span=expr.span)  # fmt: skip
        return rename_binders(case, names.like)

    def _calls(self, name: str, wanted: str, seen: set[str]) -> bool:
        """Whether a function calls another, directly or through others."""
        for node in nodes(self.script.functions[name].body):
            if isinstance(node, typed.Call):
                if node.function == wanted:
                    return True
                if node.function not in seen and self._calls(
                    node.function, wanted, seen | {node.function}
                ):
                    return True
        return False


class Translator(Protocol):
    """What the parts of the translation need of each other."""

    names: Names
    reading: Reading

    def term(self, expr: typed.Expr) -> Term:
        """The term of a collection that no variable of a row has part in."""

    def attach(self, rows: Rows, expr: typed.Expr) -> tuple[Rows, typed.Expr]:
        """The expression without sources: its sub-queries became variables of the rows."""


def last_number(script: typed.Script, expr: typed.Expr) -> int:
    """The highest number of a variable so far."""
    exprs = [expr, *script.queries.values(), *(f.body for f in script.functions.values())]
    numbers = [v.number for e in exprs for v in bound_variables(e)]
    numbers += [v.number for f in script.functions.values() for v in f.parameters]
    return max(numbers, default=0)


def refused(code: str, expr: typed.Expr, message: str) -> QueryError:
    """The problem of a shape that has no term."""
    hint = "Name the part that reads the source and use its name outside of the row."
    return QueryError(Diagnostic(code, message, expr.span, "here", hint))


# --- Flattened comprehensions ---
#
# A query that ranges over a query ranges over what that one does.
#
# select h from p in (select g from qs where c), rs = select h from qs, c, p = g, rs
#
# An equality over p is then one over the variables of qs, where g says no more than that, so that
# it can be the key of a join with what came before them.


@dataclass(frozen=True, slots=True)
class Clauses:
    """A query with its from clause flat and its conditions taken apart."""

    qualifiers: tuple[typed.Qualifier, ...]
    conditions: tuple[typed.Expr, ...]
    select: typed.Select


def flattened(select: typed.Select, reading: Reading, names: Names) -> Clauses:
    """The clauses of a query."""
    qualifiers: list[typed.Qualifier] = []
    conditions: list[typed.Expr] = []
    for qualifier in _flat(select.qualifiers, reading, names):
        if isinstance(qualifier, typed.Condition):
            conditions += rows.conjuncts(qualifier.condition)
        else:
            qualifiers.append(qualifier)
    conditions += rows.conjuncts(select.where)
    known = _known(qualifiers)
    return Clauses(tuple(qualifiers), tuple(_through(c, known) for c in conditions), select)


def _known(qualifiers: list[typed.Qualifier]) -> dict[typed.Variable, typed.Expr]:
    """What variables are bound to that are made of others in a simple way."""
    found: dict[typed.Variable, typed.Expr] = {}
    for qualifier in qualifiers:
        if isinstance(qualifier, typed.Binding):
            value = rows.reduce_projections(substitute(qualifier.value, found))
            parts = pattern_parts(qualifier.pattern, value)
            found |= {variable: part for variable, part in parts.items() if _is_known(part)}
    return found


def _is_known(expr: typed.Expr) -> bool:
    return isinstance(expr, typed.MakeRecord | typed.MakeTuple) or _is_simple(expr)


def _through(condition: typed.Expr, known: Mapping[typed.Variable, typed.Expr]) -> typed.Expr:
    """An equality of variables that are not bound to others; else the condition."""
    if not isinstance(condition, typed.Compare) or condition.op != "=":
        return condition
    found = rows.reduce_projections(substitute(condition, known))
    return found if all(map(_is_simple, children(found))) else condition


_SIMPLE = (typed.Var, typed.Const, typed.Field, typed.Item, typed.Widen, typed.Arithmetic,
           typed.Negate)  # fmt: skip


def _is_simple(expr: typed.Expr) -> bool:
    """Whether an expression has one value however often it is computed, and soon."""
    return all(isinstance(node, _SIMPLE) for node in nodes(expr))


def _flat(
    qualifiers: tuple[typed.Qualifier, ...], reading: Reading, names: Names
) -> Iterator[typed.Qualifier]:
    for qualifier in qualifiers:
        if not isinstance(qualifier, typed.Generator):
            yield qualifier
            continue
        inner = _plain(reading.resolved(qualifier.domain, names), reading, names)
        if inner is None:
            yield qualifier
            continue
        yield from _flat(inner.qualifiers, reading, names)
        if inner.where is not None:
            yield typed.Condition(inner.where)
        yield typed.Binding(qualifier.pattern, inner.head)


def _plain(domain: typed.Expr, reading: Reading, names: Names) -> typed.Select | None:
    """The query that a domain is, if it has nothing but from, where and head."""
    if not reading.reads(domain):
        return None
    match domain:
        case typed.Widen(operand):
            inner = _plain(reading.resolved(operand, names), reading, names)
            if inner is None or not isinstance(domain.type, Collection):
                return None
            wanted = domain.type.element
            head = inner.head
            if head.type != wanted:
                head = typed.Widen(head, type=wanted, span=head.span)
            return replace(inner, head=head)
        case typed.Select(distinct=False, group=None, limit=None):
            return domain
        case _:
            return None


def pattern_variables(pattern: Any) -> list[typed.Variable]:
    """The variables that a pattern binds, in order."""
    if isinstance(pattern, typed.Bind):
        return [pattern.variable]
    if isinstance(pattern, tuple):
        return [v for part in pattern for v in pattern_variables(part)]
    if is_dataclass(pattern) and not isinstance(pattern, type):
        parts = (getattr(pattern, part.name) for part in fields(pattern))
        return [v for part in parts for v in pattern_variables(part)]
    return []


def pattern_parts(pattern: typed.Pattern, value: typed.Expr) -> dict[typed.Variable, typed.Expr]:
    """What the variables of a pattern stand for, as far as the text of the value says it."""
    match pattern, value:
        case typed.Bind(variable), _:
            return {variable: value}
        case typed.TupleOf(patterns), typed.MakeTuple(items):
            pairs = zip(patterns, items, strict=True)
            return {v: e for each, item in pairs for v, e in pattern_parts(each, item).items()}
        case _:
            return {}
