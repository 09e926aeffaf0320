"""The world that a script runs in, and the check of the paths it may use."""

from __future__ import annotations

from typing import Any

from incmrql.io.files import ANYWHERE, Paths
from incmrql.reference.environment import World, place
from incmrql.reference.evaluate import evaluate
from incmrql.reference.sources import check_paths, read_source
from incmrql.types import typed
from incmrql.types.walk import with_sources


def new_world(script: typed.Script, **settings: Any) -> World:
    """A world to run a script in; the settings are fields of `World`."""
    # Sources can also be read inside of rows, in tasks: the script's allowed paths apply there.
    settings.setdefault("paths", Paths(script.allowed))
    return World(evaluate, settings.pop("read", read_source), script, **settings)


def check_script(script: typed.Script, world: World) -> None:
    """Raise if a script names a path that it may not use, before anything runs."""
    if world.paths == ANYWHERE:
        return
    for item in script.items:
        check_target(item, world)

    def check_source(source: typed.Source) -> typed.Source:
        if isinstance(source.path, typed.Const) and isinstance(source.path.value, str):
            check_paths(source, source.path.value, world)
        return source

    with_sources(script, check_source)


def check_target(item: typed.ScriptItem, world: World) -> None:
    """Raise if an item writes to a path that the script may not use."""
    if item.kind in ("store", "dump"):
        world.paths.check(item.target, place(item.span))
