"""Opaque expressions: which parts of a query become columns of its inputs, and with what answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark import cloudpickle

from incmrql.catalyst.leaves import leaf_key, leaves_of
from incmrql.catalyst.nodes import AnalyzedPlan, PlanNode, PlanValue, plan_from_json, plan_to_json
from incmrql.catalyst.opaque import OpaquePlan, with_opaque_columns
from incmrql.errors import QueryError
from incmrql.reference.spark.strings import levenshtein
from incmrql.spark.plans.functions import with_fingerprints
from incmrql.values import identical
from tests.catalyst.judging import (
    Tables,
    assert_follows,
    plans_of,
    random_tables,
    reference_answer,
    script_of_plan,
)

SET = "operators"


def with_unknown_class(plan: AnalyzedPlan, name: str) -> AnalyzedPlan:
    """A plan in which one class of expressions is replaced by an unknown one."""

    def visit(value: PlanValue) -> Any:
        match value:
            case PlanNode(other, fields):
                new = "Frobnicate" if other == name else other
                return PlanNode(new, {k: visit(v) for k, v in fields.items()}, value.place)
            case tuple():
                return tuple(map(visit, value))
            case _:
                return value

    return replace(plan, plan=visit(plan.plan))


def opaque(plan: AnalyzedPlan) -> OpaquePlan:
    """The plan with opaque columns, of leaves that all may have some."""
    return with_opaque_columns(plan.plan, plan.settings, lambda _leaf: True, leaf_key)


def _table(leaf: PlanNode) -> str:
    (path,) = leaf["relation"]["location"]["rootPaths"]
    return str(path).rpartition("/")[2]


def plus_one(row: Any) -> Any:
    """`k + 1`."""
    return None if row[0] is None else row[0] + 1


def is_large(place: int) -> Callable[[Any], Any]:
    """Whether a column is larger than 1."""
    return lambda row: None if row[place] is None else row[place] > 1


CASES: list[tuple[str, str, dict[str, Callable[[Any], Any]]]] = [
    ("group_expressions", "Add", {"r": plus_one}),
    ("union_three", "Add", {"r": plus_one}),
    ("left_with_own_condition", "GreaterThan", {"r": is_large(1)}),
    ("left_with_other_condition", "GreaterThan", {"q": is_large(1)}),
    ("anti_with_own_condition", "GreaterThan", {"r": is_large(1)}),
    ("group_filter_distinct", "GreaterThan", {"r": is_large(2)}),
]


@pytest.mark.parametrize(("query", "name", "columns"), CASES)
def test_an_opaque_column_stands_for_an_expression(
    query: str, name: str, columns: dict[str, Callable[[Any], Any]], tmp_path: Path
) -> None:
    plan = plans_of(SET)[query]
    changed = opaque(with_unknown_class(plan, name))
    assert {_table(leaf) for leaf in leaves_of(changed.plan) if leaf.fields.get("$computed")} == {
        *columns
    }
    script = script_of_plan(replace(plan, plan=changed.plan)).script
    chance = Random(query)
    data = random_tables(SET, chance)
    wider: Tables = {
        table: [(*row, columns[table](row)) for row in rows] if table in columns else rows
        for table, rows in data.items()
    }
    wanted = reference_answer(script_of_plan(plan).script, data)
    assert identical(reference_answer(script, wider), wanted)
    assert_follows(script, wider, chance, tmp_path)


def test_a_column_passes_common_table_expressions(tmp_path: Path) -> None:
    plan = plans_of("functions")["over_definitions"]
    changed = opaque(with_unknown_class(plan, "Levenshtein"))
    (column,) = changed.columns
    assert [definition.place for definition in column.definitions][-1:] != [None]
    assert '"place":3' in column.text
    chance = Random(0)
    data = random_tables("functions", chance)
    wider: Tables = {
        "r": [(*row, None if row[3] is None else levenshtein(row[3], "ab")) for row in data["r"]]
    }
    script = script_of_plan(replace(plan, plan=changed.plan)).script
    assert identical(
        reference_answer(script, wider), reference_answer(script_of_plan(plan).script, data)
    )
    assert_follows(script, wider, chance, tmp_path)


def test_all_leaves_of_a_table_get_the_same_columns() -> None:
    changed = opaque(with_unknown_class(plans_of(SET)["union_three"], "Add"))
    leaves = [leaf for leaf in leaves_of(changed.plan) if _table(leaf) == "r"]
    assert len(leaves) == 2
    assert len({len(leaf["output"]) for leaf in leaves}) == 1
    ids = [attribute["exprId"] for leaf in leaves for attribute in leaf["output"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("having", "GreaterThan"),  # over aggregates
        ("left_then_filter", "IsNull"),  # over rows that an outer join pads
        ("self_join", "LessThan"),  # over the rows of two inputs
        ("scalar_expression", "Multiply"),  # in a sub-query, over its aggregate
    ],
)
def test_an_expression_above_state_is_refused_by_name(query: str, name: str) -> None:
    plan = with_unknown_class(plans_of(SET)[query], name)
    assert opaque(plan).columns == ()
    with pytest.raises(QueryError, match="Frobnicate of Spark is not known here; Spark evaluates"):
        script_of_plan(plan)


def test_what_is_converted_stays() -> None:
    for query in ("group_expressions", "left_with_own_condition", "scalar_expression"):
        plan = plans_of(SET)[query]
        assert opaque(plan) == OpaquePlan(plan.plan, ())


def test_what_is_not_deterministic_or_of_the_time_is_never_opaque() -> None:
    plan = with_unknown_class(plans_of(SET)["group_expressions"], "Add")
    for name in ("Rand", "CurrentTimestamp", "CurrentPath", "InputFileName"):
        inside = unknown_as(plan, name)
        assert opaque(inside).columns == ()


def test_a_function_that_says_it_is_not_deterministic_is_refused_as_such() -> None:
    plan = unknown_as(with_unknown_class(plans_of(SET)["group_expressions"], "Add"), "PythonUDF")

    def marked(value: PlanValue) -> Any:
        match value:
            case PlanNode("PythonUDF", fields):
                own = {**fields, "name": "dice", "udfDeterministic": False, "evalType": 100}
                return PlanNode("PythonUDF", own, value.place)
            case PlanNode(name, fields):
                return PlanNode(name, {k: marked(v) for k, v in fields.items()}, value.place)
            case tuple():
                return tuple(map(marked, value))
            case _:
                return value

    dice = replace(plan, plan=marked(plan.plan))
    assert opaque(dice).columns == ()
    with pytest.raises(QueryError) as caught:
        script_of_plan(dice)
    assert {problem.code for problem in caught.value.problems} == {"C103"}
    assert 'the function "dice" is not deterministic, as it says of itself' in str(caught.value)


def unknown_as(plan: AnalyzedPlan, name: str) -> AnalyzedPlan:
    """The unknown expressions of a plan under another name."""
    encoded = plan_to_json(plan.plan).replace('"Frobnicate"', f'"{name}"')
    read = plan_from_json(encoded)
    assert isinstance(read, PlanNode)
    return replace(plan, plan=read)


def test_the_text_of_a_column_has_no_ids() -> None:
    plan = plans_of(SET)["group_expressions"]
    shifted = _shift(plan.plan)
    one = opaque(with_unknown_class(plan, "Add")).columns
    other = opaque(with_unknown_class(replace(plan, plan=shifted), "Add")).columns
    assert [column.text for column in one] == [column.text for column in other]
    assert one[0].shown == "Frobnicate(k, 1)"


def _shift(value: PlanValue) -> Any:
    """A plan with other ids of expressions."""
    match value:
        case PlanNode(name, fields):
            new = {
                key: part + 1000 if key == "exprId" else _shift(part)  # type: ignore[operator]
                for key, part in fields.items()
            }
            return PlanNode(name, new, value.place)
        case tuple():
            return tuple(map(_shift, value))
        case _:
            return value


def test_a_checkpoint_has_only_the_fingerprint_of_a_function() -> None:
    def double(value: int) -> int:
        return 2 * value

    command = cloudpickle.dumps((double, None))  # type: ignore[no-untyped-call]
    function = PlanNode("SimplePythonFunction", {"command": command, "pythonVer": "3.11"})
    plan = PlanNode("PythonUDF", {"name": "double", "func": function})
    replaced = with_fingerprints(plan)
    again = with_fingerprints(plan)
    assert replaced == again
    source = replaced["func"]["source"]
    assert source.startswith("source ")
    assert b"double" not in source.encode()
    assert "command" not in replaced["func"].fields
    broken = PlanNode("SimplePythonFunction", {"command": b"no pickle", "pythonVer": "3.11"})
    assert with_fingerprints(broken)["source"].startswith("bytes ")
