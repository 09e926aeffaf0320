"""The scripts of `examples/` give what independent Python computes from the same data."""

from __future__ import annotations

from pathlib import Path

import pytest

from incmrql.cli.main import status
from tests.examples import documents, loops, tables
from tests.examples.running import EXAMPLES, SCRIPTS, answers, make_data

CHECKS = loops.CHECKS | documents.CHECKS | tables.CHECKS
LARGEST_DATA = 100_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    make_data(folder)
    return folder


def test_every_script_has_a_check() -> None:
    assert sorted(CHECKS) == SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    CHECKS[name](answers(name, data), data)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_says_what_it_does_and_how_to_run_it(name: str) -> None:
    first, second, *_ = (EXAMPLES / f"{name}.mrql").read_text(encoding="utf-8").splitlines()
    assert first.startswith("// ")
    assert second == f"//   incmrql run examples/{name}.mrql examples/data"


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_has_no_problems_before_it_runs(name: str) -> None:
    assert status(["check", str(EXAMPLES / f"{name}.mrql")]) == 0


def test_the_data_of_the_repository_are_those_that_are_generated(data: Path) -> None:
    kept = {path.name: path.read_bytes() for path in (EXAMPLES / "data").iterdir()}
    assert kept == {path.name: path.read_bytes() for path in data.iterdir()}
    assert sum(map(len, kept.values())) < LARGEST_DATA
