"""docs/testing.md: its examples run as they stand, and it names every argument."""

from __future__ import annotations

import doctest
import inspect
import re

from incmrql.testing import assert_incremental
from tests.docs.conftest import DOCS

PAGE = (DOCS / "testing.md").read_text(encoding="utf-8")


def test_every_example_says_what_it_shows() -> None:
    test = doctest.DocTestParser().get_doctest(PAGE.replace("```", ""), {}, "testing.md", None, 0)
    assert len(test.examples) > 10
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    assert said == [], "".join(said)


def test_every_argument_is_named_with_its_default() -> None:
    cells = re.findall(r"^\| `(\w+)=(.*?)` \|", PAGE, re.MULTILINE)
    parameters = inspect.signature(assert_incremental).parameters.values()
    options = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert {name for name, _ in cells} == set(options)
    assert all(str(options[name]) == default for name, default in cells if default)
