"""Patterns in case, let and from."""

from __future__ import annotations

import pytest

from incmrql.reference.queries import match_pattern
from incmrql.types import typed
from incmrql.types.model import ANY, INT, JSON, PREDEFINED, STRING, Tuple
from incmrql.values import Bag, Data, Record, Value
from tests.reference.running import answer_text

X = typed.Variable("x", 1, ANY)
Y = typed.Variable("y", 2, ANY)
NODE, CDATA = PREDEFINED["XML"]
BX, BY, ANYTHING = typed.Bind(X), typed.Bind(Y), typed.Anything()
NULL = Data("Jnull", 6, ())

MATCHES: list[tuple[typed.Pattern, Value, dict[int, Value] | None]] = [
    (BX, None, {1: None}),
    (ANYTHING, None, {}),
    (typed.Equals(1, INT), 1, {}),
    (typed.Equals(1, INT), 2, None),
    (typed.Equals(None, INT), None, {}),
    (typed.Equals(1, INT), None, None),
    (typed.Equals("a", STRING), "a", {}),
    (typed.TupleOf((BX, BY)), (1, 2), {1: 1, 2: 2}),
    (typed.TupleOf((BX, typed.Equals(3, INT))), (1, 2), None),
    (typed.TupleOf((BX, BY)), None, None),
    (typed.TupleOf(()), (), {}),
    (typed.ListOf((BX, BY)), [1, 2], {1: 1, 2: 2}),
    (typed.ListOf((BX, BY)), [1], None),
    (typed.ListOf(()), [], {}),
    (typed.ListOf(()), None, None),
    (typed.ListOf(()), Bag([]), None),
    (typed.Fields((("B", BX),)), Record({"A": 1, "B": 2}), {1: 2}),
    (typed.Fields((("B", typed.Equals(3, INT)),)), Record({"B": 2}), None),
    (typed.Fields(()), None, None),
    (typed.DataOf(CDATA, BX), Data("CData", 1, "t"), {1: "t"}),
    (typed.DataOf(CDATA, BX), Data("Node", 0, ("a", Bag([]), [])), None),
    (typed.DataOf(CDATA, BX), None, None),
    (typed.Members((("k", BX),)), Bag([("j", 1), ("k", 2)]), {1: 2}),
    (typed.Members((("k", BX),)), Bag([("k", 3), ("k", 2)]), {1: 2}),
    (typed.Members((("k", BX),)), Bag([("j", 1)]), None),
    (typed.Members((("k", BX),)), None, None),
    (typed.ReadAs(BX, STRING, INT), "7", {1: 7}),
    (typed.ReadAs(BX, STRING, INT), "x", None),
    (typed.ReadAs(BX, STRING, INT), None, {1: None}),
    (typed.ReadAs(BX, JSON, INT), NULL, {1: None}),
    (typed.ReadAs(typed.Equals(7, INT), STRING, INT), "8", None),
    (typed.ReadAs(BX, ANY, Tuple((INT, INT))), ("1", "x"), {1: (1, None)}),
]


@pytest.mark.parametrize(("pattern", "subject", "expected"), MATCHES, ids=lambda x: str(x)[:60])
def test_matching(
    pattern: typed.Pattern, subject: Value, expected: dict[int, Value] | None
) -> None:
    assert match_pattern(pattern, subject) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('case 2 { 1: "a" | 2: "b" | *: "c" }', '"b"'),
        ('case 5 { 1: "a" | 2: "b" }', "null"),
        ("case (1, [2, 3]) { (a, [b]): 0 | (a, [b, c]): a + b + c }", "6"),
        ("let (a, b) = (1, 2) in b - a", "1"),
        ("let <A: a> = <A: 1, B: 2> in a", "1"),
        ("data T = Leaf: int | Pair: (T, T); "
         "case Pair(Leaf(1), Leaf(2)) { Leaf(n): n | Pair(Leaf(a), Leaf(b)): a * 10 + b }", "12"),
        ("case null { null: 1 | *: 2 }", "1"),
        ("case (1, null) { (x, null): x }", "1"),
        ("case [json| {\"a\": 1, \"b\": 2} |] { [json| {\"b\": {{x}}} |]: x as int }", "2"),
        ("case [xml| <a k='1'>t</a> |] { [xml| <a k={{v}}>{{c}}</a> |]: v }", '"1"'),
    ],
)  # fmt: skip
def test_case(text: str, expected: str) -> None:
    assert answer_text(text) == expected
