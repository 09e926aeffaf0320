"""User aggregations that break the laws of a monoid are found out."""

from __future__ import annotations

import random

import pytest

from incmrql.reference import check_aggregation, new_world
from incmrql.reference.laws import random_value
from incmrql.types.model import DOUBLE, INT, STRING, Record, Tuple, bag, list_of
from incmrql.values import encode
from tests.reference.running import typed_script


def check(declaration: str) -> str | None:
    script = typed_script(declaration)
    (aggregation,) = script.aggregations.values()
    return check_aggregation(aggregation, new_world(script), random.Random(7))


GOOD = [
    r"aggregation a(\(x: int, y: int): int. if x > y then x else y, -1000): int;",
    r"aggregation a(\(x: double, y: double): double. x + y, 0.0): double;",
    r'aggregation a(\(x: string, y: string): string. x + y, ""): string;',
    r"aggregation a(\(x: {int}, y: {int}): {int}. x union y, {}): {int};",
    r"aggregation a(\(x: (double, long), y: (double, long)): (double, long)."
    r" (x#0 + y#0, x#1 + y#1), (0.0, 0), \(e: double): (double, long). (e, 1)): (double, long);",
    # the two least: only lists that are sorted and short occur
    r"aggregation a(\(x: [int], y: [int]): [int]. sort((x as {int}) union (y as {int}))[0:1],"
    r" [], \(e: int): [int]. [e]): [int];",
]
BAD = [
    (r"aggregation a(\(x: int, y: int): int. x - y, 0): int;", "merge(0, "),
    (r"aggregation a(\(x: int, y: int): int. x + y, 1): int;", "merge(1, "),
    (r"aggregation a(\(x: double, y: double): double. (x + y) / 2.0, 0.0): double;", "merge("),
    (r"aggregation a(\(x: int, y: int): int. y, 0): int;", ", 0) = 0 but"),
    (r"aggregation a(\(x: long, y: long): long. if x = 0 then y else if y = 0 then x"
     r" else x - y, 0): long;", "merge(merge("),
]  # fmt: skip


@pytest.mark.parametrize("declaration", GOOD)
def test_good_aggregations(declaration: str) -> None:
    assert check(declaration) is None


@pytest.mark.parametrize(("declaration", "start"), BAD)
def test_bad_aggregations(declaration: str, start: str) -> None:
    found = check(declaration)
    assert found is not None
    assert start in found
    assert " but " in found


def test_the_counterexample_counts_right() -> None:
    found = check(BAD[-1][0])
    assert found is not None
    left, right = found.split(" but ")
    merge = lambda x, y: y if x == 0 else x if y == 0 else x - y  # noqa: E731
    for side in (left, right):
        text, result = side.split(" = ")
        assert eval(text, {"merge": merge}) == int(result)


def test_types_without_random_values_are_left_alone() -> None:
    assert check(r"aggregation a(\(x: any, y: any): any. x, 1): any;") is None
    assert check(r"aggregation a(\(x: XML, y: XML): XML. y, CData('')): XML;") is None


@pytest.mark.parametrize(
    "type_", [INT, DOUBLE, STRING, Tuple((INT, bag(STRING))), Record((("A", list_of(INT)),))]
)
def test_random_values_vary(type_: Tuple) -> None:
    rng = random.Random(1)
    assert len({encode(random_value(type_, rng)) for _ in range(50)}) > 3
