"""What docs/theory.md says: its examples run, its laws are in the code."""

from __future__ import annotations

import doctest
import importlib
import re

import pytest

from incmrql.plan.changes import Weighted
from tests.cli.commands import incmrql
from tests.docs.conftest import DOCS
from tests.docs.examples import page
from tests.plan.stepping import Batch, Run, r, s

THEORY = page(DOCS / "theory.md")
FEWEST_NAMES, FEWEST_LAWS = 20, 30
CODE = r"(?:incmrql|tests\.oracle|tests\.paper)"
"""How the names of the code begin."""


def follow(query: str, *batches: Batch) -> list[Weighted]:
    """The change of the answer for each batch, each compared with the evaluator."""
    run = Run(query)
    return [run.step(batch) for batch in batches]


def test_the_examples_say_what_they_show() -> None:
    text = THEORY.replace("```", "")
    names = {"follow": follow, "r": r, "s": s}
    test = doctest.DocTestParser().get_doctest(text, names, "theory.md", None, 0)
    assert len(test.examples) >= 9
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    assert said == [], "".join(said)


def test_the_names_of_the_code_exist() -> None:
    named = set(re.findall(rf"`({CODE}(?:\.\w+)+)`", THEORY))
    assert len(named) >= FEWEST_NAMES
    assert sorted(name for name in named if not exists(name)) == []


def exists(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            owner: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(owner, part):
                return False
            owner = getattr(owner, part)
        return True
    return False


def laws() -> list[tuple[str, str, str, str]]:
    """The rows of all tables of laws: a law, the code that runs, the oracle, the tests."""
    head = "| law | in the code that runs | in the oracle | tests |\n|---|---|---|---|\n"
    tables = [text.split("\n\n")[0] for text in THEORY.split(head)[1:]]
    rows = [re.split(r" *\| *", line)[1:-1] for table in tables for line in table.splitlines()]
    return [(law, code, oracle, tests) for law, code, oracle, tests in rows]


def test_every_law_has_a_test() -> None:
    assert len(laws()) >= FEWEST_LAWS
    assert [law for law, _, _, tests in laws() if "::test_" not in tests] == []


def test_every_law_names_code_that_users_run() -> None:
    assert [law for law, code, _, _ in laws() if not code.startswith("`incmrql.")] == []
    assert [law for law, code, _, _ in laws() if "`tests." in code] == []
    engine = [law for law, code, _, _ in laws() if "`incmrql.engine." in code]
    assert len(engine) >= len(laws()) * 2 // 3


def test_the_oracle_is_beside_the_engine_and_both_are_tested() -> None:
    assert sum("`tests.oracle." in oracle for _, _, oracle, _ in laws()) >= FEWEST_LAWS // 2
    untested = [
        law
        for law, code, oracle, tests in laws()
        if "`incmrql.engine." in code and "`tests.oracle." in oracle
        if "`tests/engine/" not in tests and "`tests/plan/test_minimal.py" not in tests
    ]
    assert untested == []


def test_the_links_lead_somewhere() -> None:
    for name in ("theory.md", "explain.md"):
        targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page(DOCS / name))
        assert targets
        assert [target for target in targets if not (DOCS / target).exists()] == []


CONSOLE = re.compile(r"^```console\n\$ incmrql (.+)\n((?:(?!```).*\n)*)```$", re.MULTILINE)


def test_the_page_about_explain_shows_what_is_printed(update_golden: bool) -> None:
    text = page(DOCS / "explain.md")
    (example,) = CONSOLE.finditer(text)
    command, query = example[1].split(" '")
    done = incmrql(*command.split(), query.removesuffix("'"))
    assert (done.code, done.err) == (0, "")
    if update_golden:
        whole = text[: example.start(2)] + done.out + text[example.end(2) :]
        (DOCS / "explain.md").write_text(whole, encoding="utf-8")
    else:
        assert example[2] == done.out


@pytest.mark.parametrize("name", ["explain", "theory"])
def test_errors_and_pages_know_each_other(name: str) -> None:
    assert f"({name}.md)" in page(DOCS / "errors.md") + page(DOCS / "explain.md")
