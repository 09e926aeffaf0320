"""The environment of an expression: its variables, and the world that the whole run shares."""

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
"""The key of a source that was read: its description in the query, and its path or address."""

Bindings: TypeAlias = dict[int, Value]
"""The values of variables, by number."""

EMPTY_SCRIPT = typed.Script((), {}, {}, {}, {}, {}, {})


@dataclass(slots=True)
class World:
    """The state that all expressions of a run share.

    `evaluate` is the evaluator; its own modules call it through this field, to avoid import
    cycles.  `snapshots` holds the rows of the sources read so far, so that an item of a script
    reads each source only once; `calls` counts the calls of functions that have not returned.
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
    """The directory for lines that are not valid rows; without it they are only counted."""
    paths: Paths = ANYWHERE
    """Which files the script may read and write."""
    random: random.Random = field(default_factory=random.Random)
    max_steps: int = 10_000
    max_calls: int = 2_000
    snapshots: dict[Snapshot, Bag] = field(default_factory=dict, repr=False)
    domains: dict[tuple[int, int], Any] = field(default_factory=dict, repr=False)
    """What is known of the domains of a from clause, by its identity and that of its condition.

    Both are kept as part of the value, so that no `id` is reused.
    """
    uses_index: bool = True
    """Whether joins are computed by an index; tests compare with joins that are not."""
    calls: int = 0

    def fail(self, span: Span, message: str) -> None:
        """Return if an operation without a result gives null; raise if `fail_arithmetic` is set."""
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
        """The environment without variables, in which named queries and functions start."""
        return Environment(self.world)


Evaluate: TypeAlias = Callable[[typed.Expr, Environment], Value]


def place(span: Span) -> str:
    """The location of a span for an error message; empty for a node without source text."""
    return "" if span == NOWHERE else str(span)
