"""The examples of the documentation on Spark, and which of them need Python.

`fallbacks.golden` holds the examples with a place that runs in Python, and why; it is rewritten
by `pytest --update-golden`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from incmrql import Session, api
from incmrql.io.rows import Policy, ReadReport
from incmrql.lower.context import PythonExpression
from incmrql.syntax.depth import deep_recursion
from incmrql.types.show import show_expr
from incmrql.values import Value, identical, show
from tests.docs.conftest import DOCS
from tests.docs.examples import Example, examples, page
from tests.effort import sample
from tests.examples.running import EXAMPLES, SCRIPTS
from tests.spark.lowered import python_calls, statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GOLDEN: Final = Path(__file__).with_name("fallbacks.golden")
FEWEST_NATIVE: Final = 0.9
"""Of all examples of docs/language.md."""
SLOW: Final = frozenset({"kmeans", "shortest_paths", "components", "pagerank_converge"})
"""Scripts of many steps; what they are made of is in the others."""

ACCEPTED: Final = [
    example
    for example in examples(page(DOCS / "language.md"))
    if not example.fails and "--on-arithmetic=fail" not in example.script.words
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[None]:
    """A copy of docs/ that examples may write to."""
    shutil.copytree(DOCS / "data", tmp_path / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        yield


class Notes:
    """What a run says beside its answers."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def trace(self, text: str, value: Value) -> None:
        self.told.append(f"{text} = {show(value)}")

    def report(self, report: ReadReport, policy: Policy) -> None:
        self.told += report.sentences(policy)


def arguments(example: Example) -> list[str]:
    return [word for word in example.script.words if not word.startswith("--")]


def reads(example: Example) -> bool:
    """Whether an example reads a source, as far as its text tells."""
    return "source(" in example.script.text or "stream(" in example.script.text


def needs(title: str, calls: list[PythonExpression]) -> str:
    lines = [f"    {show_expr(place.body)}  -- {place.reason}\n" for place in calls]
    return f"{title}\n{''.join(lines)}\n" if calls else ""


@pytest.mark.usefixtures("folder")
def test_most_examples_need_no_python(update_golden: bool) -> None:
    shown, native = [], 0
    for example in ACCEPTED:
        calls = python_calls(example.script.text, arguments(example))
        native += not calls
        shown.append(needs(f"{example.section}: {example.script.text.strip()}", calls))
    assert native >= FEWEST_NATIVE * len(ACCEPTED)
    data = str(EXAMPLES / "data")
    shown += [needs(f"examples/{s}", python_calls(EXAMPLES / f"{s}.mrql", [data])) for s in SCRIPTS]
    text = "".join(shown)
    if update_golden:
        GOLDEN.write_text(text, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == text


@pytest.mark.usefixtures("folder")
def test_an_example_that_reads_a_source_has_a_text() -> None:
    reading = [example for example in ACCEPTED if reads(example)]
    for example in reading:
        assert statements(example.script.text, arguments(example)), example.place
    assert len(reading) >= 15


@pytest.mark.spark
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "example", sample([e for e in ACCEPTED if reads(e)], 2), ids=lambda e: e.place
)
def test_example(example: Example, spark: SparkSession) -> None:
    outcomes, notes = {}, {}
    engines: dict[str, Callable[..., list[api.Answer]]] = {
        "reference": api.run,
        "spark": Session(spark).run,
    }
    for engine, run in engines.items():
        notes[engine] = Notes()
        outcomes[engine] = run(
            example.script.text,
            arguments(example),
            on_trace=notes[engine].trace,
            on_report=notes[engine].report,
        )
    answers = {engine: [answer.value for answer in outcome] for engine, outcome in outcomes.items()}
    with deep_recursion():
        shown = "\n".join(map(show, answers["spark"]))
        assert identical(answers["spark"], answers["reference"]), shown
    assert sorted(notes["spark"].told) == sorted(notes["reference"].told)


@pytest.mark.spark
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", sample([name for name in SCRIPTS if name not in SLOW], 3))
def test_script(name: str, spark: SparkSession) -> None:
    path, data = EXAMPLES / f"{name}.mrql", [str(EXAMPLES / "data")]
    expected = [answer.value for answer in api.run(path, data)]
    answers = [answer.value for answer in Session(spark).run(path, data)]
    assert identical(answers, expected), "\n".join(map(show, answers))
