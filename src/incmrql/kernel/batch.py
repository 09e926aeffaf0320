"""One batch of a program: plain functions from files and runs to new runs and answers.

    chunks   files of the change        -> tables of rows
    deltas   a table of rows            -> what it adds to each state table
    apply    deltas, the state tables   -> new runs, changes of the answer

`run_batch` composes them in one place.  For a large change the first two run in many tasks whose
deltas meet by bucket, and `apply` in as many tasks as there are groups of buckets.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from incmrql.incremental import Program
from incmrql.kernel.columns import types_of
from incmrql.kernel.content import empty, merge
from incmrql.kernel.fold import answer_changes, answer_rows, fold_delta
from incmrql.kernel.ledger import ledger_delta, missing
from incmrql.kernel.order import Applied, Deltas, Order, Share, Taken, Timing
from incmrql.kernel.output import Part, net, table_values, write_part
from incmrql.kernel.reading import InputFile, check_unchanged, checksum, read_file
from incmrql.kernel.runs import Opened, Run, write_runs
from incmrql.kernel.segments import Segment, answer_segment, linear_segment
from incmrql.kernel.table import Plan, Reader, Table, by_bucket, look_up, plan, scan
from incmrql.types.model import Type
from incmrql.values import Bag

OPENED = Opened()
"""The open maps of this process."""


def run_batch(program: Program, order: Order) -> tuple[Taken, Applied]:
    """A whole batch in one place."""
    taken, parts = take(program, order.files)
    share = Share.of(range(order.buckets))
    return taken, apply(program, order, merged(program, parts), share)


def take(program: Program, files: Iterable[InputFile]) -> tuple[Taken, list[Deltas]]:
    """All files of a change, and what they add; chunk by chunk, merged as they come."""
    segment = linear_segment(program)
    taken = Taken()
    parts: list[Deltas] = []
    for file in files:
        tables = chunks(program, file, taken)
        parts += [deltas(program, segment, table, taken) for table in tables]
    return taken, parts


def chunks(program: Program, file: InputFile, taken: Taken) -> Iterator[Any]:
    """The tables of a file; what is noticed on the way goes to `taken`."""
    start = time.perf_counter()
    before = checksum(file)
    for chunk in read_file(program, file):
        taken.note(chunk.table, chunk.bad)
        taken.seconds.read += time.perf_counter() - start
        if chunk.table.num_rows:
            yield chunk.table
        start = time.perf_counter()
    check_unchanged(file)
    taken.checksums[file.path] = before
    taken.seconds.read += time.perf_counter() - start


def deltas(program: Program, segment: Segment, table: Any, taken: Taken) -> Deltas:
    """What the rows of a table add to the node's table and to the ledger."""
    start = time.perf_counter()
    node = fold_delta(program.fold, segment.apply(table))
    stream = program.stream
    ledger = ledger_delta(stream.element, table) if stream.ledger else None
    taken.seconds.kernel += time.perf_counter() - start
    return Deltas(node, ledger)


def merged(program: Program, parts: Sequence[Deltas]) -> Deltas:
    """One change from several."""
    if not parts:
        ledger = empty(ledger_types(program)) if program.stream.ledger else None
        return Deltas(empty(program.fold.keys), ledger)
    ledgers = [part.ledger for part in parts if part.ledger is not None]
    node = merge([part.node for part in parts])
    return Deltas(node, merge(ledgers) if ledgers else None)


def apply(program: Program, order: Order, change: Deltas, share: Share) -> Applied:
    """The tables after a change, and what it does to the answer; writes new runs and parts."""
    start = time.perf_counter()
    reader = Reader(Path(order.runs), OPENED)
    OPENED.keep(reader.folder, (run for table in order.tables for run in table.runs))
    node = order.node.only(share.buckets)
    ledger = None if order.ledger is None else order.ledger.only(share.buckets)
    if ledger is not None and change.ledger is not None:
        absent = missing(program.stream.element, ledger, reader, change.ledger)
        if absent is not None:
            return Applied(node, ledger, refused=absent, buckets=share.buckets)
    answer = answer_segment(program)
    before = look_up(node, reader, change.node)
    changes = net(answer_changes(program.fold, answer, change.node, before), program.answer.element)
    plans = [plan(node, reader, change.node, order.number, share.buckets)]
    if ledger is not None and change.ledger is not None:
        plans.append(plan(ledger, reader, change.ledger, order.number, share.buckets))
    computed = time.perf_counter()
    tables = _written(order, plans, share.task)
    parts = list(_output(program, order, tables[0], changes, share))
    timing = Timing(kernel=computed - start, write=time.perf_counter() - computed)
    return Applied(
        tables[0],
        tables[1] if len(tables) > 1 else None,
        tuple(parts),
        len(change.node),
        changes.num_rows,
        sum(each.rewritten for each in plans),
        timing,
        buckets=share.buckets,
    )


def split(change: Deltas, buckets: int) -> Iterator[tuple[int, Deltas]]:
    """A change cut by bucket; buckets without a change are left out."""
    ledgers = dict(by_bucket(change.ledger, buckets)) if change.ledger is not None else {}
    nodes = dict(by_bucket(change.node, buckets))
    for bucket in sorted({*nodes, *ledgers}):
        node = nodes.get(bucket) or empty(change.node.keys.types)
        yield bucket, Deltas(node, ledgers.get(bucket))


def _written(order: Order, plans: Sequence[Plan], task: str) -> list[Table]:
    """Write what the plans say, all in one file; the tables with the new runs."""
    contents = [(each.content, each.counts) for one in plans for each in one.written]
    runs: list[Run] = []
    if contents:
        file = f"{order.number:06d}-{order.attempt}-{task}.run"
        runs = write_runs(Path(order.runs), file, contents)
    tables = []
    for one in plans:
        new, runs = runs[: len(one.written)], runs[len(one.written) :]
        bases = tuple(r for r, w in zip(new, one.written, strict=True) if w.base)
        levels = tuple(r for r, w in zip(new, one.written, strict=True) if not w.base)
        tables.append(one.kept.with_runs(levels, bases))
    return tables


def _output(
    program: Program, order: Order, node: Table, changes: Any, share: Share
) -> Iterator[Part]:
    """Write the parts of the batch's output."""
    if not order.output:
        return
    element, folder, how = program.answer.element, Path(order.output), (order.mode, order.format)
    if order.mode == "changes":
        if changes.num_rows:
            yield write_part(folder, f"part-{share.task}", changes, element, how)
        return
    for bucket in share.buckets:
        rows = bucket_answer(program, node, Path(order.runs), bucket)
        if rows.num_rows:
            yield write_part(folder, f"part-{share.task}-{bucket}", rows, element, how)


def bucket_answer(program: Program, node: Table, runs: Path, bucket: int) -> Any:
    """The answers of all keys of a bucket."""
    content = scan(node, Reader(runs, OPENED), bucket)
    rows = answer_rows(program.fold, answer_segment(program), content)
    return net(rows, program.answer.element)


def whole_answer(program: Program, node: Table, runs: Path) -> Bag:
    """The whole answer as a value; it has to fit into memory."""
    element = program.answer.element
    tables = (bucket_answer(program, node, runs, bucket) for bucket in range(node.buckets))
    rows = (row for table in tables for row in table_values(table, element))
    return Bag([value for value, weight in rows for _ in range(weight)])


def ledger_types(program: Program) -> tuple[Type, ...]:
    """The key of a ledger is the whole row."""
    return types_of(program.stream.element)
