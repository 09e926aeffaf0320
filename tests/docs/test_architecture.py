"""What docs/architecture.md names is there."""

from __future__ import annotations

import importlib.util
import re
import tomllib

from tests.docs.conftest import DOCS
from tests.docs.examples import page

ROOT = DOCS.parent


def test_the_paths_exist() -> None:
    text = page(DOCS / "architecture.md")
    paths = set(re.findall(r"`((?:src|tests|docs|benchmarks|examples)/[^`\s]+)`", text))
    paths |= {f"docs/{path}" for path in re.findall(r"\]\(([^):#]+)\)", text)}
    assert len(paths) > 10
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_the_modules_exist() -> None:
    modules = set(re.findall(r"`(incmrql(?:\.\w+)+)`", page(DOCS / "architecture.md")))
    assert len(modules) > 5
    assert sorted(name for name in modules if importlib.util.find_spec(name) is None) == []


def test_the_words_name_classes_that_exist() -> None:
    words = page(DOCS / "architecture.md")
    told = re.findall(r"\((`\w+`(?:, `\w+`)*) in `([\w.]+)`\)", words)
    assert len(told) > 10
    for classes, module in told:
        path = ROOT / "src/incmrql" / f"{module.replace('.', '/')}.py"
        text = path.read_text(encoding="utf-8")
        there = set(re.findall(r"^(?:class )?([A-Z]\w+)(?:\(|: TypeAlias|:$)", text, re.MULTILINE))
        assert set(re.findall(r"\w+", classes)) <= there, module


def test_the_layers_are_those_that_are_enforced() -> None:
    section = page(DOCS / "architecture.md").split("\n## Layers\n")[1].split("\n## ")[0]
    told = re.findall(r"^\| `(incmrql\.\w+)` \|", section, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    names = [name.strip(" ()") for layer in layers for name in layer.split("|")]
    there = [name for name in names if importlib.util.find_spec(name) is not None]
    assert told == [name for name in there if name != "incmrql.java"]


def test_the_links_of_the_language_pages_lead_somewhere() -> None:
    for name in ("language.md", "errors.md"):
        text = page(DOCS / name)
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors = {
            re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
        }
        for target in re.findall(r"\]\(([^)]+)\)", text):
            path, _, anchor = target.partition("#")
            assert (DOCS / path).exists(), target
            assert path or anchor in anchors, target
