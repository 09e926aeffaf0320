"""Verification: compares the answers of a program with the same queries over all of its input.

The input is everything that the checkpoint has ingested, read again from the kept files.  The
queries run as batch queries on Spark, so nothing that maintains answers takes part.  Answers are
compared row by row as multisets, lists also in their order.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from incmrql.algebra import rows as build
from incmrql.algebra.scope import last_number
from incmrql.algebra.scripts import annotated_item
from incmrql.compiler.combined import reads_plans
from incmrql.engine.loops.operator import LoopOp
from incmrql.engine.store.tables import StateTable
from incmrql.errors import DataError, DifferenceFound, QueryError
from incmrql.plan.program import Stream
from incmrql.reference import Environment, evaluate
from incmrql.runtime import local_replay, replay
from incmrql.runtime.driver import Driver
from incmrql.runtime.expected import Against, Expected, Judge, elements, with_near_rows
from incmrql.runtime.ingested import IngestedRows, ingested_rows
from incmrql.runtime.report import Verified
from incmrql.spark.batch.scripts import ScriptRunner
from incmrql.types import typed
from incmrql.types.model import BOOL, Collection
from incmrql.values import Value, decode, encode, show

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MOST_NAMED = 10
"""The most differing rows that a message names."""
MOST_EXPLAINED = 3
"""The most differing rows whose source rows are computed."""
_MOST_SOURCES = 10
_WIDEST = 200


def verify(
    driver: Driver,
    spark: SparkSession | None,
    *,
    judge: Judge | None = None,
    against: Against | None = None,
    on_notice: Callable[[str], None] = lambda _notice: None,
) -> Verified:
    """Compare all answers of a program with those over everything that it has ingested.

    `judge` runs the plans of Spark that the program was made from, if there are any; `against`
    says who computes their answers again.  Raises `DifferenceFound`; or `DataError` if some of the
    input no longer exists.
    """
    if driver.options.iterate == "diffuse" and _loops(driver):
        message = "this run uses --iterate diffuse: its answer is approximate, with an error bound"
        hint = "Run the query with --iterate exact and a new checkpoint to verify it."
        raise DataError("R313", message, hint=hint)
    start = time.perf_counter()
    kept = ingested_rows(driver, spark)
    engine = None
    if spark is not None:
        engine = ScriptRunner(kept.env.world, lambda: spark, override=kept.frame)
    computed = Expected(kept, engine, judge, against, on_notice, driver.state.number)
    rows = 0
    for number, output in enumerate(driver.program.outputs):
        if not driver.compiled.physical.answers[number].is_kept:
            continue
        item = output.item
        expected, may_be_near = computed.rows(number, output)
        actual = elements(driver.answer(number), output)
        if may_be_near:
            expected = with_near_rows(expected, actual)
        rows += len(expected)
        _compare(driver, kept, item, expected, actual)
    _check_tables(driver, kept)
    return Verified(driver.state.number, rows, time.perf_counter() - start)


def verify_rows(driver: Driver, number: int, value: Value, *, may_be_near: bool) -> int:
    """Compare an answer with one that was computed elsewhere; returns the number of its rows.

    With `may_be_near`, doubles may differ in their last digits.  Raises `DifferenceFound`.
    """
    output = driver.program.outputs[number]
    expected, actual = elements(value, output), elements(driver.answer(number), output)
    if may_be_near:
        expected = with_near_rows(expected, actual)
    _compare(driver, None, output.item, expected, actual)
    return len(expected)


def verify_state(driver: Driver, spark: SparkSession | None) -> None:
    """Compare ledgers and state with those of a rebuild over all input, and not the answers.

    Raises `DifferenceFound`.
    """
    _check_tables(driver, ingested_rows(driver, spark))


def _check_tables(driver: Driver, kept: IngestedRows) -> None:
    for stream in driver.program.streams:
        _check_ledger(driver, kept, stream)
    _check_state(driver, kept)


# --- what differs --------------------------------------------------------------------------


def _compare(
    driver: Driver,
    kept: IngestedRows | None,
    item: typed.ScriptItem,
    expected: Sequence[Value],
    actual: Sequence[Value],
) -> None:
    """Refuse an answer that has different rows, or has them in a different order.

    With `kept`, the error names the source rows that the differing rows come from.
    """
    wanted, answered = Counter(map(encode, expected)), Counter(map(encode, actual))
    missing, extra = wanted - answered, answered - wanted
    is_ordered = isinstance(item.expr.type, Collection) and item.expr.type.kind == "list"
    if missing or extra:
        raise _difference(driver, kept, item, missing, extra)
    if is_ordered and list(map(encode, expected)) != list(map(encode, actual)):
        pairs = enumerate(zip(expected, actual, strict=True), 1)
        number, rows = next((n, rows) for n, rows in pairs if encode(rows[0]) != encode(rows[1]))
        message = (
            f"{_about(driver)} has its rows in the wrong order: row {number} is "
            f"{_show_row(rows[1])}, and should be {_show_row(rows[0])}"
        )
        raise DifferenceFound(message, driver.state.number)


def _check_ledger(driver: Driver, kept: IngestedRows, stream: Stream) -> None:
    """Refuse a ledger that does not have exactly the ingested rows of its source."""
    ledger = driver.state.tables.get(f"l{stream.place}")
    if ledger is None:
        return
    runs, files = driver.checkpoint.runs, kept.files_of(stream)
    if kept.on_spark is None:
        differences = local_replay.ledger_differences(
            kept.compiled, stream, files, ledger, runs, most=MOST_NAMED
        )
    else:
        differences = replay.ledger_differences(
            *kept.on_spark, stream, files, ledger, runs, most=MOST_NAMED
        )
    if differences:
        extra = tuple((row, count) for row, count in differences if count > 0)
        missing = tuple((row, -count) for row, count in differences if count < 0)
        number = driver.state.number
        lines = [f"the ledger of {stream.name} after batch {number} does not match its input"]
        lines += [*_row_lines("missing", missing), *_row_lines("too many", extra)]
        raise DifferenceFound("\n".join(lines), driver.state.number, missing, extra)


def _check_state(driver: Driver, kept: IngestedRows) -> None:
    """Refuse state that differs from a rebuild over all input: later answers could be wrong."""
    if driver.options.window:
        return
    scratch = driver.checkpoint.work / f"verify-{uuid.uuid4().hex[:8]}"
    scratch.mkdir(parents=True)
    try:
        built = driver.build_state(kept.files, scratch)
        runs = driver.checkpoint.runs
        own = _incomparable(driver, built)
        tables = {name: table for name, table in driver.state.tables.items() if name not in own}
        if kept.on_spark is None:
            differences = local_replay.state_differences(tables, runs, built, scratch)
        else:
            spark, _ = kept.on_spark
            differences = replay.state_differences(spark, tables, runs, built, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if differences:
        number = driver.state.number
        lines = [f"the state after batch {number} differs from a rebuild over all data"]
        lines += [
            f"table {name} differs in {rows} row{'s' if rows > 1 else ''}: {first}"
            for name, rows, first in differences
        ]
        raise DifferenceFound("\n".join(lines), number)


def _loops(driver: Driver) -> list[LoopOp]:
    return [step for step in driver.compiled.physical.steps if isinstance(step, LoopOp)]


def _incomparable(driver: Driver, built: Mapping[str, StateTable]) -> set[str]:
    """The tables that depend on how a loop was maintained so far, not only on its data."""
    names: set[str] = set()
    for step in _loops(driver):
        own = {name for name, _ in step.state_tables} - {*step.tables, step.result}
        exact = step.numbered is not None and all(
            any(tables[name].rows for name, _ in step.numbered.differences)
            for tables in (driver.state.tables, built)
        )
        names |= {step.counters[0]} if exact else own
    return names


def _about(driver: Driver) -> str:
    return f"the answer after batch {driver.state.number}"


def _difference(
    driver: Driver,
    kept: IngestedRows | None,
    item: typed.ScriptItem,
    missing: Counter[bytes],
    extra: Counter[bytes],
) -> DifferenceFound:
    absent, surplus = _first_rows(missing), _first_rows(extra)
    first = [row for row, _ in (*absent, *surplus)][:MOST_EXPLAINED]
    sources = () if kept is None else _lineage(kept, item, first)
    lines = [f"{_about(driver)} is not the answer over all data"]
    lines += _row_lines("missing", absent, len(missing))
    lines += _row_lines("too many", surplus, len(extra))
    for row, leaves in sources:
        known = f"{_show_row(row)} comes from"
        lines.append(known if leaves else f"no source row produces {_show_row(row)}")
        lines += [f"  {name}: {_show_row(value)}" for name, value in leaves[:_MOST_SOURCES]]
        if len(leaves) > _MOST_SOURCES:
            lines.append(f"  and {len(leaves) - _MOST_SOURCES} more")
    return DifferenceFound("\n".join(lines), driver.state.number, absent, surplus, sources)


def _first_rows(rows: Counter[bytes]) -> tuple[tuple[Value, int], ...]:
    """The first rows in canonical order, with their weights."""
    first = sorted(rows.items())[:MOST_NAMED]
    return tuple((decode(row), count) for row, count in first)


def _row_lines(what: str, rows: Sequence[tuple[Value, int]], total: int = 0) -> list[str]:
    """A line for each row, and one for the number of rows beyond these."""
    lines = [f"{what}: {_show_row(row)}" + (f", {n} times" if n > 1 else "") for row, n in rows]
    if total > len(rows):
        lines.append(f"{what}: {total - len(rows)} more rows")
    return lines


def _show_row(value: Value) -> str:
    text = show(value, 20)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."


# --- where rows should come from -----------------------------------------------------------


def trace(
    driver: Driver,
    spark: SparkSession | None,
    rows: Sequence[Value] | None,
    kind: Literal["lineage", "debug"],
    number: int = 0,
) -> list[Value]:
    """Rows of an answer, or all of them, with their `lineage` or `debug` notes over all input.

    Raises `QueryError` if lineage is not defined for the query, and `DataError` if input is gone.
    """
    kept = ingested_rows(driver, spark)
    item = driver.program.outputs[number].item
    return _with_notes(kept, item, rows, kind)


def _with_notes(
    kept: IngestedRows,
    item: typed.ScriptItem,
    rows: Sequence[Value] | None,
    kind: Literal["lineage", "debug"],
) -> list[Value]:
    """The rows of an answer with their notes; all of them, or only the given ones."""
    program = kept.program
    by_reference = reads_plans(item, kept.program.script) or kept.on_spark is None
    world = kept.world() if by_reference else kept.env.world
    with annotated_item(replace(item, kind=kind), world) as annotated:
        expr = annotated.expr
        if rows is not None:
            expr = _only(expr, rows, last_number(program.script, expr))
            world.stored.update({_key(n): row for n, row in enumerate(rows)})
        if by_reference:  # not all of Spark's expressions have a form for batch queries
            return annotated.answer(evaluate(expr, Environment(world)))
        assert kept.on_spark is not None
        spark, _ = kept.on_spark
        engine = ScriptRunner(world, lambda: spark, override=kept.frame)
        query = engine.query(expr)
        return [] if query is None else annotated.answer(engine.value(query))


def _lineage(
    kept: IngestedRows, item: typed.ScriptItem, rows: Sequence[Value]
) -> tuple[tuple[Value, tuple[tuple[str, Value], ...]], ...]:
    """Rows with the source rows that they come from; empty if lineage is not defined."""
    try:
        answer = _with_notes(kept, item, rows, "lineage")
    except QueryError:
        return ()
    leaves_of: dict[bytes, dict[bytes, Any]] = {encode(row): {} for row in rows}
    for row, leaves in answer:
        if encode(row) in leaves_of:
            leaves_of[encode(row)].update({encode(leaf): leaf for leaf in leaves})
    return tuple((row, tuple(leaves_of[encode(row)].values())) for row in rows)


def _key(number: int) -> str:
    return f"row {number}@verify"


def _only(expr: typed.Expr, rows: Sequence[Value], last: int) -> typed.Expr:
    """The pairs (row, note) of an expression whose row is one of the given rows."""
    assert isinstance(expr.type, Collection)
    pair = typed.Variable("pair", last + 1, expr.type.element)
    row = build.item(build.var(pair), 0)
    condition: typed.Expr = typed.Const(False, type=BOOL)
    for number in range(len(rows)):
        one = typed.Stored(_key(number), type=row.type)
        same = typed.Compare("=", build.tuple_of(row), build.tuple_of(one), type=BOOL)
        condition = typed.Logic("or", condition, same, type=BOOL)
    return build.for_each(pair, expr, build.var(pair), typed.Condition(condition))


__all__ = ["Verified", "trace", "verify", "verify_rows", "verify_state"]
