"""Bags with integer weights: a change, and what adds up changes.

    {a, a, b}  is  a: 2, b: 1        deleting one a  is  a: -1

Values go by their canonical bytes.  Weighted bags form a group: equal values add up their
weights, and a value of weight 0 is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from incmrql.errors import InternalError
from incmrql.values import Bag, Value, encode, show


class NegativeWeight(InternalError):
    """A collection would hold something less than zero times."""


class Weighted:
    """A bag whose elements have weights, always consolidated."""

    __slots__ = ("rows",)
    rows: dict[bytes, tuple[Value, int]]

    def __init__(self, rows: Iterable[tuple[Value, int]] = ()) -> None:
        self.rows = {}
        for value, weight in rows:
            self.add(value, weight)

    def add(self, value: Value, weight: int, identity: bytes | None = None) -> None:
        """Add a value so many times; `identity` are its canonical bytes, if known."""
        key = encode(value) if identity is None else identity
        total = weight + self.weight(key)
        if total:
            self.rows[key] = (value, total)
        else:
            self.rows.pop(key, None)

    def weight(self, identity: bytes) -> int:
        """How often the value with these bytes is there."""
        found = self.rows.get(identity)
        return 0 if found is None else found[1]

    def merge(self, other: Weighted, times: int = 1) -> None:
        """Add all of another bag, so many times."""
        for key, (value, weight) in list(other.rows.items()):
            self.add(value, weight * times, key)

    def copy(self) -> Weighted:
        """The same elements in a bag of its own."""
        made = Weighted()
        made.rows = dict(self.rows)
        return made

    def bag(self) -> Bag:
        """The elements, each as often as it is there."""
        found = Bag()
        for value, weight in self:
            if weight < 0:
                raise NegativeWeight(f"a collection holds {weight} times {show(value)}")
            found.extend([value] * weight)
        return found

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
