"""The wheel and the sdist: what is in them, and that they work from an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is made from it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "sources", filter="data")
    (sources,) = (folder / "sources").iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=sources, check=True, capture_output=True,
    )  # fmt: skip
    return folder


def command(package: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of an unpacked wheel, in an empty folder."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(
        [sys.executable, "-m", "incmrql", *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_wheel_works_from_an_empty_folder(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    package, empty = tmp_path / "package", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(package)
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]
    for needed in ("py.typed", "spark/plans/PlanWalker.java", "examples/data/sales.csv"):
        assert f"incmrql/{needed}" in names
    version = command(package, empty, "--version")
    assert version.stdout.startswith("incmrql, version ")
    copied = command(package, empty, "examples", "mine")
    assert (copied.returncode, copied.stderr.splitlines()[0]) == (
        0, f"{len([*(ROOT / 'examples').glob('*.mrql')])} scripts and their data in mine",
    )  # fmt: skip
    assert "incmrql run mine/kmeans.mrql mine/data" in copied.stderr
    again = command(package, empty, "examples", "mine")
    assert (again.returncode, "mine exists already" in again.stderr) == (2, True)
    run = command(package, empty, "run", "mine/group.mrql", "mine/data", "--engine", "reference")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("[ (null,2,92000,2021)")
    where = subprocess.run(
        [sys.executable, "-c", "import incmrql; print(incmrql.__file__)"],
        env={**os.environ, "PYTHONPATH": str(package)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(package))


@pytest.mark.slow
def test_the_sdist_has_what_its_tests_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("pyproject.toml", "Makefile", "requirements.lock", "README.md", "LICENSE"):
        assert needed in names
    for needed in ("src/incmrql/cli/main.py", "tests/conftest.py", "docs/operations.md"):
        assert needed in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]
