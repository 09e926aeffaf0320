"""Scripts and checkpoints of strangers: what runs, what is read, and what reaches the terminal."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest

from incmrql.cli.terminal import visible
from tests.cli.commands import Outcome, incmrql
from tests.cli.streams import AVERAGE, Shop, shop_at

ROOT = Path(__file__).parents[2]
PYTHON = """
import pathlib
pathlib.Path("RAN").write_text("")
def double(x: float) -> float:
    return 2 * x
"""
IMPORTING = 'import double from "stranger";\n' + AVERAGE.replace(
    "avg(s.price)", "sum(double(s.price))"
)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)
    return shop_at(tmp_path)


def ran(shop: Shop) -> bool:
    """Whether the code of the module has run since the last question."""
    mark = shop.folder / "RAN"
    there = mark.exists()
    mark.unlink(missing_ok=True)
    return there


# --- imports -------------------------------------------------------------------------------


def test_check_and_explain_import_nothing(shop: Shop) -> None:
    (shop.folder / "stranger.py").write_text(PYTHON)
    (shop.folder / "q.mrql").write_text(IMPORTING)
    for words in (["check"], ["explain"], ["explain", "--json"], ["explain", "--stage", "spark"],
                  ["explain", "--stage", "types"], ["explain", "--paper"]):  # fmt: skip
        done = incmrql(*words, "q.mrql")
        assert done.code == 0, done.err
        assert not ran(shop)
    assert incmrql("check", "--allow-import", "stranger", "q.mrql").code == 0
    assert ran(shop)


def test_laws_of_an_aggregation_are_not_checked_by_running_a_strangers_function(shop: Shop) -> None:
    (shop.folder / "stranger.py").write_text(
        "open('RAN', 'w')\ndef plus(x: int, y: int) -> int:\n    return x + y\n"
    )
    (shop.folder / "q.mrql").write_text(
        'import plus from "stranger";\naggregation total(\\(x: long, y: long) -> plus(x, y), 0, '
        "\\(x: long) -> x) : long;\n1;\n"
    )
    done = incmrql("check", "q.mrql")
    assert "internal" not in done.err
    assert not ran(shop)


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_checkpoint_with_python_functions_imports_nothing_unless_allowed(shop: Shop) -> None:
    (shop.folder / "stranger.py").write_text(PYTHON)
    assert shop.run(IMPORTING).code == 0
    assert ran(shop)
    import sys

    for name in [name for name in sys.modules if name.endswith("_stranger")]:
        del sys.modules[name]
    assert incmrql("state", "ck").code == 0
    for words in (
        ["verify", "ck"],
        ["state", "ck", "--node", "0"],
        ["state", "ck", "--rebucket", "2"],
    ):
        done = incmrql(*words)
        assert done.code == 1
        assert 'the Python module "stranger" may not be imported' in done.err
        assert "--allow-import stranger" in done.err
        assert not ran(shop)
    done = incmrql("verify", "ck", "--allow-import", "stranger")
    assert (done.code, ran(shop)) == (0, True), done.err


# --- who may look into a checkpoint --------------------------------------------------------


def folder_modes(folder: Path) -> set[int]:
    folders = [folder, *(path for path in folder.iterdir() if path.is_dir())]
    return {stat.S_IMODE(path.stat().st_mode) for path in folders}


@pytest.mark.spark
@pytest.mark.usefixtures("on_spark")
def test_a_checkpoint_is_private_on_this_machine(shop: Shop) -> None:
    before = os.umask(0o022)
    try:
        assert shop.run(AVERAGE, "--output", "out").code == 0
        done = incmrql("run", "-e", AVERAGE, "--checkpoint", "shared", "--checkpoint-mode", "750",
                       "--available-now")  # fmt: skip
        assert done.code == 0, done.err
    finally:
        os.umask(before)
    assert folder_modes(shop.checkpoint) == {0o700}
    assert folder_modes(shop.folder / "shared") == {0o750}
    assert folder_modes(shop.folder / "out") == {0o755}


@pytest.mark.spark
def test_a_checkpoint_of_a_session_is_private(spark: object, tmp_path: Path) -> None:
    from incmrql import Session

    session = Session(spark)  # type: ignore[arg-type]
    session.stream("s", "< A: int >")
    query = session.query("incr select x.A from x in s")
    query.start(checkpoint=tmp_path / "ck").stop()
    assert folder_modes(tmp_path / "ck") == {0o700}


def test_permissions_that_are_none() -> None:
    done = incmrql("run", "-e", "1", "--checkpoint-mode", "rwx")
    assert (done.code, "is not permissions such as 700" in done.err) == (2, True)


# --- control characters --------------------------------------------------------------------

STEERING = "\x1b[2J\x07\x9b\u202e\r"


def is_harmless(outcome: Outcome) -> None:
    for text in (outcome.err, outcome.out):
        assert not [c for c in text if c != "\n" and (ord(c) < 32 or c in "\x7f\x9b\u202e")], text


def test_control_characters_are_shown() -> None:
    assert visible(STEERING) == r"\x1b[2J\x07\x9b\u202e\x0d"
    assert visible("a\tb\nc \u00e9 \U0001f600") == "a\tb\nc \u00e9 \U0001f600"


@pytest.mark.parametrize(
    "words",
    [
        ["run", f"none{STEERING}.mrql"],
        ["run", "-e", f'source(text, "none{STEERING}")'],
        ["run", "-e", f"select x.`a{STEERING}` from x in {{1}}"],
        ["run", "-e", f'"{STEERING}" + 1'],
        ["check", "-e", f'import f from "none{STEERING}"; 1'],
        ["state", f"none{STEERING}"],
        ["explain", f"none{STEERING}"],
    ],
)
@pytest.mark.usefixtures("shop")
def test_no_name_steers_the_terminal(words: list[str]) -> None:
    done = incmrql(*words)
    assert done.code in (1, 2)
    is_harmless(done)


def test_names_of_files_and_bad_lines_do_not_either(shop: Shop) -> None:
    name = f"x{STEERING}.csv"
    (shop.folder / name).write_text(f"{STEERING}\n")
    text = f'source(line, "{name}", ",", type(< A: int, B: int >))'
    done = incmrql("run", "-e", text.replace("\\", "\\\\"))
    assert done.code == 0, done.err
    assert r"\x1b[2J" in done.err
    is_harmless(done)


def test_a_value_does_not_either(shop: Shop) -> None:
    (shop.folder / "x.txt").write_text(f"{STEERING}\n")
    done = incmrql("run", "-e", 'source(text, "x.txt")')
    assert "\\u001b[2J" in done.out
    done = incmrql("run", "-e", 'source(text, "x.txt")', "--json")
    assert json.loads(done.out) == [STEERING.rstrip("\r")] or json.loads(done.out) == [STEERING]
    assert "\x1b" not in done.out


# --- the page ------------------------------------------------------------------------------


def test_the_page_names_tests_that_there_are() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) >= 10
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name}"
