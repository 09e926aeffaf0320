"""What docs/iteration.md says of loops: its examples run, and its options and codes are there."""

from __future__ import annotations

import doctest
import re
from functools import partial
from typing import TYPE_CHECKING, get_args

import pytest

import incmrql
from incmrql.api.options import StartOptions
from incmrql.cli.terminal import _loop
from incmrql.plan.program import LoopMode
from incmrql.runtime.report import LoopWork
from tests.docs.conftest import DOCS
from tests.docs.examples import page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PAGE = page(DOCS / "iteration.md")
LOOP = re.compile(
    r"^batch .*(; loop: (\w+), (\d+) steps?(?:, (\w+) ([\d.]+))? \((.+)\))$", re.MULTILINE
)


@pytest.mark.spark
def test_every_example_says_what_it_shows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incmrql, "Session", partial(incmrql.Session, spark=spark), raising=False)
    test = doctest.DocTestParser().get_doctest(PAGE.replace("```", ""), {}, "iteration.md", None, 0)
    assert len(test.examples) > 10
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    assert said == [], "".join(said)


def test_every_way_and_option_is_named() -> None:
    ways = re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE)
    assert set(get_args(LoopMode)) <= set(ways)
    options = re.findall(r"^\| `--(\w+)[^`]*` \| `(\w+)=\w*` \|", PAGE, re.MULTILINE)
    assert {option for option, _ in options} == {"iterate", "tolerance", "resync"}
    assert all(option == python for option, python in options)
    assert {python for _, python in options} <= set(StartOptions.__annotations__)


def test_the_lines_of_batches_are_as_they_are_printed() -> None:
    shown = LOOP.findall(PAGE)
    assert [way for _, way, *_ in shown] == ["recompute", "exact", "diffuse"]
    for text, way, steps, kind, figure, reason in shown:
        error = {"kind": kind, "figure": float(figure)} if kind else None
        assert _loop(LoopWork(way, reason, int(steps), 0, error)) == text


def test_codes_and_links_lead_somewhere() -> None:
    errors = page(DOCS / "errors.md")
    for code in set(re.findall(r"\b[AWR]\d{3}\b", PAGE)):
        assert f"| {code} |" in errors, code
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = target.partition("#")
        assert (DOCS / path).exists(), target
        assert path or anchor in anchors, target


@pytest.mark.parametrize("name", ["errors", "operations", "theory"])
def test_other_pages_lead_here(name: str) -> None:
    assert "(iteration.md)" in page(DOCS / f"{name}.md")
