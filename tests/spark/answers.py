"""A script on Spark and by the reference evaluator: the answers must be identical."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from incmrql.algebra.scripts import run_script
from incmrql.errors import SourceText
from incmrql.reference import new_world
from incmrql.spark.batch.scripts import ScriptRunner
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.scope import Catalog
from incmrql.values import Bag, Value, identical, show
from tests.generators.tables import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def agree(
    text: str,
    data: Mapping[str, Bag | Sequence[Value]],
    spark: SparkSession,
    catalog: Catalog = CATALOG,
) -> list[Value]:
    """The answers of a script over registered data, once both engines gave the same."""
    with deep_recursion():
        script = infer_script(parse_script(SourceText(text)), catalog)
        expected = _answers(script, data, None)
        answers = _answers(script, data, spark)
    shown = f"{text}\n\nSpark says\n{list(map(show, answers))}, not\n{list(map(show, expected))}"
    assert identical(answers, expected), shown
    return answers


def _answers(
    script: typed.Script,
    data: Mapping[str, Bag | Sequence[Value]],
    spark: SparkSession | None,
) -> list[Value]:
    """The answers of all items, stored values among them."""
    world = new_world(script, registered=data)
    given: list[Value] = []

    def emit(_item: typed.ScriptItem, value: Value) -> None:
        given.append(value)

    if spark is None:
        run_script(script, world, emit)
    else:
        engine = ScriptRunner(world, lambda: spark)
        for item in script.items:
            engine.run_item(item, emit)
    return [*given, *world.stored.values()]
