"""What a script runs in, and which paths it may use."""

from __future__ import annotations

from typing import Any

from incmrql.io.files import ANYWHERE, Paths
from incmrql.reference.environment import World, place
from incmrql.reference.evaluate import evaluate
from incmrql.reference.sources import check_paths, read_source
from incmrql.types import typed
from incmrql.types.walk import with_sources


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
