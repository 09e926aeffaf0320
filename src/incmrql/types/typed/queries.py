"""Select queries, and the union of all expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from incmrql.types.typed.access import At, Field, Item, LookUp, MapOver, Navigate, SliceOf
from incmrql.types.typed.control import (
    Aggregate,
    Builtin,
    Call,
    Case,
    Fold,
    If,
    PythonCall,
    Repeat,
    Trace,
    UserAggregate,
)
from incmrql.types.typed.nodes import Node, Variable
from incmrql.types.typed.patterns import Pattern
from incmrql.types.typed.values import (
    Arithmetic,
    Cast,
    Combine,
    Compare,
    Concat,
    Const,
    Exists,
    Global,
    Logic,
    MakeCollection,
    MakeData,
    MakeRecord,
    MakeTuple,
    Negate,
    Not,
    RangeOf,
    Read,
    ScriptArguments,
    Stored,
    Var,
    Widen,
)


@dataclass(frozen=True, slots=True)
class Generator:
    """The pattern ranges over the elements of the domain."""

    pattern: Pattern
    domain: Expr


@dataclass(frozen=True, slots=True)
class Binding:
    """The pattern is matched with one value."""

    pattern: Pattern
    value: Expr


@dataclass(frozen=True, slots=True)
class Condition:
    """Rows for which this is not true are left out (a variable used twice in patterns)."""

    condition: Expr


Qualifier: TypeAlias = Generator | Binding | Condition


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that agree on all keys, by identity, form a group.

    Each key's value is matched with its pattern.  `lifted` pairs a row's variable with the
    one that holds the bag of its values over the group; `partition` holds the bag of records
    of all row variables.
    """

    keys: tuple[Expr, ...]
    patterns: tuple[Pattern, ...]
    lifted: tuple[tuple[Variable, Variable], ...]
    partition: Variable
    rows: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """A sort key."""

    expr: Expr
    descending: bool


@dataclass(frozen=True, slots=True)
class Select(Node):
    """A query.  The type is a list if it is ordered, else a bag."""

    distinct: bool
    head: Expr
    qualifiers: tuple[Qualifier, ...]
    where: Expr | None
    group: Group | None
    having: Expr | None
    order: tuple[Order, ...]
    limit: Expr | None


Expr: TypeAlias = (
    Const
    | Var
    | Global
    | Stored
    | ScriptArguments
    | Read
    | MakeTuple
    | MakeRecord
    | MakeCollection
    | MakeData
    | Concat
    | RangeOf
    | Arithmetic
    | Negate
    | Compare
    | Logic
    | Not
    | Exists
    | Combine
    | Widen
    | Cast
    | Field
    | Item
    | Navigate
    | At
    | LookUp
    | SliceOf
    | MapOver
    | If
    | Case
    | Repeat
    | Trace
    | Call
    | PythonCall
    | Builtin
    | Aggregate
    | UserAggregate
    | Fold
    | Select
)
