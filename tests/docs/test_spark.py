"""docs/spark.md: its examples run, and its tables are those of the code."""

from __future__ import annotations

import csv
import doctest
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Final, get_args

import pytest

from incmrql.catalyst.classes import Level, Support
from incmrql.catalyst.expressions import SCALARS
from incmrql.catalyst.operators.table import (
    AGGREGATES,
    GENERATORS,
    LEAVES,
    OPERATORS,
    SUBQUERIES,
    WINDOWS,
)
from incmrql.compiler.sql import split_statements
from incmrql.errors import SourceText
from tests.docs.conftest import DOCS
from tests.docs.examples import page
from tests.spark.folders import spark_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = DOCS / "spark.md"
CLASSES: Final = DOCS.parent / "tests" / "catalyst" / "classes.csv"
"""The classes of 13,065 analysed plans, each with the number of plans that have it."""
CARRIED: Final = (
    "SpecifiedWindowFrame", "WindowExpression", "WindowSpecDefinition", "UnboundedPreceding",
    "UnboundedFollowing", "CurrentRow", "Collate", "ResolvedCollation",
)  # fmt: skip
"""Parts of windows and of collations, which are no values."""
PARTS: Final = (
    "CommonExpressionDef",
    "CommonExpressionId",
    "LambdaFunction",
    "WithField",
    "DropField",
)
"""Parts of expressions that are converted with them."""
KINDS: Final[dict[str, Mapping[str, Support]]] = {
    "Leaves": LEAVES,
    "Operators": OPERATORS,
    "Aggregates": AGGREGATES,
    "Windows": WINDOWS,
    "Generators": GENERATORS,
    "Sub-queries": SUBQUERIES,
    "Scalar expressions": SCALARS,
}


def supported_classes() -> str:
    """The classes of each kind that are converted."""
    parts = []
    for kind, table in KINDS.items():
        names = sorted(name for name, support in table.items() if support.level == "converted")
        words = ", ".join(f"`{name}`" for name in names)
        parts.append(fill(f"**{kind}** ({len(names)}): {words}.", 120))
    return "\n\n".join(parts)


def coverage() -> str:
    """How many of the classes that Spark's plans were seen to have are supported, and how often."""
    classes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    plans: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with CLASSES.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if "runtime-replaceable" in row["kind"]:
                continue  # Spark replaces it by others before a plan is read
            kind, level = row["kind"], _level(row["class"], row["kind"])
            for name in (kind, "all"):
                classes[name][level] += 1
                plans[name][level] += int(row["plans"])
    lines = [
        "| kind | classes | converted | left to Spark | refused | converted or left, of all uses |",
        "|---|---|---|---|---|---|",
    ]
    for kind in sorted(classes, key=lambda name: (name == "all", name)):
        counts, uses = classes[kind], plans[kind]
        share = 1 - uses["refused"] / max(uses.total(), 1)
        cells = [counts.total(), *(counts[level] for level in get_args(Level))]
        lines.append(f"| {kind} | {' | '.join(map(str, cells))} | {share:.1%} |")
    return "\n".join(lines)


def _level(name: str, kind: str) -> Level:
    """The level of a class."""
    support = next((table[name] for table in KINDS.values() if name in table), None)
    if support is not None:
        return support.level
    if name in PARTS:
        return "converted"
    is_scalar = kind.startswith(("expression", "higher-order"))
    return "opaque" if is_scalar and name not in CARRIED else "refused"


def left_to_spark() -> str:
    """The classes that Spark evaluates for us by name; those that nobody knows are too."""
    names = sorted(name for name, support in SCALARS.items() if support.level == "opaque")
    return fill(", ".join(f"`{name}`" for name in names) + ".", 120)


def refused_classes() -> str:
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


@pytest.mark.parametrize(
    ("mark", "table"),
    [
        ("supported", supported_classes),
        ("coverage", coverage),
        ("opaque", left_to_spark),
        ("refused", refused_classes),
    ],
)
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
