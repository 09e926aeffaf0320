"""Functions of the script and of Python, user aggregations, folds, traces, arguments."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest

from incmrql.errors import DataError
from incmrql.reference import from_python
from incmrql.types import typed
from incmrql.types.model import (
    ANY,
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    INT,
    JSON,
    LONG,
    NOTHING,
    STRING,
    TIMESTAMP,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Data, Value
from incmrql.values import Record as RecordValue
from tests.reference.running import answer_text, run, same, value

FACTORIAL = "function f(n: long): long { if n <= 1 then 1 else n * f(n - 1) }; "


def test_functions() -> None:
    assert value(FACTORIAL + "f(10)") == 3_628_800
    assert value(FACTORIAL + "f(21)") is None
    both = "function even(n: int): bool { if n = 0 then true else odd(n - 1) }; "
    both += "function odd(n: int): bool { if n = 0 then false else even(n - 1) }; "
    assert value(both + "even(7)") is False


def test_a_function_sees_its_parameters_only() -> None:
    text = "x = 5; function f(y: int): int { x + y }; select f(x) from x in {1}"
    assert value(text) == Bag([6])


@pytest.mark.parametrize("depth", [2_001, 5_000, 10**9])
def test_deep_recursion_is_an_error_with_a_place(depth: int) -> None:
    with pytest.raises(DataError) as error:
        value(f"function f(n: long): long {{ if n = 0 then 0 else 1 + f(n - 1) }}; f({depth})")
    assert error.value.code == "R203"
    assert '"f"' in error.value.message
    assert error.value.place.startswith("<query>:1:")


def test_calls_below_the_limit_and_after_an_error() -> None:
    text = "function f(n: long): long { if n = 0 then 0 else 1 + f(n - 1) }; "
    assert value(text + "f(1990)") == 1990
    assert value(text + "select f(300) from i in 1..20", max_calls=400) == Bag([300] * 20)


def python(result: Type, function: Any, *parameters: Type) -> dict[str, Any]:
    declaration = typed.PythonFunction("f", parameters, result, function)
    return {"functions": {"f": declaration}}


def test_python_functions() -> None:
    assert run("f(3, 4);", catalog=python(DOUBLE, math.hypot, DOUBLE, DOUBLE)) == [5.0]
    assert run("f(null);", catalog=python(INT, lambda _: 1 / 0, INT)) == [None]
    assert run("f(1);", catalog=python(INT, lambda _: None, INT)) == [None]
    assert run("f({1, 2});", catalog=python(LONG, len, bag(INT))) == [2]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda _: 1 // 0, ["f(7)", "ZeroDivisionError"]),
        (lambda _: "a", ["f(7)", "'a'", "int"]),
        (lambda _: 2**40, ["f(7)", "int"]),
    ],
)
def test_python_failures_name_call_and_cause(function: Any, words: list[str]) -> None:
    with pytest.raises(DataError) as error:
        run("f(7);", catalog=python(INT, function, INT))
    assert error.value.code == "R204"
    assert all(word in error.value.message for word in words)


class Point(NamedTuple):
    A: int
    B: str


@dataclass
class Pair:
    A: int
    B: str


AB = Record((("A", INT), ("B", STRING)))
MADE = RecordValue({"A": 1, "B": "b"})
MOMENT = datetime(2026, 1, 1, 12, tzinfo=UTC)

FROM_PYTHON: list[tuple[Any, Type, Value]] = [
    (None, INT, None),
    (1, INT, 1),
    (np.int64(1), INT, 1),
    (True, BOOL, True),
    (np.bool_(False), BOOL, False),
    (1, DOUBLE, 1.0),
    (np.float32(0.5), DOUBLE, 0.5),
    (-0.0, DOUBLE, 0.0),
    (1, DecimalType(5, 2), Decimal("1.00")),
    (Decimal("1.005"), DecimalType(5, 2), Decimal("1.01")),
    ("a", STRING, "a"),
    (date(2026, 1, 1), DATE, date(2026, 1, 1)),
    (datetime(2026, 1, 1, 12), TIMESTAMP, MOMENT),
    ((1, "b"), Tuple((INT, STRING)), (1, "b")),
    ([1, "b"], Tuple((INT, STRING)), (1, "b")),
    ({"B": "b", "A": 1, "C": 2}, AB, MADE),
    (Point(1, "b"), AB, MADE),
    (Pair(1, "b"), AB, MADE),
    ((1, "b"), AB, MADE),
    (MADE, AB, MADE),
    ([2, 1], bag(INT), Bag([1, 2])),
    ([2, 1], list_of(INT), [2, 1]),
    ({2, 1}, list_of(INT), [1, 2]),
    (np.array([1.5]), list_of(DOUBLE), [1.5]),
    ({"a": [1, {2}]}, ANY, RecordValue({"a": [1, Bag([2])]})),
    ((np.int64(1),), ANY, (1,)),
    ([1], JSON, Data("JArray", 1, [Data("Jlong", 3, 1)])),
]


@pytest.mark.parametrize(("given", "type_", "expected"), FROM_PYTHON, ids=lambda x: str(x)[:30])
def test_python_objects_as_values(given: Any, type_: Type, expected: Value) -> None:
    assert same(from_python(given, type_), expected)


@pytest.mark.parametrize(
    ("given", "type_"),
    [(True, INT), (1.0, INT), ("1", INT), (128, BYTE), (1, BOOL), ("a", DOUBLE), (10**400, DOUBLE),
     (1.5, DecimalType(5, 2)), (Decimal("Infinity"), DecimalType(5, 2)), (1000, DecimalType(5, 2)),
     (1, STRING), (MOMENT, DATE), (date(2026, 1, 1), TIMESTAMP), ((1,), Tuple((INT, INT))),
     ({"A": 1}, AB), (5, AB), (5, bag(INT)), ("ab", list_of(STRING)), (object, ANY),
     (2**70, ANY), (1, NOTHING), ({"a": 1}, bag(INT))],
    ids=lambda x: str(x)[:30],
)  # fmt: skip
def test_python_objects_that_are_no_values(given: Any, type_: Type) -> None:
    with pytest.raises(ValueError, match=r"value|needs|integer|outside|fit"):
        from_python(given, type_)


MAXIMUM = r"aggregation largest(\(x: int, y: int): int. if x > y then x else y, -1): int; "
MEAN = (
    r"aggregation mean(\(a: (double, long), b: (double, long)): (double, long)."
    r" (a#0 + b#0, a#1 + b#1), (0.0, 0), \(x: double): (double, long). (x, 1)): (double, long); "
)


def test_user_aggregations() -> None:
    assert value(MAXIMUM + "largest({3, null, 7})") == 7
    assert value(MAXIMUM + "largest({})") == -1
    assert value(MEAN + "mean({1, 2, null})") == (3.0, 2)


def test_aggregations_and_folds_go_in_order() -> None:
    joined = r'aggregation join(\(x: string, y: string): string. x + y, ""): string; '
    assert value(joined + 'join({"b", "c", "a"})') == "abc"
    assert value(joined + 'join(["b", "c", "a"])') == "bca"
    assert answer_text(r'fold(\(a: string, x: string): string. a + x, "", {"b", "a"})') == '"ab"'
    assert answer_text(r"fold(\(a: int, x: int): int. a * 10 + x, 0, [3, 1])") == "31"
    assert answer_text(r"fold(\(a: int, x: int): int. a + 1, 0, {null, 1})") == "2"


def test_a_fold_sees_the_variables_around_it() -> None:
    text = r"select fold(\(a: int, x: int): int. a + x * k, 0, {1, 2}) from k in {10, 100}"
    assert value(text) == Bag([30, 300])


def test_trace_and_arguments() -> None:
    seen: list[tuple[str, Value]] = []
    answer = value("1 + trace(2 * 3)", on_trace=lambda text, x: seen.append((text, x)))
    assert answer == 7
    assert seen == [("2 * 3", 6)]
    assert run("args[1];", arguments=["a", "b"]) == ["b"]


def leaving(code: int) -> int:
    print("leaving")  # noqa: T201
    sys.exit(code)


def test_a_python_function_that_exits_or_prints(capsys: pytest.CaptureFixture[str]) -> None:
    function = typed.PythonFunction("leaving", (INT,), INT, leaving)
    catalog = {"python_function": lambda _module, _name: function}
    with pytest.raises(DataError, match=r"R204.*leaving\(3\) raised SystemExit: 3"):
        run('import leaving from "m"; leaving(3);', catalog=catalog)
    assert capsys.readouterr() == ("", "leaving\n")


@pytest.mark.parametrize("text", ["1..100000000000", "1...100000000000", "range(1, 100000000000)"])
def test_a_range_that_does_not_fit_in_memory(text: str) -> None:
    with pytest.raises(DataError) as error:
        value(f"count({text})")
    assert error.value.code == "R210"
    assert error.value.message.startswith("the range has 100000000000 elements")
    assert error.value.place
    assert value("count(5..1)") == 0
