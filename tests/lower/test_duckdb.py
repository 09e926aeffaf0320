"""Linear terms on DuckDB, the other dialect of the one lowering, against the reference."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any as Arrow

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given

from incmrql.algebra.interpret import elements
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.term import CMap, Scan, Term, Union, Values, element
from incmrql.algebra.translate.queries import translate
from incmrql.algebra.walk import terms
from incmrql.errors import QueryError, SourceText
from incmrql.io.arrow.types import arrow_type
from incmrql.io.arrow.values import plain_type, to_arrow, value_reader
from incmrql.lower.context import Context
from incmrql.lower.expressions.dispatch import lower
from incmrql.lower.relations.statements import Statement, statement
from incmrql.lower.relations.terms import may_hold_null
from incmrql.lower.tree import Dialect
from incmrql.reference import Environment, new_world
from incmrql.syntax.depth import deep_recursion
from incmrql.syntax.parser.scripts import parse_script
from incmrql.types import typed
from incmrql.types.infer.scripts import infer_script
from incmrql.types.model import Record, Type
from incmrql.values import Bag, Value, identical, show
from tests.algebra.refusals import reject_if_refused
from tests.effort import fewer
from tests.generators.queries import queries
from tests.generators.tables import CATALOG, TABLES, tables

Tables = dict[str, Bag]


def linear_parts(text: str) -> tuple[typed.Script, list[Term]]:
    """The terms of a query's normal form that keep nothing: maps and unions over sources."""
    script = infer_script(parse_script(SourceText(text)), CATALOG)
    query, _ = normal_form(translate(script.items[-1].expr, script))
    linear = [part for _, term in query.parts for part in terms(term) if _is_linear(part)]
    return script, [part for part in linear if isinstance(part, CMap | Union)]


def _is_linear(term: Term) -> bool:
    return all(isinstance(part, Scan | Values | CMap | Union) for part in terms(term))


def table_of(rows: list[Value], type_: Type, *, packed: bool) -> pa.Table:
    array = pa.array([to_arrow(row, type_) for row in rows], arrow_type(type_))
    if packed or not isinstance(type_, Record):
        return pa.table({"value": array})
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(array)])


@cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all statements: to make it takes longer than most of them."""
    return duckdb.connect(config={"threads": 1})


def run(translation: Statement, data: Tables, env: Environment) -> list[Value]:
    """The rows that DuckDB has for a statement."""
    connection = database().cursor()
    connection.execute("SET TimeZone='UTC'")
    for name, scan in translation.sources:
        packed = may_hold_null(scan.source)
        rows = table_of(data[scan.source.name], scan.element, packed=packed)
        connection.register(name, rows)
    for name, constant in translation.constants:
        connection.register(name, table_of(elements(constant, env), element(constant), packed=True))
    table: Arrow = connection.sql(translation.text).to_arrow_table()
    if table.column_names == ["value"]:
        column = table.column(0).combine_chunks()
    else:
        column = table.combine_chunks().to_struct_array().combine_chunks()
    read = value_reader(column.type, translation.element)
    return [read(value) for value in column.cast(plain_type(column.type)).to_pylist()]


def agree(text: str, data: Tables) -> int:
    """Compare all linear parts of a query; how many there were."""
    with deep_recursion():
        script, parts = linear_parts(text)
        env = Environment(new_world(script, registered=data))
        compared = 0
        for part in parts:
            translation = statement(part, Context(lower, Dialect.DUCKDB, script))
            if translation.python_calls or translation.repeats:
                continue
            expected, actual = Bag(elements(part, env)), Bag(run(translation, data, env))
            assert identical(expected, actual), (
                f"{translation.text}\n{show(expected)}\n{show(actual)}"
            )
            compared += 1
    return compared


@fewer
@given(text=queries(), data=tables())
def test_linear_parts_of_random_queries(text: str, data: Tables) -> None:
    try:
        compared = agree(text, data)
    except QueryError as problem:
        reject_if_refused(problem)
    assume(compared)


@pytest.mark.parametrize(
    "text",
    [
        "select (x.A + 1, x.C * 2.0) from x in R where x.B > 0 and x.S <> 'a'",
        "select (n.K, i.v) from n in N, i in n.items where i.w > 0.0",
        "select y from w in W, y in w.marks where y > w.id",
        "(select x.A from x in R) union (select y.A from y in S)",
        "select count(n.items) from n in N",
        "select if x.A > 0 then (x.A, 'pos') else (0, x.S) from x in R",
    ],
)
def test_shapes(text: str) -> None:
    rows = {
        "R": Bag([_record("R", A=n % 3, B=n, C=n / 4, S="ab"[n % 2]) for n in range(6)]),
        "S": Bag([_record("S", A=n, D=n / 2, T="t") for n in range(3)]),
        "N": Bag([_record("N", K=n, items=_items(n)) for n in range(4)]),
        "W": Bag([_record("W", id=n, marks=list(range(n))) for n in range(4)]),
    }
    assert agree(text, rows) > 0


def test_what_random_queries_reach() -> None:
    """The property above is about something: most linear parts have a form without Python."""
    reached: Counter[bool] = Counter()

    @fewer
    @given(text=queries())
    def look(text: str) -> None:
        try:
            script, parts = linear_parts(text)
        except QueryError:
            return
        for part in parts:
            translation = statement(part, Context(lower, Dialect.DUCKDB, script))
            reached[not translation.python_calls] += 1

    with deep_recursion():
        look()
    assert reached[True] > reached[False]


def _record(table: str, **fields: Value) -> Value:
    from incmrql.values import Record as RecordValue

    return RecordValue({name: fields.get(name) for name in TABLES[table].names})


def _items(count: int) -> Bag:
    from incmrql.values import Record as RecordValue

    return Bag([RecordValue({"v": n, "w": n - 1.0}) for n in range(count)])
