"""Terms: what a query computes, as a tree over collections.

The operators are those of the paper.  A function `f` of a term is a typed expression over one
element; it may walk collections inside that element, but it never reads a source.

    cMap(v → f, X)     the elements of f(v), for every v in X
    groupBy(X)         {(k, v)} to {(k, {v})}
    coGroup(X, Y)      {(k, a)}, {(k, b)} to {(k, ({a}, {b}))}, for every k of either side

Keys agree by identity, null too.  Terms are values: frozen, compared by structure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from incmrql.errors import InternalError
from incmrql.types import typed
from incmrql.types.model import Collection, Tuple, Type, bag


@dataclass(frozen=True, slots=True)
class Picks:
    """What is picked of each row where it is parsed: a record of expressions over the row."""

    variable: typed.Variable
    fields: tuple[tuple[str, typed.Expr], ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a source, or what is picked of them."""

    source: typed.Source
    element: Type
    picks: Picks | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """The elements of a collection that no source has part in."""

    expr: typed.Expr


@dataclass(frozen=True, slots=True)
class Loop:
    """The rows that a variable of an enclosing repeat holds."""

    variable: typed.Variable


@dataclass(frozen=True, slots=True)
class Shared:
    """The rows of a part of the query that stands before this one and has several uses."""

    variable: typed.Variable


@dataclass(frozen=True, slots=True)
class CMap:
    """The elements that `body`, a collection, has for every element of `source`."""

    variable: typed.Variable
    body: typed.Expr
    source: Term


@dataclass(frozen=True, slots=True)
class GroupBy:
    """Pairs (key, value) to pairs (key, bag of values)."""

    source: Term


@dataclass(frozen=True, slots=True)
class CoGroup:
    """Pairs of two sides to (key, (bag of left values, bag of right values))."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Union:
    """All elements of all parts."""

    parts: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Sort:
    """Pairs (key tuple, value) to the list of values in order; at most `limit` of them.

    Ties are broken by the canonical order of the values.  `ordered` says whether the result
    is a list, or a bag of the first ones.
    """

    source: Term
    descending: tuple[bool, ...]
    limit: typed.Expr | None
    ordered: bool


@dataclass(frozen=True, slots=True)
class Repeat:
    """What one variable of a loop holds at the end: `chosen` is its place among them."""

    variables: tuple[typed.Variable, ...]
    initial: tuple[Term, ...]
    step: tuple[Term, ...]
    flagged: tuple[bool, ...]
    limit: typed.Expr | None
    chosen: int


Term: TypeAlias = Scan | Values | Loop | Shared | CMap | GroupBy | CoGroup | Union | Sort | Repeat


Part: TypeAlias = tuple[typed.Variable, Term]
"""A variable, and the term whose rows it holds."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A named query with several uses, which read its rows as `Shared` rows of `variable`.

    It is translated, normalised and planned once, whatever number of queries use it.  The last of
    `parts` is its own; those before are what its normal form shares.
    """

    name: str
    variable: typed.Variable
    parts: tuple[Part, ...]
    normal: View | None = None
    """Its normal form; None for a normal form itself."""
    steps: tuple[Any, ...] = ()
    """The rewrite steps that led to its normal form."""


@dataclass(frozen=True, slots=True)
class Query:
    """An expression over the values of terms.

    Each variable holds the whole collection of its term; `result` reads no source.  A term may
    use the parts before its own (`Shared`).  The first parts are those of `views`, in order.
    """

    parts: tuple[Part, ...]
    result: typed.Expr
    views: tuple[View, ...] = field(default=(), compare=False, repr=False)

    @property
    def own_parts(self) -> tuple[Part, ...]:
        """The parts without those of views."""
        return self.parts[sum(len(view.parts) for view in self.views) :]


def element(term: Term) -> Type:
    """The type of the elements."""
    match term:
        case Scan():
            return term.element
        case Values(expr):
            return _of_collection(expr.type)
        case Loop(variable) | Shared(variable):
            return _of_collection(variable.type)
        case CMap(_, body, _):
            return _of_collection(body.type)
        case GroupBy(source):
            key, value = pair(source)
            return Tuple((key, bag(value)))
        case CoGroup(left, right):
            (key, first), (_, second) = pair(left), pair(right)
            return Tuple((key, Tuple((bag(first), bag(second)))))
        case Union(parts):
            return element(parts[0])
        case Sort(source):
            return pair(source)[1]
        case Repeat(variables=variables, chosen=chosen):
            return _of_collection(variables[chosen].type)
        case _:
            assert_never(term)


def pair(term: Term) -> tuple[Type, Type]:
    """The key and value types of a term of pairs."""
    match element(term):
        case Tuple((key, value)):
            return key, value
        case other:
            raise InternalError(f"a term of pairs has elements of type {other}")


def _of_collection(type_: Type) -> Type:
    if isinstance(type_, Collection):
        return type_.element
    raise InternalError(f"{type_} is not a collection")
