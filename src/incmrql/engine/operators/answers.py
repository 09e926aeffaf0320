"""Answers: their deltas from those of their parts, and whole answers from the state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from incmrql.engine.columns.rows import Rows, concat_rows, of_values, to_values
from incmrql.engine.compile.physical import AnswerPart, PhysicalOutput
from incmrql.engine.context import BatchContext, merge_all, rows_of, sorted_rows_of
from incmrql.engine.store.content import SortedRows
from incmrql.engine.store.ordered import ranks_of
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import scan
from incmrql.io.by_row import note_by_row
from incmrql.reference import Environment, evaluate
from incmrql.values import Bag, Value, encode


def answer_slots(answer: PhysicalOutput) -> tuple[TableSchema, ...]:
    """The schemas of the deltas that are gathered for the parts of an answer."""
    return tuple(part.schema for part in answer.parts)


def answer_gather(
    answer: PhysicalOutput, deltas: Sequence[Iterable[Rows]], env: Environment
) -> list[SortedRows]:
    """The deltas of an answer's parts, consolidated; `deltas` are those of all operators."""
    return [
        merge_all(
            part.schema, [_part_delta(part, rows, env) for rows in deltas[part.place] if len(rows)]
        )
        for part in answer.parts
    ]


def _part_delta(part: AnswerPart, rows: Rows, env: Environment) -> SortedRows:
    return sorted_rows_of(
        part.schema, rows if part.paired is None else part.paired.apply(rows, env)
    )


def answer_meet(
    answer: PhysicalOutput, changes: Sequence[SortedRows], context: BatchContext
) -> Rows:
    """The delta of an answer; deltas of parts that are kept are added to their tables.

    Rows of a list also have their positions: the old one if they go, the new one if they come.
    """
    if answer.output.part is None:
        return _value_delta(answer, changes, context)
    for part, change in zip(answer.parts, changes, strict=True):
        context.add(part.table, change)
    change = changes[answer.output.parts.index(answer.output.part)]
    if answer.row is None or answer.main is None:
        return rows_of(change)
    table = context.table(answer.main.table, answer.main.schema)
    old, new = change.take(change.weights < 0), change.take(change.weights > 0)
    positions = (
        ranks_of(table, context.reader, None, old),
        ranks_of(table, context.reader, change, new),
    )
    both = concat_rows([rows_of(old), rows_of(new)], change.schema.rest)
    return answer.row.apply(both, context.env).with_columns(pa.array(np.concatenate(positions)))


def _value_delta(
    answer: PhysicalOutput, changes: Sequence[SortedRows], context: BatchContext
) -> Rows:
    """The delta of an answer that is one value: -old +new, if they differ."""
    if not context.is_first and not any(map(len, changes)):
        return of_values([], answer.layout)
    before = [_all_rows(part, context) for part in answer.parts]
    both = zip(answer.parts, before, changes, strict=True)
    after = [merge_all(part.schema, [old, change]) for part, old, change in both]
    for part, change in zip(answer.parts, changes, strict=True):
        context.add(part.table, change)
    new = value_of(answer, after, context.env)
    if context.is_first:
        return of_values([(new, 1)], answer.layout)
    old = value_of(answer, before, context.env)
    same = encode(old) == encode(new)
    return of_values([] if same else [(old, -1), (new, 1)], answer.layout)


def _all_rows(part: AnswerPart, context: BatchContext) -> SortedRows:
    """All rows of a part before a batch."""
    buckets = range(max((table.buckets for table in context.tables.values()), default=1))
    parts = [sorted_rows_of(part.schema, part_rows(part, bucket, context)) for bucket in buckets]
    context.part_reads[part.place] += sum(map(len, parts))
    return merge_all(part.schema, parts)


def part_rows(part: AnswerPart, bucket: int, context: BatchContext) -> Rows:
    """The rows of a part in one bucket of the table that it is kept in or derived from."""
    if part.derived is None:
        return rows_of(scan(context.table(part.table, part.schema), context.reader, bucket))
    rows = part.derived.fold.bucket_rows(bucket, context)
    for pipeline in part.derived.maps:
        rows = pipeline.apply(rows, context.env)
    return rows


def value_of(answer: PhysicalOutput, contents: Sequence[SortedRows], env: Environment) -> Value:
    """The value of an answer whose parts have these rows."""
    for part, content in zip(answer.parts, contents, strict=True):
        env = env.bind(part.variable, _collection(part, content))
    return evaluate(answer.output.result, env)


def _collection(part: AnswerPart, content: SortedRows) -> Value:
    note_by_row(len(content))
    rows = to_values(rows_of(content), part.layout)
    if part.order is None:
        return Bag([value for value, weight in rows for _ in range(weight)])
    return [value for (_, value), weight in rows for _ in range(weight)]


def whole_answer(answer: PhysicalOutput, context: BatchContext) -> Value:
    """The whole answer as a value; it has to fit into memory."""
    return value_of(answer, [_all_rows(part, context) for part in answer.parts], context.env)


def bucket_rows(answer: PhysicalOutput, bucket: int, context: BatchContext) -> Rows:
    """The rows of one bucket of an answer that is a collection without order.

    Equal rows may be in several buckets if the part is derived from other state.
    """
    assert answer.main is not None
    return part_rows(answer.main, bucket, context)
