"""What a naive conversion of operators gets wrong, one test for each trap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from incmrql.algebra.translate.queries import views_of
from incmrql.catalyst.convert import ColumnOrder, Question, convert_script
from incmrql.catalyst.nodes import AnalyzedPlan, PlanNode, PlanValue, nodes_of
from incmrql.errors import QueryError
from incmrql.plan.assembly import watches_of
from incmrql.reference import Environment, evaluate, new_world
from incmrql.types import typed
from incmrql.types.walk import bound_variables, nodes
from incmrql.values import Bag
from tests.catalyst.judging import (
    Tables,
    agree,
    assert_follows,
    plans_of,
    random_tables,
    reference_answer,
    script_of_plan,
    stream_leaves,
)

NOTHING: Tables = {"r": [], "q": []}
ROWS: Tables = {
    "r": [(1, 1, 1, "x", None, 1.0), (1, 2, None, "x", None, 2.0), (None, 3, 3, None, None, None)],
    "q": [(1, 2, "x"), (None, 3, None), (3, None, "y")],
}


def answer(query: str, data: Tables = ROWS) -> list[Any]:
    """The answer of a query of the set `operators` by the reference evaluator."""
    return list(reference_answer(script_of_plan(plans_of("operators")[query]).script, data))


def with_fields(value: PlanValue, fields: Mapping[str, Mapping[str, PlanValue]]) -> Any:
    """A plan with other values in some fields of some classes."""
    match value:
        case PlanNode(name, old):
            new = {key: with_fields(part, fields) for key, part in old.items()}
            return replace(value, fields={**new, **fields.get(name, {})})
        case tuple():
            return tuple(with_fields(part, fields) for part in value)
        case _:
            return value


def _with_variants(value: PlanValue) -> Any:
    """A plan with variants in place of bytes."""
    match value:
        case PlanNode("BinaryType"):
            return PlanNode("VariantType")
        case PlanNode(_, fields):
            new = {key: _with_variants(part) for key, part in fields.items()}
            return replace(value, fields=new)
        case tuple():
            return tuple(map(_with_variants, value))
        case _:
            return value


def problems(plan: AnalyzedPlan) -> list[tuple[str, str]]:
    """The codes and messages of all refusals of a plan."""
    with pytest.raises(QueryError) as caught:
        script_of_plan(plan)
    return [(problem.code, problem.message) for problem in caught.value.problems]


# --- Totals and groups of nothing ---


def test_a_total_of_nothing_is_one_row_and_sums_are_null() -> None:
    nulls = (None,) * 8
    assert answer("total_of_nothing", NOTHING) == [(0, 0, *nulls)]
    assert answer("grouping_sets_empty", NOTHING) == [(0, None)]
    assert answer("having_without_group", NOTHING) == [(1,)]


def test_groups_by_a_literal_and_rollups_of_nothing_have_no_row() -> None:
    assert answer("group_by_literal", NOTHING) == []
    assert answer("rollup_null", NOTHING) == []
    assert answer("cube_originals", NOTHING) == []


def test_the_same_grouping_set_twice_gives_every_group_twice() -> None:
    assert agree(answer("grouping_sets_twice"), [(1, 2), (1, 2), (None, 1), (None, 1)])


def test_a_null_key_and_a_rolled_up_key_are_different_groups() -> None:
    totals = [row for row in answer("rollup_null") if row[0] is None]
    assert agree(totals, [(None, None, 3, 1, 0, 0), (None, None, 3, 1, 0, 1),
                          (None, None, 6, 3, 1, 1)])  # fmt: skip


# --- Aggregates ---


def _with_aggregate(query: str, name: str, **fields: PlanValue) -> AnalyzedPlan:
    """A query with another aggregate function in the place of its sum."""
    plan = plans_of("operators")[query]

    def visit(value: PlanValue) -> Any:
        match value:
            case PlanNode("Sum"):
                return PlanNode(name, {"child": value["child"], **fields})
            case PlanNode(other, parts):
                return PlanNode(other, {k: visit(v) for k, v in parts.items()}, value.place)
            case tuple():
                return tuple(map(visit, value))
            case _:
                return value

    return replace(plan, plan=visit(plan.plan))


LONGS: Tables = {**ROWS, "r": [(1, 2**62, 1, "x", None, None), (1, 2**62, 2, "x", None, None)]}


@pytest.mark.parametrize(("mode", "total"), [("ANSI", None), ("TRY", None), ("LEGACY", -(2**63))])
def test_a_sum_that_does_not_fit_wraps_or_is_null_or_fails(mode: str, total: int | None) -> None:
    plan = plans_of("operators")["group_by_null"]
    in_mode = with_fields(plan.plan, {"NumericEvalContext": {"evalMode": mode}})
    script = script_of_plan(replace(plan, plan=in_mode)).script
    assert list(reference_answer(script, LONGS)) == [(1, "x", 2, 2, total)]
    assert list(reference_answer(script, {**ROWS, "r": ROWS["r"][:1]})) == [(1, "x", 1, 1, 1)]
    (watches,) = watches_of(script.items, script, views_of([script.items[0].expr], script))
    assert ("the sum does not fit long" in {site.fault for site in watches.sites}) == (
        mode == "ANSI"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [("CollectList", [1, 1, 2]), ("CollectSet", [1, 2]), ("MaxBy", 1), ("MinBy", 2)],
)
def test_what_spark_leaves_open_follows_the_canonical_order(
    name: str, expected: object, tmp_path: Path
) -> None:
    """The values of a, and b is the key of the last two."""
    plan = plans_of("operators")["group_by_null"]
    (leaf,) = [node for node in nodes_of(plan.plan) if node.name == "LogicalRelation"]
    a, b = leaf["output"][1:3]
    by = {"valueExpr": a, "orderingExpr": b} if name.endswith("By") else {}
    replaced = _with_aggregate("group_by_null", name, **by)
    if by:
        replaced = replace(replaced, plan=with_fields(replaced.plan, {name: {"child": None}}))
    rows = [(1, 2, 1, "x", None, None), (1, 1, 3, "x", None, None), (1, 1, None, "x", None, None),
            (1, None, 2, "x", None, None)]  # fmt: skip
    script = script_of_plan(replaced).script
    assert list(reference_answer(script, {**ROWS, "r": rows})) == [(1, "x", 4, 4, expected)]
    assert_follows(script, random_tables("operators", Random(3)), Random(4), tmp_path)


# --- Names and sharing ---


def test_a_common_table_expression_that_is_used_twice_is_a_named_query() -> None:
    script = script_of_plan(plans_of("operators")["cte_twice"]).script
    assert list(script.queries) == ["x"]
    light = script_of_plan(plans_of("operators")["cte_twice_light"]).script
    assert not light.queries


def test_ids_of_common_table_expressions_are_those_of_the_innermost_with() -> None:
    """A DataFrame with a CTE that is joined with another one: both have the number 1."""
    one, two = (plans_of("operators")[name] for name in ("cte_once", "cte_in_subquery"))
    ids = [node["id"] for plan in (one, two) for node in nodes_of(plan.plan)
           if node.name == "CTERelationDef"]  # fmt: skip
    assert ids == [1, 1]
    left = _ids_from(one.plan, 1000)
    right = PlanNode("Project", {"projectList": two.plan["plan"]["projectList"], "child": two.plan})
    inner = two.plan["plan"]
    right = PlanNode("WithCTE", {**two.plan.fields, "plan": inner})
    join = {"left": left, "right": right, "joinType": PlanNode("Cross"), "condition": None}
    both = replace(one, plan=PlanNode("Join", join))
    pairs = [(*a, *b) for a in answer("cte_once") for b in answer("cte_in_subquery")]
    script = convert_script([Question(both, stream_leaves())]).script
    assert agree(list(reference_answer(script, ROWS)), pairs)


def _ids_from(plan: PlanNode, start: int) -> PlanNode:
    """A plan with other expression ids; those of common table expressions stay."""

    def visit(value: PlanValue) -> Any:
        match value:
            case PlanNode(name, fields):
                new = {
                    key: part + start if key == "exprId" and isinstance(part, int) else visit(part)
                    for key, part in fields.items()
                }
                return PlanNode(name, new, value.place)
            case tuple():
                return tuple(map(visit, value))
            case _:
                return value

    shifted: PlanNode = visit(plan)
    return shifted


def _view(plan: PlanNode) -> PlanNode:
    identifier = PlanNode("TableIdentifier", {"table": "totals", "database": None})
    description = PlanNode("CatalogTable", {"identifier": identifier})
    return PlanNode("View", {"desc": description, "isTempView": True, "child": plan})


def test_a_view_that_is_used_twice_is_one_named_query_whatever_its_ids(tmp_path: Path) -> None:
    plan = plans_of("operators")["group_by_null"]
    views = [_view(plan.plan), _view(_ids_from(plan.plan, 1000))]
    union = PlanNode("Union", {"children": tuple(views), "byName": False})
    script = convert_script([Question(replace(plan, plan=union), stream_leaves())]).script
    assert list(script.queries) == ["totals"]
    assert agree(list(reference_answer(script, ROWS)), answer("group_by_null") * 2)
    assert_follows(script, random_tables("operators", Random(1)), Random(2), tmp_path)


def test_no_two_binders_share_a_variable() -> None:
    for query, plan in plans_of("operators").items():
        script = script_of_plan(plan).script
        whole = [script.items[0].expr, *script.queries.values()]
        binders = [v for expr in whole for v in _binders(expr)]
        assert len(binders) == len(set(binders)), query


def _binders(expr: typed.Expr) -> list[typed.Variable]:
    """The variables that the nodes of an expression bind, each as often as it is bound."""
    variables: list[typed.Variable] = []
    for node in nodes(expr):
        match node:
            case typed.Select(qualifiers=qualifiers, group=group):
                for qualifier in qualifiers:
                    if not isinstance(qualifier, typed.Condition):
                        variables += bound_variables((qualifier.pattern,))
                if group is not None:
                    variables += [many for _, many in group.lifted]
                    variables += bound_variables(group.patterns)
            case typed.MapOver(variable=variable):
                variables.append(variable)
            case _:
                pass
    return variables


# --- Failures ---


def test_a_scalar_sub_query_of_several_rows_is_a_failure() -> None:
    script = script_of_plan(plans_of("operators")["scalar_several"]).script
    views = views_of([item.expr for item in script.items], script)
    (watches,) = watches_of(script.items, script, views)
    assert [site.fault for site in watches.sites] == ["a scalar sub-query has more than one row"]
    assert [site.span.text for site in watches.sites] == ["(select a from q)"]
    (watch,) = watches.bags

    def failures(data: Tables) -> int:
        bags = {name: Bag(rows) for name, rows in data.items()}
        return len(evaluate(watch, Environment(new_world(script, registered=bags))))

    one_row: Tables = {"r": ROWS["r"], "q": [(3, None, "y")]}
    assert (failures(ROWS), failures(one_row), failures(NOTHING)) == (3, 0, 0)
    assert agree(list(reference_answer(script, one_row)), [(1, None), (1, None), (None, None)])


# --- Order ---


def test_an_order_at_the_top_says_how_rows_are_shown() -> None:
    (query,) = script_of_plan(plans_of("operators")["order_alone"]).queries
    assert query.order == (ColumnOrder(1, descending=True), ColumnOrder(0, descending=False))
    assert query.columns == ("k", "a")
    (query,) = script_of_plan(plans_of("operators")["limit_top"]).queries
    assert query.order == (ColumnOrder(1, descending=True), ColumnOrder(2, descending=False))


def test_a_limit_without_an_order_takes_the_first_rows_in_canonical_order() -> None:
    plan = plans_of("operators")["limit_top"]
    (limit,) = [node for node in nodes_of(plan.plan) if node.name == "LocalLimit"]
    without = with_fields(plan.plan, {"LocalLimit": {"child": limit["child"]["child"]}})
    converted_script = script_of_plan(replace(plan, plan=without))
    (query,) = converted_script.queries
    assert query.notes == ("A limit without an order takes the first rows in canonical order.",)
    rows = reference_answer(converted_script.script, {**ROWS, "r": [*ROWS["r"], ROWS["r"][0]]})
    assert agree(list(rows), [(None, 3, 3), (1, 1, 1), (1, 1, 1)])


def test_drop_duplicates_keeps_the_smallest_row_of_each_key() -> None:
    plan = plans_of("operators")["distinct_null"]
    (distinct,) = [node for node in nodes_of(plan.plan) if node.name == "Distinct"]
    project: PlanNode = distinct["child"]
    key = project["projectList"][0]
    deduplicate = PlanNode("Deduplicate", {"keys": (key,), "child": project})
    data: Tables = {**ROWS, "r": [(1, 0, 0, s, None, None) for s in ("z", "x", None)]}
    script = script_of_plan(replace(plan, plan=deduplicate)).script
    assert list(reference_answer(script, data)) == [(1, None)]
    every = PlanNode("Deduplicate", {"keys": project["projectList"], "child": project})
    script = script_of_plan(replace(plan, plan=every)).script
    assert len(reference_answer(script, data)) == 3


# --- Refusals ---


def test_all_reasons_of_a_query_are_reported_at_once() -> None:
    reasons = problems(plans_of("shapes")["random"])
    assert {code for code, _ in reasons} == {"C103"}
    assert len(reasons) > 1


def test_an_unknown_field_with_a_value_is_refused_by_name() -> None:
    plan = plans_of("operators")["distinct_null"]
    newer = with_fields(plan.plan, {"Distinct": {"onKeys": (1,)}})
    assert problems(replace(plan, plan=newer)) == [
        ("C102", "Distinct has onKeys = (1), which is not known here")
    ]


def test_join_types_of_the_optimiser_are_refused() -> None:
    plan = plans_of("operators")["semi_join"]
    single = with_fields(plan.plan, {"Join": {"joinType": PlanNode("LeftSingle")}})
    assert problems(replace(plan, plan=single))[0][0] == "C101"


def test_a_column_of_a_type_that_is_not_converted_is_refused_only_where_it_is_used() -> None:
    """The table has a binary column, which becomes one of variants."""
    rollup, semi = (
        replace(plan, plan=_with_variants(plan.plan), schema=_with_variants(plan.schema))
        for plan in (plans_of("shapes")["rollup"], plans_of("shapes")["semi"])
    )
    assert script_of_plan(rollup).queries
    assert problems(semi) == [
        ("C105", 'the column "w" of the answer: a variant cannot be compared or grouped by'),
    ]


def test_session_windows_are_refused_wherever_they_are_named() -> None:
    plan = plans_of("operators")["group_by_null"]
    metadata = '{"spark.sessionWindow":true}'
    marked = with_fields(plan.plan, {"Alias": {"explicitMetadata": metadata}})
    assert ("C104", "session windows are not converted yet") in problems(replace(plan, plan=marked))
