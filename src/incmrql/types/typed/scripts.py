"""Declarations and items of a typed script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any as AnyValue
from typing import Literal, TypeAlias

from incmrql.diagnostics import NOWHERE, Span
from incmrql.types.model import Constructor, Type
from incmrql.types.typed.control import Lambda
from incmrql.types.typed.nodes import Variable
from incmrql.types.typed.queries import Expr


@dataclass(frozen=True, slots=True)
class Function:
    """A declared function."""

    name: str
    parameters: tuple[Variable, ...]
    result: Type
    body: Expr


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A user aggregation: merge two accumulators, the zero, one element as an accumulator.

    With an inverse accumulators are a commutative group, and what was merged can be taken away.
    """

    name: str
    merge: Lambda
    zero: Expr
    unit: Lambda | None
    element: Type
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    inverse: Lambda | None = None


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """An imported function with the types that its annotations give."""

    name: str
    parameters: tuple[Type, ...]
    result: Type
    call: AnyValue = field(compare=False, repr=False)


ItemKind: TypeAlias = Literal["print", "incr", "store-value", "store", "dump", "lineage", "debug"]


@dataclass(frozen=True, slots=True)
class ScriptItem:
    """Something that a script does, in order.

    `target` is the path of an output or the key of a stored value.
    """

    kind: ItemKind
    expr: Expr
    target: str = ""
    incremental: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script: what it does, and what its parts refer to."""

    items: tuple[ScriptItem, ...]
    queries: dict[str, Expr]
    functions: dict[str, Function]
    aggregations: dict[str, Aggregation]
    python: dict[str, PythonFunction]
    parsers: dict[str, AnyValue]
    data: dict[str, tuple[Constructor, ...]]
    allowed: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    """The folders and files that it may use, wherever it is evaluated; None: all."""
