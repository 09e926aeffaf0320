"""Commands that run on Spark, some in a process of their own, and commands that do not need it."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import Outcome, incmrql

TYPE = "type(< A: int, B: double >)"


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, on Spark."""
    return subprocess.run(
        [sys.executable, "-c", "from incmrql.cli import main; main()", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "INCMRQL_ENGINE": "spark", **more},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("check", "-e", "select x from x in source(text, 'a')"),
        ("explain", "--stage", "normal", "-e", "select x from x in source(text, 'a')"),
        ("explain", "--stage", "spark", "-e", "select x from x in source(text, 'a')"),
        ("run", "-e", "sum(1..10)"),
    ],
)
def test_no_java_is_needed(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *words, JAVA_HOME=str(tmp_path), PATH=str(tmp_path))
    assert (done.returncode, done.stderr.replace("no problems found\n", "")) == (0, "")


@pytest.mark.spark
def test_a_script(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,0.1\n2,0.2\n1,0.3\nx\n")
    (tmp_path / "mine.py").write_text("def half(x: float) -> float: return x / 2\n")
    (tmp_path / "s.mrql").write_text(
        f'import half from "mine";\nX = source(line, args[0], ",", {TYPE});\n'
        "select (x.A, sum(x.B)) from x in X group by x.A;\n"
        "select half(x.B) from x in X where x.A = 2;\n"
        'store n := count(X);\nn + 1;\nstore "out" from X;\ndump "out.txt" from X.A;\n'
    )
    done = run(tmp_path, "run", "s.mrql", "x.csv", "--conf", "spark.sql.shuffle.partitions=2")
    assert done.stdout.splitlines() == ["{ (1,0.4), (2,0.2) }", "{ 0.1 }", "4"]
    assert done.stderr == "1 line of x.csv was quarantined: line 4: expected 2 columns, found 1\n"
    assert done.returncode == 0
    assert (tmp_path / "out.txt").read_text() == "1\n1\n2\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "mine.py", "out", "out.txt", "quarantine", "s.mrql", "x.csv",
    ]  # fmt: skip


BAD = {
    "missing": (
        f'store "out" from source(line, "none", ",", {TYPE});',
        "error[R101]: there is no file or folder",
    ),
    "gzip": (
        f'store "out" from source(line, "cut.csv.gz", ",", {TYPE});',
        "error[R103]: ",
    ),
    "number": (
        f'store "out" from source(line, "bad.csv", ",", {TYPE}, on_error: "fail");',
        'error[R110]: column 1 "A": "y" is not an int',
    ),
}


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with input that is bad, the current one."""
    whole = gzip.compress(b"1,2.0\n" * 10_000)
    (tmp_path / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "bad.csv").write_text("1,2.0\ny,3.0\n")
    (tmp_path / "good.csv").write_text("1,2.0\n")
    (tmp_path / "mine.py").write_text("def f(x: int) -> int: raise ValueError('no good')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_told(done: Outcome, said: str) -> None:
    """The command failed with an error in our words."""
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(said), done.err
    assert "Traceback" not in done.err


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_and_leaves_nothing(name: str, bad: Path) -> None:
    script, said = BAD[name]
    (bad / "s.mrql").write_text(script)
    before = sorted(path.name for path in bad.iterdir())
    is_told(incmrql("run", "s.mrql"), said)
    assert sorted(path.name for path in bad.iterdir()) == before


@pytest.mark.spark
def test_a_function_that_raises_is_told_and_leaves_nothing(bad: Path) -> None:
    """In a process of its own, with all that Spark's workers say."""
    (bad / "s.mrql").write_text(
        'import f from "mine";\n'
        f'store "out" from select f(x.A) from x in source(line, "good.csv", ",", {TYPE});'
    )
    before = sorted(path.name for path in bad.iterdir())
    done = run(bad, "run", "s.mrql")
    said = "error[R204]: f(1) raised ValueError: no good"
    is_told(Outcome(done.returncode, done.stdout, done.stderr), said)
    assert sorted(path.name for path in bad.iterdir()) == before


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_an_empty_folder_is_an_empty_bag(bad: Path) -> None:
    (bad / "none").mkdir()
    assert incmrql("run", "-e", f'count(source(line, "none", ",", {TYPE}))').answer == "0"
