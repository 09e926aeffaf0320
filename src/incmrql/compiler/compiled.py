"""A script at every stage of compilation, from its tree to the program of its streaming items.

| stage | from | to | module |
|---|---|---|---|
| parse | text | tree | `syntax` |
| include | tree | tree without includes | here |
| infer | tree | typed tree | `types` |
| check laws | typed aggregations | problems | `reference.laws` |
| translate | typed expression | terms | `algebra.translate.queries` |
| normalize | terms | normal form | `algebra.normalize.strategy` |
| plan | terms in normal form | nodes that process deltas | `plan.planner` |

Nothing here touches a disk: a `Catalog` and a function that reads an include provide everything
outside the text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from incmrql.algebra.lineage.queries import annotate
from incmrql.algebra.normalize.rewrite import RewriteStep
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.term import Query
from incmrql.algebra.translate.queries import WITHOUT_TERMS, Views, translate, views_of
from incmrql.errors import Diagnostic, QueryError, SourceText, in_text_order
from incmrql.plan.assembly import PlannedItems, Watches, plan_items, watches_of
from incmrql.plan.nodes import Plan
from incmrql.plan.planner import follows_streams, plan_query
from incmrql.plan.program import Program
from incmrql.reference import check_aggregation, new_world
from incmrql.syntax import ast
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_items
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import Collection
from incmrql.types.scope import Catalog
from incmrql.types.walk import with_sources
from incmrql.values import Bag, Value

if TYPE_CHECKING:
    from incmrql.compiler.plans import CompiledPlans


ReadInclude = Callable[[ast.Include, SourceText], SourceText]
"""Reads the file that an include names; its path is relative to the including text."""

_BATCH_KINDS: Final = ("store-value", "lineage", "debug")
"""Items that are answered once from the data present, even if they read a stream."""


@dataclass(frozen=True, eq=False)
class CompiledItem:
    """An item of a script at every stage."""

    item: typed.ScriptItem
    script: typed.Script
    shared_views: Callable[[], Views] | None = field(default=None, repr=False)
    """The views that the streaming items of the script share."""

    @cached_property
    def reads_streams(self) -> bool:
        """Whether the item reads a stream, directly or through functions and named queries."""
        return follows_streams(self.item.expr, self.script)

    @property
    def is_streaming(self) -> bool:
        """Whether the answer follows streams when the script runs."""
        return self.item.kind not in _BATCH_KINDS and self.reads_streams

    @cached_property
    def views(self) -> Views:
        """The views that the query may use: those of the program, or its own outside of it."""
        if self.shared_views is not None and self.is_streaming:
            return self.shared_views()
        return views_of([self.item.expr], self.script)

    @cached_property
    def terms(self) -> Query:
        """The query as terms of the algebra; may raise `QueryError`."""
        return translate(self.item.expr, self.script, self.views)

    @cached_property
    def without_terms(self) -> QueryError | None:
        """Why the query has no terms; None if it has."""
        try:
            self.terms  # noqa: B018 - cached for the next stage
        except QueryError as problem:
            if problem.code in WITHOUT_TERMS:
                return problem
            raise
        return None

    @cached_property
    def normalized(self) -> tuple[Query, list[RewriteStep]]:
        """The terms in normal form, and the rewrite steps that produced them."""
        return normal_form(self.terms)

    @cached_property
    def plan(self) -> Plan:
        """The plan of the query by itself; may raise `QueryError`."""
        return plan_query(self.normalized[0], self.script, self.item.span)

    @cached_property
    def watches(self) -> Watches:
        """The arithmetic of the query that is checked for failures while it follows streams."""
        return watches_of([self.item], self.script, self.views)[0]

    @property
    def unknown_stored(self) -> dict[str, Value]:
        """The values that items store, none of which is known at compile time: empty or null."""
        return {
            item.target: Bag() if isinstance(item.expr.type, Collection) else None
            for item in self.script.items
            if item.kind == "store-value"
        }

    @cached_property
    def answer_item(self) -> CompiledItem:
        """The item whose query computes the answer: for lineage and debug, the annotated query."""
        if self.item.kind not in ("lineage", "debug"):
            return self
        annotated = annotate(self.item, self.script, self.unknown_stored, _path_of).expr
        return CompiledItem(replace(self.item, expr=annotated), self.script)


def _path_of(source: typed.Source) -> str:
    path = source.path
    return str(path.value) if isinstance(path, typed.Const) else path.span.text if path else ""


@dataclass(frozen=True)
class Compiled:
    """A script at every stage; each stage is computed on first use and cached."""

    tree: ast.Script | None
    """None if the typed tree was made from plans of Spark."""
    typed: typed.Script
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Results of later layers, by layer, that are reused when the script runs again."""
    plans: CompiledPlans | None = field(default=None, repr=False)
    """What it was made from, if that were plans of Spark."""

    def with_options(self, declared: Mapping[str, Mapping[str, Any]]) -> Compiled:
        """The script with options of registered sources, by name, that are set outside the text.

        An option in the text wins over one from outside.
        """

        def with_source_options(source: typed.Source) -> typed.Source:
            options = declared.get(source.name, {}) if source.format == "registered" else {}
            merged = {**options, **dict(source.options)}
            return replace(source, options=tuple(merged.items())) if options else source

        return Compiled(self.tree, with_sources(self.typed, with_source_options), plans=self.plans)

    @cached_property
    def items(self) -> tuple[CompiledItem, ...]:
        """The items of the script, each with its own stages."""
        return tuple(
            CompiledItem(item, self.typed, lambda: self.views) for item in self.typed.items
        )

    @cached_property
    def views(self) -> Views:
        """The named queries that the streaming items share: each is planned once."""
        with deep_recursion():
            exprs = [item.item.expr for item in self.items if item.is_streaming]
            return views_of(exprs, self.typed)

    @cached_property
    def streaming(self) -> tuple[CompiledItem, ...]:
        """The items that follow streams; together they are one program when the script runs."""
        with deep_recursion():
            items = [item for item in self.items if item.is_streaming]
            return tuple(item for item in items if item.without_terms is None)

    @cached_property
    def _plans(self) -> dict[tuple[tuple[CompiledItem, ...], bool], PlannedItems]:
        return {}

    def plans_of(self, items: Sequence[CompiledItem], *, watch: bool = False) -> PlannedItems:
        """The plans of some items over the sources they share; may raise `QueryError`."""
        key = tuple(items), watch
        if key not in self._plans:
            with deep_recursion():
                queries = [item.normalized[0] for item in items]
                watches = self._watches_of(items) if watch else [None] * len(items)
                typed_items = [item.item for item in items]
                self._plans[key] = plan_items(typed_items, queries, watches, self.typed)
        return self._plans[key]

    def _watches_of(self, items: Sequence[CompiledItem]) -> list[Watches]:
        """What is watched of some items; a view that they share is watched once."""
        if all(item.views is self.views for item in items):
            return watches_of([item.item for item in items], self.typed, self.views)
        return [item.watches for item in items]

    def program(
        self,
        items: Sequence[CompiledItem],
        arguments: Sequence[str] = (),
        stored: Mapping[str, Value] | None = None,
        *,
        watch: bool = False,
    ) -> Program:
        """The program of some items; with `watch`, it also reports rows whose arithmetic fails."""
        return self.plans_of(items, watch=watch).program(arguments, stored)


def compile_script(source: SourceText, catalog: Catalog, include: ReadInclude) -> Compiled:
    """Parse and type a script and check the laws of its aggregations; raises `QueryError`."""
    with deep_recursion():
        problems: list[Diagnostic] = []
        tree = _parse_with_includes(source, include, (), problems)
        if problems:
            # Report type problems of the readable items too, so that one run shows all of them.
            problems += _type_problems(tree, catalog)
            raise QueryError(*in_text_order(problems))
        typed_script = infer_script(tree, catalog)
        problems = aggregation_problems(typed_script)
    if problems:
        raise QueryError(*problems)
    return Compiled(tree, typed_script)


def _parse_with_includes(
    source: SourceText, include: ReadInclude, outer: tuple[str, ...], problems: list[Diagnostic]
) -> ast.Script:
    """The items that parse, with includes replaced by their items; adds to `problems`."""
    script, syntax_problems = parse_items(source)
    problems += syntax_problems
    items: list[ast.Item] = []
    for item in script.items:
        if not isinstance(item, ast.Include):
            items.append(item)
            continue
        try:
            included = include(item, source)
        except QueryError as error:
            problems += error.problems
            continue
        if included.name in (*outer, source.name):
            message = f'"{item.path}" includes itself'
            problems.append(Diagnostic("P012", message, item.span, "goes round in a circle"))
            continue
        nested = _parse_with_includes(included, include, (*outer, source.name), problems)
        items += nested.items
    return ast.Script(tuple(items), span=script.span)


_UNKNOWN = ("T101", "T102", "T103", "T104", "T501")
"""Codes of unknown names: an item that did not parse may have declared the name."""


def _type_problems(tree: ast.Script, catalog: Catalog) -> list[Diagnostic]:
    """The type problems of the items that parsed, without unknown names."""
    try:
        infer_script(tree, catalog)
    except QueryError as error:
        return [problem for problem in error.problems if problem.code not in _UNKNOWN]
    return []


def aggregation_problems(script: typed.Script) -> list[Diagnostic]:
    """A problem for each user aggregation for which random trials refute the monoid laws."""
    world = new_world(script)
    problems: list[Diagnostic] = []
    for aggregation in script.aggregations.values():
        counterexample = check_aggregation(aggregation, world, random.Random(0))
        if counterexample is not None:
            message = f'the merge of "{aggregation.name}" is not associative with its zero as unit'
            hint = "The answer would depend on how the data are split; use an associative merge."
            label = counterexample
            problems.append(Diagnostic("T605", message, aggregation.span, label, hint))
    return problems
