"""The rows that an answer should have, computed again from all rows that were ingested.

| query | by |
|---|---|
| MRQL | the engine of batch queries, on Spark; on the local engine the reference evaluator |
| a plan of Spark | the reference evaluator; above a size, or if asked for, Spark itself |
| MRQL that reads a plan of Spark | the reference evaluator |

The reference evaluator has the same sums of doubles as the engine, to the last bit.  Spark adds up
doubles in the order in which its tasks meet them, so its rows may differ in the last digits.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from incmrql.compiler.combined import reads_plans
from incmrql.engine.local import needs_spark
from incmrql.errors import DataError, DifferenceFound, InternalError
from incmrql.plan.program import Output
from incmrql.reference import Environment, evaluate
from incmrql.runtime.ingested import IngestedRows
from incmrql.spark.batch.scripts import ScriptRunner
from incmrql.spark.opaque import different_answers
from incmrql.spark.values import packed_rows, values
from incmrql.types import typed
from incmrql.types.model import Collection
from incmrql.values import Value, encode, show

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Against: TypeAlias = Literal["reference", "spark"]
"""Who computes an answer again that has to be compared."""
RowsOfSource: TypeAlias = "Callable[[typed.Source], DataFrame]"
Judge: TypeAlias = "Callable[[int, RowsOfSource], DataFrame]"
"""Spark's own plan of an answer, by its number, over given rows of the sources."""

MOST_EVALUATED: Final = 20_000
"""Input rows up to which the reference evaluator is asked, if nobody is named."""
_SECONDS_PER_ROW: Final = 50e-6
"""What the reference evaluator takes for a row and a node of the program, measured."""
_WORTH_TELLING: Final = 2.0
TOLERANCE: Final = 1e-9
"""The relative difference of two doubles that are sums of the same doubles in different orders."""


@dataclass(slots=True)
class Expected:
    """Computes answers again from the rows that were ingested."""

    ingested: IngestedRows
    engine: ScriptRunner | None
    """The engine of batch queries; None on the local engine."""
    judge: Judge | None
    against: Against | None
    on_notice: Callable[[str], None]
    number: int = 0
    """The number of the last batch, for errors."""
    _rows: int | None = None

    def rows(self, number: int, output: Output) -> tuple[list[Value], bool]:
        """The rows of an answer; and whether doubles may differ in their last digits."""
        if not reads_plans(output.item, self.ingested.program.script):
            if self.against == "spark" and self.judge is None:
                hint = "Leave it out: MRQL is verified by the engine of batch queries, on Spark."
                raise DataError("R212", 'verify(against="spark") is for Spark plans', hint=hint)
            if self.engine is not None:
                query = self.engine.query(output.item.expr)
                if query is None:
                    raise InternalError("a query that follows streams reads no source")
                return elements(self.engine.value(query), output), False
        if self.against == "spark" and self.engine is None:
            raise needs_spark('verify(against="spark")')
        if self._asks_spark():
            return self._by_spark(number, output), True
        value = evaluate(output.item.expr, Environment(self.ingested.world()))
        return elements(value, output), False

    def _asks_spark(self) -> bool:
        """Whether Spark computes the answers again; says how long it takes otherwise."""
        if self.against == "spark":
            return True
        seconds = self._input_rows() * _SECONDS_PER_ROW * len(self.ingested.program.nodes)
        if self.against is None and self._input_rows() > MOST_EVALUATED:
            if self.judge is not None:
                return True
            message = f"the reference evaluator would take about {_duration(seconds)}"
            hint = 'Verify against Spark: run.verify(against="spark"), or --against spark.'
            if self.engine is None:
                hint = "Resume the checkpoint with the engine spark, and verify there."
            raise DataError("R314", f"{message} for {self._input_rows():,} rows", hint=hint)
        if seconds > _WORTH_TELLING:
            self.on_notice(
                f"the reference evaluator takes about {_duration(seconds)} "
                f"for {self._input_rows():,} rows"
            )
        return False

    def _by_spark(self, number: int, output: Output) -> list[Value]:
        if self.judge is None:
            hint = "Verify from the program that started it: run.verify(against='spark')."
            message = "Spark's plan is not there: the checkpoint has no SQL text to analyse again"
            raise DataError("R314", message, hint=hint)
        self._check_functions()
        frame = self.judge(number, self.ingested.rows_of)
        return values(packed_rows(frame), output.element)

    def _check_functions(self) -> None:
        """Refuse functions that answer differently now for rows that were ingested."""
        for stream in self.ingested.program.streams:
            reader = stream.source.reader
            if reader is not None and reader.computed:
                rows = self.ingested.rows(stream)
                for answer in different_answers(rows, reader):
                    message = (
                        f"{answer.shown} gave {show(answer.kept, 10)} when the row "
                        f"{show(answer.row, 10)} of {stream.name} was ingested, and gives "
                        f"{show(answer.now, 10)} now"
                    )
                    raise DifferenceFound(message, self.number)

    def _input_rows(self) -> int:
        if self._rows is None:
            ingested = self.ingested
            self._rows = sum(map(ingested.count, ingested.program.streams))
        return self._rows


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def elements(value: Value, output: Output) -> list[Value]:
    """The rows of an answer; one that is a value, or null, is one row."""
    is_collection = isinstance(output.result.type, Collection) and isinstance(value, list)
    return list(value) if is_collection else [value]


def with_near_rows(wanted: Sequence[Value], answer: Sequence[Value]) -> list[Value]:
    """The wanted rows; those that differ from one of the answer by rounding become that one."""
    spare = Counter(map(encode, answer)) - Counter(map(encode, wanted))
    by_shape: defaultdict[bytes, list[Value]] = defaultdict(list)
    for row in answer:
        if spare[encode(row)] > 0:
            spare[encode(row)] -= 1
            by_shape[encode(_without_doubles(row))].append(row)
    unmatched = Counter(map(encode, wanted)) - Counter(map(encode, answer))
    rows: list[Value] = []
    for row in wanted:
        near = None
        if unmatched[encode(row)] > 0:
            unmatched[encode(row)] -= 1
            candidates = by_shape[encode(_without_doubles(row))]
            near = next((other for other in candidates if is_near(row, other)), None)
            if near is not None:
                candidates.remove(near)
        rows.append(row if near is None else near)
    return rows


def _without_doubles(value: Any) -> Any:
    """A value in which all doubles that are numbers are the same one."""
    match value:
        case float() if math.isfinite(value):
            return 0.0
        case tuple():
            return tuple(_without_doubles(part) for part in value)
        case _:
            return value


def is_near(one: Any, other: Any) -> bool:
    """Whether two values differ at most by the rounding of sums of doubles."""
    match one, other:
        case float(), float() if math.isfinite(one) and math.isfinite(other):
            return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        case tuple(), tuple():
            return len(one) == len(other) and all(map(is_near, one, other))
        case _:
            return encode(one) == encode(other)


__all__ = [
    "MOST_EVALUATED",
    "TOLERANCE",
    "Against",
    "Expected",
    "Judge",
    "RowsOfSource",
    "elements",
    "is_near",
    "with_near_rows",
]
