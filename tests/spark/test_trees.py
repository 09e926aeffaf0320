"""Steps into trees on Spark: taken where documents are parsed, with the answers of the reference.

What stands in a tree is picked by the tasks that parse it (`lower.relations.picking`), from
documents of JSON before there is a tree (`spark.sources.picks`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.scripts import run_script
from incmrql.algebra.term import CMap, Picks, Scan
from incmrql.algebra.translate.queries import translate
from incmrql.errors import DataError
from incmrql.io.json.values import check_tree, parse_json, parse_raw, tree_of
from incmrql.io.rows import ReadReport
from incmrql.io.scalars import Unparsable
from incmrql.lower.context import Context
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.picking import pick_steps
from incmrql.lower.tree import Dialect
from incmrql.reference import new_world
from incmrql.spark.batch.scripts import ScriptRunner
from incmrql.spark.sources.picks import picker, raw_picker
from incmrql.spark.values import dataframe
from incmrql.types import typed
from incmrql.types.model import JSON as TREE
from incmrql.values import Bag, Value, identical, show
from tests.effort import examples
from tests.reference.running import typed_script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


on_spark = pytest.mark.spark

DOCUMENTS = [
    '{"a": {"b": 4, "c": [1, 2.5, "3", null, true]}, "k": "x"}',
    '{"a": [{"b": 1}, {"b": 2, "c": 7}, [{"b": 3}, [{"b": 4}]], 5, {}], "k": "y"}',
    '{"a": {"b": "12", "c": {"b": -0.0}}, "k": 1}',
    '{"a": {"b": 9223372036854775807, "c": [9223372036854775808, 1e308, -0, 5e-324]}, "k": 1.0}',
    '{"a": {"b": 123456789012345678901234567890, "c": 1.0000000000000000000001}, "k": "1"}',
    '{"a": 1, "a": {"b": 2, "b": 5}, "k": {"b": null}}',
    '{"a": null, "k": null}',
    '{"a": [], "k": []}',
    '{"a": {"b": []}, "k": {"": {"a b": 6, "\\u0000": 7}}}',
    '{"a": {"b": "ä\\ud83d\\ude00\\u0000", "c": "2026-01-31"}, "k": "ß"}',
    '"text"', "17", "null", "[[1, 2], [3]]", "{}",
    '{"a": {"b": 1e400}, "k": "too large"}',
    '{"a": {"b": 1}, "k": "half \\ud83d"}',
    '{"a": ',
    '{"a": {"b": ' + "[" * 97 + "8" + "]" * 97 + '}, "k": "deep"}',
    '{"a": ' + "[" * 101 + "]" * 101 + "}",
    '{"a": {"b": ' + "1" * 400 + "}}",
    '{"a": {"b": 0.' + "3" * 400 + "}}",
]  # fmt: skip
JSON = 'source(json, "in")'
PATHS = [
    "x", "x.a", "x.a.b", "x.a.b.b", "x.a.c", "x.a.c[1]", "x.a.c[-1]", "x.a.c[7]", 'x["a"]',
    'x["a"]["b"]', "x.a[0]", "x.a[2][0].b", "x.k", 'x.k[""]["a b"]', "x[0]", "x[-1][0]", "x.none",
    'x["none"].b', "x.a.c.b",
]  # fmt: skip
TYPES = [
    "bool", "int", "long", "double", "float", "string", "decimal(38, 2)", "date", "[string]",
    "{int}", "<b: int, c: any>", "(int, int)", "any", "JSON", "[JSON]",
]  # fmt: skip
QUERIES = {
    "a filter and a group": f"select (k, count(x)) from x in {JSON} where (x.a.b as int) > 1 "
    "group by k: x.k",
    "an average after a group": "select (k, avg(select y.a.b as double from y in x)) "
    f"from x in {JSON} group by k: x.k as string",
    "a join": f"select (x.k, y.a.b as long) from x in {JSON}, y in {JSON} "
    "where x.k = y.a.b and (y.k as string) <> 'z'",
    "an outer join": f"select (x.k, select y.a.c from y in {JSON} where y.k = x.a.b) "
    f"from x in {JSON}",
    "whole rows": f"select x from x in {JSON} where (x.a.b as double) > 1.0",
    "rows and steps": f"select (x, x.a) from x in {JSON}, y in {JSON} where x.k = y.k",
    "the order of trees": f"select x.a from x in {JSON} order by x.k desc, x.a.b limit 9",
    "distinct trees": f"select distinct x.k from x in {JSON}",
    "elements": f"select (i, i.b as int) from x in {JSON}, i in x.a as [JSON]",
    "a pattern": 'select case x { [json| {"k": {{k}}, "a": {"b": {{b as int}}}} |]: (k, b) '
    f"| JArray(xs): (null as JSON, 1) | *: (x, 0) }} from x in {JSON}",
    "keys": 'select (x.b, x[0]) from x in source(json, "in", {"a", "k"})',
    "a typed row": "select (x.k.b, x.a as string) "
    'from x in source(json, "in", type(<a: any, k: any>), on_error: drop)',
    "a function": "select both(x) from x in " + JSON,
    "a function that calls itself": f"select depth(x.a) from x in {JSON}",
    "what fails behind a filter": f"select endless(x.a) from x in {JSON} where x.k = [json|[1]|]",
    "a total": f"count(select x from x in {JSON} where exists(x.a as [JSON]))",
    "a made tree": f'select [json| {{"is": {{{{x.k}}}}, "of": {{{{x.a.b}}}}}} |] from x in {JSON}',
    "a fail of the source": 'select x.a.b as int from x in source(json, "in", on_error: fail)',
}
FUNCTIONS = """
function both(t: JSON): (JSON, long) { (t.a.b, t.a.b as long) };
function depth(t: JSON): long { 1 + max(select depth(u) from u in t as [JSON]) };
function endless(t: JSON): long { 1 + endless(t) };
"""


def outcome(folder: Path, script: typed.Script, spark: SparkSession | None) -> tuple[Any, ...]:
    """The answers or the error, and what reading left behind."""
    reports: list[tuple[ReadReport, str]] = []
    quarantine = folder / ("_reference" if spark is None else "_spark")
    world = new_world(script, quarantine=quarantine, on_report=lambda *told: reports.append(told))
    answers: list[Value] = []
    try:
        if spark is None:
            run_script(script, world, lambda _, value: answers.append(value))
        else:
            for item in script.items:
                ScriptRunner(world, lambda: spark).run_item(item, lambda _, v: answers.append(v))
    except DataError as error:
        return "error", error.code, error.message, error.place
    kept = {f.name: f.read_text() for f in quarantine.iterdir()} if quarantine.exists() else {}
    return answers, kept, reports


def agree(spark: SparkSession, folder: Path, text: str) -> None:
    script = typed_script(f"{FUNCTIONS}{text};")
    expected, actual = outcome(folder, script, None), outcome(folder, script, spark)
    if expected[0] == "error":
        assert actual == expected
        return
    shown = f"{text}\nSpark: {show(actual[0])}\nreference: {show(expected[0])}"
    assert identical(actual[0], expected[0]), shown
    assert actual[1:] == expected[1:]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for number in (0, 1):
        lines = "\n".join(DOCUMENTS[number::2])
        (tmp_path / "in" / f"{number}.json").write_text(lines, encoding="utf-8")
    return tmp_path


@on_spark
@pytest.mark.parametrize("name", QUERIES)
def test_queries_over_json(spark: SparkSession, folder: Path, name: str) -> None:
    agree(spark, folder, QUERIES[name])


@on_spark
@pytest.mark.parametrize("type_", ["JSON", *TYPES])
def test_paths_in_every_type(spark: SparkSession, folder: Path, type_: str) -> None:
    head = ", ".join(f"{path} as {type_}" for path in PATHS)
    agree(spark, folder, f"select ({head}) from x in {JSON}")


@on_spark
def test_rows_from_elsewhere_are_picked_from_too(spark: SparkSession) -> None:
    trees = [parse_json(text) for text in ('{"a": {"b": 1}}', '{"a": [{"b": 2}, 3]}', "null")]
    script = typed_script(f"select (x.a.b, x.a as string, x) from x in {JSON};")
    answers: list[Value] = []
    engine = ScriptRunner(
        new_world(script),
        lambda: spark,
        override=lambda _source, _path, packed: dataframe(spark, trees, TREE, packed=packed),
    )
    engine.run_item(script.items[-1], lambda _, value: answers.append(value))
    expr = typed_script("select (x.a.b, x.a as string, x) from x in xs;", {"xs": (TREE, None)})
    world = new_world(expr, registered={"xs": Bag(trees)})
    run_script(expr, world, lambda _, value: answers.append(value))
    assert identical(answers[0], answers[1])


# --- before there is a tree ----------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "", "ä"])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(alphabet="a0.-ß\x00", max_size=3), st.sampled_from(["true", "12", "1e3", " 7 "]),
)  # fmt: skip
RAWS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
STEPS = st.sampled_from([".a", ".b", "[0]", "[-1]", "[1]", '["a"]', '["ä"]', '[""]'])
PICKS = st.tuples(st.lists(STEPS, max_size=4).map("".join), st.sampled_from([None, *TYPES])).map(
    lambda steps: f"x{steps[0]}" if steps[1] is None else f"x{steps[0]} as {steps[1]}"
)


@given(st.lists(RAWS, min_size=1, max_size=5), st.lists(PICKS, min_size=1, max_size=5))
def test_paths_are_followed_in_documents_as_in_trees(
    documents: list[Any], heads: list[str]
) -> None:
    picks = picks_of(f"select ({', '.join([*heads, 'x.a'])}) from x in {JSON}")
    follow, evaluate = raw_picker(picks), picker(picks)
    for document in documents:
        raw = parse_raw(json.dumps(document))
        assert follow(raw) == evaluate(tree_of(raw))


def picks_of(text: str) -> Picks:
    script = typed_script(f"{text};")
    query, _ = normal_form(translate(script.items[-1].expr, script))
    ((_, term),) = query.parts
    assert isinstance(term, CMap)
    picked = pick_steps(term, Context(lower, Dialect.SPARK, script))
    assert picked is not None
    assert isinstance(picked.source, Scan)
    assert picked.source.picks is not None
    return picked.source.picks


@pytest.mark.parametrize("text", DOCUMENTS)
def test_what_has_no_tree_is_told_before_there_is_one(text: str) -> None:
    assert _problem(text, check_tree) == _problem(text, tree_of)


def _problem(text: str, parse: Any) -> str:
    try:
        parse(parse_raw(text))
    except Unparsable as problem:
        return problem.reason
    return ""


@on_spark
@settings(
    examples(4),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(RAWS, min_size=1, max_size=12),
    st.lists(PICKS, min_size=2, max_size=8),
    st.lists(STEPS, max_size=3).map("".join),
)
def test_random_trees(
    spark: SparkSession, folder: Path, documents: list[Any], heads: list[str], key: str
) -> None:
    for file in (folder / "in").iterdir():
        file.unlink()
    lines = [json.dumps(document, ensure_ascii=False) for document in documents]
    (folder / "in" / "0.json").write_text("\n".join(lines), encoding="utf-8")
    agree(
        spark,
        folder,
        f"select (k, x, select ({', '.join(heads)}, 0) from x in x) from x in {JSON} "
        f"group by k: x{key}",
    )


# --- XML -----------------------------------------------------------------------------------

PAGES = {
    "1.xml": '<all><r id="1" c="x"><a><b>4</b>tail<b>5</b></a> mixed <i>text</i> end</r>'
    '<r id="2"><a/><a><b n="7">z</b></a><!-- no --><r id="3" c="in">&lt;&amp;</r></r></all>',
    "2.xml": "<all><r c='ä'><![CDATA[<raw>]]></r><r/><r>  </r><r id='4'> <b/> </r>"
    "<r>" + "<a>" * 90 + "deep" + "</a>" * 90 + "</r><r>not closed",
    "3.xml": '<!DOCTYPE all [<!ENTITY e "expanded">]><all><r c="&e;">&e;&nbsp;</r></all>',
}
XML = 'source(xml, "pages", {"r"})'
OVER_XML = {
    "attributes": f"select (x.@id, x.@c as int, x.@none, x.@*) from x in {XML}",
    "children": f"select (x.a, x.a.b, x.*, x.a.b.@n) from x in {XML}",
    "text and tag": f"select (text(x), tag(x), text(x.a), text(elem(x.a.b))) from x in {XML}",
    "casts": f"select (x as int, x as string, x.a.b[0] as double) from x in {XML}",
    "places": f"select (x.a[1], x.a[-1].b[0]) from x in {XML}",
    "a filter and a group": "select (k, count(x)) "
    f"from x in {XML} where some b in x.a.b: (text(b) as int) > 3 group by k: x.@c",
    "groups of elements": "select (n, count(x), avg(select text(b) as double "
    f"from y in x, b in y.a.b)) from x in {XML}, a in x.a group by n: text(a)",
    "groups of parts of elements": "select ((n, t), count(b)) "
    f"from x in {XML}, a in x.a, b in a.b group by (n, t): (text(b), tag(a))",
    "elements": f'select (text(b), b.@n) from x in {XML}, b in x.a.b where text(b) <> "5"',
    "a join": f"select (x.@id, y) from x in {XML}, y in {XML} where x.@c = y.@c and exists(x.*)",
    "a sub-query": f"select (x.@id, count(select y from y in {XML} where y.@id = x.@id)) "
    f"from x in {XML}",
    "text of all elements at a path": f"select (x.@id, text(x.a.b)) from x in {XML} "
    'where text(x.a.b) = "45"',
    "text of all elements as a number": f"select (x.@id, toInt(text(x.a.b)) + 1) from x in {XML}",
    "a path of the source": 'select (x.@n, x.*) from x in source(xml, "pages", {"r"}, xpath(a/b))',
    "a template": f"select case x {{ [xml| <r id={{{{i}}}}>{{{{*}}}}</r> |]: i | *: 'none' }} "
    f"from x in {XML}",
    "whole rows": f"select distinct x from x in {XML} where exists(x.a)",
}


@on_spark
@pytest.mark.parametrize("name", OVER_XML)
def test_queries_over_xml(spark: SparkSession, folder: Path, name: str) -> None:
    (folder / "pages").mkdir()
    for file, text in PAGES.items():
        (folder / "pages" / file).write_text(text, encoding="utf-8")
    agree(spark, folder, OVER_XML[name])
