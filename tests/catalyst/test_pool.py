"""The plans that `make plans` wrote are those of the texts."""

from __future__ import annotations

from incmrql.catalyst import PlanNode
from tests.catalyst.pool import read_plans
from tests.catalyst.texts import texts


def test_every_text_has_a_plan() -> None:
    for name in ("tpch", "shapes", "operators"):
        assert set(read_plans(name)) == set(texts(name))
    assert len(read_plans("tpch")) == 22


def test_places_of_a_plan_point_into_its_text() -> None:
    analyzed = read_plans("tpch")["q06"]
    assert analyzed.text == texts("tpch")["q06"]
    aggregate = analyzed.plan
    assert aggregate.place is not None
    _, start, end = aggregate.place
    assert analyzed.text[start:end].startswith("select")


def test_plans_of_sub_queries_are_there() -> None:
    plan = read_plans("tpch")["q04"].plan
    names = []
    while "child" in plan.fields:
        names.append(plan.name)
        if plan.name == "Filter":
            condition = plan["condition"]
            while condition.name == "And":
                condition = condition["right"]
            assert condition.name == "Exists"
            assert isinstance(condition["plan"], PlanNode)
        plan = plan["child"]
    assert "Filter" in names
