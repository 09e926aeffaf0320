"""Windows: what the texts and random queries mean, and that the engine follows every batch.

The plans of the texts were read from Spark; those of random queries are written down as Spark would
make them.  DuckDB answers the same texts, as far as the order of a window leaves no choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import duckdb
import pytest
import sqlglot

from incmrql.algebra.translate.queries import views_of
from incmrql.catalyst.nodes import PlanNode, PlanValue
from incmrql.plan.assembly import program_of, watches_of
from incmrql.plan.changes import Weighted
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.operators import elements
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.values import Bag, identical, show
from tests.catalyst.judging import (
    agree,
    assert_agrees_with_duckdb,
    assert_follows,
    plans_of,
    random_tables,
    reference_answer,
    script_of_plan,
)
from tests.catalyst.random_windows import (
    COLUMNS,
    TABLE,
    Fields,
    RandomQuery,
    random_query,
    random_rows,
)
from tests.catalyst.texts import texts
from tests.effort import mostly_slow, scale
from tests.engine.kernels import KernelRun

SET = "windows"
QUERIES = tuple(texts(SET))
NOT_IN_DUCKDB = ("lists", "other_aggregates")
"""Lists of nothing are null there, and a correlation of one pair is NaN."""
PARTS = 8
"""The number of tests that random queries are divided into."""
PER_PART = scale(8, 25)


@pytest.mark.parametrize("query", mostly_slow([q for q in QUERIES if q not in NOT_IN_DUCKDB], 6))
def test_the_answer_is_duckdbs(query: str) -> None:
    chance = Random(query)
    for _ in range(3):
        assert_agrees_with_duckdb(SET, query, random_tables(SET, chance))


@pytest.mark.parametrize("query", mostly_slow(QUERIES, 6))
def test_every_batch_is_followed(query: str, tmp_path: Path) -> None:
    chance = Random(query)
    script = script_of_plan(plans_of(SET)[query]).script
    assert_follows(script, random_tables(SET, chance), chance, tmp_path)


def test_lists_are_in_the_order_of_the_window() -> None:
    """The window is by a, descending; the filter wants b above zero."""
    rows = [_row(1, 1, 1, "x"), _row(1, 3, 0, "z"), _row(1, 2, 2, None), _row(1, None, 1, "w")]
    answer = reference_answer(script_of_plan(plans_of(SET)["lists"]).script, {"r": rows, "q": []})
    some = ["w", "x", "z"]
    assert sorted(answer, key=lambda row: -(row[1] or 0)) == [
        (1, 3, ["z"], [], some),
        (1, 2, ["z"], [2], some),
        (1, 1, ["z", "x"], [2, 1], some),
        (1, None, ["z", "x", "w"], [2, 1], some),
    ]


# --- Random queries ---


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_random_windows_are_followed(part: int, tmp_path: Path) -> None:
    for number in range(PER_PART):
        follow_random(part * PER_PART + number, tmp_path / str(number))


def follow_random(seed: int, directory: Path) -> None:
    """Compare engine and oracle with the reference evaluator, batch by batch."""
    chance = Random(seed)
    query = random_query(chance)
    rows = random_rows(chance, 12)
    try:
        assert_follows(script_of_plan(query.analyzed).script, {TABLE: rows}, chance, directory)
    except Exception as problem:
        raise AssertionError(f"seed {seed}: {query.text}\n{rows}") from problem


@pytest.mark.parametrize("part", range(PARTS))
def test_random_windows_mean_what_duckdb_says(part: int) -> None:
    for seed in range(part * PER_PART, (part + 1) * PER_PART):
        chance = Random(seed)
        query = random_query(chance, total=True)
        rows = random_rows(chance, 12)
        answer = reference_answer(script_of_plan(query.analyzed).script, {TABLE: rows})
        expected = answer_of_duckdb(query, rows)
        assert agree(answer, expected), f"seed {seed}: {query.text}\n{show(answer)}\n{expected}"


def answer_of_duckdb(
    query: RandomQuery, rows: list[tuple[object, ...]]
) -> list[tuple[object, ...]]:
    """The rows of a random query by DuckDB."""
    connection = duckdb.connect()
    columns = ", ".join(
        f"{name} {'varchar' if kind == 'string' else kind}" for name, kind in COLUMNS.items()
    )
    connection.execute(f"create table {TABLE} ({columns})")
    if rows:
        marks = ", ".join("?" * len(COLUMNS))
        connection.executemany(f"insert into {TABLE} values ({marks})", rows)
    (translated,) = sqlglot.transpile(query.text, read="spark", write="duckdb")
    return connection.execute(translated).fetchall()


def test_random_windows_reach_all_that_windows_have() -> None:
    features = Counter(
        feature for seed in range(200) for feature in random_query(Random(seed)).features
    )
    assert {feature for feature, count in features.items() if count >= 2} >= {
        "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile",
        "lag", "lead", "First", "Last", "NthValue",
        "Count", "Sum", "Average", "Min", "Max", "StddevSamp",
        "filtered", "default", "neighbours that are not null", "ends that are not null",
        "default frame", "nulls elsewhere", "no order", "no partition",
        "several windows", "over aggregates", "aggregates over", "over windows",
        "filter", "bound on the left", "over a filter",
        "rows preceding preceding", "rows following following",
        "rows preceding row", "rows preceding following", "range preceding following",
        "range preceding row", "range following following",
    }  # fmt: skip


# --- Arithmetic that fails ---

MOST = 2**63 - 1


def _remainder(node: PlanValue, parent: str) -> PlanValue:
    """A plan in which the column `a` of operators or functions of a class is `a % (a - 2)`."""
    match node:
        case PlanNode(name, fields, place):
            parts = {key: _remainder(value, parent) for key, value in fields.items()}
            if name == parent:
                parts = {key: _with_remainder(value, name) for key, value in parts.items()}
            return PlanNode(name, parts, place)
        case tuple():
            return tuple(_remainder(part, parent) for part in node)
        case _:
            return node


def _with_remainder(value: PlanValue, parent: str) -> PlanValue:
    match value:
        case PlanNode("AttributeReference", {"name": "a", "exprId": int(key)}):
            two: Fields = {
                "value": 2,
                "dataType": PlanNode("LongType"),
                "$type": PlanNode("LongType"),
            }
            less = _arithmetic("Subtract", value, PlanNode("Literal", two))
            failing = _arithmetic("Remainder", value, less)
            if parent != "Project":
                return failing
            fields: Fields = {
                "child": failing,
                "name": "a",
                "exprId": key,
                "$type": PlanNode("LongType"),
            }
            return PlanNode("Alias", fields)
        case tuple():
            return tuple(_with_remainder(part, parent) for part in value)
        case _:
            return value


def _arithmetic(name: str, left: PlanNode, right: PlanNode) -> PlanNode:
    context = PlanNode(
        "NumericEvalContext", {"evalMode": "ANSI", "allowDecimalPrecisionLoss": True}
    )
    fields: Fields = {
        "left": left,
        "right": right,
        "evalContext": context,
        "$type": PlanNode("LongType"),
    }
    return PlanNode(name, fields)


def failing_script(query: str, parent: str = "") -> typed.Script:
    """The script of a text, in which functions of a class are over a remainder that may fail."""
    analyzed = plans_of(SET)[query]
    plan = _remainder(analyzed.plan, parent)
    assert isinstance(plan, PlanNode)
    return script_of_plan(replace(analyzed, plan=plan)).script


def watched_bags(script: typed.Script) -> tuple[list[str], Sequence[typed.Expr]]:
    """What each watched operation means if it fails, and the watches."""
    (watches,) = watches_of(script.items, script, views_of([script.items[0].expr], script))
    return [site.fault for site in watches.sites], watches.bags


def failures(script: typed.Script, rows: list[tuple[object, ...]]) -> list[tuple[str, int]]:
    """What fails in the rows of a query, and how often."""
    faults, bags = watched_bags(script)
    env = Environment(new_world(script, registered={"r": Bag(rows)}))
    pairs = [pair for bag in bags for pair in elements(evaluate(bag, env))]
    return sorted(Counter(faults[site] for site, _ in pairs).items())


def _row(k: int, a: int | None, b: int | None, s: str | None = "x") -> tuple[object, ...]:
    return (k, a, b, s, None, None, None, None)


def test_a_sum_that_is_too_large_in_one_frame_is_an_error() -> None:
    script = failing_script("moving")
    apart = [_row(1, MOST, 1), _row(1, None, 2), _row(1, None, 3), _row(1, 5, 4), _row(2, MOST, 1)]
    assert failures(script, apart) == []
    ((fault, count),) = failures(script, [*apart, _row(2, 1, 2)])
    assert (fault, count) == ("the sum does not fit long", 2)


@pytest.mark.parametrize(
    ("query", "parent"), [("neighbours", "Lag"), ("rank_alone", "SortOrder"), ("twice", "Project")]
)
def test_what_a_window_reads_of_a_row_is_watched(query: str, parent: str) -> None:
    script = failing_script(query, parent)
    assert failures(script, [_row(1, 4, 2), _row(1, 5, None), _row(1, None, 0)]) == []
    assert failures(script, [_row(1, 4, 2), _row(1, 2, 0), _row(1, 3, 0)])


@pytest.mark.parametrize(
    ("query", "parent"), [("moving", ""), ("neighbours", "Lag"), ("rank_alone", "SortOrder")]
)
def test_watches_of_windows_are_followed(query: str, parent: str, tmp_path: Path) -> None:
    script = failing_script(query, parent)
    _, bags = watched_bags(script)
    chance, rows = Random(query), Weighted()
    with deep_recursion():
        program = program_of(script.items, script, watch=True)
        kernel = KernelRun(program, tmp_path, 2)
        for _ in range(8):
            some = [
                _row(chance.randint(1, 2), chance.choice((MOST, 2, None)), chance.randint(0, 2))
                for _ in range(3)
            ]
            known = [row for row, weight in rows for _ in range(weight)]
            change = Weighted([(row, 1) for row in some])
            change.merge(Weighted([(r, -1) for r in chance.sample(known, len(known) // 2)]))
            rows.merge(change)
            kernel.step({"r": list(change)})
            env = Environment(new_world(script, registered={"r": rows.bag()}))
            for number, bag in enumerate(bags):
                assert identical(kernel.answer(1 + number), evaluate(bag, env))
