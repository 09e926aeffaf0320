"""Every class that a node can hold is listed, with every field that it has."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, get_args

import pytest

from incmrql.algebra import term
from incmrql.errors import InternalError, Span
from incmrql.plan import monoids, nodes
from incmrql.plan.identity import Encoder
from incmrql.plan.identity.fields import ENTRIES, MONOIDS, REQUIRED, Entry
from incmrql.syntax import ast
from incmrql.types import model, typed
from incmrql.types import typed as access
from incmrql.types import typed as control
from incmrql.types import typed as patterns
from incmrql.types import typed as queries
from incmrql.types import typed as scripts
from incmrql.types import typed as sources
from incmrql.types import typed as values
from tests.plan.stepping import typed_script

_MODULES = (nodes, monoids, term, queries, access, control, patterns, scripts, sources, values,
            typed, model)  # fmt: skip
ROOTS: tuple[Any, ...] = (nodes.Node, typed.Expr, term.Term, model.Type, typed.Function,
                          typed.Aggregation, typed.PythonFunction, model.Constructor)  # fmt: skip


def _hints(kind: type) -> dict[str, Any]:
    """The types of a class's fields; what a module imports for typing only comes from others."""
    spaces: dict[str, Any] = {"Step": ast.Step, "PathCondition": ast.PathCondition, "Span": Span}
    for module in reversed(_MODULES):
        spaces |= vars(module)
    hints: dict[str, Any] = {}
    for parent in reversed(kind.__mro__[:-1]):
        own = __import__(parent.__module__, fromlist=["x"])
        for name, text in vars(parent).get("__annotations__", {}).items():
            hints[name] = eval(text, {**spaces, **vars(own)}) if isinstance(text, str) else text
    return hints


def _classes(hint: Any) -> set[type]:
    """The dataclasses that a type mentions."""
    if isinstance(hint, str):
        hint = {**vars(typed), **vars(nodes), **vars(patterns), **vars(term)}[hint]
    if isinstance(hint, typing.ForwardRef):
        return _classes(hint.__forward_arg__)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return {hint}
    if isinstance(hint, types.GenericAlias | types.UnionType) or get_args(hint):
        inner = [part for part in get_args(hint) if not isinstance(part, str | int | bool)]
        return set().union(*map(_classes, inner))
    return set()


def reachable() -> set[type]:
    """All dataclasses that can occur in a node or in what a script declares."""
    classes: set[type] = set()
    waiting = set().union(*map(_classes, ROOTS))
    while waiting:
        kind = waiting.pop()
        classes.add(kind)
        ignored = ENTRIES[kind].ignored if kind in ENTRIES else ()
        for name, hint in _hints(kind).items():
            if name not in ignored:
                waiting |= _classes(hint) - classes
    return classes


def test_all_classes_below_a_node_are_listed() -> None:
    classes = reachable()
    assert set(get_args(typed.Expr)) <= classes
    assert {typed.Lambda, typed.Source, ast.Step, ast.Literal, monoids.Monoid} <= classes
    missing = sorted(kind.__qualname__ for kind in classes - set(ENTRIES))
    assert not missing, f"add these to plan/identity/fields.py: {missing}"
    assert set(ENTRIES) - classes == set(), "classes that no node can hold"


@pytest.mark.parametrize("kind", ENTRIES, ids=lambda kind: ENTRIES[kind].tag)
def test_every_field_counts_or_is_said_not_to(kind: type) -> None:
    entry = ENTRIES[kind]
    listed = [attribute.attribute for attribute in entry.fields] + [*entry.ignored, *entry.below]
    assert len(listed) == len(set(listed))
    fields = {attribute.name for attribute in dataclasses.fields(kind)}
    assert set(listed) == fields, (
        "list a new field as one that counts (with the default that keeps the old meaning), or as "
        "ignored, in plan/identity/fields.py"
    )
    assert not entry.by or entry.by in [attribute.attribute for attribute in entry.fields]


def test_tags_and_keys_tell_apart() -> None:
    tags = [entry.tag for entry in ENTRIES.values()]
    assert len(tags) == len(set(tags))
    for entry in ENTRIES.values():
        keys = [attribute.stable_key for attribute in entry.fields]
        assert len(keys) == len(set(keys))


def test_places_of_other_nodes_are_never_written_as_numbers() -> None:
    for kind in get_args(nodes.Node):
        hints = _hints(kind)
        places: set[str] = {n for n in ("input", "inputs", "left", "right") if n in hints}
        places |= {"parts"} if kind is nodes.Merge else set()
        assert set(ENTRIES[kind].below) == places


def test_all_monoids_have_tags() -> None:
    known = [value for value in vars(monoids).values() if isinstance(value, monoids.Monoid)]
    assert len(known) >= 10
    assert {monoid.name for monoid in known} == set(MONOIDS)
    assert len(set(MONOIDS.values())) == len(MONOIDS)


def test_a_class_that_is_not_listed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(typed_script("1;"))
    monkeypatch.delitem(ENTRIES, model.Basic)
    with pytest.raises(InternalError, match="a Basic has no entry"):
        encoder.add(model.INT)


def test_a_field_at_its_default_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def digest(part: object) -> str:
        encoder = Encoder(typed_script("1;"))
        encoder.add(part)
        return encoder.digest()

    entry = ENTRIES[nodes.LoopParam]
    before = digest(nodes.LoopParam(model.INT))
    (param,) = entry.fields
    assert param.default is REQUIRED
    grown = dataclasses.replace(entry, fields=(dataclasses.replace(param, default=model.LONG),))
    monkeypatch.setitem(ENTRIES, nodes.LoopParam, grown)
    assert digest(nodes.LoopParam(model.INT)) == before
    assert digest(nodes.LoopParam(model.LONG)) != digest(nodes.LoopParam(model.DOUBLE))
    bare = Entry(entry.tag, (), ("element",))
    absent = digest(nodes.LoopParam(model.LONG))
    monkeypatch.setitem(ENTRIES, nodes.LoopParam, bare)
    assert digest(nodes.LoopParam(model.STRING)) == absent
