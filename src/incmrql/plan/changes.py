"""Bags with integer weights: deltas, and the sums of deltas.

    {a, a, b}  is  a: 2, b: 1        deleting one a  is  a: -1

Values are equal if their canonical bytes are.  Weighted bags form a group: the weights of equal
values add up, and a value of weight 0 does not occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from incmrql.errors import InternalError
from incmrql.values import Bag, Value, encode, show


class NegativeWeight(InternalError):
    """A collection would contain a value a negative number of times."""


class Weighted:
    """A bag whose elements have weights, always consolidated."""

    __slots__ = ("rows",)
    rows: dict[bytes, tuple[Value, int]]

    def __init__(self, rows: Iterable[tuple[Value, int]] = ()) -> None:
        self.rows = {}
        for value, weight in rows:
            self.add(value, weight)

    def add(self, value: Value, weight: int, identity: bytes | None = None) -> None:
        """Add a value with a weight; `identity` are its canonical bytes, if known."""
        key = encode(value) if identity is None else identity
        total = weight + self.weight(key)
        if total:
            self.rows[key] = (value, total)
        else:
            self.rows.pop(key, None)

    def weight(self, identity: bytes) -> int:
        """The weight of the value with these canonical bytes."""
        row = self.rows.get(identity)
        return 0 if row is None else row[1]

    def merge(self, other: Weighted, times: int = 1) -> None:
        """Add all rows of another bag, with their weights multiplied by `times`."""
        for key, (value, weight) in list(other.rows.items()):
            self.add(value, weight * times, key)

    def copy(self) -> Weighted:
        """An independent copy."""
        result = Weighted()
        result.rows = dict(self.rows)
        return result

    def bag(self) -> Bag:
        """The elements as a plain bag; raises `NegativeWeight` if a weight is negative."""
        elements = Bag()
        for value, weight in self:
            if weight < 0:
                raise NegativeWeight(f"a collection holds {weight} times {show(value)}")
            elements.extend([value] * weight)
        return elements

    @property
    def total(self) -> int:
        """The sum of the weights."""
        return sum([weight for _, weight in self])

    def __iter__(self) -> Iterator[tuple[Value, int]]:
        return iter(list(self.rows.values()))

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Weighted):
            return NotImplemented
        mine = {key: weight for key, (_, weight) in self.rows.items()}
        return mine == {key: weight for key, (_, weight) in other.rows.items()}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inner = ", ".join(f"{show(value)}: {weight:+}" for value, weight in self)
        return f"Weighted({inner})"
