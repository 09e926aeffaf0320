"""Names in view, and the state of one inference.

A `Scope` is a value: binding gives a new one.  `Inference` collects what is mutable while a
script is typed: problems found, variables numbered, declarations seen so far.
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
    """What the names of a script mean where an expression is written."""

    before: float = math.inf
    """Queries and stored values with a higher number were defined later."""
    expanding: tuple[str, ...] = ()
    """The macros whose bodies it stands in."""
    depth: int = 0
    """How many calls of macros led to it."""


@dataclass(frozen=True, slots=True)
class MacroArgument:
    """An expression that a macro's parameter stands for, with the names in view where it is."""

    expr: ast.Expr
    scope: Scope
    place: Place


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro, and up to which number queries and stored values were defined before it."""

    declaration: ast.DeclareMacro
    before: int


Entry: TypeAlias = typed.Variable | MacroArgument


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A key that is a plain expression: where the expression stands, the variable is meant."""

    expr: ast.Expr
    variable: typed.Variable
    meant: Mapping[str, Entry | None]
    """What each name in the expression stands for in the grouped query."""


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows of a group, for aggregates whose argument is computed row by row."""

    partition: typed.Variable
    """Holds the bag of records of all row variables."""
    lifted: tuple[tuple[typed.Variable, typed.Variable], ...]
    """Each row variable with the one that holds the bag of its values over the group."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The local names in view and the group keys that expressions may stand for."""

    names: Mapping[str, Entry] = field(default_factory=dict)
    keys: tuple[GroupKey, ...] = ()
    group: GroupRows | None = None
    """The rows of the group-by whose head, having or order by this is."""

    def bind(self, entries: Iterable[tuple[str, Entry]]) -> Scope:
        """The scope with more names; later ones hide earlier ones."""
        return Scope({**self.names, **dict(entries)}, self.keys, self.group)

    def ungrouped(self) -> Scope:
        """The scope of a query inside: its aggregates do not range over the rows outside."""
        return Scope(self.names, self.keys) if self.group is not None else self

    def bind_variables(self, variables: Iterable[typed.Variable]) -> Scope:
        """The scope with these variables under their own names."""
        return self.bind((variable.name, variable) for variable in variables)

    def key_for(self, expr: ast.Expr) -> typed.Variable | None:
        """The variable of the group key that `expr` stands for, if it does."""
        for key in self.keys:
            if key.expr == expr and all(
                self.names.get(name) is entry for name, entry in key.meant.items()
            ):
                return key.variable
        return None


@dataclass(frozen=True, slots=True)
class Named:
    """A query or stored value of the script."""

    key: str
    type: Type
    stored: bool


@dataclass(frozen=True, slots=True)
class FunctionHead:
    """What a call needs to know of a declared function."""

    name: str
    parameters: tuple[typed.Variable, ...]
    result: Type


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a script can refer to outside its own text.

    The functions may raise `incmrql.errors.DataError`, whose message is then reported at
    the place that asked.
    """

    arguments: Sequence[str] | None = None
    """The words of the command line, if they are known."""
    registered: Mapping[str, tuple[Type, bool]] = field(default_factory=dict)
    """Registered sources: element type, and whether they are streams."""
    functions: Mapping[str, typed.PythonFunction] = field(default_factory=dict)
    """Registered Python functions."""
    file_type: Callable[[str, str], Type] | None = None
    """The element type of a Parquet file or folder, less the sign column of that name."""
    python_function: Callable[[str, str], typed.PythonFunction] | None = None
    """A function of a Python module."""
    python_parser: Callable[[str], tuple[object, Type]] | None = None
    """A parser class by its dotted path, with the type of what it gives."""
    allowed: tuple[str, ...] | None = None
    """The folders and files that the script may use; None: all."""


@dataclass(slots=True)
class Inference:
    """Everything that changes while a script is typed."""

    catalog: Catalog
    dispatch: Callable[[Inference, ast.Expr, Scope], typed.Expr]
    """How an expression is typed; the modules of the inference reach each other through it."""
    problems: list[Diagnostic] = field(default_factory=list)
    count: int = 0
    aliases: dict[str, ast.TypeTree] = field(default_factory=dict)
    resolving: set[str] = field(default_factory=set)
    data: dict[str, tuple[Constructor, ...]] = field(default_factory=lambda: dict(PREDEFINED))
    data_names: set[str] = field(default_factory=lambda: set(PREDEFINED))
    place: Place = Place()
    history: dict[str, list[tuple[int, Named]]] = field(default_factory=dict)
    """What each name of a query or stored value came to mean, and when."""
    queries: dict[str, typed.Expr] = field(default_factory=dict)
    functions: dict[str, FunctionHead] = field(default_factory=dict)
    macros: dict[str, Macro] = field(default_factory=dict)
    endless: set[str] = field(default_factory=set)
    """Macros that were expanded too deep once; it is no use to try again."""
    aggregations: dict[str, typed.Aggregation] = field(default_factory=dict)
    python: dict[str, typed.PythonFunction] = field(default_factory=dict)
    parsers: dict[str, tuple[object, Type]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """What was declared with a problem: to use it is no further problem."""
    group_keys: set[typed.Variable] = field(default_factory=set)
    lifted: set[typed.Variable] = field(default_factory=set)
    """Variables that are bags since a group by."""
    adds_collections: bool = True
    """Whether `+` joins collections; not in an aggregate that may be meant row by row."""
    definitions: dict[str, list[Span]] = field(default_factory=dict)
    """Where each named query and stored value of the script is defined, for hints."""

    def infer(self, expr: ast.Expr, scope: Scope) -> typed.Expr:
        """The typed expression."""
        return self.dispatch(self, expr, scope)

    def infer_argument(self, argument: MacroArgument) -> typed.Expr:
        """The typed expression that a macro's parameter stands for, typed where it was written."""
        with self.at(argument.place):
            return self.dispatch(self, argument.expr, argument.scope)

    @contextmanager
    def at(self, place: Place) -> Iterator[None]:
        """While an expression of another place is typed."""
        outer, self.place = self.place, place
        yield
        self.place = outer

    def define(self, name: str, named: Named) -> None:
        """Give a query or stored value its name, for what follows."""
        self.count += 1
        self.history.setdefault(name, []).append((self.count, named))

    def named(self, name: str) -> Named | None:
        """The query or stored value that a name stands for at this place."""
        meanings = self.history.get(name, [])
        known = bisect_right(meanings, self.place.before, key=itemgetter(0))
        return meanings[known - 1][1] if known else None

    def variable(self, name: str, type_: Type) -> typed.Variable:
        """A new variable."""
        self.count += 1
        return typed.Variable(name, self.count, type_)

    def problem(
        self, code: str, span: Span, message: str, label: str = "", hint: str = ""
    ) -> typed.Expr:
        """Note a problem; the null in its place fits anywhere, so it causes no others."""
        self.problems.append(Diagnostic(code, message, span, label, hint))
        return typed.Const(None, type=NOTHING, span=span)

    def spoiled(self, type_: Type) -> bool:
        """Whether a type has a null in it that a problem, already told, left there."""
        return bool(self.problems) and holds_nothing(type_)

    def constructors(self) -> dict[str, Constructor]:
        """All constructors by name."""
        return {c.name: c for alternatives in self.data.values() for c in alternatives}


def holds_nothing(type_: Type) -> bool:
    """Whether the type of null occurs in a type."""
    match type_:
        case Nothing():
            return True
        case Tuple(items):
            return any(map(holds_nothing, items))
        case Record(fields):
            return any(holds_nothing(inner) for _, inner in fields)
        case Collection(_, element):
            return holds_nothing(element)
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
