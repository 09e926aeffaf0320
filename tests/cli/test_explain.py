"""`incmrql explain` shows each stage, and refuses what has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import incmrql

QUERY = "select x.A + (1 + 2) from x in source(line, 'r.csv', type(< A: int >)) where x.A > 1"


@pytest.mark.parametrize(
    ("stage", "first", "holds"),
    [
        ("tree", "Script", "where: Binary op=>"),
        ("types", "print: {int}", 'from x1 in source(line, "r.csv") where x1.A > 1'),
        ("algebra", f"-- {QUERY}", "cMap pair2 -> {pair2#1}"),
        ("normal", f"-- {QUERY}", "cMap x2 -> if x2.A > 1 then {x2.A + 3} else {}"),
    ],
)
def test_stages(stage: str, first: str, holds: str) -> None:
    done = incmrql("explain", "--stage", stage, "-e", QUERY)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == first
    assert holds in done.out


def test_a_trace_names_rules_with_their_laws() -> None:
    done = incmrql("explain", "--trace", "-e", QUERY)
    assert "fold-constants: f(c)  =  the value of f at the constant c\n1 + 2\n=\n3\n" in done.out
    assert "fuse-cmaps: cMap(f, cMap(g, X))" in done.out


def test_a_script_of_several_items(tmp_path: Path) -> None:
    script = tmp_path / "q.mrql"
    script.write_text("S = source(text, 'a.txt'); count(S); select x from x in S;")
    done = incmrql("explain", script)
    assert (done.code, done.out.count("-- "), done.out.count("scan source(text")) == (0, 2, 2)


def test_what_has_no_term_says_so() -> None:
    text = "S = source(text, 'a'); fold(\\(n: long, s: string): long. n + count(" \
           "select t from t in S where t = s), 0, S);"  # fmt: skip
    done = incmrql("explain", "-e", text)
    assert done.code == 1
    assert done.err.startswith("error[A001]: this reads a source and depends on s")


def test_wrong_usage() -> None:
    assert incmrql("explain", "--stage", "sparks", "-e", "1").code == 2
    assert incmrql("explain", "none.mrql").code == 2
