"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import incmrql

ROOT = Path(__file__).parent.parent
LONGEST_MODULE = 600
LONGEST_OVERVIEW = 10
# The nodes of a tree are one subject, however many there are.
LONGER = ("src/incmrql/syntax/ast.py", "src/incmrql/types/typed.py")
# Folders of somebody's own machine. A slash put before each word here would be found by the test.
FOREIGN = re.compile(r"(?<![\w.*)}\]])/(?:" + "|".join(["work", "root"]) + r")/\w")


def files() -> Iterator[Path]:
    """What is or would be in the repository."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = (ROOT / name for name in done.stdout.split("\0") if name)
    return (path for path in sorted(set(paths)) if path.is_file())


def test_modules_are_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in ROOT.glob("src/**/*.py")}
    long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > LONGEST_MODULE}
    for name in LONGER:
        long.pop(name)
    assert not long, "split these modules"


@cache
def syntax_tree(path: Path) -> ast.Module:
    """The syntax tree of a module, parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


def test_no_private_name_crosses_modules() -> None:
    crossing = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name.name}"
        for path in sorted(ROOT.glob("src/**/*.py"))
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("incmrql")
        for name in node.names
        if re.match(r"_(?!_)", name.name)
    ]
    assert not crossing, "make these names public where they are defined"


def packages() -> list[Path]:
    """The folders of all packages in src."""
    return sorted(path.parent for path in ROOT.glob("src/**/__init__.py"))


def overview(package: Path) -> str:
    """The docstring of a package."""
    return ast.get_docstring(syntax_tree(package / "__init__.py")) or ""


def is_module(path: Path) -> bool:
    """Whether a path without an ending is that of a module or package."""
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def names_in(package: Path) -> set[str]:
    """Functions and classes of the modules in a package and in the packages below it."""
    return {
        node.name
        for path in package.rglob("*.py")
        for node in syntax_tree(path).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def test_every_package_says_where_to_start() -> None:
    for package in packages():
        text = overview(package)
        lines = [line for line in text.splitlines() if line]
        assert len(lines) > 1, f"the docstring of {package} says nothing"
        assert len(lines) <= LONGEST_OVERVIEW, f"the docstring of {package} is too long"
        assert "`" in text, f"the docstring of {package} names no module"


def test_the_overviews_of_packages_name_what_is_there() -> None:
    """A module relative to its package or to incmrql, or a function or class of the package."""
    source = ROOT / "src/incmrql"
    missing = [
        f"{package.relative_to(ROOT)}: {name}"
        for package in packages()
        for name in re.findall(r"`(\w+(?:\.\w+)*)`", overview(package))
        if not is_module(package.joinpath(*name.split(".")))
        and not is_module(source.joinpath(*name.split(".")))
        and name not in names_in(package)
    ]
    assert not missing


def test_no_file_names_a_folder_of_one_machine() -> None:
    places = []
    for path in files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        name = path.relative_to(ROOT)
        places += [f"{name}:{n}" for n, line in enumerate(lines, 1) if FOREIGN.search(line)]
    assert not places, "absolute paths of one machine"


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-java.lock"])
def test_locks_hold_exact_versions_and_no_addresses(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if "://" in line or line.startswith("-")] == []
    pins = [line for line in lines if not line.lstrip().startswith("#")]
    assert pins
    assert [line for line in pins if not re.match(r"[\w.-]+==[\w.+!]+( ;|$)", line)] == []


def test_the_lock_holds_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    names = {re.split(r"[^\w.-]", text)[0] for text in wanted}
    locked = set(
        re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    assert names - locked == set(), "run make lock"


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == incmrql.__version__
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"


def test_make_alone_lists_every_target() -> None:
    if shutil.which("make") is None:
        pytest.skip("no make")
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (\w+)$", text, re.MULTILINE))
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(re.findall(r"^  make (\w+) ", done.stdout, re.MULTILINE)) == targets
