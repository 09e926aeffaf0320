"""A version for every operator and built-in, and what raising one changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incmrql.errors import QueryError
from incmrql.plan import nodes
from incmrql.plan.identity.fields import ENTRIES
from incmrql.plan.identity.versions import VERSIONS, version_of
from incmrql.plan.nodes import inputs
from incmrql.plan.program import Program
from incmrql.reference.aggregates import SPARK_PERCENTILES
from incmrql.types import builtins, typed
from incmrql.types.infer.sources import FORMATS
from incmrql.types.spark_functions import SPARK_FUNCTIONS
from tests.effort import fewer
from tests.generators.queries import queries
from tests.plan.identity.programs import program_of
from tests.plan.identity.test_fields import _hints

_OPERATORS: dict[str, tuple[str, ...]] = {
    "builtin": (*builtins.FUNCTIONS, "text", "tag", *SPARK_FUNCTIONS),
    "aggregate": (*builtins.AGGREGATES, "sum#part", "sum#total", "avg#total", *SPARK_PERCENTILES),
    "source": (*FORMATS.values(), "python", "registered", "spark"),
    **{
        ENTRIES[kind].tag: get_args(_hints(kind)[field])
        for kind, field in [
            (typed.Arithmetic, "op"),
            (typed.Compare, "op"),
            (typed.Logic, "op"),
            (typed.Combine, "op"),
            (typed.Navigate, "kind"),
            (nodes.Accumulator, "kind"),
            (nodes.TableRead, "how"),
        ]
    },
}
"""The operators that share a class."""


def test_every_operator_and_every_built_in_has_a_version() -> None:
    shared = {entry.tag for entry in ENTRIES.values() if entry.by}
    assert shared == set(_OPERATORS)
    wanted = {entry.tag for entry in ENTRIES.values()} - shared
    wanted |= {f"{tag} {name}" for tag, names in _OPERATORS.items() for name in names}
    assert wanted - set(VERSIONS) == set(), "add these to plan/identity/versions.py"
    assert set(VERSIONS) - wanted == set(), "what has no such operator"
    assert all(version >= 1 for version in VERSIONS.values())


def test_built_ins_and_aggregates_of_the_language_are_those() -> None:
    named = {"exists", "fold", "mod", "decimal", "source", "stream"}  # by classes of their own
    known = {name.split(" ", 1)[1] for name in VERSIONS if " " in name}
    assert builtins.NAMES - set(builtins.CONVERSIONS) - named <= known


def _inside(part: Any) -> Iterator[Any]:
    """A part of a node and everything in it, without the help of what is tested."""
    yield part
    if isinstance(part, tuple):
        for item in part:
            yield from _inside(item)
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            if field.name not in ("span", "zero", "merge", "inverse"):
                yield from _inside(getattr(part, field.name))


def _names(node: nodes.Node) -> set[str]:
    names = set()
    for part in _inside(node):
        match part:
            case typed.Builtin(name):
                names.add(f"builtin {name}")
            case typed.Aggregate(name):
                names.add(f"aggregate {name}")
            case typed.Arithmetic(op):
                names.add(f"arithmetic {op}")
            case typed.Compare(op):
                names.add(f"compare {op}")
            case nodes.Accumulator(kind):
                names.add(f"accumulator {kind}")
            case nodes.Join() | nodes.Groups() | nodes.Linear() | typed.If() | typed.Cast():
                names.add(ENTRIES[type(part)].tag)
            case _:
                pass
    return names


def _users(program: Program, name: str) -> set[int]:
    """The nodes that use an operator, and those above them."""
    places: set[int] = set()
    for place, node in enumerate(program.nodes):
        if name in _names(node) or places & set(inputs(node)):
            places.add(place)
    return places


def _nodes_changed_by(program: Program, name: str) -> set[int]:
    """The nodes whose identity changes when a version is raised."""
    before = program.identities
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(VERSIONS, name, version_of(name) + 1)
        after = program.identities
    assert program.identities == before
    return {n for n, (one, other) in enumerate(zip(before, after, strict=True)) if one != other}


def test_raising_a_version_changes_the_nodes_that_use_it_and_those_above() -> None:
    program = program_of(
        "incr select (k, sum(x.B)) from x in R group by k: x.A;"
        "incr select (y.T, sqrt(y.D)) from y in S;"
        "incr select (k, count(z)) from z in S where sqrt(z.D) > 2 group by k: z.A;"
    )
    changed = _nodes_changed_by(program, "builtin sqrt")
    assert changed == _users(program, "builtin sqrt")
    sources = {n for n, node in enumerate(program.nodes) if isinstance(node, nodes.Input)}
    sums = {n for n, node in enumerate(program.nodes) if "accumulator sum" in _names(node)}
    assert changed
    assert sums
    assert not changed & (sources | sums)
    assert _nodes_changed_by(program, "accumulator sum") == _users(program, "accumulator sum")
    assert _nodes_changed_by(program, "builtin exp") == set()


def test_versions_count_inside_of_functions_that_are_called() -> None:
    text = "function f(x: double): double {{ {} }}; incr select f(x.C) from x in R;"
    one, other = (program_of(text.format(body)) for body in ("sqrt(x)", "exp(x)"))
    assert _nodes_changed_by(one, "builtin sqrt") == {len(one.nodes) - 1}
    assert _nodes_changed_by(other, "builtin sqrt") == set()


@fewer
@given(queries(), st.sampled_from(sorted(VERSIONS)), st.randoms())
def test_raising_a_version_changes_nothing_else(text: str, other: str, chance: Any) -> None:
    try:
        program = program_of(f"incr {text};")
    except QueryError:
        return
    used = sorted(set().union(*map(_names, program.nodes)))
    for name in chance.sample(used, min(3, len(used))):
        assert _nodes_changed_by(program, name) == _users(program, name)
    if other.startswith(("builtin", "aggregate", "arithmetic", "compare", "accumulator")):
        assert _nodes_changed_by(program, other) == _users(program, other)
