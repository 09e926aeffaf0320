"""What is known of classes and their fields, and how all refusals of a query are reported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from incmrql.catalyst.classes import check_node, converted, never, not_yet
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Code, Refusals, Refused
from incmrql.errors import QueryError, SourceText

TABLE = {
    "Sum": converted("child", ignores=("hint",), mode=PlanNode("Complete")),
    "Rand": never("its values are random", "Use a hash of a key."),
    "Window": not_yet("window functions are not converted yet"),
}


def refusal(node: PlanNode) -> Refused:
    with pytest.raises(Refused) as caught:
        check_node(node, TABLE)
    return caught.value


def test_known_fields_pass() -> None:
    type_ = PlanNode("LongType")
    node = PlanNode("Sum", {"child": 1, "hint": "x", "mode": PlanNode("Complete"), "$type": type_})
    check_node(node, TABLE)


def test_a_class_without_a_row_is_refused_by_name() -> None:
    refused = refusal(PlanNode("SumV2"))
    assert (refused.code, refused.message) == ("C101", "SumV2 of Spark is not known here")


def test_an_expected_field_with_another_value_is_refused() -> None:
    refused = refusal(PlanNode("Sum", {"child": 1, "mode": PlanNode("Partial")}))
    assert refused.message == "Sum has mode = Partial, which is not known here"


@pytest.mark.parametrize("value", [True, 0, "x", (1,), PlanNode("Some")])
def test_a_new_field_with_a_value_is_refused(value: object) -> None:
    refused = refusal(PlanNode("Sum", {"child": 1, "window": value}))  # type: ignore[dict-item]
    assert refused.code == "C102"
    assert "window = " in refused.message


@pytest.mark.parametrize("value", [None, False, ()])
def test_a_new_field_without_a_value_passes(value: object) -> None:
    check_node(PlanNode("Sum", {"child": 1, "window": value}), TABLE)  # type: ignore[dict-item]


def test_reasons_and_rewrites_are_those_of_the_row() -> None:
    assert (refusal(PlanNode("Rand")).code, refusal(PlanNode("Window")).code) == ("C103", "C104")
    assert refusal(PlanNode("Rand")).hint == "Use a hash of a key."


def test_all_refusals_are_raised_at_once_in_the_order_of_the_text() -> None:
    refusals = Refusals(SourceText("select rand(), uuid() from t", "q"))
    refusals.raise_if_any()
    later, earlier = PlanNode("Uuid", {}, (1, 15, 21)), PlanNode("Rand", {}, (1, 7, 13))
    for node in (later, earlier, later):
        refusals.add(Refused("C103", f"no {node.name}"), node)
    with pytest.raises(QueryError) as caught:
        refusals.raise_if_any()
    assert [problem.span.text for problem in caught.value.problems] == ["rand()", "uuid()"]
    assert str(caught.value.problems[1].span) == "q:1:16"


def test_a_part_without_a_place_is_shown_where_the_whole_stands() -> None:
    refusals = Refusals(SourceText("select f(x) from t"))
    whole = PlanNode("Project", {}, (1, 7, 11))
    refusals.add(Refused("C105", "no such type", node=PlanNode("MapType")), whole)
    assert refusals.problems[0].span.text == "f(x)"


def test_without_a_text_the_class_is_named() -> None:
    refusals = Refusals()
    refusals.add(Refused("C103", "no samples"), PlanNode("Sample", {}, (1, 2, 3)))
    assert "1 | Sample" in refusals.problems[0].render()


def test_every_code_has_a_line_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs/errors.md").read_text("utf-8")
    listed = set(re.findall(r"^\| (C1\d\d) \|", page, re.MULTILINE))
    assert listed == set(get_args(Code))
