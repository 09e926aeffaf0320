"""Conditionals, loops and calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from incmrql.types.typed.nodes import Node, Variable
from incmrql.types.typed.patterns import Pattern

if TYPE_CHECKING:
    from incmrql.types.typed.queries import Expr


@dataclass(frozen=True, slots=True)
class If(Node):
    """`then` where the condition is true, `otherwise` where it is false or null."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Branch:
    """A pattern and what follows when it matches."""

    pattern: Pattern
    body: Expr


@dataclass(frozen=True, slots=True)
class Case(Node):
    """The body of the first branch whose pattern matches, else null.  `let` is a case too."""

    subject: Expr
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """A loop over several variables at once.

    `initial` and `step` have one expression a variable.  A flagged variable's step yields pairs
    (row, bool); the loop ends when no row of a flagged variable says true, when nothing
    changes (no flags, no limit), or after `limit` steps.  The node's value is that of the
    variable, or the tuple of all of them.
    """

    variables: tuple[Variable, ...]
    initial: tuple[Expr, ...]
    step: tuple[Expr, ...]
    flagged: tuple[bool, ...]
    limit: Expr | None


@dataclass(frozen=True, slots=True)
class Trace(Node):
    """The operand; its text and value are printed."""

    operand: Expr
    text: str


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function that the script declares, found in `Script.functions`."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class PythonCall(Node):
    """An imported Python function, found in `Script.python`."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Builtin(Node):
    """A built-in that is not an aggregate, its arguments in the types of its signature."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """`count sum avg …` over a collection; `extra` is the second argument of `percentile`.

    Rewrite rules add `sum#part`, `sum#total` and `avg#total` (`reference.partial_sums`).
    """

    function: str
    operand: Expr
    extra: Expr | None = None


@dataclass(frozen=True, slots=True)
class UserAggregate(Node):
    """A user aggregation, found in `Script.aggregations`."""

    aggregation: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Fold(Node):
    """`function(accumulator, element)` over a collection, in its (or the canonical) order."""

    function: Lambda
    zero: Expr
    operand: Expr


@dataclass(frozen=True, slots=True)
class Lambda:
    """A function without a name."""

    parameters: tuple[Variable, ...]
    body: Expr
