"""What an expression is evaluated in: its local variables, and the world of the whole run."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from incmrql.errors import NOWHERE, DataError, Span
from incmrql.io.files import ANYWHERE, Paths
from incmrql.io.rows import Policy, ReadReport
from incmrql.types import typed
from incmrql.values import Bag, Value

Snapshot: TypeAlias = tuple[str, tuple[bytes, ...]]
"""Which source was read: how the query describes it, and the values of its path or address."""

EMPTY_SCRIPT = typed.Script((), {}, {}, {}, {}, {}, {})


@dataclass(slots=True)
class World:
    """What all expressions of a run share.

    `evaluate` is the evaluator itself, for the modules that it is built from.  `snapshots`
    holds the rows of the sources read so far, so that an item of a script sees each source
    once and as it was then; `calls` counts the calls of functions that have not returned.
    """

    evaluate: Evaluate = field(repr=False)
    read: Callable[[typed.Source, Environment], Bag] = field(repr=False)
    script: typed.Script = field(default=EMPTY_SCRIPT, repr=False)
    arguments: list[str] = field(default_factory=list)
    stored: dict[str, Value] = field(default_factory=dict)
    registered: Mapping[str, Any] = field(default_factory=dict)
    on_trace: Callable[[str, Value], None] = lambda _text, _value: None
    on_report: Callable[[ReadReport, Policy], None] = lambda _report, _policy: None
    fail_arithmetic: bool = False
    quarantine: Path | None = None
    """The folder that lines which are no rows go to; without one they are only counted."""
    paths: Paths = ANYWHERE
    """Which files the script may read and write."""
    random: random.Random = field(default_factory=random.Random)
    max_steps: int = 10_000
    max_calls: int = 2_000
    snapshots: dict[Snapshot, Bag] = field(default_factory=dict, repr=False)
    shared: dict[tuple[int, int], tuple[Any, bool | None]] = field(default_factory=dict, repr=False)
    """Domains known to be the same for all rows or not, by their from clause and place."""
    calls: int = 0

    def failed(self, span: Span, message: str) -> None:
        """Null, the result of an operation that has none; or an error where that is asked for."""
        if self.fail_arithmetic:
            hint = "Without `--on-arithmetic fail` the result would be null."
            raise DataError("R201", message, place=place(span), hint=hint)


@dataclass(frozen=True, slots=True)
class Environment:
    """The values of the variables in scope, by number."""

    world: World
    values: Mapping[int, Value] = field(default_factory=dict)

    def bind(self, variable: typed.Variable, value: Value) -> Environment:
        """The environment with one more variable."""
        return Environment(self.world, {**self.values, variable.number: value})

    def extend(self, values: Mapping[int, Value]) -> Environment:
        """The environment with more variables."""
        return Environment(self.world, {**self.values, **values})

    def outermost(self) -> Environment:
        """The same world without any variables: where a named query or a function starts."""
        return Environment(self.world)


Evaluate: TypeAlias = Callable[[typed.Expr, Environment], Value]


def place(span: Span) -> str:
    """The place of a span for an error, empty for a node that no text stands for."""
    return "" if span == NOWHERE else str(span)
