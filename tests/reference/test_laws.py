"""User aggregations that break the laws of a monoid are found out."""

from __future__ import annotations

import random

import pytest

from incmrql.reference import check_aggregation, new_world
from incmrql.reference.laws import random_value
from incmrql.types.model import (
    ANY,
    DATE,
    DOUBLE,
    INT,
    JSON,
    STRING,
    XML,
    Decimal,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
)
from incmrql.values import encode, show
from tests.reference.running import typed_script


def check(declaration: str) -> str | None:
    script = typed_script(declaration)
    (aggregation,) = script.aggregations.values()
    return check_aggregation(aggregation, new_world(script), random.Random(7))


GOOD = [
    r"aggregation a(\(x: int, y: int): int. if x > y then x else y, -2147483648): int;",
    r"aggregation a(\(x: double, y: double): double. x + y, 0.0): double;",
    r'aggregation a(\(x: string, y: string): string. x + y, ""): string;',
    r"aggregation a(\(x: {int}, y: {int}): {int}. x union y, {}): {int};",
    r"aggregation a(\(x: (double, long), y: (double, long)): (double, long)."
    r" (x#0 + y#0, x#1 + y#1), (0.0, 0), \(e: double): (double, long). (e, 1)): (double, long);",
    r"aggregation a(\(x: int, y: int): int. x + y, 0): int;",
    r"aggregation a(\(x: long, y: long): long. x + y, 0): long;",
    r"aggregation a(\(x: decimal(9,2), y: decimal(9,2)): decimal(9,2). (x + y) as decimal(9,2),"
    r' decimal("0.00") as decimal(9,2)): decimal(9,2);',
    r"aggregation a(\(x: any, y: any): any. case x { null: y | *: x }, null): any;",
    r"data T = L: long | N: (T, T);"
    r"aggregation a(\(x: [T], y: [T]): [T]. if exists x then x else y, [],"
    r" \(e: T): [T]. [e]): [T];",
    r"aggregation a(\(x: bool, y: bool): bool. x <> y, false, \(e: bool): bool. e,"
    r" \(x: bool): bool. x): bool;",
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
    (r"aggregation a(\(x: int, y: int): int. if x < y then x else y, 1000): int;", "2147483647"),
    (r"aggregation a(\(x: long, y: long): long. if x > y then x else y, -1000000): long;",
     "-9223372036854775808"),
    (r"aggregation a(\(x: double, y: double): double. if x > y then x else y, -1000000.0): double;",
     "merge(-1000000.0, -"),
    (r'aggregation a(\(x: string, y: string): string. if x < y then x else y, "zzz"): string;',
     "merge("),
    (r"aggregation a(\(x: long, y: long): long. x + y, 0, \(e: long): long. e,"
     r" \(x: long): long. x): long;", "but must be"),
    (r"aggregation a(\(x: long, y: long): long. x + y, 0, \(e: long): long. e,"
     r" \(x: long): long. -x): long;", "inverse("),
    (r'aggregation a(\(x: string, y: string): string. x + y, "", \(e: string): string. e,'
     r" \(x: string): string. x): string;", "but merge("),
    (r"aggregation a(\(x: any, y: any): any. x, null): any;", "merge(null, "),
    (r"aggregation a(\(x: any, y: any): any. x, 1): any;", "merge(1, "),
    (r"aggregation a(\(x: XML, y: XML): XML. y, CData('')): XML;", ", CData("),
    (r"aggregation a(\(x: JSON, y: JSON): JSON. x, Jnull()): JSON;", "merge(Jnull("),
    (r"data T = L: long | N: (T, T); aggregation a(\(x: T, y: T): T. N(x, y), L(0)): T;",
     "merge(L(0), "),
]  # fmt: skip


@pytest.mark.parametrize("declaration", GOOD)
def test_good_aggregations(declaration: str) -> None:
    assert check(declaration) is None


@pytest.mark.parametrize(("declaration", "start"), BAD)
def test_bad_aggregations(declaration: str, start: str) -> None:
    counterexample = check(declaration)
    assert counterexample is not None
    assert start in counterexample
    assert " but " in counterexample


def test_the_counterexample_counts_right() -> None:
    counterexample = check(BAD[4][0])
    assert counterexample is not None
    left, right = counterexample.split(" but ")
    merge = lambda x, y: y if x == 0 else x if y == 0 else x - y  # noqa: E731
    for side in (left, right):
        text, result = side.split(" = ")
        assert eval(text, {"merge": merge}) == int(result)


def test_a_type_without_values_is_left_alone() -> None:
    text = r"data T = N: T; aggregation a(\(x: [T], y: [T]): [T]. x, [], \(e: T): [T]. [e]): [T];"
    assert check(text) is None


def test_a_function_that_refuses_an_element_proves_nothing() -> None:
    text = r"aggregation a(\(x: long, y: long): long. x + y, 0,"
    text += r" \(e: long): long. count(1..e)): long;"
    assert check(text) is None


def test_a_loop_is_not_tried_with_extreme_limits() -> None:
    text = r"aggregation a(\(x: long, y: long): long. x + y, 0,"
    text += r" \(e: long): long. repeat n = 0 step n + 1 limit e): long;"
    assert check(text) is None


@pytest.mark.parametrize(
    "type_",
    [
        *(INT, DOUBLE, STRING, DATE, Decimal(5, 2), ANY, XML, JSON),
        *(Tuple((INT, bag(STRING))), Record((("A", list_of(INT)),))),
    ],
    ids=str,
)
def test_random_values_vary(type_: Type) -> None:
    rng = random.Random(1)
    assert len({encode(random_value(type_, rng)) for _ in range(50)}) > 3
    extreme = [random_value(type_, rng, extreme=True) for _ in range(50)]
    assert len(set(map(encode, extreme))) > 2
    assert all(map(show, extreme))
