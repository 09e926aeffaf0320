"""Deep trees: few Python frames for each level."""

from __future__ import annotations

import inspect
import sys

import pytest

from incmrql.types import typed
from incmrql.types.model import BOOL, INT, LONG, Tuple, bag
from incmrql.values import Bag
from tests.reference.running import const, of

DEPTH = 300
ONE = const(1, LONG)


def additions() -> typed.Expr:
    node: typed.Expr = ONE
    for _ in range(DEPTH):
        node = typed.Arithmetic("+", node, ONE, type=LONG)
    return node


def conditionals() -> typed.Expr:
    node: typed.Expr = ONE
    for _ in range(DEPTH):
        node = typed.If(const(True, BOOL), node, ONE, type=LONG)
    return node


def tuples() -> typed.Expr:
    node: typed.Expr = ONE
    for _ in range(DEPTH):
        node = typed.Item(typed.MakeTuple((node, ONE), type=Tuple((LONG, LONG))), 0, type=LONG)
    return node


def cases() -> typed.Expr:
    node: typed.Expr = ONE
    for number in range(DEPTH):
        variable = typed.Variable("x", number, LONG)
        body = typed.Var(variable, type=LONG)
        node = typed.Case(node, (typed.Branch(typed.Bind(variable), body),), type=LONG)
    return node


def domains() -> typed.Expr:
    node: typed.Expr = const(Bag([1]), bag(LONG))
    for number in range(DEPTH):
        variable = typed.Variable("x", number, LONG)
        head = typed.Var(variable, type=LONG)
        node = typed.Select(
            False, head, (typed.Generator(typed.Bind(variable), node),), None, None, None, (), None,
            type=bag(LONG),
        )  # fmt: skip
    return node


def heads() -> typed.Expr:
    node: typed.Expr = ONE
    for number in range(DEPTH):
        pattern = typed.Bind(typed.Variable("x", number, INT))
        generator = typed.Generator(pattern, const(Bag([0]), bag(INT)))
        rows = typed.Select(False, node, (generator,), None, None, None, (), None, type=bag(LONG))
        node = typed.Aggregate("sum", rows, type=LONG)
    return node


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "levels", "most"),
    [(additions, 1, 3), (conditionals, 1, 3), (tuples, 2, 3), (cases, 1, 3), (domains, 1, 5),
     (heads, 2, 3)],
)  # fmt: skip
def test_deep_trees(build, levels: int, most: int) -> None:  # type: ignore[no-untyped-def]
    node = build()
    before = sys.getrecursionlimit()
    used = len(inspect.stack(0))
    sys.setrecursionlimit(used + most * levels * DEPTH + 60)
    try:
        answer = of(node)
    finally:
        sys.setrecursionlimit(before)
    assert answer in (1, DEPTH + 1, Bag([1]))
