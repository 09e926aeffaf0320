"""Queries of several kinds as one script, compiled without Spark: the plan is one of the pool."""

from __future__ import annotations

import json

import pytest

from incmrql.compiler.combined import CombinedQueries, TextQuery, compile_combined, reads_plans
from incmrql.compiler.load import READ_ONLY
from incmrql.compiler.plans import PlanInputs, PlanQuery, PlanScript, SessionSource, view_key
from incmrql.errors import DataError
from incmrql.plan.nodes import Groups
from incmrql.types import typed
from incmrql.types.model import INT, LONG, Record
from incmrql.types.walk import bound_variables
from tests.catalyst.pool import read_plans

ROW = Record((("k", INT), ("a", LONG)))
COUNTS = Record((("k", INT), ("n", LONG)))
SOURCES = {"points": SessionSource(ROW, True), "r": SessionSource(ROW, True)}
VIEWS = {"counts": SessionSource(COUNTS, True, is_view=True)}


def text(name: str, query: str, **views: SessionSource) -> TextQuery:
    return TextQuery(name, f"{query};", 0, sources={**SOURCES, **views})


COUNT = text("counts", "select < k: k, n: count(p) > from p in points group by k: p.k")
LARGE = text("large", "select c.k from c in counts where c.n > 2", **VIEWS)
MANY = text("many", "count(select c from c in counts where c.n > 3)", **VIEWS)
NONE = PlanScript(())


def plan(name: str, query: str) -> PlanQuery:
    return PlanQuery(read_plans("operators")[query], "<query>", PlanInputs(), name)


def test_a_view_that_several_queries_read_is_grouped_once() -> None:
    queries = CombinedQueries((COUNT, LARGE, MANY), NONE, ("counts", "large", "many"))
    compiled = compile_combined(queries, READ_ONLY)
    program = compiled.program(compiled.items)
    assert len([node for node in program.nodes if isinstance(node, Groups)]) == 2
    assert [output.target for output in program.outputs] == ["counts", "large", "many"]
    alone = compile_combined(CombinedQueries((LARGE, COUNT), NONE, ("large",)), READ_ONLY)
    assert [output.target for output in alone.program(alone.items).outputs] == ["large"]


def test_queries_of_spark_and_mrql_have_variables_of_their_own() -> None:
    grouped = plan("groups", "group_expressions")
    columns = Record(tuple((name, LONG) for name in grouped.columns))
    known = SessionSource(columns, True, is_view=True)
    reader = text("reader", "select g from g in groups", groups=known)
    other = text("other", "select (x.k, count(x)) from x in points group by x.k")
    queries = CombinedQueries(
        (reader, other), PlanScript((grouped,)), ("groups", "reader", "other")
    )
    compiled = compile_combined(queries, READ_ONLY)
    script = compiled.typed
    parts = [*script.queries.values(), *(item.expr for item in script.items)]
    numbers = [variable.number for part in parts for variable in bound_variables(part)]
    assert len(set(numbers)) == len(numbers)
    assert [reads_plans(item, script) for item in script.items] == [True, True, False]
    assert script.queries[view_key("groups")].type != script.items[0].expr.type


def test_a_checkpoint_makes_the_same_program_again() -> None:
    grouped = plan("groups", "group_expressions")
    queries = CombinedQueries((COUNT, LARGE), PlanScript((grouped,)), ("large", "groups"))
    saved = json.loads(json.dumps(queries.as_json()))
    programs = [
        compiled.program(compiled.items)
        for compiled in (
            compile_combined(queries, READ_ONLY),
            compile_combined(CombinedQueries.of_json(saved), READ_ONLY),
        )
    ]
    assert programs[0].identity == programs[1].identity
    assert CombinedQueries.of_json(saved).as_json() == queries.as_json()


def test_declarations_of_one_name_have_to_say_the_same() -> None:
    one = text("one", "function f(x: long): long { x + 1 }; select f(p.a) from p in points")
    same = text("same", "function f(y: long): long { y + 1 }; select f(p.a + 1) from p in points")
    other = text("other", "function f(x: long): long { x + 2 }; select f(p.a) from p in points")
    compiled = compile_combined(CombinedQueries((one, same), NONE, ("one", "same")), READ_ONLY)
    assert isinstance(compiled.typed.functions["f"], typed.Function)
    with pytest.raises(DataError, match='two queries of the program declare "f", and not alike'):
        compile_combined(CombinedQueries((one, other), NONE, ("one", "other")), READ_ONLY)
    # The texts of two bodies are the same, and the queries that they name are not.
    named = [
        text(f"{n}", f"q = select p from p in points where p.a > {n}; "
             "function g(x: long): long { x + count(q) }; select g(p.a) from p in points")
        for n in (1, 2)
    ]  # fmt: skip
    with pytest.raises(DataError, match='two queries of the program declare "g"'):
        compile_combined(CombinedQueries(tuple(named), NONE, ("1", "2")), READ_ONLY)


def test_texts_have_the_same_arguments() -> None:
    one = TextQuery("one", "count(points);", 0, ("a",), SOURCES)
    other = TextQuery("other", "count(points);", 0, ("b",), SOURCES)
    with pytest.raises(DataError, match="different arguments"):
        _ = CombinedQueries((one, other), NONE, ()).arguments
