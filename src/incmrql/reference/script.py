"""Scripts: their items, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from incmrql.formats import ANYWHERE, Paths, dump, store
from incmrql.reference.environment import Environment, World, place
from incmrql.reference.evaluate import evaluate
from incmrql.reference.lineage import debug, lineage
from incmrql.reference.sources import check_paths, read_source
from incmrql.types import typed
from incmrql.types.resourced import with_sources
from incmrql.values import Value


def new_world(script: typed.Script, **settings: Any) -> World:
    """A world to run a script in; the settings are fields of `World`.

    Sources are also read inside of rows, in tasks: the limit of their paths is that of the script.
    """
    settings.setdefault("paths", Paths(script.allowed))
    return World(evaluate, settings.pop("read", read_source), script, **settings)


def check_script(script: typed.Script, world: World) -> None:
    """Refuse a script that names a path which it may not use, before anything runs."""
    if world.paths == ANYWHERE:
        return
    for item in script.items:
        check_target(item, world)

    def checked(source: typed.Source) -> typed.Source:
        if isinstance(source.path, typed.Const) and isinstance(source.path.value, str):
            check_paths(source, source.path.value, world)
        return source

    with_sources(script, checked)


def check_target(item: typed.ScriptItem, world: World) -> None:
    """Refuse an item that writes where the script may not."""
    if item.kind in ("store", "dump"):
        world.paths.check(item.target, place(item.span))


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
            check_target(item, env.world)
            store(item.target, evaluate(item.expr, env), item.expr.type)
        case "dump":
            check_target(item, env.world)
            dump(item.target, evaluate(item.expr, env), item.expr.type)
        case "lineage":
            emit(item, lineage(item.expr, env))
        case "debug":
            emit(item, debug(item.expr, env))
        case _:
            assert_never(item.kind)
