"""Plans of Spark, converted and run without Spark, against other engines.

The tables of a set of texts become streams with random rows, few values of each type, and nulls.
DuckDB answers the same SQL text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final

import duckdb
import sqlglot

from incmrql.algebra import rows as build
from incmrql.algebra.normalize.strategy import normal_form
from incmrql.algebra.term import Query
from incmrql.algebra.translate.queries import translate
from incmrql.catalyst.convert import ConvertedScript, Question, convert_script
from incmrql.catalyst.nodes import AnalyzedPlan, PlanNode
from incmrql.catalyst.refusals import Refused
from incmrql.catalyst.scope import Leaves
from incmrql.catalyst.types import model_type
from incmrql.engine.compile.program import compile_program
from incmrql.plan.assembly import plan_items, program_of
from incmrql.plan.changes import Weighted
from incmrql.plan.nodes import Join, Plan, is_unit
from incmrql.plan.planner import plan_query
from incmrql.plan.program import Program
from incmrql.reference import Environment, evaluate, new_world
from incmrql.syntax.depth import deep_recursion
from incmrql.types import typed
from incmrql.types.model import NOTHING, Tuple, Type, bag
from incmrql.values import Bag, LocalTime, Months, Record, Value, identical, show
from tests.catalyst.pool import read_plans
from tests.catalyst.texts import tables, texts
from tests.engine.kernels import KernelRun
from tests.oracle.stepper import Stepper

Tables = Mapping[str, Sequence[tuple[Any, ...]]]


# --- Conversion ---


def stream_leaves(streams: Collection[str] | None = None) -> Leaves:
    """Leaves by the names of their directories: streams, and constants for local rows."""

    def rows_of(leaf: PlanNode) -> typed.Expr:
        if leaf.name != "LogicalRelation":
            return _constant(leaf)
        (path,) = leaf["relation"]["location"]["rootPaths"]
        name = str(path).rpartition("/")[2]
        row = Tuple(tuple(_type(attribute["dataType"]) for attribute in leaf["output"]))
        is_stream = streams is None or name in streams
        return typed.Read(typed.Source("registered", is_stream, None, row, name=name),
                          type=bag(row))  # fmt: skip

    return rows_of


def _constant(leaf: PlanNode) -> typed.Expr:
    """The rows of a `LocalRelation` or a `Range` of strings and numbers."""
    types = [_type(attribute["dataType"]) for attribute in leaf["output"]]
    rows = (
        leaf["data"]
        if leaf.name == "LocalRelation"
        else [(number,) for number in range(leaf["start"], leaf["end"], leaf["step"])]
    )
    tuples = [build.tuple_of(*map(_const, row, types)) for row in rows]
    return typed.MakeCollection(tuple(tuples), type=bag(Tuple(tuple(types))))


def _const(value: Any, type_: Type) -> typed.Expr:
    return typed.Const(value, type=type_)


def _type(data_type: PlanNode) -> Type:
    """The type of a column; one of nulls if we have no such type."""
    try:
        return model_type(data_type)
    except Refused:
        return NOTHING


def script_of_plan(plan: AnalyzedPlan, streams: Collection[str] | None = None) -> ConvertedScript:
    """The script that one plan is converted to."""
    return convert_script([Question(plan, stream_leaves(streams))])


@lru_cache
def plans_of(name: str) -> dict[str, AnalyzedPlan]:
    """The plans of a set of texts."""
    return read_plans(name)


def plan_of_script(script: typed.Script) -> Plan:
    """The plan of the only item of a script."""
    with deep_recursion():
        return plan_query(normal_form_of(script), script)


def normal_form_of(script: typed.Script) -> Query:
    """The normal form of the only item of a script."""
    with deep_recursion():
        return normal_form(translate(script.items[0].expr, script))[0]


def program_of_script(script: typed.Script) -> Program:
    """The program of a script, in which named queries are planned once."""
    with deep_recursion():
        return program_of(script.items, script)


def cross_products(program: Program) -> int:
    """How many joins compare all rows of both sides."""
    return sum(isinstance(node, Join) and is_unit(node.key) for node in program.nodes)


# --- Rows ---

_SOME: Final[dict[str, Sequence[Any]]] = {
    "int": (0, 1, 2, 3),
    "bigint": (0, 1, 2, 3, 4),
    "smallint": (0, 1, 2),
    "tinyint": (0, 1, 2),
    "string": ("x", "y", "z"),
    "double": (0.0, 1.5, -2.0, 3.0),
    "float": (0.0, 0.5, -2.0),
    "boolean": (True, False),
    "date": tuple(date(2024, 1, 1) + timedelta(days) for days in (0, 1, 40)),
    "binary": (b"", b"a", b"\xff\x00", b"ab"),
    "timestamp_ntz": tuple(LocalTime(2024, 1, day, hour, 30) for day, hour in ((1, 0), (2, 9))),
    "map<string,int>": tuple(
        [Record({"key": key, "value": value}) for key, value in entries]
        for entries in ((), (("a", 1),), (("b", 2), ("a", None)), (("a", 3), ("b", 1)))
    ),
    "interval year to month": tuple(map(Months, (0, 14, -7))),
    "interval day to second": tuple(
        timedelta(microseconds=count) for count in (0, 93_784_000_005, -3_600_000_000)
    ),
    "timestamp": tuple(datetime(2024, 1, 1) + timedelta(hours=hours) for hours in (0, 1, 40)),
}


def random_row(columns: str, chance: Random) -> tuple[Any, ...]:
    """A row of a table with these columns, each null in one of six rows."""
    kinds = [column.split(" ", 1)[1] for column in columns.split(", ")]
    return tuple(None if chance.random() < 1 / 6 else _random_value(kind, chance) for kind in kinds)


def _random_value(kind: str, chance: Random) -> Any:
    decimal = re.match(r"decimal\((\d+),(\d+)\)", kind)
    if decimal:
        return Decimal(chance.choice((0, 5, 10, 25, -30))).scaleb(-int(decimal[2]))
    return chance.choice(_SOME[kind])


def random_tables(name: str, chance: Random, most: int = 8) -> Tables:
    """Random rows for the tables of a set of texts."""
    return {
        table: [random_row(columns, chance) for _ in range(chance.randint(most // 2, most))]
        for table, columns in tables(name).items()
    }


# --- The reference evaluator and DuckDB ---


def reference_answer(script: typed.Script, data: Tables, expr: typed.Expr | None = None) -> Value:
    """The answer of the only item of a script, or an expression, by the reference evaluator."""
    bags = {name: Bag(rows) for name, rows in data.items()}
    with deep_recursion():
        env = Environment(new_world(script, registered=bags))
        return evaluate(expr or script.items[0].expr, env)


_DUCKDB: Final = {"string": "varchar", "tinyint": "tinyint", "binary": "blob"}


def in_duckdb(name: str, text: str, data: Tables) -> list[tuple[Any, ...]]:
    """The answer of a Spark SQL text by DuckDB."""
    connection = duckdb.connect()
    for table, columns in tables(name).items():
        parts = [column.split(" ", 1) for column in columns.split(", ")]
        types = ", ".join(f"{column} {_DUCKDB.get(kind, kind)}" for column, kind in parts)
        connection.execute(f"create table {table} ({types})")
        if data[table]:
            marks = ", ".join("?" * len(parts))
            connection.executemany(f"insert into {table} values ({marks})", list(data[table]))
    (translated,) = sqlglot.transpile(text, read="spark", write="duckdb")
    return connection.execute(translated).fetchall()


def is_close(one: Any, other: Any) -> bool:
    """Whether two values are one: numbers of any types by five digits, as averages are rounded."""
    match one, other:
        case (bool() | None, _) | (_, bool() | None):
            return one is other
        case (int() | float() | Decimal(), int() | float() | Decimal()):
            first, second = float(one), float(other)
            both_nan = math.isnan(first) and math.isnan(second)
            return both_nan or math.isclose(first, second, rel_tol=1e-5, abs_tol=1e-5)
        case (list() | tuple(), list() | tuple()):
            return len(one) == len(other) and all(map(is_close, one, other))
        case (datetime(), datetime()):
            return bool(one.replace(tzinfo=None) == other.replace(tzinfo=None))
        case _:
            return bool(one == other)


def agree(rows: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two answers have the same rows."""
    rest = list(others)
    for row in rows:
        match = next((place for place, other in enumerate(rest) if is_close(row, other)), None)
        if match is None:
            return False
        del rest[match]
    return not rest


def assert_agrees_with_duckdb(name: str, query: str, data: Tables) -> None:
    """Compare the reference evaluator's answer of a query of a set with DuckDB's."""
    answer = reference_answer(script_of_plan(plans_of(name)[query]).script, data)
    expected = in_duckdb(name, texts(name)[query], data)
    assert agree(answer, expected), f"{query}\n{show(answer)}\n{expected}\n{data}"


# --- The engine ---


def history(
    data: Tables, chance: Random, batches: int = 4
) -> list[dict[str, list[tuple[Any, int]]]]:
    """Batches that insert the rows, and delete some of them again."""
    steps: list[dict[str, list[tuple[Any, int]]]] = [{} for _ in range(batches)]
    for name, rows in data.items():
        for row in rows:
            start = chance.randrange(batches)
            steps[start].setdefault(name, []).append((row, 1))
            end = chance.randrange(2 * batches)
            if start < end < batches:
                steps[end].setdefault(name, []).append((row, -1))
    return steps


def assert_follows(script: typed.Script, data: Tables, chance: Random, folder: Path) -> None:
    """Compare stepper and engine with the reference evaluator at every batch."""
    with deep_recursion():
        query = normal_form_of(script)
        stepper = Stepper(plan_query(query, script), Environment(new_world(script)))
        program = plan_items(script.items, [query], [None], script).program()
        kernel = KernelRun(program, folder, 2, compile_program(program))
        sofar = {name: Weighted() for name in data}
        names = set(kernel.streams)
        for batch in history(data, chance):
            for name, rows in batch.items():
                sofar[name].merge(Weighted(rows))
            known = {name: rows for name, rows in batch.items() if name in names}
            change = stepper.step(known)
            (kernel_change,) = kernel.step(known)
            expected = reference_answer(script, {name: rows.bag() for name, rows in sofar.items()})
            assert identical(stepper.answer(), expected), (
                f"{show(stepper.answer())}\n{show(expected)}"
            )
            assert kernel_change == change
        assert identical(kernel.answer(), stepper.answer())
