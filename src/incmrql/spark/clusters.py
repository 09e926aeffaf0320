"""A cluster that does not come: its master cannot be reached, or it gives no executors.

Spark retries for a minute and then says that a context is stopped, or waits for ever without a
word.  Here the master is tried before Spark starts, and while a job runs a thread looks at how
many executors there are: as long as there is none it says so, and after a time-out it cancels
the job.  The time-out is the Spark setting `spark.incmrql.executorTimeout`.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from incmrql.diagnostics import DataError
from incmrql.spark.internals import executor_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
