"""Programs over folders, and what they answer over all the data that are there."""

from __future__ import annotations

from functools import lru_cache

from incmrql.compiler.compiled import compile_script
from incmrql.compiler.load import catalog_for, read_include
from incmrql.errors import SourceText
from incmrql.plan.assembly import program_of as derived
from incmrql.plan.program import Program
from incmrql.reference import Environment, evaluate, new_world
from incmrql.types import typed
from incmrql.values import Value

NUMBERS = 'stream(line, "{data}", ",", type(< K: int, V: double >), deletes: "{deletes}")'
"""A stream of numbers that come and go."""
AVERAGE = f"incr select (k, avg(x.V)) from x in {NUMBERS} group by k: x.K;"
"""The average of a number by key."""
SEVERAL = f"""
{AVERAGE}
incr select (g, sum(x.V), count(x)) from x in {NUMBERS},
  y in stream(line, "{{names}}", ",", type(< K: int, G: string >))
  where x.K = y.K group by g: y.G;
incr max(select x.V from x in {NUMBERS});
"""
"""Three answers over two streams: a group-by, one over a join, and a total without an inverse."""


@lru_cache
def typed_script(text: str, arguments: tuple[str, ...] = ()) -> typed.Script:
    """The typed form of a script."""
    source = SourceText(text)
    return compile_script(source, catalog_for(source, arguments), read_include).typed


@lru_cache
def program_of(text: str, arguments: tuple[str, ...] = ()) -> Program:
    """The program of all items of a script."""
    script = typed_script(text, arguments)
    return derived(script.items, script, arguments)


def reference_answers(text: str) -> list[Value]:
    """What each item answers over all the data that are there."""
    script = typed_script(text)
    env = Environment(new_world(script))
    return [evaluate(item.expr, env) for item in script.items]


def reference_answer(text: str) -> Value:
    """What the one item of a script answers."""
    (answer,) = reference_answers(text)
    return answer
