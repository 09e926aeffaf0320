"""`incmrql check` says what queries over streams cost; `--strict` refuses what is recomputed."""

from __future__ import annotations

import json

import pytest

from tests.cli.commands import incmrql

POINTS = 'Points = stream(line, "in", type(< X: int, Y: double >));\n'
AVERAGE = POINTS + "incr select (x, avg(p.Y)) from p in Points group by x: p.X;"
CROSS = POINTS + "incr select (p.X, q.X)\n from p in Points, q in Points;"
LOOP = (
    POINTS + "incr repeat xs = select p.X from p in Points "
    "step (select x from x in xs order by x limit 2) limit 3;"
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
    for options in ((), ("--strict",)):  # dear, but no less incremental
        done = incmrql("check", *options, "-e", CROSS)
        first, *rest = done.err.splitlines()
        assert (done.code, done.out) == (0, "")
        assert first.startswith("warning[W101]: a cross product keeps the left and the right side")
        assert rest[0] == " --> <query>:2:13"
        assert any("= hint: Relate the two by an equality" in line for line in rest)
        assert rest[-1] == "no errors found"


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
        "error[W103]:", "warning[W101"]  # fmt: skip
