"""Rows of a loop as a vector: labels, and the doubles that belong to them.

The label of a row is the row with 0.0 in the places of its values.  Values are added up as
integers of the smallest double, so that nothing is lost however often they are added and taken
away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

from incmrql.plan.diffusion.slopes import Path
from incmrql.plan.diffusion.ways import UnmeasuredError
from incmrql.values import ExactSum, Record, Value, encode
from incmrql.values.exact import nearest_double

Units: TypeAlias = tuple[int, ...]
"""A number for each value of a label, in units of the smallest double."""

UNITS: Final = ExactSum.of(1.0).units
"""As many units are 1."""


def in_units(number: Value) -> int:
    """A double as an integer."""
    if not isinstance(number, float) or not math.isfinite(number):
        raise UnmeasuredError("a value is null or not finite")
    return ExactSum.of(number).units


def as_double(units: int, count: int = 1) -> float:
    """The double nearest to a number of units, or to an even part of it."""
    return nearest_double(units, UNITS * count)


def total(units: Units) -> int:
    """The sum of the sizes of all values."""
    return sum(map(abs, units))


@dataclass(frozen=True, slots=True)
class Held:
    """A label of the variable: how many rows it has, and their values, which are the same."""

    label: Value
    count: int
    values: tuple[float, ...]

    @property
    def units(self) -> Units:
        """The sum of the values of all rows."""
        return tuple(self.count * in_units(value) for value in self.values)


@dataclass(frozen=True, slots=True)
class Sum:
    """A label of something added up: how many rows it has, and the sum of their values."""

    count: int
    units: Units


@dataclass(frozen=True, slots=True)
class Split:
    """Where rows have their values."""

    paths: tuple[Path, ...]

    @property
    def nothing(self) -> Units:
        """No value at all."""
        return (0,) * len(self.paths)

    def values(self, row: Value) -> tuple[Value, ...]:
        """The values of a row."""
        parts = []
        for path in self.paths:
            part = row
            for name in path:
                part = part[name]
            parts.append(part)
        return tuple(parts)

    def units(self, row: Value) -> Units:
        """The values of a row as numbers of units."""
        return tuple(map(in_units, self.values(row)))

    def label(self, row: Value) -> Value:
        """The row with 0.0 in the places of its values."""
        return self.fill(row, (0.0,) * len(self.paths))

    def identity(self, row: Value) -> bytes:
        """What tells labels apart."""
        return encode(self.label(row))

    def fill(self, label: Value, values: tuple[float, ...]) -> Value:
        """The row of a label with these values."""
        for path, value in zip(self.paths, values, strict=True):
            label = _with(label, path, value)
        return label


def _with(row: Value, path: Path, value: float) -> Value:
    if not path:
        return value
    name, rest = path[0], path[1:]
    if isinstance(row, Record):
        parts = [_with(row[n], rest, value) if n == name else row[n] for n in row.names_]
        return Record.of(row.names_, parts)
    if not isinstance(row, tuple):
        raise UnmeasuredError("a row is null")
    return tuple(_with(part, rest, value) if n == name else part for n, part in enumerate(row))
