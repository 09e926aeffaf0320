"""docs/python.md: its examples run as they stand, and it names every option and every number."""

from __future__ import annotations

import doctest
import re
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

import pytest

import incmrql
from incmrql.api.options import StartOptions
from incmrql.runtime.report import BatchReport
from tests.docs.conftest import DOCS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (DOCS / "python.md").read_text()


@pytest.mark.spark
def test_every_example_says_what_it_shows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incmrql, "Session", partial(incmrql.Session, spark=spark), raising=False)
    page = PAGE.replace("```", "")
    test = doctest.DocTestParser().get_doctest(page, {}, "python.md", None, 0)
    assert len(test.examples) > 10
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    assert said == [], "".join(said)


def listed_first() -> set[str]:
    """The names in the first column of all tables."""
    cells = re.findall(r"^\| (`.+?) \|", PAGE, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)=", cell)}


def test_every_option_of_start_is_listed() -> None:
    assert set(StartOptions.__annotations__) <= listed_first()


def test_every_number_of_a_batch_is_named() -> None:
    start = PAGE.index("A `Batch` has")
    named = set(re.findall(r"`(\w+)`", PAGE[start : PAGE.index("`answer()`", start)]))
    ours = {"bad_places", "noticed"}
    numbers = {field.name for field in fields(BatchReport)} | {"lag"}
    assert numbers - ours == named - {"Batch"}
