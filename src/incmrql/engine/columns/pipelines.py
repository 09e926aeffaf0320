"""Linear pipelines: functions from rows with weights to rows, applied to each row by itself.

`engine.compile.pipelines` compiles a pipeline to one of three forms: a projection of columns, a
DuckDB query, or expressions that the reference evaluator applies row by row.
"""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import Parameter, Signature
from typing import Any, Final

import numpy as np

from incmrql.engine.columns import pinned
from incmrql.engine.columns.layouts import Layout, column_type, leaves, rows_of, width
from incmrql.engine.columns.rows import Rows, no_rows, of_values, to_table
from incmrql.io.arrow.columns import flat
from incmrql.io.by_row import note_by_row
from incmrql.lower.tree import Dialect, type_text
from incmrql.reference import Environment, evaluate
from incmrql.types import typed
from incmrql.types.model import Type
from incmrql.values import Value

FEW = 4_096
"""Up to this many rows, copying DuckDB's result is cheaper than parsing the query again."""
MAX_STATEMENTS: Final = 1_024


@dataclass(frozen=True, slots=True)
class Projection:
    """A selection of columns, of the rows in which the columns `present` are not null."""

    columns: tuple[int, ...]
    present: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PinnedFunction:
    """A function that all engines share (`pinned.py`), under the name that a query calls it by.

    Without a built-in it is an expression over parameters, or else a conversion.
    """

    name: str
    builtin: str | None
    types: tuple[Type, ...]
    result: Type
    parameters: tuple[typed.Variable, ...] = ()
    body: typed.Expr | None = field(default=None, compare=False)

    def apply(self, columns: list[Any]) -> Any:
        """The results of whole columns."""
        if self.body is not None:
            return pinned.apply_expression(self.parameters, self.body, columns)
        if self.builtin is None:
            return pinned.apply_cast(columns[0], self.types[0], self.result)
        return pinned.apply(self.builtin, columns, self.types, self.result)


@dataclass(frozen=True, slots=True)
class SqlText:
    """A query that DuckDB runs over the rows, which it sees as the table `given`."""

    text: str
    functions: tuple[PinnedFunction, ...] = ()


@dataclass(frozen=True, slots=True)
class ByRow:
    """Variables, whose columns follow each other, and maps: each over the elements before it."""

    given: tuple[tuple[typed.Variable, Layout], ...]
    first: typed.Expr
    then: tuple[tuple[typed.Variable, typed.Expr], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A function from rows to rows of a layout."""

    how: Projection | SqlText | ByRow
    layout: Layout
    types: tuple[Type, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", leaves(self.layout))

    @property
    def is_by_row(self) -> bool:
        """Whether Python evaluates an expression for each row, or for each distinct one."""
        match self.how:
            case ByRow():
                return True
            case SqlText(functions=functions):
                return any(
                    function.body is not None and not pinned.has_column(function.body)
                    for function in functions
                )
            case Projection():
                return False

    def apply(self, rows: Rows, env: Environment) -> Rows:
        """The rows that the pipeline makes; `env` is the environment of its expressions."""
        if not len(rows):
            return no_rows(self.types)
        match self.how:
            case Projection():
                return _project(self.how, rows)
            case SqlText():
                return _run_query(self.how, rows, self.types)
            case ByRow():
                return _by_row(self.how, rows, self.layout, env)


def _project(how: Projection, rows: Rows) -> Rows:
    nulls = [index for index in how.present if rows.columns[index].null_count]
    if nulls:
        there = np.ones(len(rows), np.bool_)
        for index in nulls:
            there &= rows.columns[index].is_valid().to_numpy(zero_copy_only=False)
        rows = rows.take(there)
    return rows.pick(how.columns)


class _Database(threading.local):
    """DuckDB in one thread: runs of one process may have batches at the same time."""

    connection: Any = None

    def open(self) -> Any:
        """The connection of this thread."""
        if self.connection is None:
            import duckdb

            config: dict[str, Any] = {"threads": 1, **_CONFINED, "memory_limit": _memory_limit()}
            self.connection = duckdb.connect(config=config)
            self.connection.execute("SET TimeZone='UTC'")
            self.connection.execute("SET lock_configuration=true")
            self.functions: set[PinnedFunction] = set()
            self.statement = lru_cache(MAX_STATEMENTS)(self._parse)
        return self.connection

    def _parse(self, text: str) -> Any:
        (statement,) = self.connection.extract_statements(text)
        return statement


_DATABASE: Final = _Database()
_QUIET: Final = threading.Lock()
"""Held while warnings are off."""


def _connection() -> Any:
    return _DATABASE.open()


_CONFINED: Final = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "temp_directory": "",
}
"""A query sees the rows that are registered, and nothing else: no file, network or extension."""


def _memory_limit() -> str:
    """DuckDB's memory limit in this process: half of the machine's memory."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(size // 2**21, 256)}MiB"


def _register(function: PinnedFunction) -> None:
    """Register a function with DuckDB, once."""
    connection = _connection()
    if function in _DATABASE.functions:
        return

    def apply_columns(*columns: Any) -> Any:
        return function.apply([flat(column) for column in columns])

    # DuckDB counts parameters, and takes any number of them for one.
    names = [f"column{number}" for number in range(len(function.types))]
    parameters = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in names]
    apply_columns.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    types = [type_text(type_, Dialect.DUCKDB) for type_ in function.types]
    result = type_text(function.result, Dialect.DUCKDB)
    connection.create_function(
        function.name, apply_columns, types, result, type="arrow", null_handling="special"
    )
    _DATABASE.functions.add(function)


def _run_query(how: SqlText, rows: Rows, types: tuple[Type, ...]) -> Rows:
    for function in how.functions:
        _register(function)
    table = to_table(rows)
    result = _run_parsed(how.text, table) if len(rows) <= FEW else _run_uncopied(how.text, table)
    columns = [
        _cast(flat(column), column_type(type_))
        for column, type_ in zip(result.columns[:-1], types, strict=True)
    ]
    return Rows(tuple(columns), flat(result.columns[-1]).to_numpy(zero_copy_only=False))


def _run_parsed(text: str, table: Any) -> Any:
    """The result of a query over few rows; the query is parsed once and cached."""
    # For few rows this is faster than `_run_uncopied`, although DuckDB copies the result, and warns
    # of the copy. The rows are registered explicitly: finding them by the name of a Python variable
    # counts as external access, which is off. The next rows replace them, so nothing unregisters.
    connection = _connection()
    connection.register("given", table)
    with _QUIET, warnings.catch_warnings():  # filters of warnings belong to all threads
        warnings.simplefilter("ignore", UserWarning)
        return connection.execute(_DATABASE.statement(text)).to_arrow_table()


def _run_uncopied(text: str, table: Any) -> Any:
    connection = _connection()
    connection.register("given", table)
    try:
        return connection.sql(text).to_arrow_table()
    finally:
        connection.unregister("given")


def _cast(column: Any, type_: Any) -> Any:
    return column if column.type == type_ else column.cast(type_)


def _by_row(how: ByRow, rows: Rows, layout_made: Layout, env: Environment) -> Rows:
    note_by_row(len(rows))
    bound: list[tuple[typed.Variable, list[Value]]] = []
    start = 0
    for variable, layout in how.given:
        stop = start + width(layout)
        bound.append((variable, rows_of(rows.columns[start:stop], layout, len(rows))))
        start = stop
    results: list[tuple[Value, int]] = []
    for row, weight in enumerate(rows.weights.tolist()):
        inner = env.extend({variable.number: values[row] for variable, values in bound})
        elements = list(evaluate(how.first, inner) or ())
        for variable, body in how.then:
            elements = [
                e for outer in elements for e in evaluate(body, env.bind(variable, outer)) or ()
            ]
        results += [(element, weight) for element in elements]
    return of_values(results, layout_made)
