"""Spark's analysed plans on their way to a program: the second way in, beside the text of a script.

A `PlanScript` is plain data.  A checkpoint keeps it as JSON, so that its program is made again
without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from incmrql.catalyst import AnalyzedPlan, analyzed_from_json, analyzed_to_json
from incmrql.catalyst.computed import OpaqueColumn
from incmrql.catalyst.convert import ConvertedQuery, Question, convert_script
from incmrql.catalyst.leaves import Leaves, OnModified, leaf_key, leaves_of, takes_columns
from incmrql.catalyst.nodes import PlanNode
from incmrql.catalyst.opaque import OpaquePlan, with_opaque_columns
from incmrql.compiler.compiled import Compiled
from incmrql.errors import QueryError, SourceText, Span
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.types.infer.scripts import type_from_text
from incmrql.types.model import Type, bag

DATAFRAME: Final = "<DataFrame>"
"""The origin of a query that has no text of its own."""


@dataclass(frozen=True, slots=True)
class SessionSource:
    """A stream of a session, or data that are registered there."""

    row: Type
    streaming: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    is_view: bool = False
    """Whether it is a query of the same program, whose rows are named by its `view_key`."""

    def rows(self, name: str) -> typed.Expr:
        """Its rows in the typed tree."""
        if self.is_view:
            return typed.Global(view_key(name), type=bag(self.row))
        options = tuple(self.options.items())
        source = typed.Source(
            "registered", self.streaming, None, self.row, name=name, options=options
        )
        return typed.Read(source, type=bag(self.row))


def view_key(name: str) -> str:
    """The key of the named query that has the rows of a view."""
    return f"{name}@view"


def view_name(key: str) -> str:
    """The name of the view whose rows a named query has."""
    return key.removesuffix("@view")


def sources_to_json(sources: Mapping[str, SessionSource]) -> dict[str, Any]:
    """Sources for a checkpoint."""
    return {
        name: {
            "type": str(source.row),
            "streaming": source.streaming,
            "options": dict(source.options),
            **({"view": True} if source.is_view else {}),
        }
        for name, source in sources.items()
    }


def sources_of_json(saved: Mapping[str, Any]) -> dict[str, SessionSource]:
    """The sources that a checkpoint has kept."""
    return {
        name: SessionSource(
            type_from_text(source["type"]),
            source["streaming"],
            _options(source["options"]),
            source.get("view", False),
        )
        for name, source in saved.items()
    }


def _options(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a source; JSON has no tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in saved.items()
    }


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What the user says of the inputs of a query; leaves are given by their numbers."""

    sources: Mapping[str, SessionSource] = field(default_factory=dict)
    """Those of the session, by name."""
    replaced: Mapping[int, str] = field(default_factory=dict)
    """The names of sources that stand for leaves."""
    static: frozenset[int] = frozenset()
    """The leaves that do not change."""
    static_paths: frozenset[str] = frozenset()
    """The same by paths and names of tables."""
    on_modified: OnModified = "refuse"

    def leaves(self, settings: Mapping[str, str], label: str) -> Leaves:
        """What the leaves of a plan stand for that was analysed with some settings.

        The label tells the queries of a script apart.
        """
        return Leaves(
            {name: source.rows(name) for name, source in self.sources.items()},
            self.replaced,
            self.static,
            self.static_paths,
            self.on_modified,
            settings,
            label,
        )

    def as_json(self) -> dict[str, Any]:
        """The inputs for a checkpoint."""
        return {
            "sources": sources_to_json(self.sources),
            "replaced": [[number, name] for number, name in self.replaced.items()],
            "static": sorted(self.static),
            "static_paths": sorted(self.static_paths),
            "on_modified": self.on_modified,
        }

    @staticmethod
    def of_json(saved: Mapping[str, Any]) -> PlanInputs:
        """The inputs that a checkpoint has kept."""
        return PlanInputs(
            sources_of_json(saved["sources"]),
            dict(saved["replaced"]),
            frozenset(saved["static"]),
            frozenset(saved["static_paths"]),
            saved["on_modified"],
        )


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """A query of Spark's that has an answer."""

    analyzed: AnalyzedPlan
    origin: str
    """The file of its SQL text, or what stands for one."""
    inputs: PlanInputs = field(default_factory=PlanInputs)
    name: str = ""
    """The name of the view that it is; empty if it has none."""
    length: int = 0
    """The length of its own text, with which that of its plan begins; 0 if that is not known."""

    @property
    def span(self) -> Span:
        """Its text; of a DataFrame, which has none, its columns."""
        text = self.analyzed.text if self.origin != DATAFRAME else ""
        text = text or f"DataFrame[{', '.join(self.columns)}]"
        own = text[: self.length or None] if self.origin != DATAFRAME else text
        source = SourceText(text, self.origin)
        return Span(source, len(own) - len(own.lstrip()), len(own.rstrip()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the answer."""
        return tuple(column["name"] for column in self.analyzed.schema["fields"])

    def as_json(self) -> dict[str, Any]:
        """The query for a checkpoint."""
        analyzed = json.loads(analyzed_to_json(self.analyzed))
        inputs = self.inputs.as_json()
        query = {"analyzed": analyzed, "origin": self.origin, "inputs": inputs, "name": self.name}
        return {**query, "length": self.length}

    @staticmethod
    def of_json(saved: Mapping[str, Any]) -> PlanQuery:
        """The query that a checkpoint has kept."""
        analyzed = analyzed_from_json(json.dumps(saved["analyzed"]))
        inputs = PlanInputs.of_json(saved["inputs"])
        length = saved.get("length", 0)  # earlier versions did not know it
        return PlanQuery(analyzed, saved["origin"], inputs, saved["name"], length)


@dataclass(frozen=True, slots=True)
class PlanScript:
    """Queries of Spark's that are one program."""

    queries: tuple[PlanQuery, ...]

    def as_json(self) -> list[dict[str, Any]]:
        """The script for a checkpoint."""
        return [query.as_json() for query in self.queries]

    @staticmethod
    def of_json(saved: list[Mapping[str, Any]]) -> PlanScript:
        """The script that a checkpoint has kept."""
        return PlanScript(tuple(map(PlanQuery.of_json, saved)))


@dataclass(frozen=True, slots=True)
class CompiledPlans:
    """What a typed tree was made from, and how its sources stand for the leaves of the plans."""

    script: PlanScript
    leaf_sources: tuple[Mapping[int, typed.Source], ...]
    """For each query, the sources that stand for leaves, by their numbers."""
    local_rows: Mapping[str, tuple[int, int]]
    """Registered sources whose rows are those of a leaf: the numbers of its query and its own."""
    notes: tuple[str, ...]
    """What the user should know."""
    opaque: tuple[Sequence[OpaqueColumn], ...] = ()
    """For each query, what Spark evaluates when a row is inserted; empty if there is nothing."""
    leaf_views: tuple[Mapping[int, str], ...] = ()
    """For each query, the views of the program that stand for leaves, by their numbers."""


def compile_plans(script: PlanScript) -> Compiled:
    """Convert the plans of a script; raises `QueryError` with every reason why it is refused."""
    leaves = _leaves(script)
    questions = [
        Question(query.analyzed, leaves_of_query.input_of, query.origin)
        for query, leaves_of_query in zip(script.queries, leaves, strict=True)
    ]
    opaque: Sequence[OpaquePlan] = ()
    try:
        converted = convert_script(questions)
    except QueryError:
        opaque = [_with_opaque_columns(*pair) for pair in zip(script.queries, leaves, strict=True)]
        if not any(kept.columns for kept in opaque):
            raise
        leaves = _leaves(script)  # without the notes of the first attempt
        plans = [
            replace(query.analyzed, plan=kept.plan)
            for query, kept in zip(script.queries, opaque, strict=True)
        ]
        script_questions = zip(plans, leaves, script.queries, strict=True)
        converted = convert_script(
            [Question(plan, kept.input_of, query.origin) for plan, kept, query in script_questions]
        )
    items = tuple(map(_item, converted.script.items, converted.queries, script.queries))
    read = [kept.plan for kept in opaque] or [query.analyzed.plan for query in script.queries]
    leaf_rows = [_leaf_rows(*pair) for pair in zip(read, leaves, strict=True)]
    sources = tuple(
        {leaf: rows.source for leaf, rows in bags.items() if isinstance(rows, typed.Read)}
        for bags in leaf_rows
    )
    views = tuple(
        {leaf: view_name(rows.key) for leaf, rows in bags.items() if isinstance(rows, typed.Global)}
        for bags in leaf_rows
    )
    local_rows = {
        name: (query, number)
        for query, leaves_of_query in enumerate(leaves)
        for name, number in leaves_of_query.local_rows.items()
    }
    notes = [note for leaves_of_query in leaves for note in leaves_of_query.notes]
    notes += [note for query in converted.queries for note in query.notes]
    columns = tuple(kept.columns for kept in opaque)
    compiled_plans = CompiledPlans(
        script, sources, local_rows, tuple(dict.fromkeys(notes)), columns, views
    )
    return Compiled(None, replace(converted.script, items=items), plans=compiled_plans)


def _item(item: typed.ScriptItem, converted: ConvertedQuery, query: PlanQuery) -> typed.ScriptItem:
    """An item with what is beside its tree: its text and name, its columns and their order."""
    shown_by = tuple((order.position, order.descending) for order in converted.order)
    return replace(
        item, target=query.name, span=query.span, columns=query.columns, shown_by=shown_by
    )


def _leaves(script: PlanScript) -> list[Leaves]:
    """What the leaves of each query stand for."""
    return [
        query.inputs.leaves(query.analyzed.settings, label=str(number) if number else "")
        for number, query in enumerate(script.queries)
    ]


def _with_opaque_columns(query: PlanQuery, leaves: Leaves) -> OpaquePlan:
    """A query in which what is not converted is a column of an input, where it can be one."""
    takes = partial(takes_columns, leaves)
    with deep_recursion():
        return with_opaque_columns(query.analyzed.plan, query.analyzed.settings, takes, leaf_key)


def _leaf_rows(plan: PlanNode, leaves: Leaves) -> dict[int, typed.Expr]:
    """The rows of the leaves of a plan, by their numbers."""
    return {leaf["$leaf"]: leaves.input_of(leaf) for leaf in leaves_of(plan)}


__all__ = [
    "CompiledPlans",
    "PlanInputs",
    "PlanQuery",
    "PlanScript",
    "SessionSource",
    "compile_plans",
    "sources_of_json",
    "sources_to_json",
    "view_key",
    "view_name",
]
