"""The checker and `inhabits` refuse what is wrong; else they would prove nothing."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal

import pytest

from incmrql.types import typed
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
    STRING,
    TIMESTAMP,
    Record,
    Tuple,
    Type,
    bag,
    list_of,
)
from incmrql.types.model import Decimal as DecimalType
from incmrql.values import Bag, Data
from incmrql.values import Record as RecordValue
from tests.types.checker import problems
from tests.types.inference import infer
from tests.types.inhabits import inhabits


def mistakes(expr: typed.Expr) -> list[str]:
    script = infer("1;")
    return problems(replace(script, items=(typed.ScriptItem("print", expr),)))


ONE, TWO = typed.Const(1, type=INT), typed.Const(2.5, type=DOUBLE)
X = typed.Variable("x", 1, INT)
BAG = typed.MakeCollection((ONE,), type=bag(INT))

WRONG: list[typed.Expr] = [
    typed.Const("a", type=INT),
    typed.Const(2**31, type=INT),
    typed.Var(X, type=INT),
    typed.Compare("=", ONE, TWO, type=BOOL),
    typed.Compare("=", ONE, ONE, type=INT),
    typed.Arithmetic("+", ONE, TWO, type=DOUBLE),
    typed.Logic("and", ONE, ONE, type=BOOL),
    typed.Widen(TWO, type=INT),
    typed.Widen(ONE, type=INT),
    typed.Cast(BAG, type=INT),
    typed.If(ONE, ONE, ONE, type=INT),
    typed.MakeTuple((ONE,), type=Tuple((DOUBLE,))),
    typed.MakeCollection((ONE, TWO), type=bag(DOUBLE)),
    typed.Field(ONE, "A", type=INT),
    typed.Item(typed.MakeTuple((ONE, TWO), type=Tuple((INT, DOUBLE))), 1, type=INT),
    typed.At(BAG, typed.Const(0, type=LONG), type=INT),
    typed.Aggregate("sum", BAG, type=LONG),
    typed.Aggregate("avg", BAG, type=INT),
    typed.Builtin("length", (ONE,), type=INT),
    typed.Exists(ONE, type=BOOL),
    typed.Global("y@1", type=INT),
    typed.MapOver(X, BAG, typed.Var(X, type=INT), flatten=False, type=list_of(INT)),
    typed.Case(TWO, (typed.Branch(typed.Bind(X), ONE),), type=INT),
    typed.Case(ONE, (typed.Branch(typed.Equals(1.0, DOUBLE), ONE),), type=INT),
    typed.Select(
        distinct=False,
        head=ONE,
        qualifiers=(typed.Generator(typed.Bind(X), BAG), typed.Generator(typed.Bind(X), BAG)),
        where=ONE,
        group=None,
        having=None,
        order=(),
        limit=ONE,
        type=list_of(INT),
    ),
]


@pytest.mark.parametrize("expr", WRONG, ids=lambda expr: type(expr).__name__)
def test_a_wrong_tree_is_refused(expr: typed.Expr) -> None:
    assert mistakes(expr) != []


def test_a_variable_is_bound_once() -> None:
    one = typed.MapOver(X, BAG, typed.Var(X, type=INT), flatten=False, type=bag(INT))
    other = typed.Variable("y", 1, INT)
    two = typed.MapOver(other, BAG, typed.Var(other, type=INT), flatten=False, type=bag(INT))
    both = typed.MakeTuple((one, two), type=Tuple((bag(INT), bag(INT))))
    assert mistakes(one) == []
    assert mistakes(both) == ["y has the number of x"]


PRICE = DecimalType(4, 2)
MOMENT = datetime.datetime(2026, 1, 31, 10)


@pytest.mark.parametrize(
    ("value", "type_", "answer"),
    [
        (None, INT, True),
        (1, INT, True),
        (True, INT, False),
        (1.0, INT, False),
        (2**31, INT, False),
        (2**31, LONG, True),
        (128, BYTE, False),
        (1, DOUBLE, False),
        (-0.0, DOUBLE, False),
        (0.1, DOUBLE, True),
        (0.1, FLOAT, False),
        (0.5, FLOAT, True),
        (float("nan"), FLOAT, True),
        ("a", STRING, True),
        (MOMENT.date(), DATE, True),
        (MOMENT, DATE, False),
        (MOMENT, TIMESTAMP, False),
        (MOMENT.replace(tzinfo=datetime.UTC), TIMESTAMP, True),
        (Decimal("1.50"), PRICE, True),
        (Decimal("1.5"), PRICE, False),
        (Decimal("123.00"), PRICE, False),
        ((1, "a"), Tuple((INT, STRING)), True),
        ((1,), Tuple((INT, STRING)), False),
        ([1], list_of(INT), True),
        (Bag([1]), list_of(INT), False),
        ([1], bag(INT), False),
        (Bag([1, None]), bag(INT), True),
        (Bag(["a"]), bag(INT), False),
        (RecordValue({"A": 1}), Record((("A", INT),)), True),
        (RecordValue({"B": 1}), Record((("A", INT),)), False),
        (RecordValue({"B": 1, "A": 1}), Record((("A", INT), ("B", INT))), False),
        (Data("Jlong", 3, 1), JSON, True),
        (Data("Jlong", 0, 1), JSON, False),
        (Data("Jlong", 3, "a"), JSON, False),
        (1, NOTHING, False),
        (Bag([1, "a"]), ANY, True),
        (object(), ANY, False),
    ],
)
def test_inhabits(value: object, type_: Type, answer: bool) -> None:
    assert inhabits(value, type_) is answer
