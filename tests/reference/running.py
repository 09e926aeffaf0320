"""Query text and single nodes to values, for the tests of the reference evaluator."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from incmrql.algebra.scripts import run_script
from incmrql.errors import SourceText
from incmrql.reference import Environment, World, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import Type
from incmrql.types.scope import Catalog
from incmrql.values import Value, encode, show

sys.setrecursionlimit(max(sys.getrecursionlimit(), 30_000))

Registered = Mapping[str, tuple[Type, Any]]


def typed_script(text: str, registered: Registered | None = None, **catalog: Any) -> typed.Script:
    types = tuple([(name, type_) for name, (type_, _) in (registered or {}).items()])
    return _script_of_types(text, types) if not catalog else _infer(text, Catalog(**catalog))


@cache
def _script_of_types(text: str, types: tuple[tuple[str, Type], ...]) -> typed.Script:
    """Cached, since a property runs one query over many inputs."""
    return _infer(text, Catalog(registered={name: (type_, False) for name, type_ in types}))


def _infer(text: str, catalog: Catalog) -> typed.Script:
    return infer_script(parse_script(SourceText(text)), catalog)


def run(
    text: str,
    registered: Registered | None = None,
    catalog: Mapping[str, Any] | None = None,
    **settings: Any,
) -> list[Value]:
    """The answers of a script, in order."""
    script = typed_script(text, registered, **(catalog or {}))
    rows = {name: rows for name, (_, rows) in (registered or {}).items()}
    answers: list[Value] = []
    world = new_world(script, registered=rows, **settings)
    run_script(script, world, lambda _, value: answers.append(value))
    return answers


def value(text: str, registered: Registered | None = None, **settings: Any) -> Value:
    """The answer of the last item."""
    return run(text + ";", registered, **settings)[-1]


def answer_text(text: str, registered: Registered | None = None, **settings: Any) -> str:
    """The answer of the last item in MRQL notation."""
    return show(value(text, registered, **settings))


def world(**settings: Any) -> World:
    return new_world(EMPTY_SCRIPT, **settings)


def const(content: Value, type_: Type) -> typed.Const:
    return typed.Const(content, type=type_)


def of(expr: typed.Expr, **settings: Any) -> Value:
    """The value of a node that stands alone."""
    return evaluate(expr, Environment(world(**settings)))


def same(actual: Value, expected: Value) -> bool:
    """Whether two values are one value; a bool is not a number."""
    return type(actual) is type(expected) and encode(actual) == encode(expected)
