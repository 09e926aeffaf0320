"""Docstrings of what users call: each says something, and their examples are right."""

from __future__ import annotations

import doctest
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import incmrql
from incmrql.api.checkpoints import SavedRun
from incmrql.api.results import Result
from incmrql.api.saved_answers import SavedAnswer
from incmrql.api.streams import PushedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASSES: list[type[Any]] = [
    incmrql.Session, Result, incmrql.Run, incmrql.Batch, PushedStream, SavedRun, SavedAnswer,
]  # fmt: skip
IN_ORDER: list[Any] = [
    incmrql.Session,
    incmrql.Session.register,
    incmrql.Session.stream,
    incmrql.Session.function,
    incmrql.Session.query,
    incmrql.Session.sql,
    Result,
    Result.start,
]
"""What has examples; each goes on where the one before it has ended."""


def test_everything_that_users_call_has_a_docstring() -> None:
    lacking = [
        f"{each.__name__}.{name}"
        for each in CLASSES
        for name, member in vars(each).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property))
        and not inspect.getdoc(member)
    ]
    assert lacking == []
    assert all(getattr(incmrql, name).__doc__ for name in dir(incmrql) if name != "__version__")


@pytest.mark.spark
def test_the_examples_of_docstrings_are_right(spark: SparkSession) -> None:
    names: dict[str, Any] = {"Session": partial(incmrql.Session, spark=spark)}
    said: list[str] = []
    for each in IN_ORDER:
        text = inspect.getdoc(each) or ""
        test = doctest.DocTestParser().get_doctest(text, names, each.__qualname__, None, 0)
        assert test.examples, each
        doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
        names |= test.globs
    names["session"].stop()
    assert said == [], "".join(said)
