"""The query of an item together with its watches, so that they share what they group and join."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from incmrql.algebra import build
from incmrql.algebra.failures import Site, watched
from incmrql.algebra.optimize import normal_form
from incmrql.algebra.reading import Reading
from incmrql.algebra.term import Query
from incmrql.algebra.translate import translate
from incmrql.diagnostics import QueryError, Span
from incmrql.types import typed


@dataclass(frozen=True)
class Watches:
    """The arithmetic of an item that may fail: what is watched of it, and what is not."""

    item: typed.ScriptItem
    script: typed.Script
    bags: tuple[typed.Expr, ...]
    """The pairs (site, row) of each watch."""
    sites: tuple[Site, ...]
    """Empty if nothing is watched."""
    unwatched: tuple[Span, ...]

    @cached_property
    def query(self) -> Query | None:
        """A tuple of the item's answer and the bags in normal form; None if nothing is watched."""
        if not self.bags:
            return None
        both = build.tuple_of(self.item.expr, *self.bags)
        return normal_form(translate(both, self.script))[0]

    def as_data(self) -> dict[str, list[str]]:
        """The arithmetic that is watched and that is not, with places."""
        return {
            "watched": [f"{site.text} ({site.span})" for site in self.sites],
            "unwatched": [f"{span.text} ({span})" for span in self.unwatched],
        }

    def lines(self) -> list[str]:
        """The same for a reader."""
        names = {"watched": "arithmetic that is watched", "unwatched": "arithmetic not watched, in"}
        return [
            f"{names[key]}: {', '.join(places)}" for key, places in self.as_data().items() if places
        ]


def watches_of(item: typed.ScriptItem, script: typed.Script) -> Watches:
    """What can be watched of an item: the bags that read a source and have terms."""
    found, reading = watched(item.expr, script), Reading(script)
    bags: list[typed.Expr] = []
    unwatched = list(found.unwatched)
    for each in found.watches:
        if not reading.reads(each.expr):
            continue
        try:
            translate(each.expr, script)
        except QueryError as problem:
            unwatched.append(problem.problems[0].span)
        else:
            bags.append(each.expr)
    sites = found.sites if bags else ()
    return Watches(item, script, tuple(bags), tuple(sites), tuple(dict.fromkeys(unwatched)))
