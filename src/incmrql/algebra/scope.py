"""What the names of an expression stand for, and which expressions read sources.

Translation must see every source. So a use of a named query or of a function that reads one is
replaced by its text, with variables of its own; but for views, whose rows are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from incmrql.algebra.rows import Names, RowsTerm
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
    with_copies,
)


@dataclass(frozen=True, slots=True)
class SourceScope:
    """The script around an expression, and the loop variables in scope, which hold terms."""

    script: typed.Script
    loops: frozenset[typed.Variable] = frozenset()
    views: Mapping[str, typed.Variable] = field(default_factory=dict)
    """The named queries whose rows are shared, each with the variable that holds them."""
    known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def inside(self, variables: Iterable[typed.Variable]) -> SourceScope:
        """The scope within a loop over these variables."""
        return replace(self, loops=self.loops | frozenset(variables))

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
                return self.function_reads(name) or any(map(self.reads, children(expr)))
            case _:
                return any(map(self.reads, children(expr)))

    def function_reads(self, name: str) -> bool:
        """Whether the body of a function reads a source."""
        return self._memo(f"function {name}", self.script.functions[name].body)

    def _memo(self, name: str, expr: typed.Expr) -> bool:
        if name not in self.known:
            self.known[name] = False  # a function that calls itself reads what the rest of it does
            self.known[name] = self.reads(expr)
        return self.known[name]

    def row_variables(self, expr: typed.Expr) -> set[typed.Variable]:
        """The variables of rows that an expression depends on."""
        return set(free_variables(expr) - self.loops)

    def is_never_null(self, expr: typed.Expr) -> bool:
        """Whether a collection is never null, as a term cannot be."""
        match expr:
            case typed.Read() | typed.Select() | typed.Combine() | typed.MakeCollection():
                return True
            case typed.Builtin("distinct"):
                return True
            case typed.Var(variable):
                return variable in self.loops
            case typed.Global(key):
                return self.is_never_null(self.script.queries[key])
            case typed.Widen(operand) | typed.MapOver(subject=operand):
                return self.is_never_null(operand)
            case typed.If(_, then, otherwise):
                return self.is_never_null(then) and self.is_never_null(otherwise)
            case typed.Repeat(variables=variables):
                inside = self.inside(variables)
                return all(map(inside.is_never_null, (*expr.initial, *expr.step)))
            case _:
                return False

    def resolve(self, expr: typed.Expr, names: Names) -> typed.Expr:
        """The expression that a name or a call stands for, if that reads a source."""
        match expr:
            case typed.Global(key) if key not in self.views and self.reads(expr):
                return self.resolve(rename_binders(self.script.queries[key], names.like), names)
            case typed.Call(name) if self.function_reads(name):
                return self._inline(expr, names)
            case typed.Case(subject, (typed.Branch(typed.Bind(variable), body),)) if (
                self._is_local_query(subject)
            ):
                return self.resolve(with_copies(body, variable, subject, names.like), names)
            case _:
                return expr

    def _is_local_query(self, expr: typed.Expr) -> bool:
        """Whether `let` names a query that depends on no row: as good as a query of the script.

        Values that may differ each time are computed once, as written.
        """
        is_closed = isinstance(expr.type, Collection) and free_variables(expr) <= self.loops
        return is_closed and self.reads(expr) and self._is_fixed(expr)

    def _is_fixed(self, expr: typed.Expr) -> bool:
        """Whether an expression surely has the same value each time, and prints nothing."""
        for node in self.reachable(expr):
            match node:
                case typed.Call() | typed.PythonCall() | typed.UserAggregate() | typed.Trace():
                    return False
                case typed.Builtin("random"):
                    return False
                case _:
                    pass
        return True

    def reachable(self, expr: typed.Expr) -> Iterator[typed.Expr]:
        """The nodes of an expression, of the queries that it names and the functions it calls."""
        pending, seen = [expr], set[str]()
        while pending:
            for node in nodes(pending.pop()):
                yield node
                match node:
                    case typed.Global(key) if f"query {key}" not in seen:
                        seen.add(f"query {key}")
                        pending.append(self.script.queries[key])
                    case typed.Call(name) if f"function {name}" not in seen:
                        seen.add(f"function {name}")
                        pending.append(self.script.functions[name].body)
                    case _:
                        pass

    def _inline(self, call: typed.Call, names: Names) -> typed.Expr:
        """The body of a function over its arguments."""
        function = self.script.functions[call.function]
        calls = (n for n in self.reachable(function.body) if isinstance(n, typed.Call))
        if any(inner.function == call.function for inner in calls):
            message = f'the function "{call.function}" calls itself and reads a source'
            raise translation_error("A002", call, message)
        pattern = typed.TupleOf(tuple(map(typed.Bind, function.parameters)))
        types = Tuple(tuple(argument.type for argument in call.arguments))
        values = typed.MakeTuple(call.arguments, type=types, span=call.span)
        branch = typed.Branch(pattern, function.body)
        case = typed.Case(values, (branch,), type=call.type, span=call.span)
        return rename_binders(case, names.like)


class Translator(Protocol):
    """What the parts of the translation need of each other."""

    names: Names
    scope: SourceScope

    def term(self, expr: typed.Expr) -> Term:
        """The term of a collection that depends on no variable of a row."""

    def attach(self, rows: RowsTerm, expr: typed.Expr) -> tuple[RowsTerm, typed.Expr]:
        """Make each sub-query a variable of the rows: the new rows, the expression over them."""


def last_number(script: typed.Script, expr: typed.Expr) -> int:
    """The highest number of a variable in a script and an expression."""
    exprs = [expr, *script.queries.values(), *(f.body for f in script.functions.values())]
    numbers = [v.number for e in exprs for v in bound_variables(e)]
    numbers += [v.number for f in script.functions.values() for v in f.parameters]
    return max(numbers, default=0)


def translation_error(code: str, expr: typed.Expr, message: str) -> QueryError:
    """The error for an expression that has no term."""
    hint = "Name the part that reads the source and use its name outside of the row."
    return QueryError(Diagnostic(code, message, expr.span, "here", hint))
