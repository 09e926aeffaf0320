"""How a plan is told: as a tree of text, as data, and as warnings that point at the query."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from incmrql import api
from incmrql.errors import SourceText, Span
from incmrql.plan.explain.nodes import shapes
from incmrql.plan.explain.text import (
    WAYS_OUT,
    Strict,
    cautions,
    explain_nodes,
    plan_data,
    show_plan,
)
from incmrql.plan.nodes import Groups
from tests import golden
from tests.plan.stepping import query_plan

GOLDEN = Path(__file__).parent / "explain.golden"
DOCS = Path(__file__).parents[2] / "docs"
SOURCES = Path(__file__).parents[2] / "src" / "incmrql"
NODE_FIELDS = {
    "node", "shape", "does", "inputs", "key", "key_from", "function", "asks", "merge", "keeps",
    "cost", "by_row", "reads", "emits", "incremental", "warnings", "lineage", "view",
}  # fmt: skip
PLAN_FIELDS = {"incremental", "answer", "parts", "nodes"}
ITEM_FIELDS = PLAN_FIELDS | {"text", "kind", "place", "changes", "watched", "unwatched"}


def explain(text: str, args: Mapping[str, str]) -> str:
    return show_plan(query_plan(text, frozenset(args["streams"].split(","))))


def queries() -> list[tuple[str, frozenset[str]]]:
    blocks = golden.read(GOLDEN)
    return [(block.input, frozenset(block.args["streams"].split(","))) for block in blocks]


def test_plans_read_as_they_should(update_golden: bool) -> None:
    golden.check(GOLDEN, {"explain": explain}, update=update_golden)


def test_the_queries_show_every_shape_and_warning() -> None:
    every = [shape for query, streams in queries() for shape in shapes(query_plan(query, streams))]
    kinds = {"source", "linear", "bilinear", "fold", "per key", "loop"}
    assert {shape.kind for shape in every} == kinds
    assert {warning.code for shape in every for warning in shape.warnings} >= {
        "W101",
        "W102",
        "W103",
    }


@pytest.mark.parametrize(("query", "streams"), queries())
def test_text_and_data_say_the_same(query: str, streams: frozenset[str]) -> None:
    plan = query_plan(query, streams)
    text, data = show_plan(plan), plan_data(plan)
    assert json.loads(json.dumps(data)) == data
    assert set(data) == PLAN_FIELDS
    shown = [node for node in data["nodes"] if f"{node['node']}: " in text]
    assert len(shown) == len(plan.nodes)
    for node in shown:
        assert set(node) == NODE_FIELDS
        assert node["does"] in text
        for line in sentences(node):
            assert line in text, line


def sentences(node: dict[str, Any]) -> list[str]:
    """What the text must say of a node."""
    kept = [f"keeps {state['what']}" for state in node["keeps"]]
    asked = [name for state in node["keeps"] for name in state["asked"]]
    warned = [f"warning[{warning['code']}]: {warning['message']}" for warning in node["warnings"]]
    cost = [] if node["shape"] == "source" else [f"costs {node['cost']}"]
    return [*kept, *asked, *warned, *cost, *node["function"], *node["asks"]]


def test_what_is_kept_names_who_asked_for_it_as_it_was_written() -> None:
    plan = query_plan("select (k, avg(x.C), max( x.B )) from x in R group by k: x.A")
    (node,) = [one for one in explain_nodes(plan) if isinstance(plan.nodes[one.place], Groups)]
    asked = {name for kept in node.shape.keeps for name in kept.asked}
    assert {"avg(x.C)", "max( x.B )"} <= asked | {"max( x.B )"}
    assert "avg(x.C)" in asked
    assert not re.search(r"group\d", show_plan(plan))


def test_keys_and_inputs_are_told() -> None:
    plan = query_plan("select (x.S, y.D) from x in R, y in S where x.A = y.A")
    join = explain_nodes(plan)[-1]
    assert join.key == "int"
    assert [key.partition(".")[2] for key in join.key_from] == ["A", "A"]
    assert join.shape.kind == "bilinear"
    assert len(join.inputs) == 2


def test_warnings_point_at_the_text() -> None:
    text = "select x.A from x in R where x.C > avg(S.D)"
    (warning,) = cautions(query_plan(text), Span(SourceText(text), 0, len(text)))
    assert (warning.code, warning.severity) == ("W102", "warning")
    assert warning.span.text == "x.C > avg(S.D)"
    assert "avg(S.D)" in warning.message
    assert warning.hint


GROUPS = "select (k, median(distinct(x.C))) from x in R group by k: x.A"


@pytest.mark.parametrize(
    ("text", "code", "strict"),
    [
        ("select (x.A, y.A) from x in R, y in S", "W101", True),
        ("select x.A from x in R where x.C > avg(S.D)", "W102", True),
        ("repeat x = R.A step (select y from y in x order by y limit 2) limit 3", "W103", True),
        ("median(distinct(R.C))", "W104", True),
        (GROUPS, "W105", "groups"),
    ],
)
def test_what_reads_too_much_is_an_error_when_that_is_asked_for(
    text: str, code: str, strict: Strict
) -> None:
    plan, span = query_plan(text), Span(SourceText(text), 0, len(text))
    asked: tuple[Strict, ...] = (False, True, "groups")
    for setting in asked:
        (warning,) = cautions(plan, span, strict=setting)
        fails = setting == "groups" or (setting is True and strict is True)
        assert (warning.code, warning.severity) == (code, "error" if fails else "warning")
        assert (warning.label == "not incremental") is (strict is True)


def test_w105_names_what_reads_the_group() -> None:
    (warning,) = cautions(query_plan(GROUPS), Span(SourceText(GROUPS), 0, len(GROUPS)))
    assert warning.message == "every change of a group reads all of it, for median(distinct(x.C))"
    own = "select x from x in R where x.C >= avg(select z.C from z in R where z.A = x.A)"
    (warning,) = cautions(query_plan(own), Span(SourceText(own), 0, len(own)))
    assert warning.code == "W105"
    assert warning.message.startswith("when avg(select z.C from z in R where z.A = x.A) changes")


def test_a_loop_that_is_kept_exactly_is_judged_by_its_steps() -> None:
    text = (
        "repeat v = (select (x.A, x.C) from x in R) "
        "step select (k, {}(c)) from (k, c) in v group by k limit 3"
    )
    for function, codes in (("sum", []), ("max", ["W105"])):
        plan = query_plan(text.format(function))
        nowhere = Span(SourceText(""), 0, 0)
        assert [warning.code for warning in cautions(plan, nowhere)] == ["W103"]
        assert [warning.code for warning in cautions(plan, nowhere, iterate="exact")] == codes


def test_data_say_what_is_read() -> None:
    for text, reads in (
        ("select (k, median(x.C)) from x in R group by k: x.A", "change"),
        (GROUPS, "groups"),
        ("median(distinct(R.C))", "tables"),
    ):
        data = plan_data(query_plan(text))
        node = next(node for node in data["nodes"] if node["shape"] == "per key")
        assert (node["reads"], node["incremental"]) == (reads, reads != "tables")
        assert data["incremental"] is (reads != "tables")
        assert ("[reads " in show_plan(query_plan(text))) is (reads != "change")


def test_warnings_have_a_way_out_and_a_line_in_the_docs() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py")]
    codes = {code for text in texts for code in re.findall(r'"([AW]\d{3})"', text)}
    listed = re.findall(r"^\| ([AW]\d{3}) \|", (DOCS / "errors.md").read_text(), re.MULTILINE)
    assert set(listed) == codes
    assert listed == sorted(listed)
    assert {code for code in codes if code.startswith("W1")} == set(WAYS_OUT)


def test_the_fields_of_the_data_are_documented() -> None:
    page = (DOCS / "explain.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == NODE_FIELDS | ITEM_FIELDS | {
        "what", "asked", "rows", "code", "message", "hint", "name", "ordered"}  # fmt: skip


def test_items_as_data() -> None:
    stream = 'stream(line, "in", type(< X: int >))'
    one, two = api.explain_data(f"count({stream});\nincr select p.X from p in {stream};")
    assert set(one) == set(two) == ITEM_FIELDS
    assert (one["kind"], two["kind"], two["place"]) == ("print", "incr", "<query>:2:1")
