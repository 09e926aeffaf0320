"""Linear segments: rows with weights to other rows, each on its own in meaning.

`engine.compile.pipelines` compiles a segment to one of three forms: columns that are picked, a
text that DuckDB runs, or expressions that the reference evaluator goes through row by row.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from incmrql.engine.columns import pinned
from incmrql.engine.columns.layouts import Layout, column_type, leaves, rows_of, width
from incmrql.engine.columns.rows import Rows, no_rows, of_values, to_table
from incmrql.io.arrow.columns import flat
from incmrql.lower.tree import Dialect, type_text
from incmrql.reference import Environment, evaluate
from incmrql.types import typed
from incmrql.types.model import Type
from incmrql.values import Value

FEW = 4_096
"""Rows up to which DuckDB's results may be copied once more."""
MOST_STATEMENTS: Final = 1_024


@dataclass(frozen=True, slots=True)
class Picked:
    """Columns that are given on as they are, for rows in which some others are not null."""

    columns: tuple[int, ...]
    present: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pinned:
    """A function that all engines share (`pinned.py`), and the name that a text has for it.

    Without a built-in it is a conversion.
    """

    name: str
    builtin: str | None
    types: tuple[Type, ...]
    result: Type

    def apply(self, columns: list[Any]) -> Any:
        """The results of whole columns."""
        if self.builtin is None:
            return pinned.apply_cast(columns[0], self.types[0], self.result)
        return pinned.apply(self.builtin, columns, self.types, self.result)


@dataclass(frozen=True, slots=True)
class Text:
    """A text that DuckDB runs over the rows, which it knows as `given`."""

    text: str
    functions: tuple[Pinned, ...] = ()


@dataclass(frozen=True, slots=True)
class ByRow:
    """Variables that columns hold one after the other, and maps: each over the elements before."""

    given: tuple[tuple[typed.Variable, Layout], ...]
    first: typed.Expr
    then: tuple[tuple[typed.Variable, typed.Expr], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A function from rows to rows of the layout `made`."""

    how: Picked | Text | ByRow
    made: Layout
    types: tuple[Type, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", leaves(self.made))

    def apply(self, rows: Rows, env: Environment) -> Rows:
        """The rows that rows give; `env` is where expressions are evaluated."""
        if not len(rows):
            return no_rows(self.types)
        match self.how:
            case Picked():
                return _picked(self.how, rows)
            case Text():
                return _queried(self.how, rows, self.types)
            case ByRow():
                return _by_row(self.how, rows, self.made, env)


def _picked(how: Picked, rows: Rows) -> Rows:
    nulls = [place for place in how.present if rows.columns[place].null_count]
    if nulls:
        there = np.ones(len(rows), np.bool_)
        for place in nulls:
            there &= rows.columns[place].is_valid().to_numpy(zero_copy_only=False)
        rows = rows.take(there)
    return rows.pick(how.columns)


@cache
def _connection() -> Any:
    import duckdb

    connection = duckdb.connect(config={"threads": 1, **_CONFINED, "memory_limit": _most_memory()})
    connection.execute("SET TimeZone='UTC'")
    connection.execute("SET lock_configuration=true")
    return connection


_CONFINED: Final = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
}
"""A statement sees the rows that it is given: no file, no network, no extension."""


def _most_memory() -> str:
    """How much memory DuckDB may take in this process: half of the machine's."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(size // 2**21, 256)}MiB"


@lru_cache(MOST_STATEMENTS)
def _statement(text: str) -> Any:
    """A text, parsed."""
    (found,) = _connection().extract_statements(text)
    return found


@cache
def _known(function: Pinned) -> None:
    """Make a function known to DuckDB, once."""

    def called(*columns: Any) -> Any:
        return function.apply([flat(column) for column in columns])

    types = [type_text(type_, Dialect.DUCKDB) for type_ in function.types]
    result = type_text(function.result, Dialect.DUCKDB)
    _connection().create_function(
        function.name, called, types, result, type="arrow", null_handling="special"
    )


def _queried(how: Text, rows: Rows, types: tuple[Type, ...]) -> Rows:
    for function in how.functions:
        _known(function)
    given = to_table(rows)
    found = _few(how.text, given) if len(rows) <= FEW else _many(how.text, given)
    columns = [
        _cast(flat(column), column_type(type_))
        for column, type_ in zip(found.columns[:-1], types, strict=True)
    ]
    return Rows(tuple(columns), flat(found.columns[-1]).to_numpy(zero_copy_only=False))


def _few(text: str, given: Any) -> Any:
    """What a text makes of few rows: it is parsed once.

    This is faster than the way of many rows, in which no result is copied; DuckDB warns of the
    copy. The rows are registered: finding them by the name of a variable counts as access to the
    outside, which is off. The next ones take their place, so that these need not be let go.
    """
    connection = _connection()
    connection.register("given", given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return connection.execute(_statement(text)).to_arrow_table()


def _many(text: str, given: Any) -> Any:
    connection = _connection()
    connection.register("given", given)
    try:
        return connection.sql(text).to_arrow_table()
    finally:
        connection.unregister("given")


def _cast(column: Any, wanted: Any) -> Any:
    return column if column.type == wanted else column.cast(wanted)


def _by_row(how: ByRow, rows: Rows, made: Layout, env: Environment) -> Rows:
    bound: list[tuple[typed.Variable, list[Value]]] = []
    start = 0
    for variable, layout in how.given:
        stop = start + width(layout)
        bound.append((variable, rows_of(rows.columns[start:stop], layout, len(rows))))
        start = stop
    found: list[tuple[Value, int]] = []
    for place, weight in enumerate(rows.weights.tolist()):
        inner = env.extend({variable.number: values[place] for variable, values in bound})
        elements = list(evaluate(how.first, inner) or ())
        for variable, body in how.then:
            elements = [
                e for each in elements for e in evaluate(body, env.bind(variable, each)) or ()
            ]
        found += [(element, weight) for element in elements]
    return of_values(found, made)
