"""Programs: several items over shared sources, and what makes one another."""

from __future__ import annotations

from collections.abc import Mapping

from incmrql.plan.assembly import program_of
from incmrql.plan.nodes import Input
from incmrql.plan.program import Program
from incmrql.values import Value
from tests.plan.stepping import typed_script

COUNTS = "incr select (k, count(x)) from x in R group by k: x.A;"


def program(text: str, stored: Mapping[str, Value] | None = None) -> Program:
    script = typed_script(text)
    items = [item for item in script.items if item.kind == "incr"]
    return program_of(items, script, stored=stored)


def test_items_share_sources_and_nothing_else() -> None:
    both = program(
        f"{COUNTS} incr select (z.A, sum(z.B)) from z in R, y in S where y.A = z.A group by z.A;"
    )
    assert [stream.name for stream in both.streams] == ["R", "S"]
    assert sum(isinstance(node, Input) for node in both.nodes) == 2
    assert len(both.outputs) == 2
    alone = program(COUNTS)
    assert both.identities[: len(alone.nodes)] == alone.identities


def test_names_of_variables_do_not_matter() -> None:
    other = "incr select (key, count(row)) from row in R group by key: row.A;"
    assert program(other).identity == program(COUNTS).identity


def test_what_a_node_does_matters_to_it_and_to_those_above() -> None:
    one, two = program(COUNTS), program(COUNTS.replace("x.A", "x.B"))
    assert one.identities[0] == two.identities[0]
    assert not set(one.identities[1:]) & set(two.identities[1:])


def test_functions_that_are_called_matter() -> None:
    text = "function f(x: int): int {{ x {} }}; " + COUNTS.replace("x.A", "f(x.A)")
    texts = [text.format(change) for change in ("+ 1", "+ 2", "+ 1")]
    one, two, same = map(program, texts)
    assert one.identity == same.identity
    assert one.identity != two.identity


def test_stored_values_matter() -> None:
    text = "store n := 1; incr select (k, count(x)) from x in R where x.B > n group by k: x.A;"
    script = typed_script(text)
    (key,) = [item.target for item in script.items if item.kind == "store-value"]
    identities = {program(text, {key: value}).identity for value in (1, 2, 1)}
    assert len(identities) == 2


def test_outputs_say_what_their_rows_are() -> None:
    two_lists_and_a_count = program(
        "incr select x.A from x in R order by x.B; incr count(R); incr R;"
    )
    rows = [
        (output.part is not None, str(output.element)) for output in two_lists_and_a_count.outputs
    ]
    assert [row[0] for row in rows] == [True, False, True]
    assert [row[1] for row in rows][:2] == ["int", "long"]
