"""What the queries of `tests.engine.programs.SEVERAL` answer, computed with nothing of ours.

Plain Python over the files of a stream: sums are fractions, rounded once at the end; an average
is such a sum divided by the count.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from tests.runtime.streaming import Place

Rows: TypeAlias = Counter[tuple[object, ...]]
"""Rows with how often they are there."""


def expected_answers(place: Place, batches: int) -> list[Rows]:
    """The three answers over the files of the first batches."""
    numbers: Counter[tuple[int, float]] = Counter()
    names: Counter[tuple[int, str]] = Counter()
    for batch in range(batches):
        numbers.update(_numbers(place.data / f"{batch:03d}.csv"))
        numbers.subtract(_numbers(place.deletes / f"{batch:03d}.csv"))
        for line in (place.names / f"{batch:03d}.csv").read_text().splitlines():
            named, name = line.split(",")
            names[int(named), name] += 1
    assert all(times >= 0 for times in numbers.values())
    there = [(key, value, times) for (key, value), times in numbers.items() if times]
    averages: Rows = Counter()
    for number in {key for key, _, _ in there}:
        mine = [(Fraction(value) * times, times) for key, value, times in there if key == number]
        total, count = sum(part for part, _ in mine), sum(times for _, times in mine)
        averages[number, float(total) / count] += 1
    sums: dict[str, Fraction] = {}
    counts: Counter[str] = Counter()
    for (number, name), often in names.items():
        for key, value, times in there:
            if key == number:
                sums[name] = sums.get(name, Fraction(0)) + Fraction(value) * times * often
                counts[name] += times * often
    joined: Rows = Counter({(name, float(sums[name]), counts[name]): 1 for name in sums})
    return [averages, joined, Counter({(max(value for _, value, _ in there),): 1})]


def expected_changes(place: Place, batch: int) -> list[Rows]:
    """What a batch does to each answer: rows that come with 1, rows that go with -1."""
    after = expected_answers(place, batch + 1)
    before = expected_answers(place, batch) if batch else [Counter(), Counter(), Counter()]
    return [_difference(new, old) for new, old in zip(after, before, strict=True)]


def _difference(new: Rows, old: Rows) -> Rows:
    difference = Counter(new)
    difference.subtract(old)
    return Counter({row: times for row, times in difference.items() if times})


def _numbers(path: Path) -> Counter[tuple[int, float]]:
    numbers: Counter[tuple[int, float]] = Counter()
    for line in path.read_text().splitlines():
        key, value = line.split(",")
        numbers[int(key), float(value)] += 1
    return numbers
