from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.catalyst import (
    AnalyzedPlan,
    PlanNode,
    PlanValue,
    analyzed_from_json,
    analyzed_to_json,
    plan_from_json,
    plan_to_json,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False)
)
VALUES: st.SearchStrategy[PlanValue] = st.recursive(
    SCALARS,
    lambda parts: (
        st.lists(parts, max_size=3).map(tuple)
        | st.builds(PlanNode, st.text(), st.dictionaries(st.text(), parts, max_size=3))
    ),
)


@given(VALUES)
def test_a_plan_reads_back_from_json(value: PlanValue) -> None:
    assert plan_from_json(plan_to_json(value)) == value


def test_types_of_scalars_survive() -> None:
    values = (1, 1.0, True, "1", b"1", Decimal("1.00"), None)
    decoded = plan_from_json(plan_to_json(values))
    assert isinstance(decoded, tuple)
    assert [type(value) for value in decoded] == [type(value) for value in values]
    assert str(decoded[5]) == "1.00"


def test_places_are_kept_and_do_not_tell_plans_apart() -> None:
    node = PlanNode("Literal", {"value": 1}, (1, 0, 3))
    decoded = plan_from_json(plan_to_json(node))
    assert isinstance(decoded, PlanNode)
    assert decoded.place == (1, 0, 3)
    assert decoded == PlanNode("Literal", {"value": 1})


def test_an_analysed_plan_reads_back_from_json() -> None:
    analyzed = AnalyzedPlan(
        PlanNode("Range", {"start": 0}, (1, 0, 3)),
        PlanNode("StructType", {"fields": ()}),
        {"spark.sql.ansi.enabled": "true"},
        "select",
    )
    decoded = analyzed_from_json(analyzed_to_json(analyzed))
    assert decoded == analyzed
    assert decoded.text == "select"
    assert decoded.plan.place == (1, 0, 3)


def test_a_deep_plan_reads_back_from_json() -> None:
    plan = PlanNode("Range")
    for _ in range(1000):
        plan = PlanNode("Filter", {"condition": None, "child": plan})
    assert plan_to_json(plan_from_json(plan_to_json(plan))) == plan_to_json(plan)


def test_other_json_is_no_analysed_plan() -> None:
    with pytest.raises(ValueError, match="not an analysed plan"):
        analyzed_from_json(plan_to_json(PlanNode("Range")))
