"""Functions of arrays as Spark defines them: places count from 1, and null may be an element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from incmrql.reference.operators import compare, distinct
from incmrql.values import Value, encode, sort_values

_MOST_ELEMENTS: Final = 10_000_000


def contains(array: list[Value], value: Value) -> bool | None:
    """Whether an element equals a value; null if none does but one is null."""
    if any(compare("=", element, value) for element in array):
        return True
    return None if None in array else False


def position(array: list[Value], value: Value) -> int:
    """The place of the first element that equals a value; 0 without one."""
    places = (n for n, element in enumerate(array, 1) if compare("=", element, value))
    return next(places, 0)


def remove(array: list[Value], value: Value) -> list[Value]:
    """The elements that do not equal a value."""
    return [element for element in array if not compare("=", element, value)]


def union(left: list[Value], right: list[Value]) -> list[Value]:
    """The different elements of both."""
    return distinct([*left, *right])


def intersect(left: list[Value], right: list[Value]) -> list[Value]:
    """The different elements of the left array that the right one has too."""
    others = {encode(value) for value in right}
    return [value for value in distinct(left) if encode(value) in others]


def difference(left: list[Value], right: list[Value]) -> list[Value]:
    """The different elements of the left array that the right one has not."""
    others = {encode(value) for value in right}
    return [value for value in distinct(left) if encode(value) not in others]


def overlap(left: list[Value], right: list[Value]) -> bool | None:
    """Whether two arrays share an element that is not null; null if only a null could decide."""
    others = {encode(value) for value in right if value is not None}
    if any(encode(value) in others for value in left if value is not None):
        return True
    return None if left and right and (None in left or None in right) else False


def slice_of(array: list[Value], start: int, length: int) -> list[Value] | None:
    """So many elements from a place, which counts from the end if it is negative."""
    if start == 0 or length < 0:
        return None
    first = start - 1 if start > 0 else len(array) + start
    return array[first : first + length] if first >= 0 else []


def join(array: list[str | None], delimiter: str) -> str:
    """The elements with a delimiter between them, without nulls."""
    return delimiter.join(element for element in array if element is not None)


def join_with_nulls(array: list[str | None], delimiter: str, null: str) -> str:
    """The elements with a delimiter between them, and a text for null."""
    return delimiter.join(null if element is None else element for element in array)


def flatten(arrays: list[list[Value] | None]) -> list[Value] | None:
    """The elements of all arrays; null if one of them is null."""
    if None in arrays:
        return None
    return [element for array in arrays for element in array or ()]


def repeat(value: Value, times: int | None) -> list[Value] | None:
    """An array that has a value so many times."""
    return None if times is None or times > _MOST_ELEMENTS else [value] * max(times, 0)


def least(array: list[Value] | None) -> Value:
    """The least element that is not null."""
    known = [value for value in array or () if value is not None]
    return sort_values(known)[0] if known else None


def greatest(array: list[Value] | None) -> Value:
    """The greatest element that is not null."""
    known = [value for value in array or () if value is not None]
    return sort_values(known)[-1] if known else None


def in_order(array: list[Value], ascending: bool) -> list[Value]:
    """The elements in their order, null first, or in the opposite one."""
    ordered = sort_values(array)
    return ordered if ascending else ordered[::-1]


def backwards(array: list[Value]) -> list[Value]:
    """The elements from the last to the first."""
    return array[::-1]


def sequence(first: int, last: int, step: int) -> list[int] | None:
    """The numbers from the first to the last one; null if the step does not lead there."""
    if step == 0:
        return [first] if first == last else None
    if (last - first) * step < 0 or abs((last - first) // step) > _MOST_ELEMENTS:
        return None
    return list(range(first, last + (1 if step > 0 else -1), step))


def without_repetition(array: list[Value]) -> list[Value]:
    """The different elements, each where it first occurs."""
    return distinct(array)


def insert(array: list[Value], place: int, value: Value) -> list[Value] | None:
    """An array with a value at a place from 1, or from the end; nulls fill what is between."""
    size = len(array)
    if place == 0 or abs(place) > _MOST_ELEMENTS:
        return None
    if place > 0:
        filled = [*array, *[None] * (place - 1 - size)]
        return [*filled[: place - 1], value, *filled[place - 1 :]]
    if -place > size + 1:
        return [value, *[None] * (-place - 1 - size), *array]
    index = size + place + 1
    return [*array[:index], value, *array[index:]]


# --- Of the values of a group ---


def most_frequent(values: list[Value], *, last: bool = False) -> Value:
    """The most frequent of some sorted values: of several, the least or the greatest one."""
    counts: dict[bytes, int] = {}
    known: dict[bytes, Value] = {}
    for value in values:
        key = encode(value)
        counts[key] = counts.get(key, 0) + 1
        known[key] = value
    if not counts:
        return None
    most = max(counts.values())
    often = [known[key] for key, count in counts.items() if count == most]
    return often[-1 if last else 0]


def reduce_values(function: Callable[[Value, Value], Value], values: list[Value]) -> Value:
    """All values by a function of two; null of none."""
    return reduce(function, values) if values else None
