"""A script with other sources in the places of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from incmrql.types import typed
from incmrql.types.walk import map_children


def with_sources(
    script: typed.Script, change: Callable[[typed.Source], typed.Source]
) -> typed.Script:
    """A script in which every source has become what `change` makes of it."""

    def changed(expr: typed.Expr) -> typed.Expr:
        inner = map_children(changed, expr)
        return (
            replace(inner, source=change(inner.source)) if isinstance(inner, typed.Read) else inner
        )

    return replace(
        script,
        items=tuple(replace(item, expr=changed(item.expr)) for item in script.items),
        queries={name: changed(expr) for name, expr in script.queries.items()},
        functions={n: replace(f, body=changed(f.body)) for n, f in script.functions.items()},
    )
