"""Options, exit codes, and what goes to which output."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from incmrql import __version__, api
from tests.cli.commands import incmrql, run_query


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_script_runs_with_its_arguments(folder: Path) -> None:
    (folder / "q.mrql").write_text("args[0] + '!'; count(args);")
    done = incmrql("run", "q.mrql", "a", "b")
    assert (done.code, done.out, done.err) == (0, '"a!"\n2\n', "")


def test_a_query_may_have_arguments() -> None:
    assert run_query("args", "a", "b").answer == '[ "a", "b" ]'
    assert run_query("args").answer == "[ ]"


@pytest.mark.parametrize(
    ("query", "printed"),
    [
        ("-1", "-1"),
        ("1 + 1", "2"),
        ("1 + 1;", "2"),
        ("{ (2, 'b'), (1, 'a') }", '{ (1,"a"), (2,"b") }'),
        ("[ 2, 1 ]", "[ 2, 1 ]"),
        ("< A: 1, B: {} >", "< A: 1, B: { } >"),
        ("1.0E16 + 0.1", "1.0E16"),
        ("0.1 + 0.2", "0.30000000000000004"),
    ],
)
def test_values_print_in_the_notation_of_the_language(query: str, printed: str) -> None:
    assert run_query(query).answer == printed


def test_each_item_is_a_line() -> None:
    assert run_query("1; x = 2; x; store y := 3; y; ; 'a\nb'").lines == ["1", "2", "3", '"a\\nb"']


@pytest.mark.parametrize(
    ("limit", "printed"),
    [("0", "{ ... }"), ("2", "{ 1, 2, ... }"), ("3", "{ 1, 2, 3 }"), ("9", "{ 1, 2, 3 }")],
)
def test_limit(limit: str, printed: str) -> None:
    assert run_query("{ 3, 1, 2 }", "--limit", limit).answer == printed


def test_without_a_terminal_everything_is_printed() -> None:
    assert run_query("1..1000").answer.count(",") == 999


def test_json() -> None:
    done = run_query("< A: 1, B: null >; { 2, 1 }; (1.5, 'a\"'); date('2026-01-31')", "--json")
    assert list(map(json.loads, done.lines)) == [
        {"A": 1, "B": None}, [1, 2], [1.5, 'a"'], "2026-01-31",
    ]  # fmt: skip


def test_limit_holds_for_json() -> None:
    assert json.loads(run_query("{ 3, 1, 2 }", "--json", "--limit", "2").answer) == [1, 2]


def test_answers_come_before_a_later_error() -> None:
    done = run_query("1; source(text, 'none.txt'); 2")
    assert (done.code, done.out) == (1, "1\n")
    assert done.err.startswith('error[R101]: there is no file or folder "none.txt"')


def test_nothing_runs_if_something_is_wrong_with_the_query(folder: Path) -> None:
    done = run_query("1; dump 'out.csv' from {1}; x")
    assert (done.code, done.out) == (1, "")
    assert not (folder / "out.csv").exists()


def test_talk_goes_to_stderr() -> None:
    done = run_query("trace(1 + 1) * 2")
    assert (done.code, done.out, done.err) == (0, "4\n", "trace: 1 + 1 = 2\n")


def test_arithmetic_can_fail() -> None:
    assert run_query("1 / 0").answer == "null"
    done = run_query("1 / 0", "--on-arithmetic", "fail")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[R201]: 1 / 0 has no result of type int\n --> <query>:1:1\n")


def test_version_and_help() -> None:
    assert incmrql("--version").answer == f"incmrql, version {__version__}"
    for words in (["--help"], ["-h"], ["run", "-h"], ["check", "--help"]):
        done = incmrql(*words)
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith("Usage: incmrql ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Usage: incmrql"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["run"], "Give a script file, or a query with -e 'query'."),
        (["check"], "Give a script file, or a query with -e 'query'."),
        (["run", "-e"], "Option '-e' requires an argument."),
        (["run", "none.mrql"], "There is no file none.mrql. Scripts there: some.mrql."),
        (["check", "none.mrql"], "There is no file none.mrql. Scripts there: some.mrql."),
        (["run", "no/such/folder.mrql"], "There is no file no/such/folder.mrql."),
        (["run", "."], ". is a folder; give a script file."),
        (["run", "-e", "1", "--limt", "1"], "No such option '--limt'. Did you mean '--limit'?"),
        (["run", "-e", "1", "--limit", "-1"], "-1 is not in the range x>=0"),
        (["run", "-e", "1", "--limit", "x"], "'x' is not a valid integer"),
        (["run", "-e", "1", "--on-arithmetic", "maybe"], "'maybe' is not one of 'null', 'report'"),
        (["check", "-e", "1", "--limit", "1"], "No such option '--limit'"),
    ],
)
def test_wrong_usage(words: list[str], said: str, folder: Path) -> None:
    (folder / "some.mrql").write_text("1;")
    done = incmrql(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_our_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> None:
        raise KeyError("lost")

    monkeypatch.delenv("INCMRQL_DEBUG", raising=False)
    monkeypatch.setattr(api, "run", break_down)
    done = run_query("1")
    assert (done.code, done.out) == (70, "")
    assert done.err.startswith("internal error: KeyError: 'lost'\nThis is a bug in incmrql.")
    assert "Traceback" not in done.err
    monkeypatch.setenv("INCMRQL_DEBUG", "1")
    assert "in break_down" in run_query("1").err


def test_a_java_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object, **__: object) -> None:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except ConnectionRefusedError:
            raise KeyError("what came of it")  # noqa: B904 - as a clean-up does

    monkeypatch.setattr(api, "run", break_down)
    done = run_query("1")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        "error: Spark ended while it was working: its Java process is gone\n"
    )
    assert "spark.driver.memory" in done.err


def test_check() -> None:
    done = incmrql("check", "-e", "select x.A from x in { < A: 1 > }")
    assert (done.code, done.out, done.err) == (0, "", "no problems found\n")


def test_check_runs_nothing(folder: Path) -> None:
    assert incmrql("check", "-e", "dump 'out.csv' from {1}; source(text, 'none');").code == 0
    assert not (folder / "out.csv").exists()


def test_check_reports_every_problem() -> None:
    done = incmrql("check", "-e", "x;\n1 + y;")
    assert (done.code, done.out) == (1, "")
    first, second = done.err.split("\n\n")
    assert (
        first
        == 'error[T101]: there is no "x" here\n --> <query>:1:1\n  |\n1 | x;\n  | ^ unknown name'
    )
    assert second.startswith('error[T101]: there is no "y" here\n --> <query>:2:5\n')


def test_check_for_programs() -> None:
    done = incmrql("check", "--json", "-e", "x;\n1 + yy;")
    first, second = map(json.loads, done.lines)
    assert (done.code, done.err) == (1, "")
    assert (first["code"], first["message"]) == ("T101", 'there is no "x" here')
    assert [second[f"{p}{n}"] for p in ("", "end_") for n in ("line", "column")] == [2, 5, 2, 7]
    fine = incmrql("check", "--json", "-e", "1")
    assert (fine.code, fine.out, fine.err) == (0, "", "")


def test_check_for_programs_has_one_form(folder: Path) -> None:
    (folder / "q.mrql").write_bytes(b"1;\n \xff;")
    (problem,) = map(json.loads, incmrql("check", "--json", "q.mrql").lines)
    wanted = {"code": "P011", "severity": "error", "file": "q.mrql", "line": 2, "column": 2}
    assert wanted.items() <= problem.items()


def test_check_does_not_need_the_arguments() -> None:
    assert incmrql("check", "-e", "source(text, args[0] + '/a.txt');").code == 0


@pytest.mark.parametrize("text", ["", " \n\t\n"])
def test_an_empty_script(text: str) -> None:
    done = run_query(text)
    assert (done.code, done.out, done.err) == (0, "", "the script is empty: nothing to do\n")


@pytest.mark.parametrize("text", ["// nothing", "/* nothing */", ";", "/**/;//"])
def test_a_script_of_comments(text: str) -> None:
    done = run_query(text)
    assert (done.code, done.out) == (0, "")


@pytest.mark.parametrize("text", ["// nothing", "/* nothing */", ";", "x = 1;"])
def test_a_script_that_does_nothing_says_so(text: str) -> None:
    assert run_query(text).err


def test_a_missing_argument_is_named() -> None:
    done = run_query("source(text, args[0]);")
    assert done.code == 1
    assert "<query>:1:" in done.err
    assert "args[0]" in done.err


def test_options_of_streams_have_a_heading_of_their_own() -> None:
    told = incmrql("run", "--help").out
    general, _, streams = told.partition("Stream options:\n")
    assert re.findall(r"^  (?:-\w, )?(--\w[\w-]*)", streams, re.MULTILINE)[:2] == [
        "--checkpoint", "--output",
    ]  # fmt: skip
    assert "--strict" in streams
    assert "--on-arithmetic" in general
    assert told.count("--trigger TIME") == 1


def test_no_summary_is_cut_off_and_every_option_has_a_help_text_with_its_default() -> None:
    from click.testing import CliRunner

    from incmrql.cli.main import commands

    listing = CliRunner().invoke(commands, ["--help"]).output
    assert "..." not in listing.partition("Commands:")[2]
    lacking = []
    for name, command in commands.commands.items():
        assert str(command.short_help) in listing
        for param in command.params:
            if not isinstance(param, click.Option) or param.is_flag:
                continue
            if not param.help:
                lacking.append(f"{name} {param.opts[0]}: no help")
            default = param.get_default(click.Context(command))
            is_shown = param.show_default or "[default" in (param.help or "")
            is_given = default not in (None, ()) and "UNSET" not in repr(default)
            if is_given and not is_shown:
                lacking.append(f"{name} {param.opts[0]}: no default {default!r}")
    assert lacking == []


def test_shells_complete_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_INCMRQL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "incmrql he")
    monkeypatch.setenv("COMP_CWORD", "1")
    command = [sys.executable, "-m", "incmrql"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "plain,health\n", "")
