"""A call of a built-in function that is to become SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from incmrql.sql.tree import Dialect
from incmrql.types.model import Type


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a call, their types, the type of the result, and whose SQL is meant."""

    arguments: tuple[exp.Expression, ...]
    types: tuple[Type, ...]
    result: Type
    dialect: Dialect

    @property
    def spark(self) -> bool:
        """Whether Spark is to run it."""
        return self.dialect is Dialect.SPARK


Lowering: TypeAlias = Callable[[Call], exp.Expression | None]
"""The SQL of a call, or null where the dialect has no form that agrees."""
