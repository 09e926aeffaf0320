"""From the items of a script to its program: plans over shared sources, and what is watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from incmrql.algebra import rows
from incmrql.algebra.failures.sites import Site
from incmrql.algebra.failures.watches import failure_watches
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.scope import SourceScope
from incmrql.algebra.show import show_query
from incmrql.algebra.term import Query
from incmrql.algebra.translate.queries import Views, translate, views_of
from incmrql.errors import DataError, QueryError, Span
from incmrql.plan.nodes import Input, Plan
from incmrql.plan.planner import plan_queries, refuse_random
from incmrql.plan.program import LoopSettings, Output, Program, Stream, WatchOutput
from incmrql.reference import Environment, new_world
from incmrql.reference.environment import Evaluate
from incmrql.types import typed
from incmrql.types.walk import used_variables
from incmrql.values import Value


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
    views: Views = field(repr=False, compare=False)

    @cached_property
    def query(self) -> Query | None:
        """A tuple of the item's answer and the bags in normal form; None if nothing is watched."""
        if not self.bags:
            return None
        both = rows.tuple_of(self.item.expr, *self.bags)
        return normal_form(translate(both, self.script, self.views))[0]

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
            f"{names[key]}: {', '.join(texts)}" for key, texts in self.as_data().items() if texts
        ]


def watches_of(
    items: Sequence[typed.ScriptItem], script: typed.Script, views: Views
) -> list[Watches]:
    """What can be watched of items: the bags that read a source and have terms.

    The first item has those of the views that the items use.
    """
    scope = SourceScope(script)
    item_watches: list[Watches] = []
    watches_of_items = failure_watches([item.expr for item in items], script, views)
    for item, watches in zip(items, watches_of_items, strict=True):
        bags: list[typed.Expr] = []
        unwatched = list(watches.unwatched)
        for bag in watches.bags:
            if not scope.reads(bag):
                continue
            try:
                translate(bag, script, views)
            except QueryError as problem:
                unwatched.append(problem.problems[0].span)
            else:
                bags.append(bag)
        sites = watches.sites if bags else ()
        spans = tuple(dict.fromkeys(unwatched))
        item_watches.append(Watches(item, script, tuple(bags), tuple(sites), spans, views))
    return item_watches


@dataclass(frozen=True, slots=True)
class PlannedItems:
    """The plans of some items over the sources they share, whatever arguments are given to them."""

    items: tuple[typed.ScriptItem, ...]
    queries: tuple[Query, ...]
    """Their normal forms."""
    watches: tuple[Watches | None, ...]
    """The arithmetic that is watched of each; None: nothing is to be."""
    plans: tuple[Plan, ...]
    """The last one has the nodes of all."""
    script: typed.Script

    def program(
        self,
        arguments: Sequence[str] = (),
        stored: Mapping[str, Value] | None = None,
        iteration: LoopSettings | None = None,
    ) -> Program:
        """The program, with arguments, stored values and a way to keep loops."""
        nodes, edges = self.plans[-1].nodes, self.plans[-1].edges
        stored_values = dict(stored or {})
        world = new_world(self.script, arguments=list(arguments), stored=stored_values)
        streams = tuple(
            _stream(index, node, world.evaluate, Environment(world))
            for index, node in enumerate(nodes)
            if isinstance(node, Input)
        )
        outputs: list[Output] = []
        watches: list[WatchOutput] = []
        planned_items = zip(self.items, self.plans, self.queries, self.watches, strict=True)
        for number, (item, plan, query, item_watches) in enumerate(planned_items):
            is_watched = item_watches is not None and item_watches.query is not None
            results = _components(plan.result) if is_watched else (plan.result,)
            outputs.append(_output(item, plan, results[0], show_query(query)))
            for result in results[1:]:
                assert item_watches is not None
                watched = replace(item, kind="print", target="", columns=())
                pairs = _output(watched, plan, result, "")
                watches.append(WatchOutput(pairs, item_watches.sites, number))
        unwatched = tuple(span for watch in self.watches if watch for span in watch.unwatched)
        settings = tuple(arguments), tuple(stored_values.items()), iteration or LoopSettings()
        return Program(
            nodes, edges, streams, tuple(outputs), self.script, *settings, tuple(watches), unwatched
        )


def plan_items(
    items: Sequence[typed.ScriptItem],
    queries: Sequence[Query],
    watches: Sequence[Watches | None],
    script: typed.Script,
) -> PlannedItems:
    """The plans of some items from their normal forms; may raise `QueryError`."""
    for item, query in zip(items, queries, strict=True):
        refuse_random(query, script, item.span)
    queries_to_plan = [
        (item_watches.query if item_watches else None) or query
        for query, item_watches in zip(queries, watches, strict=True)
    ]
    plans = plan_queries(queries_to_plan, script)
    return PlannedItems(tuple(items), tuple(queries), tuple(watches), plans, script)


def program_of(
    items: Sequence[typed.ScriptItem],
    script: typed.Script,
    arguments: Sequence[str] = (),
    stored: Mapping[str, Value] | None = None,
    iteration: LoopSettings | None = None,
    *,
    watch: bool = False,
) -> Program:
    """The program of some items of a script; may raise `QueryError`.

    With `watch` the rows for which arithmetic fails are kept beside the answers.
    """
    views = views_of([item.expr for item in items], script)
    queries = [normal_form(translate(item.expr, script, views))[0] for item in items]
    watches: Sequence[Watches | None] = [None] * len(items)
    if watch:
        watches = watches_of(items, script, views)
    return plan_items(items, queries, watches, script).program(arguments, stored, iteration)


def _components(result: typed.Expr) -> tuple[typed.Expr, ...]:
    assert isinstance(result, typed.MakeTuple)
    return result.items


def _output(item: typed.ScriptItem, plan: Plan, result: typed.Expr, text: str) -> Output:
    used = used_variables(result)
    parts = tuple(part for part in plan.parts if part.variable in used)
    return Output(item.kind, item.target, parts, result, text, item)


def _stream(index: int, node: Input, evaluate: Evaluate, env: Environment) -> Stream:
    """The source of an input, its path known."""
    source, options = node.source, dict(node.source.options)
    streaming = source.streaming
    fields = (index, node.name, source, node.element, streaming, node.ledger)
    if source.host is not None and source.port is not None:
        return Stream(*fields, socket=(evaluate(source.host, env), evaluate(source.port, env)))
    if source.path is None or source.format == "registered":
        return Stream(*fields)
    path = evaluate(source.path, env)
    if path is None:
        hint = "args[i] is null where there is no such argument."
        raise DataError("R207", "the path of a source is null", hint=hint)
    return Stream(*fields, path=path, deletes=options.get("deletes"))
