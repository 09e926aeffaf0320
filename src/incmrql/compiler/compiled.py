"""A script in every form it goes through, from its tree to the program of its streaming items.

| stage | from | to | module |
|---|---|---|---|
| parse | text | tree | `syntax` |
| include | tree | tree without includes | here |
| infer | tree | typed tree | `types` |
| check laws | typed aggregations | problems | `reference.laws` |
| translate | typed expression | terms | `algebra.translate.queries` |
| normalize | terms | normal form | `algebra.normalize.strategy` |
| plan | terms in normal form | nodes that follow changes | `plan.planner` |

Nothing here touches a disk: what lies outside the text comes in through a `Catalog` and a
function that reads an include.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from incmrql.algebra.lineage.queries import annotate
from incmrql.algebra.normalize.rewrite import Step
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.term import Query
from incmrql.algebra.translate.queries import translate
from incmrql.errors import Diagnostic, QueryError, SourceText, in_text_order
from incmrql.plan.assembly import PlannedItems, Watches, plan_items, watches_of
from incmrql.plan.nodes import Plan
from incmrql.plan.planner import follows_streams, plan_query
from incmrql.plan.program import Program
from incmrql.reference import check_aggregation, new_world
from incmrql.syntax import ast
from incmrql.syntax.depth import room
from incmrql.syntax.parser.scripts import parse_items
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import Collection
from incmrql.types.scope import Catalog
from incmrql.types.walk import with_sources
from incmrql.values import Bag, Value

ReadInclude = Callable[[ast.Include, SourceText], SourceText]
"""The text that an include names, seen from the text that holds it."""

_NO_TERMS: Final = ("A001", "A002")
"""Problems of queries that can be answered, but have no terms, and so no plan."""
_ANSWERED_ONCE: Final = ("store-value", "lineage", "debug")
"""Items that are answered once, from what is there, even if they read a stream."""


@dataclass(frozen=True, eq=False)
class CompiledItem:
    """An item of a script at every stage."""

    item: typed.ScriptItem
    script: typed.Script

    @cached_property
    def reads_streams(self) -> bool:
        """Whether the item reads a stream, itself or through what it calls and names."""
        return follows_streams(self.item.expr, self.script)

    @property
    def is_streaming(self) -> bool:
        """Whether the answer follows streams when the script runs."""
        return self.item.kind not in _ANSWERED_ONCE and self.reads_streams

    @cached_property
    def terms(self) -> Query:
        """The query as terms of the algebra; may raise `QueryError`."""
        return translate(self.item.expr, self.script)

    @cached_property
    def without_terms(self) -> QueryError | None:
        """Why the query has no terms; None if it has."""
        try:
            self.terms  # noqa: B018 - kept for the next stage
        except QueryError as problem:
            if problem.code in _NO_TERMS:
                return problem
            raise
        return None

    @cached_property
    def normalized(self) -> tuple[Query, list[Step]]:
        """The terms in normal form, and the steps that led there."""
        return normal_form(self.terms)

    @cached_property
    def plan(self) -> Plan:
        """The plan of the query by itself; may raise `QueryError`."""
        return plan_query(self.normalized[0], self.script, self.item.span)

    @cached_property
    def watches(self) -> Watches:
        """The arithmetic of the query that is watched while it follows streams."""
        return watches_of(self.item, self.script)

    @cached_property
    def asked(self) -> CompiledItem:
        """The item that is answered: of `lineage` and `debug` the query with its notes.

        Nothing is stored yet, so that stored collections stand there as empty ones.
        """
        if self.item.kind not in ("lineage", "debug"):
            return self
        stored = {
            each.target: Bag() if isinstance(each.expr.type, Collection) else None
            for each in self.script.items
            if each.kind == "store-value"
        }
        noted = annotate(self.item, self.script, stored, _path_of).expr
        return CompiledItem(replace(self.item, expr=noted), self.script)


def _path_of(source: typed.Source) -> str:
    path = source.path
    return str(path.value) if isinstance(path, typed.Const) else path.span.text if path else ""


@dataclass(frozen=True)
class Compiled:
    """A script in every form it goes through; each is made when it is asked for, and once."""

    tree: ast.Script
    typed: typed.Script
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What later layers keep with it, for when the same script is run again."""

    def with_options(self, declared: Mapping[str, Mapping[str, Any]]) -> Compiled:
        """The script with options that are declared of registered sources, by name, beside it."""

        def with_declared(source: typed.Source) -> typed.Source:
            options = declared.get(source.name, {}) if source.format == "registered" else {}
            own = {**options, **dict(source.options)}
            return replace(source, options=tuple(own.items())) if options else source

        return Compiled(self.tree, with_sources(self.typed, with_declared))

    @cached_property
    def items(self) -> tuple[CompiledItem, ...]:
        """Its items, each at every stage."""
        return tuple(CompiledItem(item, self.typed) for item in self.typed.items)

    @cached_property
    def streaming(self) -> tuple[CompiledItem, ...]:
        """The items that make one program when the script runs: those that follow streams."""
        with room():
            items = [each for each in self.items if each.is_streaming]
            return tuple(each for each in items if each.without_terms is None)

    @cached_property
    def _plans(self) -> dict[tuple[tuple[CompiledItem, ...], bool], PlannedItems]:
        return {}

    def plans_of(self, items: Sequence[CompiledItem], *, watch: bool = False) -> PlannedItems:
        """The plans of some items over the sources they share; may raise `QueryError`."""
        key = tuple(items), watch
        if key not in self._plans:
            with room():
                queries = [each.normalized[0] for each in items]
                watches = [each.watches if watch else None for each in items]
                asked = [each.item for each in items]
                self._plans[key] = plan_items(asked, queries, watches, self.typed)
        return self._plans[key]

    def program(
        self,
        items: Sequence[CompiledItem],
        arguments: Sequence[str] = (),
        stored: Mapping[str, Value] | None = None,
        *,
        watch: bool = False,
    ) -> Program:
        """The program of some items; with `watch`, of the rows too for which arithmetic fails."""
        return self.plans_of(items, watch=watch).program(arguments, stored)


def compile_script(source: SourceText, catalog: Catalog, include: ReadInclude) -> Compiled:
    """A typed script whose aggregations keep their laws, from its text; raises `QueryError`."""
    with room():
        problems: list[Diagnostic] = []
        tree = _parsed(source, include, (), problems)
        if problems:
            problems += _wrong_anyway(tree, catalog)
            raise QueryError(*in_text_order(problems))
        typed_script = infer_script(tree, catalog)
        problems = aggregation_problems(typed_script)
    if problems:
        raise QueryError(*problems)
    return Compiled(tree, typed_script)


def _parsed(
    source: SourceText, include: ReadInclude, outer: tuple[str, ...], problems: list[Diagnostic]
) -> ast.Script:
    """The items that can be read, those of includes in their places; adds to the problems."""
    script, found = parse_items(source)
    problems += found
    items: list[ast.Item] = []
    for item in script.items:
        if not isinstance(item, ast.Include):
            items.append(item)
            continue
        try:
            inner = include(item, source)
        except QueryError as error:
            problems += error.problems
            continue
        if inner.name in (*outer, source.name):
            message = f'"{item.path}" includes itself'
            problems.append(Diagnostic("P012", message, item.span, "goes round in a circle"))
            continue
        items += _parsed(inner, include, (*outer, source.name), problems).items
    return ast.Script(tuple(items), span=script.span)


_UNKNOWN = ("T101", "T102", "T103", "T104", "T501")
"""Problems with a name: an item that could not be read may have declared it."""


def _wrong_anyway(tree: ast.Script, catalog: Catalog) -> list[Diagnostic]:
    """The type problems of the items that could be read, whatever the others say."""
    try:
        infer_script(tree, catalog)
    except QueryError as error:
        return [problem for problem in error.problems if problem.code not in _UNKNOWN]
    return []


def aggregation_problems(script: typed.Script) -> list[Diagnostic]:
    """A problem for each user aggregation whose merge a random trial proves not to be a monoid."""
    world = new_world(script)
    problems: list[Diagnostic] = []
    for aggregation in script.aggregations.values():
        found = check_aggregation(aggregation, world, random.Random(0))
        if found is not None:
            message = f'the merge of "{aggregation.name}" is not associative with its zero as unit'
            hint = "The answer would depend on how the data are split; use an associative merge."
            problems.append(Diagnostic("T605", message, aggregation.span, found, hint))
    return problems
