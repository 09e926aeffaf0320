"""Scripts: their items, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from incmrql.formats import dump, store
from incmrql.reference.environment import Environment, World
from incmrql.reference.evaluate import evaluate
from incmrql.reference.lineage import debug, lineage
from incmrql.reference.sources import read_source
from incmrql.types import typed
from incmrql.values import Value


def new_world(script: typed.Script, **settings: Any) -> World:
    """A world to run a script in; the settings are fields of `World`."""
    return World(evaluate, settings.pop("read", read_source), script, **settings)


def run_script(
    script: typed.Script, world: World, emit: Callable[[typed.ScriptItem, Value], None]
) -> None:
    """Do what the items say; `emit` gets the answers of those that have one."""
    world.script = script
    for item in script.items:
        world.snapshots.clear()
        run_item(item, Environment(world), emit)


def run_item(
    item: typed.ScriptItem, env: Environment, emit: Callable[[typed.ScriptItem, Value], None]
) -> None:
    """Do what one item says."""
    match item.kind:
        case "print" | "incr":
            emit(item, evaluate(item.expr, env))
        case "store-value":
            env.world.stored[item.target] = evaluate(item.expr, env)
        case "store":
            store(item.target, evaluate(item.expr, env), item.expr.type)
        case "dump":
            dump(item.target, evaluate(item.expr, env), item.expr.type)
        case "lineage":
            emit(item, lineage(item.expr, env))
        case "debug":
            emit(item, debug(item.expr, env))
        case _:
            assert_never(item.kind)
