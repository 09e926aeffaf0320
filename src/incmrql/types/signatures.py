"""Signatures of built-ins: types of parameters and results, which may have type variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from incmrql.types.model import NOTHING, Type


@dataclass(frozen=True, slots=True)
class TypeParameter:
    """A type variable of a signature."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Some:
    """A bag or list, in a parameter."""

    element: Shape

    def __str__(self) -> str:
        return f"{{{self.element}}}"


@dataclass(frozen=True, slots=True)
class Open:
    """A tuple or collection that contains type variables, in a result."""

    build: Callable[..., Type]
    parts: tuple[Shape, ...]

    def __str__(self) -> str:
        return str(self.build(*(NOTHING for _ in self.parts))).replace(
            "null", "/".join(map(str, self.parts))
        )


Shape: TypeAlias = Type | TypeParameter | Some | Open


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a built-in's parameters and of its result."""

    parameters: tuple[Shape, ...]
    result: Shape

    def key(self, name: str) -> str:
        """The key of a built-in with this signature in all tables of built-ins."""
        return f"{name}({', '.join(map(str, self.parameters))})"

    def __str__(self) -> str:
        return f"{self.key('')}: {self.result}"


T, U = TypeParameter("T"), TypeParameter("U")
D = TypeParameter("decimal")
"""A decimal of any precision; the result has the precision of the argument."""
