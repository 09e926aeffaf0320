"""Every trap of converting Spark's plans has a test: texts that Spark answered, or their refusals.

Spark was asked by `trap_answers`; nothing here needs it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from incmrql.algebra.translate.queries import views_of
from incmrql.catalyst.convert import Question, convert_script
from incmrql.catalyst.expressions import SCALARS
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.types import model_type
from incmrql.errors import QueryError
from incmrql.plan.assembly import watches_of
from incmrql.types import typed
from tests import golden
from tests.catalyst.judging import Tables, agree, reference_answer, script_of_plan, stream_leaves
from tests.catalyst.random_answers import rows_of
from tests.catalyst.random_cases import Follower
from tests.catalyst.random_plans import RandomPlan
from tests.catalyst.test_random import with_records
from tests.catalyst.texts import texts
from tests.catalyst.trap_answers import DATA_SETS, trap_answers
from tests.catalyst.trap_numbers import LAST, TRAPS
from tests.spark import test_traps as on_spark

TESTS = Path(__file__).parent.parent
OPEN = {
    "t4_13_first": "any value of the group",
    "t4_13_listagg": "in any order",
    "t4_14_max_by": "ties",
    "t4_15_mode": "ties",
    "t7_4_limit_without_an_order": "any rows",
}
"""Texts whose answer Spark leaves open: they follow every batch, and have as many rows as Spark."""


@cache
def script_of(name: str) -> typed.Script | None:
    """The script of a text; None if it is refused."""
    try:
        return script_of_plan(trap_answers()[name].plan).script
    except QueryError:
        return None


@pytest.mark.parametrize("name", trap_answers())
def test_a_text_is_answered_as_by_spark(name: str) -> None:
    """Over nothing, over plain rows and over hard ones."""
    script = script_of(name)
    if script is None:
        assert refusal(name)  # it is in `traps.golden`
        return
    answers = trap_answers()[name]
    for number, expected, error in zip(DATA_SETS, answers.rows, answers.errors, strict=True):
        data = with_records(rows_of(number))
        rows = list(reference_answer(script, data))
        is_right = len(rows) == len(expected) if name in OPEN else agree(rows, expected)
        if error or not is_right:  # where we refuse a batch, Spark may answer
            shown = f"rows {number}: {rows}\n{error or expected}"
            assert fails(script, data), shown


def fails(script: typed.Script, data: Tables) -> bool:
    """Whether a batch with these rows is refused, because an expression has no value."""
    views = views_of([item.expr for item in script.items], script)
    (watches,) = watches_of(script.items, script, views)
    return any(reference_answer(script, data, bag) for bag in watches.bags)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*trap_answers()][::6])
def test_every_batch_is_followed(name: str, tmp_path: Path) -> None:
    if script_of(name) is not None:
        follower = Follower.of(RandomPlan("trap", 0, (trap_answers()[name].plan,)))
        assert not follower.problem(Random(name), tmp_path)


def test_refusals_say_what_to_do(update_golden: bool) -> None:
    def answer(_: str, _args: Mapping[str, str]) -> str:
        return "\n".join(f"{name}: {refusal(name)}" for name in trap_answers() if refusal(name))

    golden.check(
        Path(__file__).with_name("traps.golden"), {"refusals": answer}, update=update_golden
    )


def refusal(name: str) -> str:
    try:
        convert_script([Question(trap_answers()[name].plan, stream_leaves())])
    except QueryError as refused:
        return " / ".join(
            f"{problem.code} {problem.message} ({problem.hint})" for problem in refused.problems
        )
    return ""


def test_every_text_was_read() -> None:
    assert set(trap_answers()) == set(texts("traps"))


def test_every_number_has_a_test() -> None:
    """`trap_numbers` names a text, a case on Spark or a test for each trap but those of windows."""
    wanted = {f"{group}.{n}" for group, last in LAST.items() for n in range(1, last + 1)}
    assert set(TRAPS) == wanted | {"1.1b"}
    cases = {number for title in (*on_spark.FOLLOWED, *on_spark.REFUSED)
             for number in title.split() if number[0].isdigit() and "." in number}  # fmt: skip
    for number, places in TRAPS.items():
        for place in places.split(", "):
            if place == "spark":
                assert number in cases, number
            elif "::" in place:
                module, test = place.split("::")
                assert test in _tests_of(module), place
            else:
                assert place in texts("traps"), place
    named = {place for places in TRAPS.values() for place in places.split(", ")}
    assert set(texts("traps")) <= named


@cache
def _tests_of(module: str) -> set[str]:
    tree = ast.parse((TESTS / f"{module}.py").read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(
    "name",
    ["AsOfJoin", "NearestByJoin", "TranspiledPythonUDF", "MapInArrow", "FlatMapCoGroupsInPandas"],
)
def test_classes_that_are_refused_by_name(name: str) -> None:
    plan = trap_answers()["t3_1_same_column_twice"].plan
    with pytest.raises(QueryError, match=name) as refused:
        script_of_plan(replace(plan, plan=PlanNode(name, {"child": plan.plan})))
    assert refused.value.problems[0].code in ("C101", "C103", "C104")


@pytest.mark.parametrize("name", ["PythonUDF", "ScalaUDF", "HiveSimpleUDF", "HiveGenericUDF"])
def test_functions_of_users_are_never_converted(name: str) -> None:
    """They are refused, or left to Spark as they are."""
    assert SCALARS[name].level != "converted"


def test_times_of_day_have_no_type() -> None:
    """A cast of one to a timestamp means the current date."""
    with pytest.raises(Refused):
        model_type(PlanNode("TimeType", {"precision": 6}))
