"""A standalone cluster of Spark on this machine: a master and workers, each its own process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from incmrql.java import find_java

_HOST = "127.0.0.1"
_PATIENCE = 120.0


@dataclass
class Cluster:
    """A running cluster; `folder` has the logs and what its workers write."""

    folder: Path
    url: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def executors(self) -> list[int]:
        """The processes that run tasks."""
        return [
            pid
            for pid, parent in _processes()
            if parent in {each.pid for each in self.processes} and _is_executor(pid)
        ]


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A master and workers with one core each, for as long as the block runs."""
    folder.mkdir(parents=True)
    port = _free_port()
    cluster = Cluster(folder, f"spark://{_HOST}:{port}")
    master = ["org.apache.spark.deploy.master.Master", "--host", _HOST, "--port", str(port)]
    try:
        _start(cluster, "master", [*master, "--webui-port", "0"])
        _await(folder / "master.log", rb"I have been elected leader|Starting Spark master")
        for number in range(workers):
            work = folder / f"worker-{number}"
            given = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--host", _HOST]
            worker = ["org.apache.spark.deploy.worker.Worker", *given]
            _start(cluster, work.name, [*worker, "--work-dir", str(work), cluster.url])
        for number in range(workers):
            _await(folder / f"worker-{number}.log", rb"Successfully registered with master")
        yield cluster
    finally:
        for process in reversed(cluster.processes):
            process.send_signal(signal.SIGTERM)
        for process in cluster.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(cluster: Cluster, name: str, arguments: list[str]) -> None:
    home = str(find_java(os.environ).home)
    spark = Path(pyspark.__file__).parent
    env = {
        **os.environ,
        "JAVA_HOME": home,
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": _HOST,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with (cluster.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(spark / "bin" / "spark-class"), *arguments],
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=cluster.folder,
        )
    cluster.processes.append(process)


def _await(log: Path, pattern: bytes) -> None:
    """Wait until a log says something."""
    until = time.monotonic() + _PATIENCE
    while not re.search(pattern, log.read_bytes()):
        assert time.monotonic() < until, log.read_text(errors="replace")[-2_000:]
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_HOST, 0))
        return int(found.getsockname()[1])


def _processes() -> Iterator[tuple[int, int]]:
    """All processes with their parents."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(path.parent.name), int(fields[1])


def _is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
