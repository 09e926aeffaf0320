"""Clear errors for clusters: unreachable masters, missing executors, workers that lack packages.

Spark alone retries for a minute and then reports a stopped context, or waits for ever in silence.
Here the master is contacted before Spark starts, and while a job runs a thread polls the number
of executors.  As long as there is none it logs a warning; after a time-out it cancels the job.
The Spark setting `spark.incmrql.executorTimeout` is that time-out.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incmrql.errors import DataError, InternalError
from incmrql.spark.internals import executor_count

TIMEOUT: Final = "spark.incmrql.executorTimeout"
_TIMEOUT_DEFAULT: Final = "2m"
_CONNECT_SECONDS: Final = 5.0
_LOG_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 1.0
_CLUSTERS: Final = ("spark://", "yarn", "k8s://", "local-cluster")
_LOG: Final = logging.getLogger("incmrql")


def is_local(master: str | None) -> bool:
    """True if tasks run on the driver's machine, as its child processes."""
    return master is None or not master.startswith(_CLUSTERS)


# --- the master ----------------------------------------------------------------------------


def check_master(master: str) -> None:
    """Refuse a master that does not answer; Spark itself reports a malformed URL."""
    if master.startswith("spark://"):
        problems = [_unreachable(address) for address in master[len("spark://") :].split(",")]
        if all(problems):
            hint = (
                "Start it, or give the URL that its log and its web page show; "
                "its port is 7077 where nothing else is set."
            )
            message = f"no Spark master answers at {master}: {problems[0]}"
            raise DataError("R214", message, hint=hint)
    elif master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        hint = "Set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder with its configuration."
        raise DataError("R214", "master yarn: it is not known where YARN is", hint=hint)


def _unreachable(address: str) -> str:
    """Why `HOST:PORT` cannot be reached; empty if it can."""
    match = re.fullmatch(r"\[?(?P<host>[^\[\]/@]+)\]?:(?P<port>\d{1,5})", address)
    if match is None:
        return f'"{address}" is not HOST:PORT'
    try:
        socket.create_connection((match["host"], int(match["port"])), _CONNECT_SECONDS).close()
    except TimeoutError:
        return f"no answer in {_CONNECT_SECONDS:.0f} s"
    except (OSError, OverflowError) as problem:
        return str(getattr(problem, "strerror", None) or problem).lower()
    return ""


@contextmanager
def start_on_cluster(master: str) -> Iterator[None]:
    """Start Spark in the block; a failure names the master and stops a half-started context."""
    before = SparkContext._active_spark_context
    with _log_while_waiting(
        lambda waited: f"waiting for {master} to accept the application ({waited:.0f} s)"
    ):
        try:
            yield
        except (Py4JError, PySparkException) as problem:
            reason = root_cause(problem)
            if "stopped SparkContext" in reason:  # the message when no master answered
                reason = "nobody there accepted the application; is it a master of this Spark?"
            elif "JAVA_GATEWAY_EXITED" in reason:
                reason = "Java has ended; what it said is above"
            new_context = SparkContext._active_spark_context
            if new_context is not None and new_context is not before:
                with suppress(Exception):
                    new_context.stop()
            hint = "Look at --master and --conf, and at the log of the master."
            message = f"Spark could not be started on master {master}: {reason}"
            raise DataError("R214", message, hint=hint) from None


def root_cause(problem: Exception) -> str:
    """The message of the innermost cause of a Java exception, in one line."""
    cause = getattr(problem, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(problem) if cause is None else str(cause.getMessage() or cause.toString())
    lines = text.strip().splitlines()
    return lines[0][:300] if lines else type(problem).__name__


@contextmanager
def _log_while_waiting(sentence: Callable[[float], str]) -> Iterator[None]:
    """Log a sentence every ten seconds while the block runs; it gets the seconds so far."""
    done, started = threading.Event(), time.monotonic()

    def talk() -> None:
        while not done.wait(_LOG_SECONDS):
            _LOG.warning(sentence(time.monotonic() - started))

    threading.Thread(target=talk, name="incmrql-start", daemon=True).start()
    try:
        yield
    finally:
        done.set()


# --- executors -----------------------------------------------------------------------------


def await_executors(spark: SparkSession) -> None:
    """Wait until the cluster has started an executor.

    This runs a tiny job: with dynamic allocation Spark requests executors only when a job waits.
    """
    context = spark.sparkContext
    if not is_local(context.master) and executor_count(context) == 0:
        with watch_executors(spark):
            spark.range(1).count()


@contextmanager
def watch_executors(spark: SparkSession) -> Iterator[None]:
    """Warn while jobs inside the block have no executor; cancel them after the time-out."""
    context = spark.sparkContext
    if is_local(context.master):
        yield
        return
    watch = _ExecutorWatch(context)
    context.addJobTag(watch.tag)
    watch.start()
    try:
        yield
    except Exception:
        if watch.gave_up:
            raise watch.problem() from None
        raise
    finally:
        watch.done.set()
        with suppress(Py4JError, OSError):  # Java may be gone
            context.removeJobTag(watch.tag)


class _ExecutorWatch(threading.Thread):
    """Polls the number of executors while a job runs."""

    def __init__(self, context: SparkContext) -> None:
        super().__init__(name="incmrql-executors", daemon=True)
        self.context, self.tag = context, f"incmrql-{uuid.uuid4().hex[:12]}"
        self.timeout = _timeout(context)
        self.done, self.gave_up = threading.Event(), False

    def run(self) -> None:
        missing_since = last_logged = time.monotonic()
        while not self.done.wait(_POLL_SECONDS):
            try:
                count = executor_count(self.context)
            except (Py4JError, OSError):
                return  # Java is gone, and the job with it
            now = time.monotonic()
            if count > 0:
                missing_since = last_logged = now
            elif self.timeout and now - missing_since > self.timeout:
                self.gave_up = True
                with suppress(Py4JError, OSError):
                    self.context.cancelJobsWithTag(self.tag)
                return
            elif now - last_logged >= _LOG_SECONDS:
                last_logged = now
                waited = f"{now - missing_since:.0f} s"
                _LOG.warning(
                    "waiting for executors (0 of %s) from %s: %s; %s",
                    *(
                        _requested_count(self.context),
                        self.context.master,
                        waited,
                        _requested_size(self.context),
                    ),
                )

    def problem(self) -> DataError:
        """The error if no executor came in time."""
        message = f"no executor came from {self.context.master} in {self.timeout:.0f} s"
        hint = (
            f"{_requested_size(self.context)}. Either no worker has that much, or others use it: "
            "ask for less with --conf spark.executor.memory=... or spark.executor.cores=..., "
            f"or wait longer with --conf {TIMEOUT}=10m."
        )
        return DataError("R215", message, hint=hint)


def _timeout(context: SparkContext) -> float:
    """The seconds after which a job without executors is cancelled; 0 means never."""
    setting = context.getConf().get(TIMEOUT, _TIMEOUT_DEFAULT) or _TIMEOUT_DEFAULT
    match = re.fullmatch(r"(\d+)\s*(s|m|min|h)?", setting.strip())
    if match is None:
        raise DataError("R212", f"{TIMEOUT} is a time such as 90s or 10m, not {setting!r}")
    return float(match[1]) * {"m": 60, "min": 60, "h": 3600}.get(match[2] or "s", 1)


def _requested_count(context: SparkContext) -> str:
    """The number of executors that the settings request, as text."""
    conf = context.getConf()
    instances = conf.get("spark.executor.instances") or ""
    most_cores, cores = conf.get("spark.cores.max") or "", conf.get("spark.executor.cores") or ""
    if not instances and most_cores.isdigit() and cores.isdigit():
        instances = str(int(most_cores) // max(int(cores), 1))
    return instances if instances.isdigit() else "at least 1"


def _requested_size(context: SparkContext) -> str:
    """The memory and cores that each executor requests, as a sentence."""
    conf = context.getConf()
    memory, cores = conf.get("spark.executor.memory", "1g"), conf.get("spark.executor.cores")
    is_standalone = str(context.master).startswith("spark://")
    count = cores or ("all cores of a worker" if is_standalone else "1")
    amount = f"{count} core{'' if count == '1' else 's'}" if count.isdigit() else count
    return f"each executor asks for {memory} of memory and {amount}"


# --- What workers have ---
#
# Tasks of a stream run the engine, so the Python of every executor must have the same version of
# incmrql, with DuckDB, Arrow and NumPy. One tiny job checks this before the first batch.


NEEDED: Final = ("incmrql", "duckdb", "pyarrow", "numpy")
_PROBE: Final = """
def probe(_numbers):
    import json, socket, sys
    from importlib import import_module
    from importlib.metadata import PackageNotFoundError, version
    found = {}
    for name in NEEDED:
        try:
            import_module(name)
            found[name] = version(name)
        except (ImportError, PackageNotFoundError):
            found[name] = None
    yield json.dumps([socket.gethostname(), ".".join(map(str, sys.version_info[:2])), found])
"""
"""Sent as source text: a worker could not unpickle a function of a module that it does not have."""
_SHIP_HINT: Final = (
    "Install incmrql on every worker and let PYSPARK_PYTHON name its Python; or pack the "
    "environment (venv-pack or conda-pack) and ship it: "
    "--conf spark.archives=environment.tar.gz#environment with "
    "PYSPARK_PYTHON=./environment/bin/python."
)


def check_executors(spark: SparkSession) -> None:
    """Refuse a cluster whose workers cannot run tasks; local workers always can."""
    context = spark.sparkContext
    master = str(context.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
        return
    namespace: dict[str, Any] = {"__name__": "__main__", "NEEDED": NEEDED}
    exec(_PROBE, namespace)
    tasks = max(2, context.defaultParallelism)
    try:
        with watch_executors(spark):
            probes = context.parallelize(range(tasks), tasks).mapPartitions(namespace["probe"])
            reports = probes.collect()
    except DataError:
        raise
    except Exception as problem:  # py4j and Spark raise many kinds
        raise _worker_error(
            f"no Python could be started on the workers: {_reason(problem)}"
        ) from None
    for report in sorted(set(reports)):
        host, python, versions = json.loads(report)
        difference = differences(python, versions)
        if difference:
            raise _worker_error(f"the Python of {host} {difference}")


def differences(python: str, versions: dict[str, str | None]) -> str:
    """Why a worker's Python cannot run tasks, in words; empty if it can."""
    here = ".".join(map(str, sys.version_info[:2]))
    missing = [name for name, installed in versions.items() if installed is None]
    if python != here:
        return f"is {python}, and this one is {here}"
    if missing:
        return f"has no {', '.join(missing)}"
    if versions["incmrql"] != version("incmrql"):
        return f"has incmrql {versions['incmrql']}, and this is {version('incmrql')}"
    return ""


def _reason(problem: Exception) -> str:
    """The most informative line of a Spark error."""
    text = str(problem)
    for mark in ("[PYTHON_VERSION_MISMATCH]", "Cannot run program", "Error:"):
        _, separator, rest = text.partition(mark)
        if separator:
            return (mark + rest).splitlines()[0][:300]
    return text.strip().splitlines()[0][:300] if text.strip() else type(problem).__name__


def _worker_error(message: str) -> DataError:
    return DataError("R213", message, hint=_SHIP_HINT)


# --- Errors out of Spark ---
#
# A Python worker can only report a data error by raising. Spark keeps nothing of the exception but
# its text, so the text carries the encoded error, which is decoded here.


_MARK = "incmrql-problem:"


class EncodedDataError(Exception):
    """A data error encoded in the text of an exception, which Spark passes on to the driver."""

    def __init__(self, error: DataError) -> None:
        parts = [error.code, error.message, error.place, error.hint]
        packed = base64.b64encode(json.dumps(parts).encode()).decode()
        super().__init__(f"{_MARK}{packed}:")


@contextmanager
def translate_errors(spark: SparkSession) -> Iterator[None]:
    """Run Spark actions inside the block; a failure becomes an error of ours."""
    try:
        with watch_executors(spark):
            yield
    except PySparkException as problem:
        raise error_of(problem) from None


def is_out_of_memory(text: str) -> bool:
    """True if the text of a Spark exception says that Java or a Python worker ran out of memory."""
    return any(word in text for word in ("OutOfMemoryE", "Java heap space", "MemoryError"))


def error_of(problem: PySparkException | Py4JJavaError) -> Exception:
    """Our error for a Spark exception: the data error that it carries, or what Spark says."""
    match = re.search(rf"{_MARK}([A-Za-z0-9+/=]+):", str(problem))
    if match is not None:
        code, message, place, hint = json.loads(base64.b64decode(match[1]))
        return DataError(code, message, place=place, hint=hint)
    text = str(problem)
    if is_out_of_memory(text):
        hint = "Give Spark more, as in --conf spark.driver.memory=8g."
        return DataError("R211", "Spark ran out of memory", hint=hint)
    first = text.strip().splitlines()[0] if text.strip() else type(problem).__name__
    return InternalError(f"Spark: {first[:500]}")
