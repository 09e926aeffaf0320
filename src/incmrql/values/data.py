"""The values of the language as Python objects.

| MRQL | Python |
|---|---|
| null, bool, string | None, bool, str |
| byte, short, int, long | int |
| float, double | float |
| decimal, date, timestamp | Decimal, date, datetime (in UTC) |
| Spark's binary, timestamp_ntz | bytes, `LocalTime` |
| Spark's intervals | `Months`, timedelta |
| tuple, list | tuple, list |
| record, bag, value of a data type | `Record`, `Bag`, `Data` |

Values are immutable.  Two values are the same value exactly when their
canonical bytes are equal (`encoding.py`), and `Record`, `Bag` and `Data` compare that way.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any, Final, TypeAlias

from incmrql.errors import InternalError
from incmrql.values.encoding import (
    BAG,
    DATA,
    END,
    LOCAL_TIME,
    MICROSECOND,
    MONTHS,
    RECORD,
    encode,
    encode_integer,
    encode_text,
)

Value: TypeAlias = Any
"""None, bool, int, float, Decimal, str, date, datetime, tuple, list, Record, Bag or Data.

Only queries of Spark have bytes, timedelta, `LocalTime` and `Months` too.
"""

UTC = datetime.UTC


class LocalTime(datetime.datetime):
    """A date and time of day without a time zone."""

    __slots__ = ()

    @classmethod
    def after_1970(cls, micros: int) -> LocalTime:
        """The time so many microseconds after 1970 began; may be an `OverflowError`."""
        return cls(1970, 1, 1) + micros * MICROSECOND

    @classmethod
    def of(cls, moment: datetime.datetime) -> LocalTime:
        """What a clock shows at a moment."""
        return cls.combine(moment.date(), moment.time())  # without the zone and the fold

    @property
    def micros(self) -> int:
        """Microseconds since 1970 began."""
        return (self - LocalTime(1970, 1, 1)) // MICROSECOND

    def encode_(self) -> bytes:
        """The canonical bytes: microseconds since 1970."""
        return LOCAL_TIME + encode_integer(self.micros)


class Months(int):
    """A span of whole months."""

    __slots__ = ()

    def encode_(self) -> bytes:
        """The canonical bytes: the number of months."""
        return MONTHS + encode_integer(self)

    def __repr__(self) -> str:
        return f"Months({int(self)})"


class Record(Mapping[str, Value]):
    """Named fields in declared order, read as `r.name` or `r["name"]`."""

    __slots__ = ("_names", "_values")
    _names: tuple[str, ...]
    _values: tuple[Value, ...]

    def __init__(self, fields: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        pairs = tuple(fields.items()) if isinstance(fields, Mapping) else tuple(fields)
        object.__setattr__(self, "_names", tuple(name for name, _ in pairs))
        object.__setattr__(self, "_values", tuple(value for _, value in pairs))

    @classmethod
    def of(cls, names: tuple[str, ...], values: Iterable[Value]) -> Record:
        """A record from names and as many values."""
        record = cls.__new__(cls)
        object.__setattr__(record, "_names", names)
        object.__setattr__(record, "_values", tuple(values))
        return record

    @property
    def names_(self) -> tuple[str, ...]:
        """The field names, in declared order."""
        return self._names

    @property
    def values_(self) -> tuple[Value, ...]:
        """The field values, in declared order."""
        return self._values

    def __getitem__(self, name: str) -> Value:
        try:
            return self._values[self._names.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def __getattr__(self, name: str) -> Value:
        try:
            return self._values[self._names.index(name)]
        except ValueError:
            raise AttributeError(f"no field {name!r}; fields are: {self._names}") from None

    def __setattr__(self, name: str, value: Value) -> None:
        raise AttributeError("a record cannot be changed")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def encode_(self) -> bytes:
        """The canonical bytes: the names as a header, then the values."""
        parts = [RECORD]
        for name in self._names:
            parts += (b"\x01", encode_text(name))
        parts.append(END)
        for value in self._values:
            parts.append(encode(value))
        return b"".join(parts)

    def __eq__(self, other: object) -> bool:
        """Records are compared as values; with a dict, names and fields as Python has them."""
        if isinstance(other, Record):
            return self._names == other._names and self.encode_() == other.encode_()
        if isinstance(other, dict):
            return dict(self) == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.encode_())

    def __reduce__(self) -> tuple[Any, ...]:
        return (Record.of, (self._names, self._values))

    def __repr__(self) -> str:
        inner = ", ".join(f"{n}={v!r}" for n, v in zip(self._names, self._values, strict=True))
        return f"Record({inner})"


class Map(dict[Value, Value]):
    """A map of Spark as users see it: the value itself is the list of its entries, in order."""

    __slots__ = ()

    def encode_(self) -> bytes:
        """The canonical bytes of the list of the entries."""
        return encode([Record.of(("key", "value"), pair) for pair in self.items()])


class Bag(list[Value]):
    """A collection without order: two bags are equal when they hold the same elements.

    A list equals a bag if it has the same elements in any order, by Python's `==`.
    """

    __slots__ = ()

    def encode_(self) -> bytes:
        """The canonical bytes: the elements' bytes in order."""
        parts = []
        for element in self:
            parts.append(encode(element))  # noqa: PERF401 (see encoding.py)
        return BAG + b"".join(sorted(parts)) + END

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Bag):
            return len(self) == len(other) and self.encode_() == other.encode_()
        if isinstance(other, list):
            return len(self) == len(other) and _have_same_elements(self, other)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = None

    def __repr__(self) -> str:
        if len(self) <= _MOST_SHOWN:
            return f"Bag({super().__repr__()})"
        first = ", ".join(map(repr, islice(self, _FIRST_SHOWN)))
        return f"Bag([{first}, ...]: {len(self):,} elements)"


_MOST_SHOWN: Final = 1000
"""A bag with more elements is not shown as a whole."""
_FIRST_SHOWN: Final = 20


def _have_same_elements(bag: Bag, elements: list[Any]) -> bool:
    """Whether a bag and a list of the same length have equal elements, as often as each other."""
    try:
        return Counter(bag) == Counter(elements)
    except TypeError:  # an element that has no hash
        remaining = list(elements)
    for element in bag:
        try:
            remaining.remove(element)
        except ValueError:
            return False
    return True


class OrderedBag(Bag):
    """A bag whose elements stand in the order in which a query asks to see them.

    The order is no part of the value, as that of `ORDER BY` is no part of a table.
    """

    __slots__ = ()


class Data:
    """A value of a data type: a constructor applied to a content.

    `position` is the index of the constructor in the declaration; values are ordered by it.
    """

    __slots__ = ("constructor", "content", "position")
    constructor: str
    position: int
    content: Value

    def __init__(self, constructor: str, position: int, content: Value) -> None:
        object.__setattr__(self, "constructor", constructor)
        object.__setattr__(self, "position", position)
        object.__setattr__(self, "content", content)

    def __setattr__(self, name: str, value: Value) -> None:
        raise AttributeError("a value of a data type cannot be changed")

    def encode_(self) -> bytes:
        """The canonical bytes: position and name of the constructor, then the content."""
        if not 0 <= self.position < 1 << 16:
            raise InternalError(f"{self.constructor} cannot be constructor {self.position}")
        position_bytes = self.position.to_bytes(2, "big")
        return DATA + position_bytes + encode_text(self.constructor) + encode(self.content)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Data):
            return self.position == other.position and self.encode_() == other.encode_()
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.encode_())

    def __reduce__(self) -> tuple[Any, ...]:
        return (Data, (self.constructor, self.position, self.content))

    def __repr__(self) -> str:
        return f"{self.constructor}({self.content!r})"


__all__ = [
    "UTC",
    "Bag",
    "Data",
    "Decimal",
    "LocalTime",
    "Map",
    "Months",
    "OrderedBag",
    "Record",
    "Value",
]
