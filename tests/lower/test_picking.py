"""Which steps into trees are taken where documents are parsed, and which are left to Python."""

from __future__ import annotations

import pytest

from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.translate.queries import translate
from incmrql.lower.context import Context
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.statements import Statement, show_statements, statement
from incmrql.lower.tree import Dialect
from incmrql.types.show import show_expr
from tests.reference.running import typed_script

JSON = 'source(json, "in")'
XML = 'source(xml, "in", {"r"})'
FUNCTIONS = """
function depth(t: JSON): long { 1 + max(select depth(u) from u in t as [JSON]) };
function own(t: JSON): JSON { t.a };
"""
PICKED = {
    "members": (f"select (x.a.b, x.c[0] as int) from x in {JSON}", ["x.a.b", "x.c[0] as int"]),
    "a row that is only counted": (
        f"select (k, count(x)) from x in {JSON} group by k: x.k as int",
        ["x.k as int"],
    ),
    "a row that is also used whole": (f"select (x, x.a) from x in {JSON}", ["x", "x.a"]),
    "above a group": (
        f"select (k, sum(select y.n as long from y in x)) from x in {JSON} group by k: x.k",
        ["x.k", "x.n as long"],
    ),
    "above a join": (
        f"select (x.a, y.b) from x in {JSON}, y in {JSON} where x.i = y.j",
        ["x.i", "x.a", "x.j", "x.b"],
    ),
    "the same step twice": (f"select x.a from x in {JSON} where x.a = x.b", ["x.a", "x.b"]),
    "attributes and text": (
        f"select (x.@a, text(x.b)) from x in {XML}",
        ["x.@a", "map(each -> text(each), x.b)"],
    ),
    "elements": (
        f"select text(b) from x in {XML}, b in x.a.b",
        ["select text(b) from each in x.a, b in each.b"],
    ),
    "a function without recursion": (f"select own(x) from x in {JSON}", ["x.a"]),
    "fields of a typed row": (
        'select r.t.a from r in source(json, "in", type(<t: any, n: int>))',
        ["x.t.a"],
    ),
}  # fmt: skip
NOT_PICKED = {
    "recursion": f"select depth(x) from x in {JSON} where x = [json|1|]",
    "rows with signs": 'select x.a from x in stream(json, "in", sign: "s")',
    "rows that are deleted": 'select x.a from x in stream(json, "in", deletes: "out")',
    "a range as long as a document says": f"select 1..(x.n as long) from x in {JSON}",
}


def statement_of(text: str) -> Statement:
    script = typed_script(f"{FUNCTIONS}{text};")
    query, _ = normal_form(translate(script.items[-1].expr, script))
    ((_, term),) = query.parts
    return statement(term, Context(lower, Dialect.SPARK, script), {})


def picks(text: str) -> list[str]:
    scans = [scan for _, scan in statement_of(text).sources if scan.picks is not None]
    return [plain(show_expr(expr)) for scan in scans if scan.picks for _, expr in scan.picks.fields]


def plain(text: str) -> str:
    """An expression without the numbers of its variables, its row called x."""
    bare = "".join([c for i, c in enumerate(text) if not (c.isdigit() and text[i - 1].isalnum())])
    return "x" + bare[1:] if bare[0] in "ry" and bare[1:2] in ("", ".", "o") else bare


@pytest.mark.parametrize("name", PICKED)
def test_what_is_picked(name: str) -> None:
    text, expected = PICKED[name]
    translation = statement_of(text)
    assert sorted(picks(text)) == sorted(expected)
    assert not translation.python_calls
    assert "python_" not in translation.text


@pytest.mark.parametrize("name", NOT_PICKED)
def test_what_is_left_to_python(name: str) -> None:
    translation = statement_of(NOT_PICKED[name])
    assert translation.python_calls or ".." in NOT_PICKED[name]
    assert not [path for path in picks(NOT_PICKED[name]) if path in ("x.a", "depth(x)")]


def test_explain_says_what_is_picked() -> None:
    script = typed_script(f"select x.a.b as int from x in {JSON};")
    query, _ = normal_form(translate(script.items[-1].expr, script))
    shown = show_statements(query, script)
    assert "-- source_1.step_1 is picked where rows are parsed: x" in shown
    assert "runs in Python" not in shown
