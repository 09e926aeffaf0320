"""Scripts run by the reference evaluator: their items, one after the other.

`lineage q` and `debug q` are answered by the annotated query of `algebra.lineage.queries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from incmrql.algebra.lineage.queries import AnnotatedQuery, annotate
from incmrql.io.writers import dump, store
from incmrql.reference.environment import Environment, World
from incmrql.reference.evaluate import evaluate
from incmrql.reference.script import check_target
from incmrql.reference.sources import null_path_error
from incmrql.types import typed
from incmrql.values import Value

Emit: TypeAlias = Callable[[typed.ScriptItem, Value], None]


@dataclass(frozen=True, slots=True)
class ReferenceEngine:
    """Runs items one by one, like the engine of batch queries on Spark, but in plain Python."""

    world: World

    def run_item(self, item: typed.ScriptItem, emit: Emit) -> None:
        """Do what one item says."""
        self.world.snapshots.clear()
        run_item(item, self.world, emit)


def run_script(script: typed.Script, world: World, emit: Emit) -> None:
    """Do what the items say; `emit` gets the answers of those that have one."""
    world.script = script
    for item in script.items:
        world.snapshots.clear()
        run_item(item, world, emit)


def run_item(item: typed.ScriptItem, world: World, emit: Emit) -> None:
    """Do what one item says."""
    env = Environment(world)
    match item.kind:
        case "print" | "incr":
            emit(item, evaluate(item.expr, env))
        case "store-value":
            world.stored[item.target] = evaluate(item.expr, env)
        case "store":
            check_target(item, world)
            store(item.target, evaluate(item.expr, env), item.expr.type)
        case "dump":
            check_target(item, world)
            dump(item.target, evaluate(item.expr, env), item.expr.type)
        case "lineage" | "debug":
            with annotated_item(item, world) as query:
                emit(item, query.answer(evaluate(query.expr, env)))
        case _:
            assert_never(item.kind)


@contextmanager
def annotated_item(item: typed.ScriptItem, world: World) -> Iterator[AnnotatedQuery]:
    """The query that answers `lineage` or `debug`, with the stored values that it adds in place."""
    query = annotate(item, world.script, world.stored, lambda source: _name_of(source, world))
    world.stored.update(query.stored)
    try:
        yield query
    finally:
        for key in query.stored:
            del world.stored[key]


def _name_of(source: typed.Source, world: World) -> str:
    """The name of a source in a lineage: as it was registered, or its path."""
    env = Environment(world)
    path = None if source.path is None else evaluate(source.path, env)
    if not source.name and path is None:
        raise null_path_error(source, env)
    return source.name or str(path)
