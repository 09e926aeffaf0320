"""Conversions: widening and casting, by tables over edge values."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import DataError
from incmrql.reference.casts import cast, text, widen
from incmrql.types.model import (
    ANY,
    BOOL,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    JSON,
    LONG,
    NOTHING,
    SHORT,
    STRING,
    TIMESTAMP,
    XML,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
)
from incmrql.types.model import Data as TypeOfData
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Data, Value
from incmrql.values import Record as RecordValue
from tests.reference.running import answer_text, same

MOMENT = datetime(2026, 1, 31, 10, 0, tzinfo=UTC)
D52 = DecimalType(5, 2)


def json(constructor: str, content: Value) -> Data:
    names = ("JObject", "JArray", "Jstring", "Jlong", "Jdouble", "Jbool", "Jnull")
    return Data(constructor, names.index(constructor), content)


def xml(*children: Value) -> Data:
    inner = [Data("CData", 1, c) if isinstance(c, str) else c for c in children]
    return Data("Node", 0, ("a", Bag([]), inner))


def record(**fields: Value) -> RecordValue:
    return RecordValue(fields)


WIDENED: list[tuple[Value, Type, Value]] = [
    (7, LONG, 7),
    (7, DOUBLE, 7.0),
    (2**53 + 1, DOUBLE, float(2**53)),
    (2**63 - 1, DOUBLE, 2.0**63),
    (16777217, FLOAT, 16777216.0),
    (0.5, DOUBLE, 0.5),
    (7, D52, Decimal("7.00")),
    (Decimal("1.5"), D52, Decimal("1.50")),
    (Decimal("0.1"), DOUBLE, 0.1),
    (Decimal("123456789012345678901234567890"), DOUBLE, 1.2345678901234568e29),
    ((1, 2), Tuple((DOUBLE, INT)), (1.0, 2)),
    (record(B=1, A=2, C=3), Record((("A", DOUBLE), ("B", INT))), record(A=2.0, B=1)),
    ([1, None], bag(DOUBLE), Bag([1.0, None])),
    ([[1]], list_of(bag(DOUBLE)), [Bag([1.0])]),
    (Bag([1, 2]), ANY, Bag([1, 2])),
    (None, DOUBLE, None),
    (None, Tuple((INT,)), None),
    ("x", STRING, "x"),
]


@pytest.mark.parametrize(("given", "target", "expected"), WIDENED, ids=str)
def test_widening(given: Value, target: Type, expected: Value) -> None:
    assert same(widen(given, target), expected)
    assert same(cast(given, target), expected), "a cast that could be a widening is one"


CAST: list[tuple[Value, Type, Value]] = [
    # integers
    (127, BYTE, 127),
    (128, BYTE, None),
    (-32769, SHORT, None),
    (2**31, INT, None),
    (-(2**31), INT, -(2**31)),
    # doubles to integers truncate
    (2.9, INT, 2),
    (-2.9, INT, -2),
    (2147483647.9, INT, 2**31 - 1),
    (2147483648.0, INT, None),
    (9.2e18, LONG, 9_200_000_000_000_000_000),
    (2.0**63, LONG, None),
    (-(2.0**63), LONG, -(2**63)),
    (math.nan, INT, None),
    (math.inf, LONG, None),
    (Decimal("-2.99"), INT, -2),
    (Decimal(10) ** 20, LONG, None),
    # to floats
    (0.1, FLOAT, float(np.float32(0.1))),
    (1e300, FLOAT, math.inf),
    (-1e-60, FLOAT, 0.0),
    (math.nan, FLOAT, math.nan),
    # to decimals
    (0.1, DecimalType(38, 18), Decimal("0.1")),
    (2.675, D52, Decimal("2.68")),
    (999.995, D52, None),
    (999.994, D52, Decimal("999.99")),
    (math.inf, D52, None),
    (1000, D52, None),
    (Decimal("1.005"), D52, Decimal("1.01")),
    (Decimal("-1.005"), D52, Decimal("-1.01")),
    (1e300, DecimalType(), None),
    # truth
    (0, BOOL, False),
    (-3, BOOL, True),
    (math.nan, BOOL, True),
    (0.0, BOOL, False),
    (Decimal("0.00"), BOOL, False),
    (True, INT, 1),
    (False, DOUBLE, 0.0),
    (True, D52, Decimal("1.00")),
    ("TRUE", BOOL, True),
    ("False", BOOL, False),
    ("yes", BOOL, None),
    # text to numbers
    ("12", INT, 12),
    (" 12 ", INT, 12),
    ("+12", INT, 12),
    ("1.9", INT, None),
    ("", INT, None),
    ("1e3", DOUBLE, 1000.0),
    ("NaN", DOUBLE, math.nan),
    ("-Infinity", DOUBLE, -math.inf),
    ("0x10", INT, None),
    ("1_000", INT, None),
    ("١٢", INT, None),
    ("-0.0", DOUBLE, 0.0),
    ("1e400", DOUBLE, math.inf),
    ("2.675", D52, Decimal("2.68")),
    ("abc", D52, None),
    # numbers to text
    (12, STRING, "12"),
    (1.0, STRING, "1.0"),
    (1e16, STRING, "1.0E16"),
    (0.1, STRING, "0.1"),
    (math.nan, STRING, "NaN"),
    (-math.inf, STRING, "-Infinity"),
    (Decimal("1.50"), STRING, "1.50"),
    (Decimal("1E+3"), STRING, "1000"),
    (True, STRING, "true"),
    ("a\nb", STRING, "a\nb"),
    ((1, "a"), STRING, '(1,"a")'),
    (Bag([2, 1]), STRING, "{ 1, 2 }"),
    (record(A=None), STRING, "< A: null >"),
    # time
    (date(2026, 1, 31), STRING, "2026-01-31"),
    (MOMENT, STRING, "2026-01-31T10:00:00Z"),
    (MOMENT.replace(microsecond=120_000), STRING, "2026-01-31T10:00:00.12Z"),
    (MOMENT, DATE, date(2026, 1, 31)),
    (date(2026, 1, 31), TIMESTAMP, datetime(2026, 1, 31, tzinfo=UTC)),
    (date.min, TIMESTAMP, datetime.min.replace(tzinfo=UTC)),
    ("2026-01-31", DATE, date(2026, 1, 31)),
    ("2026-02-30", DATE, None),
    ("2026-01-31T10:00:00Z", TIMESTAMP, MOMENT),
    ("2026-01-31T12:00:00+02:00", TIMESTAMP, MOMENT),
    (5, DATE, None),
    (MOMENT, INT, None),
    # collections
    ([2, 1], bag(INT), Bag([1, 2])),
    (Bag([2, 1]), list_of(INT), [1, 2]),
    (Bag(["10", "9"]), list_of(INT), [9, 10]),
    (Bag(["x", "9"]), list_of(INT), [None, 9]),
    (("1", "x"), Tuple((INT, INT)), (1, None)),
    ((1, 2), Tuple((INT, INT, INT)), None),
    (Bag([1, 2]), Tuple((INT, INT)), None),
    (record(A="1", B=2), Record((("B", STRING), ("A", INT))), record(B="2", A=1)),
    (record(A=1), Record((("A", INT), ("B", INT))), record(A=1, B=None)),
    # of the wrong kind
    ((1, 2), INT, None),
    (Bag([1]), DOUBLE, None),
    (1, bag(INT), None),
    (1, Record((("A", INT),)), None),
    (1, NOTHING, None),
    (1, XML, None),
    # JSON
    (json("Jlong", 5), INT, 5),
    (json("Jlong", 2**40), INT, None),
    (json("Jdouble", 2.5), LONG, 2),
    (json("Jstring", "2.5"), DOUBLE, 2.5),
    (json("Jbool", True), BOOL, True),
    (json("JArray", [json("Jlong", 1)]), STRING, "JArray([ Jlong(1) ])"),
    (json("Jlong", 1), list_of(INT), None),
    (json("Jnull", ()), INT, None),
    (json("Jnull", ()), STRING, None),
    (json("Jstring", "a"), STRING, "a"),
    (json("JArray", [json("Jlong", 1), json("Jnull", ())]), list_of(INT), [1, None]),
    (json("JArray", [json("Jlong", 1)]), bag(DOUBLE), Bag([1.0])),
    (json("JArray", [json("Jlong", 1), json("Jstring", "b")]), Tuple((INT, STRING)), (1, "b")),
    (json("JArray", [json("Jlong", 1)]), Tuple((INT, STRING)), None),
    (
        json("JObject", Bag([("b", json("Jlong", 1)), ("c", json("Jlong", 2))])),
        Record((("a", INT), ("b", INT))),
        record(a=None, b=1),
    ),
    (
        json("JObject", Bag([("k", json("Jlong", 1))])),
        bag(Tuple((STRING, INT))),
        Bag([("k", 1)]),
    ),
    (json("JObject", Bag([])), INT, None),
    (json("Jlong", 5), JSON, json("Jlong", 5)),
    (json("Jnull", ()), JSON, json("Jnull", ())),
    ((1, "a"), JSON, json("JArray", [json("Jlong", 1), json("Jstring", "a")])),
    (record(a=1.5), JSON, json("JObject", Bag([("a", json("Jdouble", 1.5))]))),
    (True, JSON, json("Jbool", True)),
    (None, JSON, json("Jnull", ())),
    ([None], list_of(JSON), [json("Jnull", ())]),
    (Data("Leaf", 0, 1), JSON, json("JObject", Bag([("Leaf", json("Jlong", 1))]))),
    (xml("1"), JSON, json("Jstring", "<a>1</a>")),
    # data types
    (json("Jlong", 5), XML, None),
    (xml("1"), XML, xml("1")),
    (Data("Leaf", 0, 1), TypeOfData("T"), Data("Leaf", 0, 1)),
    (json("Jlong", 5), TypeOfData("T"), None),
    (5, TypeOfData("T"), None),
    # XML
    (xml("1", xml("2"), "3"), STRING, "123"),
    (xml(" 12 "), INT, 12),
    (xml("x"), INT, None),
    (xml(), STRING, ""),
    (Data("CData", 1, "2026-01-31"), DATE, date(2026, 1, 31)),
]


@pytest.mark.parametrize(("given", "target", "expected"), CAST, ids=lambda x: str(x)[:30])
def test_casts(given: Value, target: Type, expected: Value) -> None:
    assert same(cast(given, target), expected)


@pytest.mark.parametrize(("given", "target", "expected"), CAST, ids=lambda x: str(x)[:30])
def test_exactly_the_nulls_that_are_failures_are_told(
    given: Value, target: Type, expected: Value
) -> None:
    told: list[str] = []
    cast(given, target, told.append)
    is_null = given is None or (isinstance(given, Data) and given.constructor == "Jnull")
    if expected is None:
        assert bool(told) is not is_null
    for message in told:
        assert str(message).count("has no form of type") == 1


@given(st.floats())
def test_doubles_read_back(x: float) -> None:
    expected = math.nan if math.isnan(x) else x + 0.0
    assert same(cast(text(x), DOUBLE), expected)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_truncate_to_longs(x: float) -> None:
    whole = int(x)
    assert cast(x, LONG) == (whole if -(2**63) <= whole < 2**63 else None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('toInt("7") + 1', "8"),
        ("toLong(2.9)", "2"),
        ('toDouble("x")', "null"),
        ("-1 as long", "-1"),
        ("{3,1,2} as [int]", "[ 1, 2, 3 ]"),
        ("(1, 2.5) as (double, int)", "(1.0,2)"),
        ('string({(1,"a")})', '"{ (1,\\"a\\") }"'),
        ("string(null)", "null"),
        ("1 as decimal", 'decimal("1.000000000000000000")'),
        ("(1 as any) as int", "1"),
        ('("1" as any) as int', "1"),
        ("({1} as any) as int", "null"),
        ('[json| {"a": [1, 2.5]} |].a as [double]', "[ 1.0, 2.5 ]"),
        ("[xml| <a>4<b>2</b></a> |] as int", "42"),
    ],
)
def test_casts_in_queries(query: str, expected: str) -> None:
    assert answer_text(query) == expected


def test_null_in_a_json_template_is_that_of_json() -> None:
    assert answer_text('[json| {"a": {{null}}} |]') == 'JObject({ ("a",Jnull()) })'
    assert answer_text("(if 1 = 2 then 5 else null) as JSON") == "Jnull()"


def test_null_in_an_xml_template_leaves_nothing() -> None:
    text = '[xml|<a b={{null}} c="x{{null}}" d="k">{{null}}t<e/></a>|]'
    assert answer_text(text) == 'Node("a",{ ("d","k") },[ CData("t"), Node("e",{ },[ ]) ])'
    nulls = 'Node("a", {("b", null as string), ("c", "")}, [CData(null as string), CData("")])'
    assert answer_text(nulls) == 'Node("a",{ ("c","") },[ CData("") ])'


FROM_XML = [
    ("<p><x>1</x></p>", "< x: int >", "< x: 1 >"),
    ("<p x='1'><y>a</y><y>b</y></p>", "< x: int, y: [string] >", '< x: 1, y: [ "a", "b" ] >'),
    ("<p><x>1</x><y>a</y></p>", "(int, string)", '(1,"a")'),
    ("<p><x>1</x><x>2</x></p>", "[int]", "[ 1, 2 ]"),
    ("<p><x>a</x></p>", "< x: int >", "null"),
    ("<p><x>1</x></p>", "(int, int)", "null"),
]


@pytest.mark.parametrize(("tree", "type_", "expected"), FROM_XML)
def test_xml_as_a_structure_is_what_a_source_reads(tree: str, type_: str, expected: str) -> None:
    assert answer_text(f"[xml|{tree}|] as {type_}") == expected


def test_xml_text_has_no_parts() -> None:
    assert answer_text('CData("1") as < x: int >') == "null"
    with pytest.raises(DataError, match=r'R201.*"a" is not an int'):
        answer_text("[xml|<p><x>a</x></p>|] as < x: int >", fail_arithmetic=True)
