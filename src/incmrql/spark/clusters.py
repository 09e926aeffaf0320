"""Clusters: masters that cannot be reached, executors that do not come or lack what tasks need.

Spark retries for a minute and then says that a context is stopped, or waits for ever without a
word.  Here the master is tried before Spark starts, and while a job runs a thread looks at how
many executors there are: as long as there is none it says so, and after a time-out it cancels
the job.  The time-out is the Spark setting `spark.incmrql.executorTimeout`.
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

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incmrql.errors import DataError, InternalError
from incmrql.spark.internals import executor_count

TIMEOUT: Final = "spark.incmrql.executorTimeout"
_TIMEOUT_DEFAULT: Final = "2m"
_CONNECT_SECONDS: Final = 5.0
_SAY_EVERY: Final = 10.0
_LOOK_EVERY: Final = 1.0
_CLUSTERS: Final = ("spark://", "yarn", "k8s://", "local-cluster")
_LOG: Final = logging.getLogger("incmrql")


def is_local(master: str | None) -> bool:
    """Whether tasks run on this machine, as processes of the driver."""
    return master is None or not master.startswith(_CLUSTERS)


# --- the master ----------------------------------------------------------------------------


def check_master(master: str) -> None:
    """Refuse a master at which nobody listens; what is no master at all is told by Spark."""
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
    """Why nobody listens at `HOST:PORT`; empty if somebody does."""
    found = re.fullmatch(r"\[?(?P<host>[^\[\]/@]+)\]?:(?P<port>\d{1,5})", address)
    if found is None:
        return f'"{address}" is not HOST:PORT'
    try:
        socket.create_connection((found["host"], int(found["port"])), _CONNECT_SECONDS).close()
    except TimeoutError:
        return f"no answer in {_CONNECT_SECONDS:.0f} s"
    except (OSError, OverflowError) as problem:
        return str(getattr(problem, "strerror", None) or problem).lower()
    return ""


@contextmanager
def starting(master: str) -> Iterator[None]:
    """Start Spark on a cluster; a failure names the master, and leaves no half-started context."""
    before = SparkContext._active_spark_context
    with _saying(lambda waited: f"waiting for {master} to accept the application ({waited:.0f} s)"):
        try:
            yield
        except (Py4JError, PySparkException) as problem:
            reason = root_cause(problem)
            if "stopped SparkContext" in reason:  # so ends a start that no master has answered
                reason = "nobody there accepted the application; is it a master of this Spark?"
            elif "JAVA_GATEWAY_EXITED" in reason:
                reason = "Java has ended; what it said is above"
            started = SparkContext._active_spark_context
            if started is not None and started is not before:
                with suppress(Exception):
                    started.stop()
            hint = "Look at --master and --conf, and at the log of the master."
            message = f"Spark could not be started on master {master}: {reason}"
            raise DataError("R214", message, hint=hint) from None


def root_cause(problem: Exception) -> str:
    """The message of the innermost cause of an exception of Java's, in one line."""
    found = getattr(problem, "java_exception", None)
    while found is not None and found.getCause() is not None:
        found = found.getCause()
    text = str(problem) if found is None else str(found.getMessage() or found.toString())
    lines = text.strip().splitlines()
    return lines[0][:300] if lines else type(problem).__name__


@contextmanager
def _saying(sentence: Callable[[float], str]) -> Iterator[None]:
    """Say something every ten seconds while a block runs."""
    done, begun = threading.Event(), time.monotonic()

    def talk() -> None:
        while not done.wait(_SAY_EVERY):
            _LOG.warning(sentence(time.monotonic() - begun))

    threading.Thread(target=talk, name="incmrql-start", daemon=True).start()
    try:
        yield
    finally:
        done.set()


# --- executors -----------------------------------------------------------------------------


def await_executors(spark: SparkSession) -> None:
    """Wait until a cluster has given an executor.

    A job is run for it: with dynamic allocation Spark asks for executors only when there is one.
    """
    context = spark.sparkContext
    if not is_local(context.master) and executor_count(context) == 0:
        with watched(spark):
            spark.range(1).count()


@contextmanager
def watched(spark: SparkSession) -> Iterator[None]:
    """Run jobs; while the cluster has no executor, say so, and give up after the time-out."""
    context = spark.sparkContext
    if is_local(context.master):
        yield
        return
    watch = _Watch(context)
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


class _Watch(threading.Thread):
    """Looks at how many executors there are while a job runs."""

    def __init__(self, context: SparkContext) -> None:
        super().__init__(name="incmrql-executors", daemon=True)
        self.context, self.tag = context, f"incmrql-{uuid.uuid4().hex[:12]}"
        self.timeout = _timeout(context)
        self.done, self.gave_up = threading.Event(), False

    def run(self) -> None:
        missing_since = said = time.monotonic()
        while not self.done.wait(_LOOK_EVERY):
            try:
                count = executor_count(self.context)
            except (Py4JError, OSError):
                return  # Java is gone, and the job with it
            now = time.monotonic()
            if count > 0:
                missing_since = said = now
            elif self.timeout and now - missing_since > self.timeout:
                self.gave_up = True
                with suppress(Py4JError, OSError):
                    self.context.cancelJobsWithTag(self.tag)
                return
            elif now - said >= _SAY_EVERY:
                said = now
                waited = f"{now - missing_since:.0f} s"
                _LOG.warning(
                    "waiting for executors (0 of %s) from %s: %s; %s",
                    *(_wanted(self.context), self.context.master, waited, _asked(self.context)),
                )

    def problem(self) -> DataError:
        """That no executor came."""
        message = f"no executor came from {self.context.master} in {self.timeout:.0f} s"
        hint = (
            f"{_asked(self.context)}. Either no worker has that much, or others use it: "
            "ask for less with --conf spark.executor.memory=... or spark.executor.cores=..., "
            f"or wait longer with --conf {TIMEOUT}=10m."
        )
        return DataError("R215", message, hint=hint)


def _timeout(context: SparkContext) -> float:
    """The seconds after which a job without executors is given up; 0 is never."""
    given = context.getConf().get(TIMEOUT, _TIMEOUT_DEFAULT) or _TIMEOUT_DEFAULT
    found = re.fullmatch(r"(\d+)\s*(s|m|min|h)?", given.strip())
    if found is None:
        raise DataError("R212", f"{TIMEOUT} is a time such as 90s or 10m, not {given!r}")
    return float(found[1]) * {"m": 60, "min": 60, "h": 3600}.get(found[2] or "s", 1)


def _wanted(context: SparkContext) -> str:
    """How many executors the settings ask for."""
    conf = context.getConf()
    instances = conf.get("spark.executor.instances") or ""
    most, cores = conf.get("spark.cores.max") or "", conf.get("spark.executor.cores") or ""
    if not instances and most.isdigit() and cores.isdigit():
        instances = str(int(most) // max(int(cores), 1))
    return instances if instances.isdigit() else "at least 1"


def _asked(context: SparkContext) -> str:
    """What each executor asks for."""
    conf = context.getConf()
    memory, cores = conf.get("spark.executor.memory", "1g"), conf.get("spark.executor.cores")
    alone = str(context.master).startswith("spark://")
    count = cores or ("all cores of a worker" if alone else "1")
    how = f"{count} core{'' if count == '1' else 's'}" if count.isdigit() else count
    return f"each executor asks for {memory} of memory and {how}"


# --- What workers have ---
#
# Tasks of a stream run the engine, so that the Python of every executor must have incmrql of the
# same version, with DuckDB, Arrow and NumPy. One tiny job asks before the first batch.


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
"""Sent as it is: a function of this module could only be read where this module is."""
_SHIP: Final = (
    "Install incmrql on every worker and let PYSPARK_PYTHON name its Python; or pack the "
    "environment (venv-pack or conda-pack) and ship it: "
    "--conf spark.archives=environment.tar.gz#environment with "
    "PYSPARK_PYTHON=./environment/bin/python."
)


def check_executors(spark: SparkSession) -> None:
    """Refuse a cluster whose workers cannot run tasks; the workers of this machine can."""
    context = spark.sparkContext
    master = str(context.master)
    if master.startswith("local") and not master.startswith("local-cluster"):
        return
    namespace: dict[str, Any] = {"__name__": "__main__", "NEEDED": NEEDED}
    exec(_PROBE, namespace)
    tasks = max(2, context.defaultParallelism)
    try:
        with watched(spark):
            answers = context.parallelize(range(tasks), tasks).mapPartitions(namespace["probe"])
            found = answers.collect()
    except DataError:
        raise
    except Exception as problem:  # py4j and Spark have many
        raise _refused(f"no Python could be started on the workers: {_reason(problem)}") from None
    for answer in sorted(set(found)):
        host, python, versions = json.loads(answer)
        wrong = differences(python, versions)
        if wrong:
            raise _refused(f"the Python of {host} {wrong}")


def differences(python: str, versions: dict[str, str | None]) -> str:
    """What a worker's Python lacks, in words; the empty text if it will do."""
    here = ".".join(map(str, sys.version_info[:2]))
    missing = [name for name, found in versions.items() if found is None]
    if python != here:
        return f"is {python}, and this one is {here}"
    if missing:
        return f"has no {', '.join(missing)}"
    if versions["incmrql"] != version("incmrql"):
        return f"has incmrql {versions['incmrql']}, and this is {version('incmrql')}"
    return ""


def _reason(problem: Exception) -> str:
    """The part of an error of Spark's that says most."""
    text = str(problem)
    for mark in ("[PYTHON_VERSION_MISMATCH]", "Cannot run program", "Error:"):
        _, found, rest = text.partition(mark)
        if found:
            return (mark + rest).splitlines()[0][:300]
    return text.strip().splitlines()[0][:300] if text.strip() else type(problem).__name__


def _refused(message: str) -> DataError:
    return DataError("R213", message, hint=_SHIP)


# --- Errors out of Spark ---
#
# A problem with the data that is met in a Python worker travels in the text of the exception that
# Spark makes of it, and is the same error again here.


_MARK = "incmrql-problem:"


class Carried(Exception):
    """A data error on its way from a worker."""

    def __init__(self, error: DataError) -> None:
        parts = [error.code, error.message, error.place, error.hint]
        packed = base64.b64encode(json.dumps(parts).encode()).decode()
        super().__init__(f"{_MARK}{packed}:")


@contextmanager
def told(spark: SparkSession) -> Iterator[None]:
    """An action of Spark whose failure is told in our words."""
    try:
        with watched(spark):
            yield
    except PySparkException as problem:
        raise translated(problem) from None


def is_out_of_memory(text: str) -> bool:
    """Whether an exception of Spark says that Java or a Python worker had too little memory."""
    return any(word in text for word in ("OutOfMemoryE", "Java heap space", "MemoryError"))


def translated(problem: PySparkException) -> Exception:
    """What an exception of Spark is about."""
    found = re.search(rf"{_MARK}([A-Za-z0-9+/=]+):", str(problem))
    if found is not None:
        code, message, place, hint = json.loads(base64.b64decode(found[1]))
        return DataError(code, message, place=place, hint=hint)
    text = str(problem)
    if is_out_of_memory(text):
        hint = "Give Spark more, as in --conf spark.driver.memory=8g."
        return DataError("R211", "Spark ran out of memory", hint=hint)
    first = text.strip().splitlines()[0] if text.strip() else type(problem).__name__
    return InternalError(f"Spark: {first[:500]}")
