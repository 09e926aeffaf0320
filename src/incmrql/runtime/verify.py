"""The answers of a running program against the same queries over all of its input.

The input is what the checkpoint has taken in, read again from where it is kept; the queries run
by the engine that answers batch queries, so that nothing of what keeps answers up to date has
part in it.  Answers are compared row by row as multisets, lists also in their order.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from incmrql.algebra import rows as build
from incmrql.algebra.scope import last_number
from incmrql.algebra.scripts import annotated_item
from incmrql.engine.inputs import InputFile
from incmrql.engine.loops.operator import LoopOp
from incmrql.engine.store.tables import StateTable
from incmrql.errors import DataError, DifferenceFound, InternalError, QueryError
from incmrql.plan.program import Output, Program, Stream
from incmrql.reference import Environment, evaluate, new_world
from incmrql.runtime.driver import Driver
from incmrql.runtime.replay import ledger_differences, net_rows, state_differences
from incmrql.runtime.report import Verified
from incmrql.spark.batch.scripts import Engine
from incmrql.types import typed
from incmrql.types.model import BOOL, Collection
from incmrql.values import Value, decode, encode, show

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from incmrql.spark.packing import PickledObject


MOST_NAMED = 10
"""Differing rows that are named."""
MOST_EXPLAINED = 3
"""Differing rows whose sources are looked for."""
_MOST_SOURCES = 10
_WIDEST = 200


def verify(driver: Driver, spark: SparkSession) -> Verified:
    """Compare all answers of a program with those over everything it has taken in.

    Raises `DifferenceFound`; or `DataError` if some of the input is no longer there.
    """
    if driver.options.iterate == "diffuse" and _loops(driver):
        message = "loops of this run diffuse: its answer is an approximation, with a stated error"
        hint = "Run it with --iterate exact and another checkpoint to have it compared."
        raise DataError("R313", message, hint=hint)
    start = time.perf_counter()
    kept = _kept(driver, spark)
    engine = Engine(kept.env.world, lambda: spark, override=kept.frame)
    rows = 0
    for number, output in enumerate(driver.program.outputs):
        if not driver.compiled.physical.answers[number].is_kept:
            continue
        item = output.item
        query = engine.query(item.expr)
        if query is None:
            raise InternalError("a query that follows streams reads no source")
        wanted = _elements(engine.value(query), output)
        found = _elements(driver.answer(number), output)
        rows += len(wanted)
        _compare(driver, engine, item, wanted, found)
    for stream in driver.program.streams:
        _check_ledger(driver, kept, stream)
    _check_state(driver, kept)
    return Verified(driver.state.number, rows, time.perf_counter() - start)


# --- the same query over kept input --------------------------------------------------------


def _kept(driver: Driver, spark: SparkSession) -> _Kept:
    program = driver.program
    stored = dict(program.stored)
    world = new_world(program.script, arguments=list(program.arguments), stored=stored)
    world.paths = driver.compiled.paths  # kept copies stand for the paths that the script names
    files, compiled = driver.ingested_files(), driver.job.sent.content
    return _Kept(program, files, compiled, spark, Environment(world))


@dataclass(frozen=True, slots=True)
class _Kept:
    """The sources of a program, and the files that were taken in of each."""

    program: Program
    files: Sequence[InputFile]
    compiled: PickledObject
    spark: SparkSession
    env: Environment

    def frame(self, source: typed.Source, path: str | None, packed: bool) -> DataFrame | None:
        """The rows of a source as the batches so far have left them."""
        stream = self.stream(source, path)
        files = self.files_of(stream)
        return net_rows(self.spark, self.compiled, stream, files, packed=packed)

    def files_of(self, stream: Stream) -> list[InputFile]:
        """The files that were taken in of a source."""
        return [file for file in self.files if file.place == stream.place]

    def stream(self, source: typed.Source, path: str | None) -> Stream:
        """The source of the program that a source of the query is."""
        socket = None
        if source.host is not None and source.port is not None:
            socket = evaluate(source.host, self.env), evaluate(source.port, self.env)
        for stream in self.program.streams:
            same = (stream.path, stream.socket) == (path, socket)
            if same and _plain(stream.source) == _plain(source):
                return stream
        raise InternalError(f"{source.name or path} is no source of the program")


def _plain(source: typed.Source) -> typed.Source:
    """What a source says of its rows; what is declared of a registered one is declared once."""
    options = () if source.format == "registered" else source.options
    return replace(source, path=None, host=None, port=None, options=options)


# --- what differs --------------------------------------------------------------------------


def _elements(value: Value, output: Output) -> list[Value]:
    """The rows of an answer; one that is a value, or null, is one row."""
    rows = isinstance(output.result.type, Collection) and isinstance(value, list)
    return list(value) if rows else [value]


def _compare(
    driver: Driver,
    engine: Engine,
    item: typed.ScriptItem,
    wanted: Sequence[Value],
    found: Sequence[Value],
) -> None:
    """Refuse an answer that has other rows, or has them in another order."""
    right, kept = Counter(map(encode, wanted)), Counter(map(encode, found))
    missing, extra = right - kept, kept - right
    ordered = isinstance(item.expr.type, Collection) and item.expr.type.kind == "list"
    if missing or extra:
        raise _difference(driver, engine, item, missing, extra)
    if ordered and list(map(encode, wanted)) != list(map(encode, found)):
        pairs = enumerate(zip(wanted, found, strict=True), 1)
        place, rows = next((n, rows) for n, rows in pairs if encode(rows[0]) != encode(rows[1]))
        message = (
            f"{_about(driver)} has its rows in another order: row {place} is {_shown(rows[1])}, "
            f"and should be {_shown(rows[0])}"
        )
        raise DifferenceFound(message, driver.state.number)


def _check_ledger(driver: Driver, kept: _Kept, stream: Stream) -> None:
    """Refuse a ledger that does not have the rows that were taken in."""
    ledger = driver.state.tables.get(f"l{stream.place}")
    if ledger is None:
        return
    runs, files = driver.checkpoint.runs, kept.files_of(stream)
    found = ledger_differences(
        kept.spark, kept.compiled, stream, files, ledger, runs, most=MOST_NAMED
    )
    if found:
        extra = tuple((row, count) for row, count in found if count > 0)
        missing = tuple((row, -count) for row, count in found if count < 0)
        lines = [f"the ledger of {stream.name} after batch {driver.state.number} is not its rows"]
        lines += [*_listed("missing", missing), *_listed("too many", extra)]
        raise DifferenceFound("\n".join(lines), driver.state.number, missing, extra)


def _check_state(driver: Driver, kept: _Kept) -> None:
    """Refuse state that is not what all input at once builds: it may spoil answers to come."""
    if driver.options.window:
        return
    scratch = driver.checkpoint.work / f"verify-{uuid.uuid4().hex[:8]}"
    scratch.mkdir(parents=True)
    try:
        built = driver.build_state(kept.files, scratch)
        runs = driver.checkpoint.runs
        own = _incomparable(driver, built)
        tables = {name: table for name, table in driver.state.tables.items() if name not in own}
        found = state_differences(kept.spark, tables, runs, built, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if found:
        number = driver.state.number
        lines = [f"the state after batch {number} is not what all data build"]
        lines += [
            f"table {name} differs in {rows} row{'s' if rows > 1 else ''}: {first}"
            for name, rows, first in found
        ]
        raise DifferenceFound("\n".join(lines), number)


def _loops(driver: Driver) -> list[LoopOp]:
    return [step for step in driver.compiled.physical.steps if isinstance(step, LoopOp)]


def _incomparable(driver: Driver, built: Mapping[str, StateTable]) -> set[str]:
    """The tables that tell how a loop was kept up to now, and not what its data are."""
    found: set[str] = set()
    for step in _loops(driver):
        own = {name for name, _ in step.state_tables} - {*step.tables, step.result}
        exact = step.numbered is not None and all(
            any(tables[name].rows for name, _ in step.numbered.differences)
            for tables in (driver.state.tables, built)
        )
        found |= {step.counters[0]} if exact else own
    return found


def _about(driver: Driver) -> str:
    return f"the answer after batch {driver.state.number}"


def _difference(
    driver: Driver,
    engine: Engine,
    item: typed.ScriptItem,
    missing: Counter[bytes],
    extra: Counter[bytes],
) -> DifferenceFound:
    absent, surplus = _named(missing), _named(extra)
    first = [row for row, _ in (*absent, *surplus)][:MOST_EXPLAINED]
    sources = _lineage(driver, engine, item, first)
    lines = [f"{_about(driver)} is not the answer over all data"]
    lines += _listed("missing", absent, len(missing))
    lines += _listed("too many", surplus, len(extra))
    for row, made_from in sources:
        known = f"{_shown(row)} comes from"
        lines.append(known if made_from else f"nothing makes {_shown(row)}")
        lines += [f"  {name}: {_shown(value)}" for name, value in made_from[:_MOST_SOURCES]]
        if len(made_from) > _MOST_SOURCES:
            lines.append(f"  and {len(made_from) - _MOST_SOURCES} more")
    return DifferenceFound("\n".join(lines), driver.state.number, absent, surplus, sources)


def _named(rows: Counter[bytes]) -> tuple[tuple[Value, int], ...]:
    first = sorted(rows.items())[:MOST_NAMED]
    return tuple((decode(row), count) for row, count in first)


def _listed(what: str, named: Sequence[tuple[Value, int]], everything: int = 0) -> list[str]:
    lines = [f"{what}: {_shown(row)}" + (f", {n} times" if n > 1 else "") for row, n in named]
    if everything > len(named):
        lines.append(f"{what}: {everything - len(named)} more rows")
    return lines


def _shown(value: Value) -> str:
    text = show(value, 20)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."


# --- where rows should come from -----------------------------------------------------------


def trace(
    driver: Driver,
    spark: SparkSession,
    rows: Sequence[Value] | None,
    kind: Literal["lineage", "debug"],
    number: int = 0,
) -> list[Value]:
    """What `lineage` or `debug` tells of rows of an answer, or of all, over all input so far.

    May raise `QueryError` where that is no query, and `DataError` where input is gone.
    """
    kept = _kept(driver, spark)
    engine = Engine(kept.env.world, lambda: spark, override=kept.frame)
    item = driver.program.outputs[number].item
    return _noted(driver.program, engine, item, rows, kind)


def _noted(
    program: Program,
    engine: Engine,
    item: typed.ScriptItem,
    rows: Sequence[Value] | None,
    kind: Literal["lineage", "debug"],
) -> list[Value]:
    """The rows of an answer with their notes; all, or those that are among some."""
    world = engine.world
    with annotated_item(replace(item, kind=kind), world) as noted:
        expr = noted.expr
        if rows is not None:
            expr = _only(expr, rows, last_number(program.script, expr))
            world.stored.update({_key(n): row for n, row in enumerate(rows)})
        query = engine.query(expr)
        return [] if query is None else noted.answer(engine.value(query))


def _lineage(
    driver: Driver, engine: Engine, item: typed.ScriptItem, rows: Sequence[Value]
) -> tuple[tuple[Value, tuple[tuple[str, Value], ...]], ...]:
    """Some rows with the rows of sources that make them; nothing where that cannot be asked."""
    try:
        answer = _noted(driver.program, engine, item, rows, "lineage")
    except QueryError:
        return ()
    found: dict[bytes, dict[bytes, Any]] = {encode(row): {} for row in rows}
    for row, leaves in answer:
        if encode(row) in found:
            found[encode(row)].update({encode(leaf): leaf for leaf in leaves})
    return tuple((row, tuple(found[encode(row)].values())) for row in rows)


def _key(number: int) -> str:
    return f"row {number}@verify"


def _only(expr: typed.Expr, rows: Sequence[Value], last: int) -> typed.Expr:
    """The pairs of rows and notes whose row is one of some, compared by identity."""
    assert isinstance(expr.type, Collection)
    pair = typed.Variable("pair", last + 1, expr.type.element)
    row = build.item(build.var(pair), 0)
    condition: typed.Expr = typed.Const(False, type=BOOL)
    for number in range(len(rows)):
        one = typed.Stored(_key(number), type=row.type)
        same = typed.Compare("=", build.tuple_of(row), build.tuple_of(one), type=BOOL)
        condition = typed.Logic("or", condition, same, type=BOOL)
    return build.for_each(pair, expr, build.var(pair), typed.Condition(condition))


__all__ = ["Verified", "trace", "verify"]
