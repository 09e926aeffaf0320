"""A standalone cluster of Spark on this machine: a master and workers, each its own process.

Every worker has an address of its own (127.0.0.1, 127.0.0.2, ...): Spark starts a speculative copy
of a task only on another host.  A worker may lack a directory that the others have: it runs in a
mount namespace in which an empty file system covers that directory.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from incmrql.java import find_java
from incmrql.spark.session import _archive as session_archive

_HOST = "127.0.0.1"
_PATIENCE = 120.0
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "1ms",
    "spark.speculation.task.duration.threshold": "20ms",  # the only task of a stage is copied too
    "spark.locality.wait": "0",
}
"""Copies of nearly every task that runs for more than an instant."""


@dataclass
class Cluster:
    """A running cluster; `folder` has the logs and what its workers write."""

    folder: Path
    url: str
    master: subprocess.Popen[bytes] | None = None
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """The workers by their addresses."""

    def executors(self) -> list[int]:
        """The processes that run tasks."""
        workers = {worker.pid for worker in self.workers.values()}
        return [pid for pid, parent in _processes() if parent in workers and _is_executor(pid)]

    def await_executors(self, number: int) -> None:
        """Wait until a number of executors run."""
        until = time.monotonic() + _PATIENCE
        while len(self.executors()) < number:
            assert time.monotonic() < until, f"{len(self.executors())} of {number} executors"
            time.sleep(0.05)

    def start_worker(self, host: str, hidden: Path | None = None) -> None:
        """Start a worker on an address, with one core; it does not see the directory `hidden`."""
        work = self.folder / f"worker-{host}"
        given = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--host", host]
        worker = ["org.apache.spark.deploy.worker.Worker", *given]
        arguments = [*worker, "--work-dir", str(work), self.url]
        self.workers[host] = _start(self.folder / f"{work.name}.log", arguments, host, hidden)

    def await_worker(self, host: str) -> None:
        """Wait until a worker has found the master."""
        _await(self.folder / f"worker-{host}.log", rb"Successfully registered with master")

    def kill_worker(self, host: str) -> None:
        """Kill a worker and its executors at once, as if the machine lost its power."""
        worker = self.workers.pop(host)
        executors = [pid for pid, parent in _processes() if parent == worker.pid]
        for pid in (worker.pid, *executors):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        worker.wait()


@contextmanager
def standalone(
    folder: Path, hosts: Sequence[str] = HOSTS, hidden: Mapping[str, Path] | None = None
) -> Iterator[Cluster]:
    """A master and workers with one core each, for as long as the block runs.

    `hidden` has for some hosts the directory that these do not see.
    """
    folder.mkdir(parents=True)
    port = _free_port()
    cluster = Cluster(folder, f"spark://{_HOST}:{port}")
    master = ["org.apache.spark.deploy.master.Master", "--host", _HOST, "--port", str(port)]
    try:
        log = folder / "master.log"
        cluster.master = _start(log, [*master, "--webui-port", "0"], _HOST)
        _await(log, rb"I have been elected leader|Starting Spark master")
        for host in hosts:
            cluster.start_worker(host, (hidden or {}).get(host))
        for host in hosts:
            cluster.await_worker(host)
        yield cluster
    finally:
        processes = [
            *cluster.workers.values(),
            *([cluster.master] if cluster.master is not None else []),
        ]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def why_no_namespace(folder: Path) -> str:
    """Why a directory cannot be hidden from a worker on this machine; empty if it can."""
    try:
        done = subprocess.run(
            _inside_namespace(folder, ["true"]), capture_output=True, text=True, check=False
        )
    except OSError as problem:
        return f"unshare: {problem.strerror}"
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _inside_namespace(hidden: Path, command: list[str]) -> list[str]:
    """A command that runs where an empty file system covers a directory."""
    cover = f"mount -t tmpfs tmpfs {shlex.quote(str(hidden))} && exec {shlex.join(command)}"
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "-r"]
    return [*unshare, "sh", "-c", cover]


def _archive_options() -> str:
    """The option that lets Java start with the classes that were archived, if they were.

    Without it each of the ten or more processes of a cluster takes twice the processor time.
    """
    options = session_archive(find_java(os.environ)).get("spark.driver.extraJavaOptions", "")
    return options if "SharedArchiveFile" in options else ""


def _start(
    log: Path, arguments: list[str], host: str, hidden: Path | None = None
) -> subprocess.Popen[bytes]:
    home = str(find_java(os.environ).home)
    spark = Path(pyspark.__file__).parent
    env = {
        **os.environ,
        "JAVA_HOME": home,
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": host,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {_archive_options()}",
    }
    command = [str(spark / "bin" / "spark-class"), *arguments]
    with log.open("wb") as output:
        return subprocess.Popen(
            command if hidden is None else _inside_namespace(hidden, command),
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
        )


def _await(log: Path, pattern: bytes) -> None:
    """Wait until a log says something."""
    until = time.monotonic() + _PATIENCE
    while not re.search(pattern, log.read_bytes()):
        assert time.monotonic() < until, log.read_text(errors="replace")[-2_000:]
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        return int(listener.getsockname()[1])


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
