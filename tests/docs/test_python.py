"""The examples of docs/python.md, run as they stand."""

from __future__ import annotations

import doctest
from functools import partial
from typing import TYPE_CHECKING

import pytest

import incmrql
from tests.docs.conftest import DOCS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_every_example_says_what_it_shows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incmrql, "Session", partial(incmrql.Session, spark=spark), raising=False)
    page = (DOCS / "python.md").read_text().replace("```", "")
    test = doctest.DocTestParser().get_doctest(page, {}, "python.md", None, 0)
    assert len(test.examples) > 10
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    assert said == [], "".join(said)
