"""Random values of a type, to try laws on.

Small ones: their sums stay in range and are exact, as doubles are multiples of a half.  Extreme
ones: the limits of the type among them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, assert_never

from incmrql.reference.operators import collection, fitted
from incmrql.types.model import (
    BOOL,
    DOUBLE,
    LONG,
    PREDEFINED,
    STRING,
    Any,
    Basic,
    Collection,
    Constructor,
    Data,
    Function,
    Nothing,
    Record,
    Tuple,
    Type,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Value
from incmrql.values import Data as DataValue
from incmrql.values import Record as RecordValue
from incmrql.values.numbers import INTEGER_RANGES

Catalog = Mapping[str, tuple[Constructor, ...]]

_DEPTH: Final = 2
"""Levels of data type in data type; a type that cannot end there may have a few more."""
_DEEPEST: Final = -3
_LENGTHS: Final = (0, 1, 1, 2, 2, 3, 8, 40)
_EXTREMES: Final[Mapping[str, tuple[Value, ...]]] = {
    **{name: (all_[0], -1, 0, 1, all_[-1]) for name, all_ in INTEGER_RANGES.items()},
    "bool": (False, True),
    "float": (-(2.0**127), -1.0, 0.0, 1.0, 2.0**-100, 2.0**127),
    "double": (-1e300, -(2.0**31), -1.0, 0.0, 1.0, 1e-300, 2.0**31, 1e300),
    "string": ("", "\0", "a", "z" * 40, "\U0010ffff" * 3),
    "date": (date.min, date(1970, 1, 1), date.max),
    "timestamp": (
        datetime.min.replace(tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ),
}


class NoValues(Exception):
    """There are no random values of this type."""


def random_value(
    type_: Type, rng: random.Random, data: Catalog = PREDEFINED, *, extreme: bool = False
) -> Value:
    """A small or an extreme random value of a type; raises `NoValues`."""
    return _Maker(rng, data, extreme).value(type_, _DEPTH)


@dataclass(frozen=True, slots=True)
class _Maker:
    rng: random.Random
    data: Catalog
    extreme: bool

    def value(self, type_: Type, depth: int) -> Value:
        match type_:
            case Basic():
                return self.scalar(type_.name)
            case DecimalType():
                return fitted(self.decimal(type_), type_)
            case Tuple(items):
                return tuple([self.value(item, depth) for item in items])
            case Record(fields):
                return RecordValue.of(type_.names, [self.value(t, depth) for _, t in fields])
            case Collection(_, element):
                most = 0 if depth <= 0 and _holds_data(element) else 2
                count = self.rng.randint(0, most)
                return collection(type_, [self.value(element, depth) for _ in range(count)])
            case Data(name):
                return self.tree(name, depth - 1)
            case Any():
                return self.value(self.rng.choice((BOOL, LONG, DOUBLE, STRING)), depth)
            case Nothing():
                return None
            case Function():
                raise NoValues
            case _:
                assert_never(type_)

    def tree(self, name: str, depth: int) -> DataValue:
        """A value of a data type, made by a constructor that ends where it is deep."""
        known = self.data.get(name, ())
        ending = [made for made in known if not _holds_data(made.content)]
        choice = ending if ending and depth <= 0 else known
        if not choice or depth < _DEEPEST:
            raise NoValues
        made = self.rng.choice(choice)
        content = self.value(made.content, depth)
        if made.name == "JObject":
            content = Bag(dict(content).items())  # a name occurs once
        return DataValue(made.name, made.position, content)

    def decimal(self, type_: DecimalType) -> Decimal:
        largest = Decimal("9" * (type_.precision - type_.scale) or "0")
        if self.extreme:
            return self.rng.choice((largest.copy_negate(), Decimal(0), largest))
        return Decimal(self.rng.randint(-4, 4))

    def scalar(self, name: str) -> Value:
        if self.extreme and name in _EXTREMES:
            return self.rng.choice(_EXTREMES[name])
        number = self.rng.randint(-8, 8)
        match name:
            case "bool":
                return number > 0
            case "float" | "double":
                return number / 2
            case "string":
                return "".join(self.rng.choices("ab", k=self.rng.choice(_LENGTHS)))
            case "date":
                return date(2026, 1, 1) + timedelta(days=number)
            case "timestamp":
                return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
            case _:
                return number


def _holds_data(type_: Type) -> bool:
    """Whether values of a type may hold those of a data type."""
    match type_:
        case Data():
            return True
        case Tuple(items):
            return any(_holds_data(item) for item in items)
        case Record(fields):
            return any(_holds_data(field) for _, field in fields)
        case Collection(_, element):
            return _holds_data(element)
        case _:
            return False
