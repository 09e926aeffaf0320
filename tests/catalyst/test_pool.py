"""The plans that `make plans` wrote are those of the texts, and alike on all versions of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from incmrql.catalyst import PlanNode
from tests import golden
from tests.catalyst.pool import MAIN, SETS, read_plans, versions
from tests.catalyst.texts import texts
from tests.catalyst.versions import differences


def test_every_text_has_a_plan() -> None:
    for name in ("tpch", "shapes", "operators", "windows"):
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


def test_where_versions_differ(update_golden: bool) -> None:
    """What a converter has to know of each version, with a text that shows it."""

    def answer(_: str, args: Mapping[str, str]) -> str:
        shown: dict[str, str] = {}
        for name in SETS:
            there = read_plans(name, args["version"])
            here = read_plans(name) if there else {}
            for key, plan in there.items():
                for difference in differences(plan, here[key]) if key in here else ["not here"]:
                    shown.setdefault(difference, f"{name} {key}")
        return "\n".join(f"{text}  ({shown[text]})" for text in sorted(shown))

    path = Path(__file__).with_name("versions.golden")
    golden.check(path, {"differences": answer}, update=update_golden)


def test_all_versions_are_compared() -> None:
    compared = {
        block.args["version"] for block in golden.read(Path(__file__).with_name("versions.golden"))
    }
    assert compared == set(versions()) - {MAIN}
