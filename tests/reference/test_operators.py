"""Arithmetic, comparison, logic and sets of elements over edge values."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import DataError
from incmrql.types import typed
from incmrql.types.model import (
    ANY,
    BOOL,
    BYTE,
    DOUBLE,
    INT,
    LONG,
    SHORT,
    STRING,
    Basic,
    Collection,
    Tuple,
    Type,
    bag,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Data, Record, Value
from tests.reference.running import answer_text, const, of, same, value

LIMITS = {BYTE: 7, SHORT: 15, INT: 31, LONG: 63}
OPS = ("+", "-", "*", "/", "%")
DOUBLES = [0.0, 1.0, -1.0, 0.5, 3.0, -7.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan]


def arithmetic(op: str, type_: Type, a: Value, b: Value, **settings: bool) -> Value:
    node = typed.Arithmetic(op, const(a, type_), const(b, type_), type=type_)  # type: ignore[arg-type]
    return of(node, **settings)


def exact(op: str, a: int, b: int) -> int | None:
    """What the operator means on integers without limits."""
    if op in "/%" and b == 0:
        return None
    quotient = math.trunc(Fraction(a, b)) if op in "/%" else 0
    return {"+": a + b, "-": a - b, "*": a * b, "/": quotient, "%": a - b * quotient}[op]


@pytest.mark.parametrize("type_", LIMITS, ids=str)
def test_integers_are_exact_or_null(type_: Basic) -> None:
    high = 2 ** LIMITS[type_]
    edges = [0, 1, -1, 2, -2, 7, -7, high - 1, -high, high // 2, -high + 1]
    for op, a, b in product(OPS, edges, edges):
        expected = exact(op, a, b)
        fits = expected is not None and -high <= expected < high
        assert arithmetic(op, type_, a, b) == (expected if fits else None), (op, a, b)


@pytest.mark.parametrize("op", OPS)
def test_doubles_are_those_of_numpy_except_for_division_by_zero(op: str) -> None:
    functions = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}
    for a, b in product(DOUBLES, DOUBLES):
        with np.errstate(all="ignore"):
            expected = float(functions[op](np.float64(a), np.float64(b))) + 0.0
        if op in "/%" and b == 0:
            assert arithmetic(op, DOUBLE, a, b) is None
        else:
            assert same(arithmetic(op, DOUBLE, a, b), expected), (a, op, b)


def test_there_is_one_zero() -> None:
    for result in (
        arithmetic("*", DOUBLE, -1.0, 0.0),
        arithmetic("%", DOUBLE, -4.0, 2.0),
        arithmetic("/", DOUBLE, -1.0, math.inf),
        of(typed.Negate(const(0.0, DOUBLE), type=DOUBLE)),
    ):
        assert math.copysign(1.0, result) == 1.0


@given(
    st.sampled_from(OPS),
    st.decimals(-(10**12), 10**12, places=4),
    st.decimals(-(10**12), 10**12, places=3),
)
def test_decimals_are_exact_and_rounded_once(op: str, a: Decimal, b: Decimal) -> None:
    type_ = DecimalType(38, 6)
    if op in "/%" and b == 0:
        assert arithmetic(op, type_, a, b) is None
        return
    x, y = Fraction(a), Fraction(b)
    rest = x - y * math.trunc(x / y) if op in "/%" else Fraction(0)
    real = {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else rest, "%": rest}[op]
    number = arithmetic(op, type_, a, b)
    if abs(real) >= 10**32:
        assert number is None
        return
    assert abs(Fraction(number) - real) * 10**6 <= Fraction(1, 2)
    assert number.as_tuple().exponent == -6


def test_decimal_overflow_is_null() -> None:
    most = Decimal(10**38 - 1)
    assert arithmetic("+", DecimalType(38, 0), most, Decimal(1)) is None
    assert arithmetic("-", DecimalType(38, 0), most, Decimal(1)) == Decimal(10**38 - 2)
    assert arithmetic("+", DecimalType(38, 0), most, Decimal(0)) == Decimal(10**38 - 1)


def test_integer_operands_of_a_decimal_operator() -> None:
    type_ = DecimalType(20, 2)
    node = typed.Arithmetic("*", const(3, LONG), const(Decimal("1.25"), type_), type=type_)
    assert of(node) == Decimal("3.75")


@pytest.mark.parametrize("type_", [INT, LONG, DOUBLE, DecimalType(10, 2), STRING], ids=str)
@pytest.mark.parametrize("op", OPS)
def test_null_operands_give_null(op: str, type_: Type) -> None:
    some: Value = {"string": "a", "double": 1.0}.get(str(type_), 1)
    assert arithmetic(op, type_, None, some) is None
    assert arithmetic(op, type_, some, None) is None
    assert arithmetic(op, type_, None, None) is None


def test_strings_are_joined() -> None:
    assert arithmetic("+", STRING, "a\x00", "é𝄞") == "a\x00é𝄞"


@pytest.mark.parametrize(
    ("type_", "operand", "expected"),
    [
        (INT, 5, -5),
        (INT, -(2**31), None),
        (LONG, -(2**63), None),
        (LONG, 2**63 - 1, -(2**63) + 1),
        (DOUBLE, math.inf, -math.inf),
        (DOUBLE, math.nan, math.nan),
        (DecimalType(38, 0), Decimal("1" * 38), Decimal("-" + "1" * 38)),
        (DecimalType(5, 2), Decimal("0.00"), Decimal("0.00")),
        (INT, None, None),
    ],
)
def test_negation(type_: Type, operand: Value, expected: Value) -> None:
    assert same(of(typed.Negate(const(operand, type_), type=type_)), expected)


@pytest.mark.parametrize(
    "text",
    ["1 / 0", "1.0 / 0.0", "2147483647 + 1", "-(-2147483647 - 1)", "[1][3]", '"x" as int',
     '{("a", 1)}["b"]', "abs(-2147483647 - 1)", 'matches("a", "(")', "random(0)",
     "sum({9223372036854775807, 1})", 'percentile({1}, 2.0)', 'date("x")',
     '("1", "x") as (int, int)'],
)  # fmt: skip
def test_failures_are_null_or_an_error_with_a_place(text: str) -> None:
    answer = value(text)
    assert answer is None or None in answer
    with pytest.raises(DataError) as error:
        value(text, fail_arithmetic=True)
    assert error.value.code == "R201"
    assert error.value.place.startswith("<query>:1:")
    assert "null" in error.value.hint


@pytest.mark.parametrize(
    "text", ["1 + null", "null / 0", "elem({})", "[1][null]", "null as int", "max({})"]
)
def test_nulls_without_a_failure(text: str) -> None:
    assert value(text, fail_arithmetic=True) is None


# --- comparison --------------------------------------------------------------------------

ORDERED: list[tuple[Type, list[Value]]] = [
    (BOOL, [False, True]),
    (LONG, [-(2**63), -1, 0, 1, 2**63 - 1]),
    (DOUBLE, [-math.inf, -1e308, -5e-324, 0.0, 5e-324, 1.0, math.inf, math.nan]),
    (DecimalType(38, 18), [Decimal("-1.5"), Decimal(0), Decimal("0.1"), Decimal(10)]),
    (STRING, ["", "\x00", "A", "a", "a\x00", "aa", "é", "\ue000", "\uffff", "𝄞"]),
    (Tuple((LONG, STRING)), [(1, "b"), (2, "a"), (2, "b")]),
    (Collection("list", LONG), [[], [1], [1, 2], [2]]),
    (bag(LONG), [Bag([]), Bag([2, 1]), Bag([2, 1, 3]), Bag([2])]),
    (ANY, [None, False, 3, 2.5, "a", (1,)]),
]


@pytest.mark.parametrize(("type_", "values"), ORDERED, ids=lambda x: str(x)[:12])
def test_comparison_follows_the_order(type_: Type, values: list[Value]) -> None:
    signs = {"=": {0}, "<>": {-1, 1}, "<": {-1}, "<=": {-1, 0}, ">": {1}, ">=": {0, 1}}
    for (i, a), (j, b), op in product(enumerate(values), enumerate(values), signs):
        outcome = of(typed.Compare(op, const(a, type_), const(b, type_), type=BOOL))
        expected = None if a is None or b is None else (i > j) - (i < j) in signs[op]
        assert outcome is expected, (a, op, b)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 = 1.0", "true"),
        ("null = null", "null"),
        ("null <> 1", "null"),
        ("(NaN = NaN)", "true"),
        ("NaN > Infinity", "true"),
        ("0.0 = -0.0", "true"),
        ("{1,2} = {2,1}", "true"),
        ("{1,1} = {1}", "false"),
        ("[1,2] = [2,1]", "false"),
        ("(1, null) = (1, null)", "true"),
        ("{1, null} = {null, 1}", "true"),
        ("{1,2} = {1.0,2.0}", "true"),
        ("<A: 1, B: 2> = <A: 1, B: 2.0>", "true"),
        ("(1,2) < (1,3)", "true"),
        ('"a" < "b"', "true"),
        ('date("2026-01-01") < date("2026-01-02")', "true"),
        ("{1} = null", "null"),
        ("(if true then {1} else null) = {1}", "true"),
    ],
)
def test_equality(text: str, expected: str) -> None:
    assert answer_text(text) == expected


def test_values_of_data_types_compare_by_identity() -> None:
    declaration = "data T = Leaf: int | Pair: (T, T); "
    assert answer_text(declaration + "Pair(Leaf(1), Leaf(2)) = Pair(Leaf(1), Leaf(2))") == "true"
    assert answer_text(declaration + "Pair(Leaf(1), Leaf(2)) = Pair(Leaf(2), Leaf(1))") == "false"
    assert answer_text(declaration + "Leaf(9) < Pair(Leaf(1), Leaf(1))") == "true"


# --- logic -------------------------------------------------------------------------------

TRUTH = (True, False, None)


def kleene(op: str, a: bool | None, b: bool | None) -> bool | None:
    """Whatever holds for every way to replace null by a truth value."""
    ways = {
        (x and y) if op == "and" else (x or y)
        for x in ([a] if a is not None else [True, False])
        for y in ([b] if b is not None else [True, False])
    }
    return ways.pop() if len(ways) == 1 else None


@pytest.mark.parametrize("op", ["and", "or"])
def test_three_valued_logic(op: str) -> None:
    for a, b in product(TRUTH, TRUTH):
        node = typed.Logic(op, const(a, BOOL), const(b, BOOL), type=BOOL)  # type: ignore[arg-type]
        assert of(node) is kleene(op, a, b), (a, op, b)


@pytest.mark.parametrize(("a", "expected"), [(True, False), (False, True), (None, None)])
def test_not(a: bool | None, expected: bool | None) -> None:
    assert of(typed.Not(const(a, BOOL), type=BOOL)) is expected


def test_a_condition_that_is_null_is_not_true() -> None:
    assert value("if null = 1 then 1 else 2") == 2
    assert value("select x from x in {1, null, 3} where x > 1") == Bag([3])
    assert value("select (k, sum(x)) from x in {1, 2} group by k: x having null = 1") == Bag([])


def test_logic_does_not_look_where_the_left_side_decides() -> None:
    assert value("select x from x in {0, 2} where x <> 0 and 4 / x = 2",
                 fail_arithmetic=True) == Bag([2])  # fmt: skip


# --- collections -------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_set_operators_count(left: list[int], right: list[int]) -> None:
    expected = {
        "union": Counter(left) + Counter(right),
        "intersect": Counter(left) & Counter(right),
        "except": Counter(left) - Counter(right),
    }
    for op, counts in expected.items():
        first, second = const(Bag(left), bag(INT)), const(Bag(right), bag(INT))
        combination = of(typed.Combine(op, first, second, type=bag(INT)))  # type: ignore[arg-type]
        assert isinstance(combination, Bag)
        assert Counter(combination) == counts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{1,1,null} union {null}", "{ null, null, 1, 1 }"),
        ("{1,1,null} intersect {1,null,null}", "{ null, 1 }"),
        ("{1,1,null} except {1}", "{ null, 1 }"),
        ("{NaN, 0.0} except {NaN, -0.0}", "{ }"),
        ("{{1,2},{2,1}} except {{2,1}}", "{ { 1, 2 } }"),
        ("(if false then {1} else null) union {2}", "{ 2 }"),
        ("{2} except (if false then {1} else null)", "{ 2 }"),
        ("exists {}", "false"),
        ("exists {null}", "true"),
        ("exists (if false then {1} else null)", "false"),
        ("2..5", "[ 2, 3, 4, 5 ]"),
        ("2...3", "{ 2, 3 }"),
        ("5..2", "[ ]"),
        ("null..2", "null"),
        ("(1, null, {})", "(1,null,{ })"),
        ("< A: 1, B: [2] >", "< A: 1, B: [ 2 ] >"),
        ("if true then 1 else 2.5", "1.0"),
    ],
)
def test_collections(text: str, expected: str) -> None:
    assert answer_text(text) == expected


def test_made_values_have_the_form_of_their_type() -> None:
    assert type(value("{1}")) is Bag
    assert type(value("[1]")) is list
    assert isinstance(value("<A: 1>"), Record)
    tree = value('data T = A: int | B: string; B("x")')
    assert isinstance(tree, Data)
    assert (tree.constructor, tree.position, tree.content) == ("B", 1, "x")
