"""docs/spark.md: its examples run, and its tables are those of the code."""

from __future__ import annotations

import doctest
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Final

import pytest

from incmrql.catalyst.classes import Support
from incmrql.catalyst.expressions import SCALARS
from incmrql.catalyst.operators.table import AGGREGATES, GENERATORS, LEAVES, OPERATORS, SUBQUERIES
from incmrql.compiler.sql import split_statements
from incmrql.errors import SourceText
from tests.docs.conftest import DOCS
from tests.docs.examples import page
from tests.spark.folders import spark_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = DOCS / "spark.md"
KINDS: Final[dict[str, Mapping[str, Support]]] = {
    "Leaves": LEAVES,
    "Operators": OPERATORS,
    "Aggregates": AGGREGATES,
    "Generators": GENERATORS,
    "Sub-queries": SUBQUERIES,
    "Scalar expressions": SCALARS,
}


def supported() -> str:
    """The classes of each kind that are converted."""
    parts = []
    for kind, table in KINDS.items():
        names = sorted(name for name, support in table.items() if support.level == "converted")
        words = ", ".join(f"`{name}`" for name in names)
        parts.append(fill(f"**{kind}** ({len(names)}): {words}.", 120))
    return "\n\n".join(parts)


def refused() -> str:
    """The classes that are refused, with the reason and what to write instead."""
    rows: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for table in KINDS.values():
        for name, support in table.items():
            if support.level == "refused":
                rows[support.reason, support.rewrite].append(name)
    lines = ["| class | why | instead |", "|---|---|---|"]
    for (reason, rewrite), names in sorted(rows.items(), key=lambda row: row[1]):
        words = ", ".join(f"`{name}`" for name in sorted(names))
        lines.append(f"| {words} | {reason} | {rewrite} |")
    return "\n".join(lines)


@pytest.mark.parametrize(("mark", "table"), [("supported", supported), ("refused", refused)])
def test_the_tables_are_those_of_the_code(mark: str, table: type[str], update_golden: bool) -> None:
    text = page(PAGE)
    between = re.search(f"<!-- {mark} -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert between is not None
    wanted = f"{table()}\n"
    if update_golden:
        text = text[: between.start(1)] + wanted + text[between.end(1) :]
        PAGE.write_text(text, encoding="utf-8")
        return
    assert between[1] == wanted, "run pytest tests/docs/test_spark.py --update-golden"


def test_the_script_of_the_page_is_one() -> None:
    (script,) = re.findall(r"```sql\n(.*?)```", page(PAGE), re.DOTALL)
    statements = split_statements(SourceText(script, "page.sql"))
    assert [statement.kind for statement in statements] == [
        "input",
        "view",
        "answer",
        "answer",
        "query",
    ]


@pytest.mark.spark
def test_every_example_says_what_it_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page(PAGE).replace("```", "")
    test = doctest.DocTestParser().get_doctest(
        text, {"spark": spark.newSession()}, "spark.md", None, 0
    )
    assert len(test.examples) > 20
    said: list[str] = []
    with spark_directory(spark, tmp_path):
        doctest.DocTestRunner().run(test, out=said.append)
    assert said == [], "".join(said)
