"""Scopes of names, and the state of one type inference.

A `Scope` is immutable: binding a name returns a new one.  `Inference` holds what changes while a
script is typed: the problems so far, the number of the next variable, and the declarations.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeAlias

from incmrql.errors import Diagnostic, Span
from incmrql.syntax import ast
from incmrql.types import typed
from incmrql.types.model import (
    NOTHING,
    PREDEFINED,
    Collection,
    Constructor,
    Nothing,
    Record,
    Tuple,
    Type,
)


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the script, which decides what names of queries and macros mean there."""

    before: float = math.inf
    """Queries and stored values with a higher number were defined after this place."""
    expanding: tuple[str, ...] = ()
    """The macros that are being expanded here."""
    depth: int = 0
    """The number of enclosing macro calls."""


@dataclass(frozen=True, slots=True)
class MacroArgument:
    """The argument expression of a macro's parameter, with the scope in which it was written."""

    expr: ast.Expr
    scope: Scope
    place: Place


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro, and the number of the last query or stored value defined before it."""

    declaration: ast.DeclareMacro
    before: int


Entry: TypeAlias = typed.Variable | MacroArgument


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A group-by key without a name: repeating its expression after the group-by means the key."""

    expr: ast.Expr
    variable: typed.Variable
    meanings: Mapping[str, Entry | None]
    """What each name of the expression means in the grouped query."""


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows of a group, for aggregates whose argument is computed row by row."""

    partition: typed.Variable
    """Holds the bag of records of all row variables."""
    lifted: tuple[tuple[typed.Variable, typed.Variable], ...]
    """Each row variable with the one that holds the bag of its values over the group."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The local names in scope, and the group keys that expressions can repeat."""

    names: Mapping[str, Entry] = field(default_factory=dict)
    keys: tuple[GroupKey, ...] = ()
    group: GroupRows | None = None
    """Set in the head, having and order by of a query with group by."""

    def bind(self, entries: Iterable[tuple[str, Entry]]) -> Scope:
        """A scope with more names, which hide older ones."""
        return Scope({**self.names, **dict(entries)}, self.keys, self.group)

    def without_group(self) -> Scope:
        """The scope of a subquery, whose aggregates do not range over the rows of the group."""
        return Scope(self.names, self.keys) if self.group is not None else self

    def bind_variables(self, variables: Iterable[typed.Variable]) -> Scope:
        """A scope with more variables under their own names."""
        return self.bind((variable.name, variable) for variable in variables)

    def key_for(self, expr: ast.Expr) -> typed.Variable | None:
        """The variable of the group key that `expr` repeats, or None."""
        for key in self.keys:
            if key.expr == expr and all(
                self.names.get(name) is entry for name, entry in key.meanings.items()
            ):
                return key.variable
        return None


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A named query or a stored value of the script."""

    key: str
    type: Type
    stored: bool


@dataclass(frozen=True, slots=True)
class FunctionHead:
    """The signature of a declared function."""

    name: str
    parameters: tuple[typed.Variable, ...]
    result: Type


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a script can refer to outside its own text.

    The functions may raise `incmrql.errors.DataError`; its message is then reported at the
    place in the script that caused the call.
    """

    arguments: Sequence[str] | None = None
    """The script's command-line arguments, if they are known."""
    registered: Mapping[str, tuple[Type, bool]] = field(default_factory=dict)
    """Registered sources: element type, and whether they are streams."""
    functions: Mapping[str, typed.PythonFunction] = field(default_factory=dict)
    """Registered Python functions."""
    views: Mapping[str, NamedQuery] = field(default_factory=dict)
    """Queries of the same program that other texts or plans define, by name."""
    first: int = 0
    """The number after which variables are numbered: those of a program are all different."""
    file_type: Callable[[str, str], Type] | None = None
    """The element type of a Parquet path, without the sign column of the given name."""
    python_function: Callable[[str, str], typed.PythonFunction] | None = None
    """A function of a Python module."""
    python_parser: Callable[[str], tuple[object, Type]] | None = None
    """A parser class by its dotted path, with the type of its elements."""
    allowed: tuple[str, ...] | None = None
    """The paths that the script may use; None allows all."""


@dataclass(slots=True)
class Inference:
    """The mutable state of the type inference of one script."""

    catalog: Catalog
    dispatch: Callable[[Inference, ast.Expr, Scope], typed.Expr]
    """Types any expression; modules recurse through it instead of importing each other."""
    problems: list[Diagnostic] = field(default_factory=list)
    count: int = 0
    aliases: dict[str, ast.TypeTree] = field(default_factory=dict)
    resolving: set[str] = field(default_factory=set)
    data: dict[str, tuple[Constructor, ...]] = field(default_factory=lambda: dict(PREDEFINED))
    data_names: set[str] = field(default_factory=lambda: set(PREDEFINED))
    place: Place = Place()
    history: dict[str, list[tuple[int, NamedQuery]]] = field(default_factory=dict)
    """The definitions of each named query and stored value, with numbers that order them."""
    queries: dict[str, typed.Expr] = field(default_factory=dict)
    functions: dict[str, FunctionHead] = field(default_factory=dict)
    macros: dict[str, Macro] = field(default_factory=dict)
    endless: set[str] = field(default_factory=set)
    """Macros whose expansion was too deep; they are not expanded again."""
    aggregations: dict[str, typed.Aggregation] = field(default_factory=dict)
    python: dict[str, typed.PythonFunction] = field(default_factory=dict)
    parsers: dict[str, tuple[object, Type]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Names whose declaration has a problem; using them is not reported again."""
    group_keys: set[typed.Variable] = field(default_factory=set)
    lifted: set[typed.Variable] = field(default_factory=set)
    """Variables that hold bags because of a group-by."""
    adds_collections: bool = True
    """Whether `+` joins collections; off while an aggregate may still be read row by row."""
    definitions: dict[str, list[Span]] = field(default_factory=dict)
    """The places where each named query and stored value is defined, for hints."""

    def infer(self, expr: ast.Expr, scope: Scope) -> typed.Expr:
        """The typed expression."""
        return self.dispatch(self, expr, scope)

    def infer_argument(self, argument: MacroArgument) -> typed.Expr:
        """A macro's argument, typed in the scope in which it was written."""
        with self.at(argument.place):
            return self.dispatch(self, argument.expr, argument.scope)

    @contextmanager
    def at(self, place: Place) -> Iterator[None]:
        """Type expressions of another place inside the `with` block."""
        outer, self.place = self.place, place
        yield
        self.place = outer

    def define(self, name: str, query: NamedQuery) -> None:
        """Define a query or stored value for the rest of the script."""
        self.count += 1
        self.history.setdefault(name, []).append((self.count, query))

    def query_named(self, name: str) -> NamedQuery | None:
        """The query or stored value that a name refers to at the current place."""
        definitions = self.history.get(name, [])
        count = bisect_right(definitions, self.place.before, key=itemgetter(0))
        return definitions[count - 1][1] if count else None

    def variable(self, name: str, type_: Type) -> typed.Variable:
        """A new variable with a fresh number."""
        self.count += 1
        return typed.Variable(name, self.count, type_)

    def problem(
        self, code: str, span: Span, message: str, label: str = "", hint: str = ""
    ) -> typed.Expr:
        """Report a problem and return a placeholder for the expression that has it."""
        self.problems.append(Diagnostic(code, message, span, label, hint))
        return placeholder(span)

    def has_error(self, *types: Type) -> bool:
        """True if one of the types comes from a placeholder, so that its problem is reported."""
        return bool(self.problems) and any(map(contains_null_type, types))

    def constructors(self) -> dict[str, Constructor]:
        """All constructors by name."""
        return {c.name: c for alternatives in self.data.values() for c in alternatives}


def placeholder(span: Span, type_: Type = NOTHING) -> typed.Expr:
    """A null in place of an expression with a problem: it fits anywhere and causes no others."""
    return typed.Const(None, type=type_, span=span)


def contains_null_type(type_: Type) -> bool:
    """True if the type of null occurs in a type."""
    match type_:
        case Nothing():
            return True
        case Tuple(items):
            return any(map(contains_null_type, items))
        case Record(fields):
            return any(contains_null_type(inner) for _, inner in fields)
        case Collection(_, element):
            return contains_null_type(element)
        case _:
            return False


def names_in(node: Any) -> set[str]:
    """All names that occur in a tree."""
    if isinstance(node, ast.Name):
        return {node.name}
    if isinstance(node, tuple):
        return set().union(*map(names_in, node))
    fields = getattr(node, "__dataclass_fields__", None)
    if fields is None or isinstance(node, Span):
        return set()
    return set().union(
        *(names_in(getattr(node, name)) for name in fields if name not in ("span", "name_span"))
    )
