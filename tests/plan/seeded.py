"""Histories from a seed, with or without deletions, nulls and inputs that stay empty.

Many times as fast as `stepping.histories`, which can shrink what it finds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Final

from incmrql.values import Bag, Record, Value
from tests.generators.tables import TABLES
from tests.plan.stepping import Batch, Tables

DOUBLES: Final = (0.0, -0.0, 1.0, 2.5, 0.1, 1e16, -1e16, float("nan"), float("inf"), float("-inf"))
TEXTS: Final = ("", "a", "b", "é")
MOST_ROWS: Final = 5


@dataclass(frozen=True, slots=True, order=True)
class Traits:
    """What is in a history."""

    deletions: bool
    nulls: bool
    empty: bool
    """Whether some stream never has a row, and some batch has none at all."""


EVERY: Final = tuple(Traits(*flags) for flags in product((False, True), repeat=3))
PAIRWISE: Final = tuple(
    Traits(*flags)
    for flags in ((False, False, False), (False, True, True), (True, False, True),
                  (True, True, False))
)  # fmt: skip
"""Any two traits in all four combinations, in four histories."""


def history(chance: Random, traits: Traits, streams: Collection[str]) -> list[Batch]:
    """Batches of changes of the streams."""
    count = chance.randrange(3, 7)
    batches: list[dict[str, list[tuple[Value, int]]]] = [{} for _ in range(count)]
    silent = _empty_streams(chance, streams) if traits.empty else set()
    free = [place for place in range(count) if not traits.empty or place != count // 2]
    for name in sorted(set(streams) - silent):
        rows = some_rows(name, chance, traits.nulls)
        for number, row in enumerate(rows):
            start = chance.choice(free[: -1 if number == 0 else None])
            batches[start].setdefault(name, []).append((row, 1))
            goes = chance.random() < 0.5 or number == 0
            later = [place for place in free if place > start]
            if traits.deletions and goes and later:
                end = chance.choice(later)
                batches[end].setdefault(name, []).append((row, -1))
    return list(batches)


def _empty_streams(chance: Random, streams: Collection[str]) -> set[str]:
    """The streams that never have a row: one of them, or all."""
    return set(streams) if chance.random() < 0.3 else {chance.choice(sorted(streams))}


def some_tables(chance: Random, traits: Traits, names: Collection[str]) -> Tables:
    """The rows of sources that do not change."""
    return {name: Bag(some_rows(name, chance, traits.nulls)) for name in sorted(names)}


def some_rows(name: str, chance: Random, nulls: bool) -> list[Value]:
    """A few rows of a table, some of them twice."""
    rows = [_row(name, chance, nulls) for _ in range(chance.randrange(1, MOST_ROWS + 1))]
    return [*rows, chance.choice(rows)] if chance.random() < 0.3 else rows


def _row(name: str, chance: Random, nulls: bool) -> Value:
    def one(*options: Value) -> Value:
        return None if nulls and chance.random() < 0.25 else chance.choice(options)

    def number() -> Value:
        return one(0, 1, 2, 3, 1, 2)

    values: tuple[Value, ...]
    match name:
        case "R":
            values = (number(), number(), one(*DOUBLES), one(*TEXTS))
        case "S":
            values = (number(), one(*DOUBLES), one(*TEXTS))
        case "N":
            items = [Record({"v": number(), "w": one(*DOUBLES)}) for _ in range(number() or 0)]
            values = (number(), one(Bag(items)))
        case _:
            pair = one((number(), one(*TEXTS)))
            values = (number(), one(True, False), None, None, None, pair, one([1, 2], []))
    return Record.of(TABLES[name].names, values)
