"""Texts of segments: nothing that a user wrote is taken for a name of ours."""

from __future__ import annotations

import pytest

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.engine.columns.pipelines import Projection, SqlText
from incmrql.engine.compile.program import compile_program
from incmrql.engine.operators.base import MapOp
from incmrql.errors import SourceText
from incmrql.plan.assembly import program_of

QUERY = (
    'incr select {head} from x in stream(line, "data", ",", type(< c1: string, c0: double >))'
    "{where};"
)


def map_step(head: str, where: str = "") -> MapOp:
    """The last step of a compiled query, which is a map."""
    source = SourceText(QUERY.format(head=head, where=where))
    script = compile_script(source, catalog_for(source, ()), read_include).typed
    step = compile_program(program_of(script.items, script)).steps[-1]
    assert isinstance(step, MapOp)
    return step


@pytest.mark.parametrize("text", ["python_1(", "python_1(x)", "my python_1(2) call"])
def test_a_text_that_looks_like_a_function_stays_as_it_is(text: str) -> None:
    how = map_step(f'(x.c1 = "{text}", exp(x.c0))', f' where x.c1 <> "{text}"').pipeline.how
    assert isinstance(how, SqlText)
    assert len(how.functions) == 1
    assert how.text.count(f"'{text}'") == 2
    assert how.text.count(f"{how.functions[0].name}(") == 1
    assert "python_1(" not in how.text.replace(f"'{text}'", "")


def test_columns_are_picked_by_their_place_whatever_they_are_called() -> None:
    how = map_step("(x.c0, x.c1, x.c0)").pipeline.how
    assert isinstance(how, Projection)
    assert how.columns == (1, 0, 1)
