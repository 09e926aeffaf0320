"""What a batch costs beside what: a chain beside one node, a no-op job, the first load of all."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.batch_sides import act
from benchmarks.incremental_chain import CHAIN
from benchmarks.incremental_data import Size
from benchmarks.incremental_pairs import phases
from benchmarks.incremental_process import Peak, watch_memory
from benchmarks.incremental_queries import AVERAGE, FACTS, average
from benchmarks.incremental_run import Bench, Stage, open_stage, time_call
from incmrql.runtime import BatchReport

BLOCK = 4
"""Batches of a program in a row.  One more comes before them: a worker keeps one program."""
CHAIN_LIMIT, FLOOR_LIMIT, LOAD_LIMIT = 3.0, 2.0, 1.5
LOAD_ROWS = 50_000_000
LOAD_ROUNDS = 3


def _verdict(ratio: float, limit: float, problems: list[str]) -> dict[str, Any]:
    bad = problems or ([] if ratio <= limit else ["slower"])
    return {"ratio": ratio, "limit": limit, "verdict": f"FAIL: {'; '.join(bad)}" if bad else "PASS"}


def block(stage: Stage, batches: int) -> list[tuple[BatchReport, float]]:
    """Some batches in a row, after one that is not counted."""
    reports = []
    for number in range(batches + 1):
        stage.supply.add()
        report, seconds = time_call(stage.step)
        if number:
            reports.append((report, seconds))
    return reports


def chain(bench: Bench) -> dict[str, Any]:
    """Six nodes against one, in blocks of batches in turn."""
    pairs: list[tuple[float, float]] = []
    with open_stage(bench, AVERAGE, _one_node(bench)) as one, open_stage(bench, CHAIN) as six:
        reports: dict[str, list[BatchReport]] = {AVERAGE.name: [], CHAIN.name: []}
        for number in range(bench.warm_up + bench.rounds):
            medians = []
            for stage in (one, six):
                batches = block(stage, BLOCK)
                medians.append(statistics.median(seconds for _, seconds in batches))
                if number >= bench.warm_up:
                    reports[stage.workload.name] += [report for report, _ in batches]
            if number >= bench.warm_up:
                pairs.append((medians[0], medians[1]))
        problems = six.differences()
        nodes = [type(node).__name__ for node in six.driver.program.nodes]
    ratio = statistics.median(many / single for single, many in pairs)
    return {
        "about": CHAIN.about,
        "one_node_seconds": statistics.median(single for single, _ in pairs),
        "six_nodes_seconds": statistics.median(many for _, many in pairs),
        "phases": {name: phases(reports_of_stage) for name, reports_of_stage in reports.items()},
        "node_milliseconds": list(_nodes(nodes, reports[CHAIN.name])),
        **_verdict(ratio, CHAIN_LIMIT, problems),
    }


def _one_node(bench: Bench) -> Size:
    """As many rows as the chain has."""
    size = CHAIN.size(bench.scale)
    return Size(size.rows, max(size.rows // 10, 10), size.batch)


def _nodes(names: list[str], reports: list[BatchReport]) -> Iterator[dict[str, Any]]:
    """Each node that has state to keep: what it sent, what it read, how long it took."""
    for place, name in enumerate(names):
        works = [report.nodes[place] for report in reports]
        if name not in ("Input", "Linear"):
            yield {
                "node": f"{place} {name}",
                "milliseconds": statistics.median(work.seconds for work in works) * 1000,
                "sent": statistics.median(work.sent for work in works),
                "state_read": statistics.median(work.read for work in works),
            }


def floor(bench: Bench) -> dict[str, Any]:
    """A batch of one node against a job that shuffles the same rows and does nothing."""
    plain = bench.spark.newSession()
    plain.conf.set("spark.sql.adaptive.enabled", "false")  # it adds jobs
    batches, idle = [], []
    with open_stage(bench, AVERAGE) as stage:
        for number in range(bench.warm_up + 2 * bench.rounds):
            (file,) = stage.supply.add()
            times = {}
            for side in bench.order.sample(("batch", "no-op"), 2):
                run = stage.step if side == "batch" else lambda f=file: _no_op(plain, f)
                times[side] = time_call(run)[1]
            if number >= bench.warm_up:
                batches.append(times["batch"])
                idle.append(times["no-op"])
    ratio = statistics.median(one / other for one, other in zip(batches, idle, strict=True))
    return {
        "about": "a batch of one node against a job with one shuffle that does nothing",
        "batch_seconds": statistics.median(batches),
        "no_op_seconds": statistics.median(idle),
        **_verdict(ratio, FLOOR_LIMIT, []),
    }


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _no_op(spark: SparkSession, file: Path) -> None:
    rows = spark.read.schema(FACTS.columns).parquet(str(file)).repartition(2, "K")
    act(rows.mapInArrow(_same, FACTS.columns), "noop")


def load(bench: Bench) -> dict[str, Any]:
    """The first load against the plain aggregation of the same files, in turn."""
    rows = max(int(LOAD_ROWS * bench.scale), 100)
    size = Size(rows, AVERAGE.size(bench.scale).keys, AVERAGE.size(bench.scale).batch)
    loads, plain, peaks = [], [], []
    loaded: BatchReport | None = None
    for number in range(LOAD_ROUNDS + 1):
        with watch_memory() as peak, open_stage(bench, AVERAGE, size) as stage:
            loaded = stage.loaded
            folder = stage.supply.folder
            again = time_call(lambda at=folder: act(average(bench.spark, at), "noop"))[1]  # type: ignore[misc]
        if number:
            loads.append(loaded.seconds)
            plain.append(again)
            peaks.append(peak)
    assert loaded is not None
    ratio = statistics.median(one / other for one, other in zip(loads, plain, strict=True))
    return {
        "about": f"first load of {rows:,} rows, {size.keys:,} keys",
        "load_seconds": statistics.median(loads),
        "plain_seconds": statistics.median(plain),
        "peak_worker_bytes": _most(peaks, "one"),
        "peak_workers_bytes": _most(peaks, "together"),
        "state_bytes": loaded.state_bytes,
        "jobs": loaded.jobs,
        "tasks": loaded.tasks,
        **_verdict(ratio, LOAD_LIMIT, []),
    }


def _most(peaks: list[Peak], what: str) -> int:
    return int(max(getattr(peak, what) for peak in peaks))
