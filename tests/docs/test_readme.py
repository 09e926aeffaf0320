"""What the README shows is what happens, and what it names is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Row

from tests.spark.folders import spark_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    """The code blocks of a language, without the indentation they stand at."""
    return [
        re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        for indent, name, body in BLOCK.findall(README)
        if name == language
    ]


def commands(console: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output shown under it."""
    parts = re.split(r"^\$ (.*)$", console, flags=re.MULTILINE)
    return [(parts[i], parts[i + 1].strip("\n")) for i in range(1, len(parts), 2)]


def without_times(talk: str) -> str:
    """What a command says beside its answers, without how long a batch or a comparison took."""
    talk = re.sub(r"^batch \d+: .* ms\n", "", talk, flags=re.MULTILINE)
    return re.sub(r", [\d.]+ s$", "", talk, flags=re.MULTILINE)


@pytest.mark.spark
def test_the_console_shows_what_happens(tmp_path: Path) -> None:
    (tmp_path / "sales.mrql").write_text(blocks("mrql")[0])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shown = [pair for block in blocks("console") for pair in commands(block)]
    assert any("incmrql run" in command for command, _ in shown)
    for command, expected in shown:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": path, "INCMRQL_ENGINE": "spark"},
        )  # fmt: skip
        assert (done.stdout + without_times(done.stderr)).strip("\n") == expected, command


@pytest.mark.spark
def test_the_first_example_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sales").mkdir()
    (tmp_path / "sales/monday.csv").write_text("Oslo,10\nRome,4\nOslo,20\n")
    monkeypatch.chdir(tmp_path)
    example = blocks("python")[0]
    names = {"spark": spark.newSession(), "Row": Row}
    with spark_directory(spark, tmp_path):
        exec(example, names)
        shown = re.findall(r"batch\.changes\(\) +# (.*)", example)
        assert sorted(eval("batch.changes()", names)) == sorted(eval(shown[0], names))
        eval("run.stop()", names)


PAGES = ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/theory.md"]
DECISIONS = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs/decisions").iterdir())]


@pytest.mark.parametrize("name", [*PAGES, *DECISIONS])
def test_files_that_are_named_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|docs|tests|benchmarks|examples)/[\w./-]*)`", text)
    named += [link for link in re.findall(r"\]\(([\w./-]+)\)", text) if not link.startswith("http")]
    base = (ROOT / name).parent
    missing = [p for p in named if not (ROOT / p).exists() and not (base / p).exists()]
    assert not missing


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    listed = {f"docs/decisions/{name}" for name in re.findall(r"\]\(([\w-]+\.md)\)", index)}
    assert listed == {name for name in DECISIONS if not name.endswith("README.md")}


def test_the_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("sh")), re.MULTILINE):
        assert f"\n{target}:" in makefile
