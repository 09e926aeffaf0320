"""The query of an item together with its watches, so that they share what they group and join."""

from __future__ import annotations

from dataclasses import dataclass

from incmrql.algebra import build
from incmrql.algebra.failures import Site, Watched, watched
from incmrql.algebra.optimize import normal_form
from incmrql.algebra.reading import Reading
from incmrql.algebra.term import Query
from incmrql.algebra.translate import translate
from incmrql.diagnostics import QueryError, Span
from incmrql.types import typed


@dataclass(frozen=True, slots=True)
class WatchedQuery:
    """The query of a tuple: an item's answer, and the pairs of each watch.

    There is no query where nothing is watched.
    """

    query: Query | None
    sites: tuple[Site, ...] = ()
    unwatched: tuple[Span, ...] = ()


def watched_query(
    item: typed.ScriptItem, script: typed.Script, *, watch: bool = True
) -> WatchedQuery:
    """An item and its watches as one query in normal form."""
    if not watch:
        return WatchedQuery(None)
    found = watched(item.expr, script)
    bags, unwatched = _translatable(found, script)
    if not bags:
        return WatchedQuery(None, (), unwatched)
    query, _ = normal_form(translate(build.tuple_of(item.expr, *bags), script))
    return WatchedQuery(query, found.sites, unwatched)


def _translatable(
    found: Watched, script: typed.Script
) -> tuple[list[typed.Expr], tuple[Span, ...]]:
    """The watches that read a source and have terms; the places of the others."""
    reading = Reading(script)
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
    return bags, tuple(dict.fromkeys(unwatched))


def show_watched(item: typed.ScriptItem, script: typed.Script) -> list[str]:
    """Lines that say which arithmetic of an item is watched while it follows streams."""
    found = watched_data(item, script)
    names = {"watched": "arithmetic that is watched", "unwatched": "arithmetic not watched, in"}
    return [f"{names[key]}: {', '.join(places)}" for key, places in found.items() if places]


def watched_data(item: typed.ScriptItem, script: typed.Script) -> dict[str, list[str]]:
    """The arithmetic of an item that is watched and that is not, with places."""
    found = watched_query(item, script)
    sites = [] if found.query is None else [f"{s.text} ({s.span})" for s in found.sites]
    return {"watched": sites, "unwatched": [f"{s.text} ({s})" for s in found.unwatched]}
