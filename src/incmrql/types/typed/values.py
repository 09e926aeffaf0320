"""Leaves, constructed values and operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from typing import Any as AnyValue

from incmrql.types.model import Constructor
from incmrql.types.typed.nodes import Node, Variable

if TYPE_CHECKING:
    from incmrql.types.typed.queries import Expr
    from incmrql.types.typed.sources import Source


@dataclass(frozen=True, slots=True)
class Const(Node):
    """A value known from the text."""

    value: AnyValue


@dataclass(frozen=True, slots=True)
class Var(Node):
    """A bound variable."""

    variable: Variable


@dataclass(frozen=True, slots=True)
class Global(Node):
    """A named query, evaluated where it is used; `key` finds it in `Script.queries`."""

    key: str


@dataclass(frozen=True, slots=True)
class Stored(Node):
    """A value that a `store x := …` item has kept; `key` is that of the item."""

    key: str


@dataclass(frozen=True, slots=True)
class ScriptArguments(Node):
    """`args`: the words after the script's name on the command line."""


@dataclass(frozen=True, slots=True)
class Read(Node):
    """The rows of a source."""

    source: Source


@dataclass(frozen=True, slots=True)
class MakeTuple(Node):
    """A tuple."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MakeRecord(Node):
    """A record; the names are those of its type."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MakeCollection(Node):
    """A bag or a list of these elements, as the type says."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MakeData(Node):
    """A constructor applied to its content."""

    constructor: Constructor
    content: Expr


@dataclass(frozen=True, slots=True)
class Concat(Node):
    """One list after another (children of a template)."""

    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class RangeOf(Node):
    """The longs from `first` to `last`, both included; a list, or a bag if distributed."""

    first: Expr
    last: Expr


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`+ - * / %` on two operands of the node's kind (int, long, double or decimal)."""

    op: Literal["+", "-", "*", "/", "%"]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Negate(Node):
    """`-e`."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """`= <> < <= > >=` on two operands of one type."""

    op: Literal["=", "<>", "<", "<=", ">", ">="]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`and`, `or`, three-valued."""

    op: Literal["and", "or"]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Not(Node):
    """`not e`, three-valued."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Exists(Node):
    """Whether a collection has an element."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Combine(Node):
    """`union intersect except` of two bags, by multiplicity."""

    op: Literal["union", "intersect", "except"]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Widen(Node):
    """The operand in the node's type; never fails."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """The operand in the node's type, or null where it cannot be."""

    operand: Expr
