"""`incmrql check` says what queries over streams cost; `--strict` refuses what reads too much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import incmrql

POINTS = 'Points = stream(line, "in", type(< X: int, Y: double >));\n'
AVERAGE = POINTS + "incr select (x, avg(p.Y)) from p in Points group by x: p.X;"
CROSS = POINTS + "incr select (p.X, q.X)\n from p in Points, q in Points;"
LOOP = (
    POINTS + "incr repeat xs = select p.X from p in Points "
    "step (select x from x in xs order by x limit 2) limit 3;"
)
GROUPS = POINTS + "incr select (x, median(distinct(p.Y))) from p in Points group by x: p.X;"
TOTALS_IN_A_LOOP = (
    POINTS + "incr repeat v = select (p.X, p.Y) from p in Points "
    "step select (k, sum(y)) from (k, y) in v group by k limit 3;"
)
CHANCE = POINTS + "incr select p.X + random(9) from p in Points;"
NO_TERM = POINTS + (
    "incr fold(\\(n: long, p: < X: int, Y: double >): long. n + "
    "count(select q from q in Points where q.X = p.X), 0 as long, Points);"
)
NO_STREAM = LOOP.replace("stream(", "source(").replace("incr ", "")


@pytest.mark.parametrize("text", [AVERAGE, NO_STREAM])
@pytest.mark.parametrize("options", [(), ("--strict",)])
def test_nothing_to_say(text: str, options: tuple[str, ...]) -> None:
    done = incmrql("check", *options, "-e", text)
    assert (done.code, done.out, done.err) == (0, "", "no problems found\n")


def test_what_is_dear_is_a_warning_with_its_place_and_the_way_out() -> None:
    done = incmrql("check", "-e", CROSS)
    first, *rest = done.err.splitlines()
    assert (done.code, done.out) == (0, "")
    assert first.startswith("warning[W101]: a cross product keeps the left and the right side")
    assert rest[0] == " --> <query>:2:13"
    assert any("= hint: Relate the two by an equality" in line for line in rest)
    assert rest[-1] == "no errors found"


@pytest.mark.parametrize(
    ("options", "text", "code"),
    [
        ((), "CROSS", 0),
        (("--strict",), "CROSS", 1),
        (("--strict=tables",), "CROSS", 1),
        (("--strict=groups",), "CROSS", 1),
        ((), "GROUPS", 0),
        (("--strict",), "GROUPS", 0),
        (("--strict=groups",), "GROUPS", 1),
        (("--strict=groups",), "AVERAGE", 0),
        (("--strict",), "TOTALS_IN_A_LOOP", 1),
        (("--strict", "--iterate", "exact"), "TOTALS_IN_A_LOOP", 0),
    ],
)
def test_strict_refuses_by_what_is_read(options: tuple[str, ...], text: str, code: int) -> None:
    done = incmrql("check", *options, "-e", globals()[text])
    assert (done.code, done.out) == (code, "")
    assert ("error[W" in done.err) is (code == 1)


def test_strict_without_a_value_leaves_the_script_alone(tmp_path: Path) -> None:
    script = tmp_path / "groups.mrql"
    script.write_text(GROUPS)
    assert incmrql("check", "--strict", str(script)).code == 0
    assert incmrql("check", str(script), "--strict").code == 0
    done = incmrql("check", "--strict=groups", str(script))
    assert (done.code, done.err[:12]) == (1, "error[W105]:")
    assert incmrql("check", "--strict=all", str(script)).code == 2


def test_a_loop_that_is_run_again_is_an_error_only_when_that_is_asked_for() -> None:
    assert incmrql("check", "-e", LOOP).code == 0
    done = incmrql("check", "--strict", "-e", LOOP)
    assert done.code == 1
    assert done.err.startswith("error[W103]: this loop is run again from all of its input")
    assert "<query>:2:1" in done.err
    assert "not incremental" in done.err
    assert "hint: " in done.err


@pytest.mark.parametrize(("options", "severity"), [((), "warning"), (("--strict",), "error")])
def test_what_has_no_plan(options: tuple[str, ...], severity: str) -> None:
    done = incmrql("check", *options, "-e", NO_TERM)
    assert done.code == (severity == "error")
    assert done.err.startswith(f"{severity}[A001]: ")


@pytest.mark.parametrize("options", [(), ("--strict",)])
def test_chance_over_a_stream_is_always_an_error(options: tuple[str, ...]) -> None:
    done = incmrql("check", *options, "-e", CHANCE)
    assert (done.code, done.err[:13]) == (1, "error[A102]: ")


def test_warnings_as_data() -> None:
    for options, severity, code in (((), "warning", 0), (("--strict",), "error", 1)):
        done = incmrql("check", "--json", *options, "-e", LOOP)
        (problem,) = map(json.loads, done.lines)
        assert (done.code, done.err) == (code, "")
        assert (problem["code"], problem["severity"], problem["line"]) == ("W103", severity, 2)


def test_all_that_is_wrong_is_told_at_once() -> None:
    more = CROSS.partition("\n")[2]
    done = incmrql("check", "--strict", "-e", LOOP + more)
    assert [line[:12] for line in done.err.splitlines() if "[W" in line] == [
        "error[W103]:", "error[W101]:"]  # fmt: skip
