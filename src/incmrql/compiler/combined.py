"""Queries of several kinds as one program: texts of MRQL and plans of Spark, by name.

    compile_combined(queries)  =  one script: an item for each query that is answered

A query may read the *views* of the program: queries that are named, whose rows are records.  In the
typed tree these are named queries like those of a text, so they are planned once and shared.  The
variables of all queries have different numbers, since terms of one plan may not share any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from incmrql.algebra import rows as build
from incmrql.algebra.rows import Names
from incmrql.algebra.scope import SourceScope, last_number
from incmrql.compiler.compiled import Compiled, compile_script
from incmrql.compiler.load import Imports, catalog_for
from incmrql.compiler.plans import (
    PlanQuery,
    PlanScript,
    SessionSource,
    compile_plans,
    sources_of_json,
    sources_to_json,
    view_key,
)
from incmrql.errors import DataError, Diagnostic, QueryError, SourceText
from incmrql.plan.identity import Encoder
from incmrql.plan.identity.fields import Space
from incmrql.types import typed
from incmrql.types.model import Collection, bag
from incmrql.types.scope import NamedQuery


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A query of MRQL: its text, and which item of it."""

    name: str
    text: str
    item: int
    arguments: tuple[str, ...] = ()
    sources: Mapping[str, SessionSource] = field(default_factory=dict)
    """Streams, data and views that the text may use, by name."""
    origin: str = "<query>"
    """The file of the text, or what stands for one."""

    def as_json(self) -> dict[str, Any]:
        """The query for a checkpoint."""
        return {
            "name": self.name,
            "text": self.text,
            "item": self.item,
            "arguments": list(self.arguments),
            "sources": sources_to_json(self.sources),
            "origin": self.origin,
        }

    @staticmethod
    def of_json(saved: Mapping[str, Any]) -> TextQuery:
        """The query that a checkpoint has kept."""
        arguments = tuple(saved["arguments"])
        sources = sources_of_json(saved["sources"])
        return TextQuery(
            saved["name"], saved["text"], saved["item"], arguments, sources, saved["origin"]
        )


@dataclass(frozen=True, slots=True)
class CombinedQueries:
    """The queries of a program, and the names of those that are answered, in order."""

    texts: tuple[TextQuery, ...]
    plans: PlanScript
    answers: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the texts, which are the same for all."""
        given = {text.arguments for text in self.texts if text.arguments}
        if len(given) > 1:
            message = "two queries of a program have different arguments"
            raise DataError("R212", message, hint="Give all of them the same.")
        return next(iter(given), ())

    @property
    def views(self) -> set[str]:
        """The names of the queries that others may read."""
        sources = [query.sources for query in self.texts]
        sources += [query.inputs.sources for query in self.plans.queries]
        return {name for known in sources for name, source in known.items() if source.is_view}

    def as_json(self) -> dict[str, Any]:
        """The queries for a checkpoint."""
        return {
            "texts": [text.as_json() for text in self.texts],
            "plans": self.plans.as_json(),
            "answers": list(self.answers),
        }

    @staticmethod
    def of_json(saved: Mapping[str, Any]) -> CombinedQueries:
        """The queries that a checkpoint has kept."""
        return CombinedQueries(
            tuple(map(TextQuery.of_json, saved["texts"])),
            PlanScript.of_json(saved["plans"]),
            tuple(saved["answers"]),
        )


def compile_combined(
    queries: CombinedQueries,
    imports: Imports,
    functions: Mapping[str, typed.PythonFunction] | None = None,
) -> Compiled:
    """The script of several queries; raises `QueryError` or `DataError`.

    `functions` are the Python functions of the session, by name.
    """
    program = _Program(queries.views)
    plans = None
    if queries.plans.queries:
        compiled = compile_plans(queries.plans)
        plans = compiled.plans
        program.add_script(compiled.typed)
        for query, item in zip(queries.plans.queries, compiled.typed.items, strict=True):
            program.add_plan(query, item)
    for text in queries.texts:
        program.add_text(text, imports, functions or {})
    program.check()
    items = tuple(program.items[name] for name in queries.answers)
    return Compiled(None, replace(program.script, items=items), plans=plans)


_OF_PLAN: Final = "@rows"
"""The end of the key of a named query that is a query of Spark's, with tuples as rows."""


def reads_plans(item: typed.ScriptItem, script: typed.Script) -> bool:
    """Whether an item is a query of Spark's or reads one: not all of these have SQL of ours."""
    nodes = SourceScope(script).reachable(item.expr)
    return bool(item.columns) or any(
        isinstance(node, typed.Global) and node.key.endswith(_OF_PLAN) for node in nodes
    )


@dataclass(slots=True)
class _Program:
    """A script to which queries are added."""

    views: set[str]
    script: typed.Script = field(default_factory=lambda: typed.Script((), {}, {}, {}, {}, {}, {}))
    items: dict[str, typed.ScriptItem] = field(default_factory=dict)
    scripts: list[typed.Script] = field(default_factory=list)
    """The scripts that it is made of."""
    last: int = 0
    """No variable and no key of a text has a higher number."""

    def add_script(self, script: typed.Script) -> None:
        """Add the declarations of a script, and count its variables."""
        numbers = [last_number(script, item.expr) for item in script.items]
        numbers += [_number_of_key(key) for key in script.queries]
        self.last = max([self.last, *numbers])
        self.scripts.append(script)
        mine = self.script
        self.script = typed.Script(
            (),
            {**script.queries, **mine.queries},
            {**script.functions, **mine.functions},
            {**script.aggregations, **mine.aggregations},
            {**script.python, **mine.python},
            {**script.parsers, **mine.parsers},
            {**script.data, **mine.data},
            script.allowed if mine.allowed is None else mine.allowed,
        )

    def add_plan(self, query: PlanQuery, item: typed.ScriptItem) -> None:
        """Add a query of Spark, whose rows are tuples: a view has them as records."""
        if query.name in self.views:
            rows = typed.Global(f"{query.name}{_OF_PLAN}", type=item.expr.type)
            self.script.queries[rows.key] = item.expr
            self.script.queries[view_key(query.name)] = self._records(rows, query.columns)
            item = replace(item, expr=rows)
        self.items[query.name] = item

    def _records(self, rows: typed.Expr, columns: Sequence[str]) -> typed.Expr:
        assert isinstance(rows.type, Collection)
        names = Names(self.last)
        row = names.variable("row", rows.type.element)
        self.last = names.last
        fields = [(name, build.item(build.var(row), n)) for n, name in enumerate(columns)]
        return build.for_each(row, rows, build.record_of(fields))

    def add_text(
        self, text: TextQuery, imports: Imports, functions: Mapping[str, typed.PythonFunction]
    ) -> None:
        """Add a query of MRQL."""
        source = SourceText(text.text, text.origin)
        known = text.sources.items()
        catalog = replace(
            catalog_for(source, list(text.arguments), imports),
            registered={
                name: (rows.row, rows.streaming) for name, rows in known if not rows.is_view
            },
            functions=functions,
            views={
                name: NamedQuery(view_key(name), bag(rows.row), False)
                for name, rows in known
                if rows.is_view
            },
            first=self.last,
        )
        compiled = compile_script(source, catalog, imports.include)
        compiled = compiled.with_options({name: dict(rows.options) for name, rows in known})
        item = compiled.typed.items[text.item]
        if item.kind not in ("print", "incr"):
            message = f"{item.kind} is no answer of a program of several queries"
            hint = "Leave it out: start has output=, and collect() answers lineage and debug."
            raise QueryError(Diagnostic("A105", message, item.span, "of this", hint))
        self.add_script(compiled.typed)
        if text.name in self.views:
            key = view_key(text.name)
            self.script.queries[key] = item.expr
            item = replace(item, expr=typed.Global(key, type=item.expr.type))
        self.items[text.name] = replace(item, kind="incr", target=text.name, incremental=True)

    def check(self) -> None:
        """Refuse stored values, and declarations of one name that say different things."""
        for item in self.items.values():
            reachable = SourceScope(self.script).reachable(item.expr)
            if any(isinstance(node, typed.Stored) for node in reachable):
                message = "a program of several queries stores no values"
                hint = "Write x = ...; instead of store x := ...;"
                raise QueryError(
                    Diagnostic("A105", message, item.span, "uses a stored value", hint)
                )
        meanings: dict[tuple[Space, str], str] = {}
        for script in self.scripts:
            whole = replace(script, queries=self.script.queries)
            for space in _DECLARED:
                for name in getattr(script, space):
                    meaning = _declaration(whole, space, name)
                    if meanings.setdefault((space, name), meaning) != meaning:
                        message = f'two queries of the program declare "{name}", and not alike'
                        raise DataError("R212", message, hint="Give one of them another name.")


_DECLARED: Final[tuple[Space, ...]] = ("functions", "aggregations", "python", "parsers", "data")
"""What a text declares by a name that all texts of a program share."""


def _declaration(script: typed.Script, space: Space, name: str) -> str:
    """What a declared name stands for, whatever its variables are called."""
    encoder = Encoder(script)
    encoder.declare(space, name)
    return encoder.digest()


def _number_of_key(key: str) -> int:
    """The number in the key of a named query of a text; 0 if there is none."""
    number = key.rpartition("@")[2]
    return int(number) if number.isdigit() else 0


__all__ = ["CombinedQueries", "TextQuery", "compile_combined", "reads_plans"]
