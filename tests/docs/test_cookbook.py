"""docs/cookbook.md: every recipe is run, batch by batch, and its answers are those of plain Spark.

```sql       the script, with its inputs
```python    the same query as a DataFrame over them, if there is one
```batch     lines of files that arrive: `+ table line`, and `- table line` to take one back
```answer    the rows after the batch
```costs     what is kept, at the end
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from incmrql.api.runs import Run
from incmrql.api.session import Session
from incmrql.api.trial import kept_lines
from tests.docs.conftest import DOCS
from tests.docs.examples import Block, blocks, page
from tests.spark.folders import spark_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = DOCS / "cookbook.md"
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)


def recipes() -> dict[str, list[Block]]:
    """The blocks of each recipe, by its heading."""
    text, recipes_found = page(PAGE), dict[str, list[Block]]()
    for block in blocks(text):
        recipes_found.setdefault(_HEADING.findall(text, 0, block.start)[-1], []).append(block)
    return recipes_found


NAMES: Final = list(recipes())


def answer_text(run: Run) -> str:
    """The answer as lines of columns."""
    rows = run.answer()
    if not rows:
        return "no rows\n"
    names = rows[0].__fields__
    lines = [names, *sorted([_text(value) for value in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(names))]
    return "".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "null" if value is None else str(value)


def write_batch(folder: Path, number: int, lines: Sequence[str]) -> None:
    """The files of a batch."""
    for line in lines:
        sign, table, row = line.split(" ", 2)
        target = folder / (table if sign == "+" else f"{table}-deleted")
        with (target / f"{number}.csv").open("a") as file:
            file.write(f"{row}\n")


def prepare(folder: Path, script: str) -> list[str]:
    """The folders of the tables of a script; returns their names."""
    tables = re.findall(r"path '(\w+)', deletes '\w+-deleted'", script)
    for table in tables:
        (folder / table).mkdir(parents=True)
        (folder / f"{table}-deleted").mkdir()
    return tables


def outputs(recipe: list[Block], run: Run, folder: Path) -> Iterator[tuple[Block, str]]:
    """What the answers of a recipe are now."""
    number = 0
    for block in recipe:
        if block.language == "batch":
            write_batch(folder, number, block.text.splitlines())
            assert run.step() is not None
            number += 1
        elif block.language == "answer":
            yield block, answer_text(run)
    assert run.verify(against="spark").rows == len(run.answer())


@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_gives_what_it_shows(
    name: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    update_golden: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = recipes()[name]
    scripts = [block.text for block in recipe if block.language == "sql"]
    frames = [block.text for block in recipe if block.language == "python"]
    assert len(scripts) == 1
    assert [block.language for block in recipe].count("answer") == 2
    tables = prepare(tmp_path, scripts[0])
    with spark_directory(spark, tmp_path), Session(spark=spark.newSession()) as session:
        result = session.sql(scripts[0])
        costs = "".join(f"{line}\n" for line in kept_lines(result.compiled))
        costs = costs.replace(f"{tmp_path}/", "")
        with result.start(settle=0.0) as run:
            now = dict(outputs(recipe, run, tmp_path))
        answers = [text for block, text in now.items() if block.language == "answer"]
        now |= {block: costs for block in recipe if block.language == "costs"}
        if update_golden:
            text = page(PAGE)
            for block in reversed(list(now)):
                text = text[: block.start] + now[block] + text[block.end :]
            PAGE.write_text(text, encoding="utf-8")
        else:
            assert {block.line: block.text for block in now} == {
                block.line: text for block, text in now.items()
            }
        for code in frames:
            check_frame(code, session, tables, answers[-1])


def check_frame(code: str, session: Session, tables: Sequence[str], answer: str) -> None:
    """The DataFrame of a recipe has the last answer, too, over the files that are there."""
    from pyspark.sql import Window, functions

    spark = session.analysis_session({})
    names = {"F": functions, "Window": Window, **{table: spark.table(table) for table in tables}}
    *statements, last = code.strip().splitlines()
    exec("\n".join(statements), names)
    frame = eval(last, names)
    with session.query(frame).start(settle=0.0) as run:
        run.step()
        assert answer_text(run) == answer
