"""Tests that pages name as evidence exist, under these names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.conftest import DOCS
from tests.docs.examples import page

ROOT = DOCS.parent
PAGES = sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FEWEST = {"theory.md": 30, "security.md": 30}
"""Tests that a page names at least, so that the check below sees them."""


def functions_of(path: Path) -> set[str]:
    """The functions of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def named_tests(text: str) -> list[tuple[str, str]]:
    """Paths of tests in a text, each with the name of a function or an empty one."""
    return re.findall(r"\b(tests/[\w/]+\.py)(?:::(\w+))?", text)


@pytest.mark.parametrize("name", PAGES, ids=str)
def test_the_tests_that_a_page_names_exist(name: Path) -> None:
    named = named_tests(page(ROOT / name))
    assert len({test for _, test in named if test}) >= FEWEST.get(name.name, 0)
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).is_file() or (test and test not in functions_of(ROOT / path))
    ]
    assert missing == []


def test_every_statement_about_trust_names_a_test() -> None:
    """Each paragraph on what is not trusted, and on which files are read and written."""
    text = page(DOCS / "security.md").split("## What is not trusted")[1]
    sections = re.split(r"^## ", text.split("## A stranger")[0], flags=re.MULTILINE)
    assert len(sections) == 4
    paragraphs = [part for section in sections for part in re.split(r"\n\n(?=\*\*)", section)]
    assert [part for part in paragraphs if part.strip() and "::test_" not in part] == []
