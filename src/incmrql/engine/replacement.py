"""What takes readers of an output from the answer of one program to that of another.

The rows of both answers, the old ones with weight -1, are cut by bucket.  In a bucket they are
added up, so that a row in both answers is not written.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from incmrql.engine.batch import CompiledProgram, answer_rows, batch_context
from incmrql.engine.compile.physical import PhysicalOutput
from incmrql.engine.context import rows_of, sorted_rows_of
from incmrql.engine.messages import BatchRequest, Part
from incmrql.engine.outputs import write_part
from incmrql.engine.store.content import SortedRows, merge
from incmrql.engine.store.sorting import TableSchema
from incmrql.engine.store.tables import by_bucket
from incmrql.io.arrow.columns import types_of
from incmrql.types.model import LONG


def shown_schema(answer: PhysicalOutput) -> TableSchema:
    """The schema of an answer's rows as readers see them; all columns together are the key."""
    types = types_of(answer.output.element)
    return TableSchema((*types, LONG) if answer.is_placed else types)


def cut_answers(
    compiled: CompiledProgram, request: BatchRequest, places: Sequence[int], sign: int, bucket: int
) -> Iterator[tuple[int, int, SortedRows]]:
    """The rows of answers in a bucket, multiplied by `sign` and cut by their own hash.

    Yields the number of the target in `places`, the new bucket, and the rows.
    """
    context = batch_context(compiled, request, request.tables)
    for place, target in zip(places, request.targets, strict=True):
        answer = compiled.physical.answers[target.answer]
        rows = answer_rows(answer, bucket, context).times(sign)
        content = sorted_rows_of(shown_schema(answer), rows)
        for new_bucket, part in by_bucket(content, request.buckets) if len(content) else ():
            yield place, new_bucket, part


def write_differences(
    compiled: CompiledProgram,
    request: BatchRequest,
    contents: Mapping[tuple[int, int], Iterable[SortedRows]],
) -> list[Part]:
    """Write what is left of contents, by target and bucket, when equal rows are added up."""
    task = uuid.uuid4().hex[:8]
    parts = []
    for (place, bucket), pieces in contents.items():
        target = request.targets[place]
        rows = rows_of(merge(list(pieces)))
        if len(rows):
            answer, name = compiled.physical.answers[target.answer], f"part-{task}-{place}-{bucket}"
            written = write_part(Path(target.folder), name, answer, rows, target)
            parts.append(Part(place, *written))
    return parts
