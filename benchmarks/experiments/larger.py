"""A batch query over more than the memory that Spark has, and the same query in pieces that fit.

The query keeps much: the median by key, of few keys with millions of doubles each.  Each way is a
process of its own, `incmrql run` with a small heap for Spark, and a limit of data for each Python
worker that the system enforces (see `limited/sitecustomize.py`).  Java ends at the first lack of
memory instead of struggling on, and leaves a mark.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.experiments.base import Experiment, Figure, Finding, Options, Tell
from benchmarks.incremental_memory import LIMITED, VARIABLE
from benchmarks.incremental_process import watch_memory
from benchmarks.incremental_run import folder_in

KEYS: Final = 2
PIECE: Final = 250_000
"""Rows of a file."""
FILES: Final = 80
QUICK_FILES: Final = 16
FILES_PER_BATCH: Final = 2
SMALL: Final = "512m"
LARGE: Final = "8g"
WORKER: Final = 1 << 30
"""Bytes of data that a Python worker may have."""
PATIENCE: Final = 900.0
QUERY: Final = (
    "select < K: k, m: median(x.D), n: count(x) > from x in"
    ' {kind}(parquet, "{data}", type(< K: int, D: double >)) group by k: x.K;'
)
MIB: Final = float(1 << 20)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended."""

    seconds: float
    status: int
    rows: list[dict[str, Any]]
    """The answer, by key; nothing if there is none."""
    is_out_of_memory: bool
    spilled: int
    worker: int
    """The most memory of a Python worker."""
    said: str


def run(options: Options, tell: Tell) -> Iterator[Finding]:
    """With much memory, with little, and with little in pieces."""
    files = QUICK_FILES if options.quick else FILES
    with folder_in(options.data) as folder:
        tell(f"larger: making {files * PIECE:,} rows")
        data = make(folder / "data", files, PIECE, options.seed)
        tell(f"larger: batch with {LARGE}")
        much = ran(folder, options.master, batch_text(data), LARGE, [])
        yield finding_of("batch", LARGE, files * PIECE, much, much)
        tell(f"larger: batch with {SMALL}")
        little = ran(folder, options.master, batch_text(data), SMALL, [])
        yield finding_of("batch", SMALL, files * PIECE, little, much)
        tell(f"larger: in pieces of {FILES_PER_BATCH} files with {SMALL}")
        more = pieces(folder / "checkpoint")
        kept = ran(folder, options.master, stream_text(data), SMALL, more)
        case = f"in pieces of {FILES_PER_BATCH * PIECE:,} rows"
        yield finding_of(case, SMALL, files * PIECE, kept, much)


def make(folder: Path, files: int, rows: int, seed: int) -> Path:
    """Files of keys and doubles."""
    folder.mkdir(parents=True)
    for number in range(files):
        chance = np.random.default_rng([seed, number])
        keys = chance.integers(0, KEYS, rows, dtype=np.int32)
        table = pa.table({"K": keys, "D": chance.random(rows) * 1000})
        pq.write_table(table, folder / f"{number:04d}.parquet")
    return folder


def batch_text(data: Path) -> str:
    """The query over all files at once."""
    return QUERY.format(kind="source", data=data)


def stream_text(data: Path) -> str:
    """The query kept up to date."""
    return f"incr {QUERY.format(kind='stream', data=data)}"


def pieces(checkpoint: Path) -> list[str]:
    """Options that make a run ingest some files after the others, and end."""
    chosen = ["--available-now", "--settle", "0s", "--trigger", "0s"]
    per_batch = ["--max-files-per-batch", str(FILES_PER_BATCH)]
    return [*chosen, *per_batch, "--checkpoint", str(checkpoint)]


_NUMBERS = count()


def ran(folder: Path, master: str, text: str, heap: str, more: list[str]) -> Outcome:
    """Run a query in a process of its own, and see how it ends."""
    number = next(_NUMBERS)
    mark, log = folder / f"out-of-memory-{number}", folder / f"events-{number}"
    log.mkdir()
    java = f'-XX:+ExitOnOutOfMemoryError -XX:OnOutOfMemoryError="touch {shlex.quote(str(mark))}"'
    path = [str(LIMITED), os.environ.get("PYTHONPATH", "")]
    conf = {
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": java,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, path)),
        f"spark.executorEnv.{VARIABLE}": str(WORKER),
    }
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = Path(sys.executable).with_name("incmrql")
    words = ["run", "-e", text, "--engine", "spark", "--json", "--master", master]
    begun = time.perf_counter()
    with watch_memory("VmRSS", every=0.1) as peak:
        done = subprocess.run(
            [command, *words, *settings, *more],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=folder,
        )
    seconds = time.perf_counter() - begun
    return Outcome(
        seconds,
        done.returncode,
        answer(done.stdout) if done.returncode == 0 else [],
        mark.exists(),
        spilled_bytes(log),
        peak.one,
        " ".join(done.stderr.split())[:160],
    )


def answer(printed: str) -> list[dict[str, Any]]:
    """The last answer that was printed, by key."""
    parsed = json.loads(printed.strip().splitlines()[-1])
    rows = parsed["answers"][0] if isinstance(parsed, dict) and "answers" in parsed else parsed
    return sorted(rows, key=lambda row: int(row["K"]))


def spilled_bytes(log: Path) -> int:
    """Bytes that Spark spilled to disk."""
    total = 0
    for file in log.iterdir():
        for line in file.read_text().splitlines():
            if '"SparkListenerTaskEnd"' in line:
                metrics = json.loads(line).get("Task Metrics") or {}
                total += metrics.get("Disk Bytes Spilled", 0)
    return total


def finding_of(case: str, heap: str, rows: int, outcome: Outcome, right: Outcome) -> Finding:
    """How a run ended, and whether its answer is right."""
    figures: dict[str, Figure] = {
        "rows": rows,
        "heap": heap,
        "seconds": round(outcome.seconds, 1),
        "spilled MiB": round(outcome.spilled / MIB, 1),
        "worker MiB": round(outcome.worker / MIB),
    }
    return Finding("larger", f"{case}, {heap}", figures, None, *ending(outcome, right))


def ending(outcome: Outcome, right: Outcome) -> tuple[str, str]:
    """The verdict about a process, and what is to be said about it."""
    if outcome.is_out_of_memory:
        return "out of memory", "java.lang.OutOfMemoryError in Spark"
    if outcome.status:
        return "failed", outcome.said
    if not outcome.rows or outcome.rows != right.rows:
        return "wrong", f"{len(outcome.rows)} keys, other than those of the batch"
    return "right", "it was spilled" if outcome.spilled else ""


EXPERIMENT: Final = Experiment(
    "larger", "a query over more than Spark's memory, as a batch and in pieces", run
)
