"""What a batch leaves: the files of its outputs, and the work of each step."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from incmrql.engine.columns.rows import concat_rows
from incmrql.engine.context import BatchContext
from incmrql.engine.messages import Target
from incmrql.engine.operators.answers import bucket_rows
from incmrql.engine.outputs import write_part
from incmrql.io.arrow.columns import WEIGHT
from incmrql.plan.assembly import program_of
from incmrql.types.model import INT, STRING
from tests.engine.kernels import KernelRun
from tests.plan.stepping import ALL, Run, insertions, r


def test_a_snapshot_has_each_row_as_often_as_it_is_there_and_no_weights(tmp_path: Path) -> None:
    run = Run("select (x.A, x.S) from x in R", ALL)
    kernel = KernelRun(program_of([run.item], run.script), tmp_path)
    answer = kernel.physical.answers[0]
    kernel.step(insertions(R=[r(1, 0, 0.0, "a"), r(1, 5, 0.0, "a"), r(2, 0, 0.0, "b")]))
    context = BatchContext(kernel.tables, kernel.reader, kernel.env, is_first=False)
    parts = [bucket_rows(answer, bucket, context) for bucket in range(kernel.buckets)]
    rows = concat_rows(parts, (INT, STRING))
    tables = {}
    for mode in ("snapshot", "changes"):
        target = Target(0, str(tmp_path), mode)
        name, count, size = write_part(tmp_path, mode, answer, rows, target)
        tables[mode] = pq.read_table(tmp_path / name)
        assert (count, size) == (tables[mode].num_rows, (tmp_path / name).stat().st_size)
    snapshot, changes = tables["snapshot"], tables["changes"]
    assert changes.column_names == [*snapshot.column_names, WEIGHT]
    plain = sorted(zip(*snapshot.to_pydict().values(), strict=True))
    assert plain == [(1, "a"), (1, "a"), (2, "b")]
    assert sorted(zip(*changes.to_pydict().values(), strict=True)) == [(1, "a", 2), (2, "b", 1)]


def test_a_batch_says_how_long_each_step_took(tmp_path: Path) -> None:
    run = Run("select (k, sum(x.B)) from x in R group by k: x.A", ALL)
    kernel = KernelRun(program_of([run.item], run.script), tmp_path)
    kernel.step(insertions(R=[r(n % 7, n, 0.0, "a") for n in range(100)]))
    assert all(seconds >= 0 for seconds in kernel.worked.seconds)
    assert sum(kernel.worked.seconds) > 0
