"""A well-typed query evaluates: to a value of its type, and without an error of any kind."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from incmrql.algebra.scripts import run_script
from incmrql.errors import SourceText
from incmrql.reference import new_world
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types.infer.scripts import infer_script
from incmrql.values import Bag, show
from tests.generators.queries import queries, scripts
from tests.generators.tables import CATALOG, tables
from tests.types.inhabits import inhabits

Tables = dict[str, Bag]


def assert_sound(text: str, rows: Tables) -> None:
    """Evaluate every item, and look at what comes out."""
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    answers: list[tuple[Any, Any]] = []
    world = new_world(script, registered=rows)
    run_script(script, world, lambda item, value: answers.append((item.expr.type, value)))
    for type_, value in answers:
        assert inhabits(value, type_, script.data), f"{text}\nis {type_}, gives {show(value)}"
    for item in script.items:
        if item.kind == "store-value":
            assert inhabits(world.stored[item.target], item.expr.type, script.data), text


@given(queries(), tables())
def test_a_query_gives_a_value_of_its_type(text: str, rows: Tables) -> None:
    assert_sound(f"{text};", rows)


@given(scripts(), tables())
def test_a_script_gives_values_of_its_types(text: str, rows: Tables) -> None:
    assert_sound(text, rows)
