"""What `replay` reads back by Spark jobs, read in this process: kept input and state tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from incmrql.engine.batch import OPEN_SEGMENTS, CompiledProgram, read_rows
from incmrql.engine.columns.layouts import of_rows, width
from incmrql.engine.columns.rows import Rows, to_values
from incmrql.engine.inputs import InputFile
from incmrql.engine.messages import Reading
from incmrql.engine.store.segments import OpenSegments
from incmrql.engine.store.tables import Reader, StateTable, difference, scan
from incmrql.engine.store.tables import rows_of as differing_rows
from incmrql.plan.program import Stream
from incmrql.values import Value, decode, encode, show


def net_weights(
    compiled: CompiledProgram, stream: Stream, files: Sequence[InputFile]
) -> Counter[bytes]:
    """The weight of each row of a source after some files, by its canonical bytes."""
    layout = of_rows(stream.element, packed=stream.packed)
    total: Counter[bytes] = Counter()
    for file in files:
        for rows in read_rows(compiled, file, Reading()):
            for value, weight in to_values(rows, layout):
                total[encode(value)] += weight
    return total


def ledger_differences(
    compiled: CompiledProgram,
    stream: Stream,
    files: Sequence[InputFile],
    ledger: StateTable,
    runs: Path,
    *,
    most: int,
) -> list[tuple[Value, int]]:
    """Rows of which the ledger has more (positive) or fewer than the files, at most `most`."""
    layout = of_rows(stream.element, packed=stream.packed)
    total = Counter({row: -weight for row, weight in net_weights(compiled, stream, files).items()})
    reader = Reader(runs.absolute(), OPEN_SEGMENTS)
    for bucket in range(ledger.buckets):
        content = scan(ledger, reader, bucket)
        # The row is in the last columns: a declared key comes before it.
        columns = content.columns[len(content.columns) - width(layout) :]
        for value, weight in to_values(Rows(tuple(columns), content.weights), layout):
            total[encode(value)] += weight
    differing = [(row, weight) for row, weight in sorted(total.items()) if weight]
    return [(decode(row), weight) for row, weight in differing[:most]]


def state_differences(
    kept: Mapping[str, StateTable], runs: Path, built: Mapping[str, StateTable], scratch: Path
) -> list[tuple[str, int, str]]:
    """Tables that differ from `built`: name, number of differing rows, and the first ones."""
    differences = []
    for name in sorted(kept):
        buckets = range(kept[name].buckets)
        of_buckets = [bucket_difference(name, n, (kept, runs), (built, scratch)) for n in buckets]
        rows = sum(count for count, _ in of_buckets)
        if rows:
            differences.append((name, rows, next(first for count, first in of_buckets if count)))
    return differences


def bucket_difference(
    name: str,
    bucket: int,
    kept: tuple[Mapping[str, StateTable], Path],
    built: tuple[Mapping[str, StateTable], Path],
) -> tuple[int, str]:
    """How many rows of a table differ in a bucket, and the first; each side with its folder."""
    one, other = (
        (tables[name], Reader(folder.absolute(), OpenSegments()))
        for tables, folder in (kept, built)
    )
    content = difference(one, other, bucket)
    if not len(content):
        return 0, ""
    return len(content), ", ".join(show(row, 10) for row in differing_rows(content, 3))
