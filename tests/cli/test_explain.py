"""`incmrql explain` shows each stage, and refuses what has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from incmrql.plan.explain.text import NOTHING_CHANGES
from tests.cli.commands import incmrql

QUERY = "select x.A + (1 + 2) from x in source(line, 'r.csv', type(< A: int >)) where x.A > 1"
STREAM = QUERY.replace("source(", "stream(")


@pytest.mark.parametrize(
    ("stage", "first", "holds"),
    [
        ("tree", "Script", "where: Binary op=>"),
        ("types", "print: {int}", 'from x1 in source(line, "r.csv") where x1.A > 1'),
        ("algebra", f"-- {QUERY}", "cMap pair2 -> {pair2#1}"),
        ("normal", f"-- {QUERY}", "cMap x2 -> if x2.A > 1 then {x2.A + 3} else {}"),
        ("incremental", f"-- {QUERY}", "reads no stream: nothing changes, and it is answered once"),
        ("incremental", f"-- {STREAM}", "if x3.A > 1 then {x3.A + 3} else {}"),
    ],
)
def test_stages(stage: str, first: str, holds: str) -> None:
    text = first.removeprefix("-- ") if first.startswith("--") else QUERY
    done = incmrql("explain", "--stage", stage, "-e", text)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == first
    assert holds in done.out


@pytest.mark.parametrize("stage", ["normal", "incremental"])
def test_a_trace_names_rules_with_their_laws(stage: str) -> None:
    done = incmrql("explain", "--trace", "--stage", stage, "-e", STREAM)
    assert "fold-constants: f(c)  =  the value of f at the constant c\n1 + 2\n=\n3\n" in done.out
    assert "fuse-cmaps: cMap(f, cMap(g, X))" in done.out


def test_a_script_of_several_items(tmp_path: Path) -> None:
    script = tmp_path / "q.mrql"
    script.write_text("S = source(text, 'a.txt'); count(S); select x from x in S;")
    done = incmrql("explain", "--stage", "normal", script)
    assert (done.code, done.out.count("-- "), done.out.count("scan source(text")) == (0, 2, 2)


@pytest.mark.parametrize("stage", ["normal", "incremental"])
def test_what_has_no_term_says_so(stage: str) -> None:
    text = "S = stream(text, 'a'); fold(\\(n: long, s: string): long. n + count(" \
           "select t from t in S where t = s), 0, S);"  # fmt: skip
    done = incmrql("explain", "--stage", stage, "-e", text)
    assert done.code == 1
    assert done.err.startswith("error[A001]: this reads a source and depends on s")


def test_the_incremental_stage_is_shown_when_none_is_named() -> None:
    done = incmrql("explain", "-e", f"1 + 2; incr {STREAM};")
    first, second = done.out.split("\n\n")
    assert first.splitlines() == ["-- 1 + 2", NOTHING_CHANGES]
    assert second.splitlines()[1].endswith(" = all rows of node 1")


def test_the_nodes_as_data() -> None:
    done = incmrql("explain", "--json", "-e", f"1 + 2; incr {STREAM};")
    assert (done.code, done.err) == (0, "")
    first, second = map(json.loads, done.lines)
    assert (first["changes"], first["kind"]) == (False, "print")
    assert (second["changes"], second["kind"], second["incremental"]) == (True, "incr", True)
    assert [node["shape"] for node in second["nodes"]] == ["source", "linear"]


def test_elements_of_json_need_not_say_that_they_are_a_collection() -> None:
    done = incmrql("explain", "-e", "select i.sku from i in elem(source(json, 'shop')).items")
    assert (done.code, done.err) == (0, "")


def test_the_paper_has_a_homomorphism_a_merge_and_an_answer() -> None:
    text = f"incr select (k, avg(x.A)) from x in ({STREAM.partition(' in ')[2].partition(' w')[0]})"
    done = incmrql("explain", "--paper", "-e", f"{text} group by k: x.A")
    assert (done.code, done.err) == (0, "")
    assert {"h", "⊗", "a(x)"} <= {line.split()[0] for line in done.lines if line.split()}


def test_wrong_usage() -> None:
    assert incmrql("explain", "--stage", "normal", "--paper", "-e", "1").code == 2
    assert incmrql("explain", "--json", "--paper", "-e", "1").code == 2
    assert incmrql("explain", "--stage", "normal", "--json", "-e", "1").code == 2
    assert incmrql("explain", "--stage", "sparks", "-e", "1").code == 2
    assert incmrql("explain", "none.mrql").code == 2


def test_a_stored_value_is_shown_by_its_name() -> None:
    """It is known only when the script runs."""
    text = (
        'store n := 3; R = source(line, "x", ",", type(< A: int >));'
        "select x.A from x in R where x.A > n order by x.A limit n;"
    )
    shown = incmrql("explain", "--stage", "spark", "-e", text)
    assert shown.code == 0, shown.err
    assert "`A` > :n" in shown.out
    assert "LIMIT CAST(:n AS BIGINT)" in shown.out
