"""An older version of incmrql against this one: the same queries and batches, in turn.

    python -m benchmarks.versions OLD [--pairs 15] [--scale 0.1] [--only NAME ...]

OLD is a folder with the sources of the other version, such as a worktree of git.  Each version has
a process and a Spark of its own; in each round one of them, drawn at random, goes first.  Prints
the median of the paired ratios with their quartiles, and every count (rows read, jobs, bytes of
state, ...) that differs.  A ratio above 1 means that this version is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from benchmarks import batch_queries, iteration_queries
from benchmarks.batch_data import Sizes, folder_of
from benchmarks.incremental_chain import CHAIN
from benchmarks.incremental_data import Size, Supply, Table, history_of
from benchmarks.incremental_queries import WORKLOADS, text_of

ROOT: Final = Path(__file__).parent.parent
SEED: Final = 24
WARM_UP: Final = 5
SIDES: Final = ("old", "new")
HEAD: Final = "| query | old | new | ratio (quartiles) | counts |\n|---|---|---|---|---|"


class SideError(Exception):
    """A version that could not do what it was asked to."""


class Process:
    """A version that runs in a process."""

    def __init__(self, name: str, sources: Path, log: IO[bytes]) -> None:
        self.name = name
        path = os.pathsep.join([str(sources / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.versions_side"],
            cwd=sources,
            env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    def ask(self, request: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and wait for the response."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps([request, arguments]) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise SideError(f"the {self.name} version ended at {request!r}; see its log")
        response: dict[str, Any] = json.loads(line)
        return response

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        """Close its stdin, which ends it, and wait for it."""
        self._process.__exit__(None, None, None)


@dataclass(slots=True)
class Comparison:
    """Seconds and counts of both versions, round by round."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})
    counts: dict[str, list[dict[str, int]]] = field(
        default_factory=lambda: {side: [] for side in SIDES}
    )

    def add(self, side: str, response: dict[str, Any]) -> None:
        """Keep what a version has measured."""
        self.seconds[side].append(response.pop("seconds"))
        self.counts[side].append(response)

    def differences(self) -> str:
        """The counts that are not the same: old -> new, summed over the rounds."""
        totals = {
            side: {name: sum(count[name] for count in counts) for name in counts[0]}
            for side, counts in self.counts.items()
        }
        old, new = totals["old"], totals["new"]
        changed = [
            f"{name} {old[name]:,} -> {new[name]:,}" for name in old if old[name] != new[name]
        ]
        return "; ".join(changed) or "equal"

    def line(self, name: str, remark: str) -> str:
        """A row of the table."""
        old, new = self.seconds["old"], self.seconds["new"]
        ratios = [after / before for before, after in zip(old, new, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        cells = [f"{statistics.median(seconds) * 1000:,.0f} ms" for seconds in (old, new)]
        return (
            f"| {name} | {cells[0]} | {cells[1]} | {middle:.2f} ({low:.2f}-{high:.2f}) | {remark} |"
        )


@dataclass(frozen=True, slots=True)
class Bench:
    """Both versions, how often they run, and where their data are."""

    processes: dict[str, Process]
    pairs: int
    scale: float
    data: Path
    order: random.Random

    def rounds(
        self, before: Callable[[], None], ask: Callable[[str], dict[str, Any]]
    ) -> Comparison:
        """Rounds of both versions; the first ones are not counted."""
        comparison = Comparison()
        for number in range(WARM_UP + self.pairs):
            before()
            for side in self.order.sample(SIDES, len(SIDES)):
                response = ask(side)
                if number >= WARM_UP:
                    comparison.add(side, response)
        return comparison


def batch_sizes(scale: float) -> Sizes:
    """The tables of the batch benchmark at a scale; groups keep their number of rows."""
    full = Sizes()
    scaled = ("facts", "keys", "side", "orders", "nodes", "edges", "points", "entries")
    return replace(full, **{name: max(int(getattr(full, name) * scale), 100) for name in scaled})


def compare_batch(bench: Bench, text: str) -> tuple[Comparison, str]:
    """Both versions on a batch query."""
    data = folder_of(bench.data / f"batch-{bench.scale:g}", batch_sizes(bench.scale))
    query = text.format(data=data)
    comparison = bench.rounds(
        lambda: None, lambda side: bench.processes[side].ask("batch", text=query)
    )
    return comparison, "-"


def compare_stream(bench: Bench, stream: Stream) -> tuple[Comparison, str]:
    """Both versions on batches of a stream, and whether their answers are the same at the end."""
    history = history_of(bench.data, stream.name.split(" ")[0], stream.tables, stream.size)
    folder = Path(tempfile.mkdtemp(dir=bench.data))
    try:
        supplies = {
            side: Supply(
                folder / side / "data", history, stream.tables, stream.size, stream.deleted
            )
            for side in SIDES
        }
        for side, supply in supplies.items():
            bench.processes[side].ask(
                "open",
                text=stream.text(supply.folder),
                checkpoint=str(folder / side / "checkpoint"),
                options=dict(stream.options),
            )

        def add() -> None:
            for supply in supplies.values():
                supply.add()

        comparison = bench.rounds(add, lambda side: bench.processes[side].ask("step"))
        answers = [process.ask("close") for process in bench.processes.values()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if answers[0] != answers[1]:
        return comparison, "ANSWERS DIFFER"
    return comparison, comparison.differences()


@dataclass(frozen=True, slots=True)
class Stream:
    """A query over streams, its data and the options that it is started with."""

    name: str
    text: Callable[[Path], str]
    tables: tuple[Table, ...]
    size: Size
    deleted: float
    options: Mapping[str, str]


def streams(scale: float) -> Iterator[Stream]:
    """The workloads of the incremental benchmark, then the loops, each in all of its ways."""
    for workload in (*WORKLOADS, CHAIN):
        text = partial(text_of, workload)
        size = workload.size(scale)
        yield Stream(workload.name, text, workload.tables, size, workload.deleted, {})
    for case in iteration_queries.CASES:
        size = case.size(min(1.0, 5 * scale))
        for way in case.ways:
            options = {} if way == "default" else {"iterate": way}
            name = f"{case.name} {way}"
            yield Stream(name, case.text_of, (case.table,), size, case.deleted, options)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table; 1 if answers differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions")
    parser.add_argument("old", type=Path, help="sources of the other version")
    parser.add_argument("--pairs", type=int, default=15, help="rounds that are timed")
    parser.add_argument("--scale", type=float, default=0.1, help="of all sizes")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="start of the names to run")
    where = Path(tempfile.gettempdir()) / "incmrql-versions"
    parser.add_argument("--data", type=Path, default=where, help="folder for data and logs")
    given = parser.parse_args(arguments)
    if given.pairs < 2:
        parser.error("--pairs must be at least 2")
    if not (given.old / "src" / "incmrql").is_dir():
        parser.error(f"{given.old} has no src/incmrql")
    given.data.mkdir(parents=True, exist_ok=True)
    trees = {"old": given.old.resolve(), "new": ROOT}
    cases: dict[str, Callable[[Bench], tuple[Comparison, str]]] = {}
    for query in batch_queries.CASES:
        cases[query.name] = partial(compare_batch, text=query.text)
    for stream in streams(given.scale):
        cases[stream.name] = partial(compare_stream, stream=stream)
    chosen = [name for name in cases if not given.only or name.startswith(tuple(given.only))]
    if not chosen:
        parser.error(f"no such name; there are {', '.join(cases)}")
    differ = False
    with ExitStack() as stack:
        processes = {}
        for side, tree in trees.items():
            log = stack.enter_context((given.data / f"{side}.log").open("wb"))
            processes[side] = stack.enter_context(Process(side, tree, log))
        bench = Bench(processes, given.pairs, given.scale, given.data, random.Random(SEED))
        print(HEAD, flush=True)
        for name in chosen:
            comparison, remark = cases[name](bench)
            differ = differ or remark == "ANSWERS DIFFER"
            print(comparison.line(name, remark), flush=True)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
