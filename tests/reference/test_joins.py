"""Joins by an index: the answers are those without it, and few pairs are looked at."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.algebra.scripts import run_script
from incmrql.errors import DataError
from incmrql.reference import new_world
from incmrql.reference.joins import domains
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.values import Bag, Record, Value, encode
from tests.algebra.shapes import shape_queries
from tests.generators.queries import queries
from tests.generators.stacked import stacked_shapes
from tests.generators.tables import TABLES, tables
from tests.reference.running import typed_script

REGISTERED = {name: (row, None) for name, row in TABLES.items()}
Tables = dict[str, Bag]


def answers_and_counts(
    text: str, data: Tables, *, uses_index: bool, fail_arithmetic: bool = False
) -> tuple[list[Value], Counter[str]]:
    """The answers of a script, and the number of evaluated expressions by class."""
    script = typed_script(f"{text};", REGISTERED)
    world = new_world(script, registered=data, fail_arithmetic=fail_arithmetic)
    world.uses_index = uses_index
    counted: Counter[str] = Counter()
    evaluate = world.evaluate

    def counting(expr: typed.Expr, env: object) -> Value:
        counted[type(expr).__name__] += 1
        return evaluate(expr, env)  # type: ignore[arg-type]

    world.evaluate = counting
    answers: list[Value] = []
    run_script(script, world, lambda _, value: answers.append(value))
    return answers, counted


def same_both_ways(text: str, data: Tables) -> None:
    with deep_recursion():
        (with_index, _), (without, _) = (
            answers_and_counts(text, data, uses_index=uses_index) for uses_index in (True, False)
        )
    assert [*map(encode, with_index)] == [*map(encode, without)], text


@given(text=queries() | shape_queries() | stacked_shapes(), data=tables())
def test_an_index_changes_no_answer(text: str, data: Tables) -> None:
    same_both_ways(text, data)


JOINED = (
    "select (x.S, y.T) from x in R, y in S where x.A = y.A",
    "select (x.S, y.T) from x in R, y in S where y.A = x.A and x.B > 0",
    "select (x.S, y.T) from x in R, y in S where x.B > 0 and x.A = y.A and x.C = y.D",
    "select (x, y, z) from x in R, y in S, z in R where x.A = y.A and y.D = z.C",
    "select (x.S, v) from x in R, (v, w) in (select (y.A, y.D) from y in S) where x.A = v",
    "select (x.A, count(y)) from x in R, y in S where x.A = y.A group by x.A",
    "select (x.S, y.T) from x in R, a = x.A + 1, y in S where y.A = a",
    "select (x.S, y.T) from x in R, y in S where (x.A, x.C) = (y.A, y.D)",
    "select (x, i.v, y) from x in N, i in x.items, y in S where i.v = y.A",
    "select x from x in R where exists (select y from y in S where y.A = x.A)",
    "select (x.A, count(select y from y in S where x.A = y.A and y.D > x.C)) from x in R",
    "select (x.A, (select i from i in (select z.B from z in R where z.A = x.B) where i = x.A)) "
    "from x in R",
    "select (k, count(select (y, z) from y in x, z in x where y.B = z.B)) from x in R "
    "group by k: x.A",
)


@pytest.mark.parametrize("text", JOINED)
@given(data=tables())
def test_joins_are_the_same_with_an_index(text: str, data: Tables) -> None:
    same_both_ways(text, data)


def numbers(size: int) -> Tables:
    """Rows of R and S with keys that agree one to one; every tenth key is null."""
    keys = [None if n % 10 == 0 else n for n in range(size)]
    rows = Bag([Record({"A": k, "B": 1, "C": 0.0, "S": "r"}) for k in keys])
    partners = Bag([Record({"A": k, "D": 0.0, "T": "s"}) for k in keys])
    return {"R": rows, "S": partners, "N": Bag(), "W": Bag()}


def test_pairs_without_equal_keys_are_not_looked_at() -> None:
    text = "count(select x from x in R, y in S where x.B > 0 and x.A = y.A)"
    (answer,), counted = answers_and_counts(text, numbers(2_000), uses_index=True)
    assert answer == 1_800
    assert counted["Logic"] == 1_800
    assert counted.total() < 30 * 2_000


def test_a_query_in_a_query_makes_one_index() -> None:
    text = "count(select x from x in R where exists (select y from y in S where y.A = x.A))"
    (answer,), counted = answers_and_counts(text, numbers(1_000), uses_index=True)
    assert answer == 900
    assert counted.total() < 40 * 1_000


def test_nulls_never_join() -> None:
    text = "select x from x in R, y in S where x.A = y.A"
    (answer,), counted = answers_and_counts(text, numbers(20), uses_index=True)
    assert len(answer) == 18
    assert counted["Compare"] == 18


@pytest.mark.parametrize(
    "text",
    [
        "select x from x in R, y in S where x.A = y.A and random(2) = 1",
        "select x from x in R, y in S where trace(x.A) = y.A",
        "select x from x in R, y in S where x.A = y.A and x.B > trace(0)",
        "select x from x in R, y in S where x.A + random(1) = y.A",
        "select x from x in R, y in S where x.A < y.A",
        "select x from x in R, y in S where x.A = 1",
        "select x from x in R, y in S where x.A = y.A or x.B = y.A",
    ],
)
def test_other_conditions_have_no_index(text: str) -> None:
    query = typed_script(f"{text};", REGISTERED).items[0].expr
    assert isinstance(query, typed.Select)
    known = domains(query.qualifiers, query.where)
    assert all(domain and not domain.equalities for domain in known)


def test_a_condition_that_may_fail_is_evaluated_for_all_pairs() -> None:
    text = "select x from x in R, y in S where 1 / (x.B - y.A) > 0 and x.A = y.A"
    data = numbers(5)
    for uses_index in (True, False):
        with pytest.raises(DataError, match="has no result"):
            answers_and_counts(text, data, uses_index=uses_index, fail_arithmetic=True)


def test_a_domain_that_depends_on_rows_has_no_index() -> None:
    query = typed_script("select i from x in N, i in x.items where i.v = x.K;", REGISTERED)
    expr = query.items[0].expr
    assert isinstance(expr, typed.Select)
    first, second = domains(expr.qualifiers, expr.where)
    assert first is not None
    assert second is None


@given(rows=st.lists(st.tuples(st.integers(0, 2) | st.none(), st.integers(0, 2) | st.none())))
def test_tuples_with_nulls_are_equal_as_values(rows: list[tuple[int | None, int | None]]) -> None:
    """`(1, null) = (1, null)` holds, for it is the whole tuple that is not null."""
    data = numbers(0)
    data["R"] = Bag([Record({"A": a, "B": b, "C": 0.0, "S": ""}) for a, b in rows])
    same_both_ways("select (x, y) from x in R, y in R where (x.A, x.B) = (y.B, y.A)", data)
