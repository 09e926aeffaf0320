"""Start Spark, or open a private session beside the user's.

The user's session keeps its configuration: what incmrql needs is set on a new session that shares
the Spark context but has its own SQL settings, views and functions.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final
from weakref import WeakKeyDictionary

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from incmrql.errors import DataError
from incmrql.java import Java, JavaNotFound, cache_directory, find_java, is_gone
from incmrql.lower.sums import rounding
from incmrql.spark.clusters import check_master, is_local, start_on_cluster
from incmrql.spark.internals import FUNCTIONS_BY_ROW, byte_size, driver_memory

# --- A faster start ---
#
# When Java ends it can archive the classes that it has parsed and verified (class data sharing). A
# later Java that uses the archive starts in about half the time. The first Spark on a machine
# writes it in the background, after its work is done. Java ignores an archive that is damaged or
# does not fit, and it is safe to delete it at any time.


_QUIET: Final = "-XX:+IgnoreUnrecognizedVMOptions -Xlog:disable"


def java_options(folder: Path, made_for: str, own: int) -> str:
    """The Java options that use the archive in a directory, or write one if there is none.

    `made_for` names the versions of Java and Spark, and `own` is the id of this process.
    """
    archive = folder / f"spark-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.jsa"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pending = [
            path for path in folder.glob(f"{archive.name}.*") if not _publish_archive(path, archive)
        ]
    except OSError:
        return ""
    if archive.exists():
        return f"{_QUIET} -XX:SharedArchiveFile={archive}"
    if pending or " " in str(folder):
        return ""
    return f"{_QUIET} -XX:ArchiveClassesAtExit={archive}.{own}"


def _publish_archive(path: Path, archive: Path) -> bool:
    """Give an archive its final name if the process that requested it has ended.

    Java may still be writing it. That does no harm: Java ignores an incomplete archive.
    """
    number = path.suffix.removeprefix(".")
    if number.isdigit() and _is_running(int(number)):
        return False
    path.replace(archive)
    return True


def _is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


# --- A Spark that does not start ---
#
# Java and Spark write what went wrong to stderr before Python notices. That text is captured, and
# the lines that give the reason become part of the error; the stack trace does not.


_EXCEPTION: Final = re.compile(
    r'^(?:Exception in thread "[^"]*" |Caused by: |: )?'
    r"(?:[a-z][\w$]*\.)+(?P<kind>\w*(?:Exception|Error)): (?P<message>\S.*)$"
)
_JAVA_PROBLEM: Final = re.compile(
    r"^(?:Error|Invalid|Too small|Unrecognized|OpenJDK .*error|java:)"
)
_WITHOUT_REASON: Final = (
    "Could not create the Java Virtual Machine",
    "A fatal exception has occurred",
    "Error occurred during initialization of VM",
)
_PLAIN: Final = ("SparkException", "IllegalArgumentException", "SparkIllegalArgumentException")
"""Exceptions whose message alone says what is wrong."""
_LOG_CHARACTERS: Final = 4_000
_FRAMES: Final = 500
"""Python frames that starting Spark may take, beyond those of the caller."""


def usable_java(environ: Mapping[str, str]) -> Java:
    """The Java to run Spark on; a `DataError` if there is none."""
    try:
        return find_java(environ)
    except JavaNotFound as problem:
        what, _, hint = str(problem).partition("): ")
        raise DataError("R240", f"{what})", hint=f"{hint[:1].upper()}{hint[1:]}") from None
    except OSError as cause:  # the launcher of a Java that lacks a module cannot be written
        raise DataError("R240", f"Java cannot be prepared: {cause}") from None


@contextmanager
def start_quietly(master: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Start Spark inside the block without its start-up output; a failure becomes a `DataError`."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    originals = [(number, os.dup(number)) for number in (1, 2)]  # some errors of Java go to stdout
    with tempfile.TemporaryFile() as log, _limit_recursion():
        for number, _ in originals:
            os.dup2(log.fileno(), number)
        try:
            yield
        except (PySparkException, Py4JError, ConnectionError) as problem:
            log.seek(0)
            text = log.read().decode(errors="replace")
            raise _start_error(problem, text, master, settings) from problem
        finally:
            for number, copy in originals:
                os.dup2(copy, number)
                os.close(copy)


@contextmanager
def _limit_recursion() -> Iterator[None]:
    """Allow only a few more Python frames inside the block.

    PySpark reads a SQL setting to decide how to print an exception.  If the settings are wrong,
    this raises an exception as well, and so on: reaching the usual limit would take minutes.
    """
    limit, depth = sys.getrecursionlimit(), 0
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(min(limit, depth + _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _start_error(
    problem: Exception, log: str, master: str, settings: Mapping[str, str]
) -> DataError:
    ended = isinstance(problem, PySparkRuntimeError) or is_gone(problem)
    reason = _reason(log if ended else str(problem))
    options = "".join(f" --conf {name}=..." for name in settings)  # a value may be a password
    place = f"--master {master}{options}"
    if ended and not reason:
        hint = "Most often something ended it for want of memory. Look at the system's log."
        return DataError("R241", "Java ended while Spark was starting", place=place, hint=hint)
    message = reason or (str(problem).strip().splitlines() or [type(problem).__name__])[0][:500]
    hint = "Look at --master and --conf, or at what the Session was given."
    return DataError("R241", f"Spark does not start: {message}", place=place, hint=hint)


def _reason(text: str) -> str:
    """The message of the first exception in a log, else messages of Java itself; may be empty."""
    lines = text[-_LOG_CHARACTERS:].splitlines()
    matches = [match for match in map(_EXCEPTION.match, lines) if match is not None]
    if matches:
        kind, message = matches[0]["kind"], matches[0]["message"].strip()[:500]
        return message if kind in _PLAIN else f"{kind}: {message}"
    java_lines = [line for line in lines if _JAVA_PROBLEM.match(line)]
    messages = [
        line.removeprefix("Error: ")
        for line in java_lines
        if not any(n in line for n in _WITHOUT_REASON)
    ]
    return "; ".join(messages)[:500]


# --- The session ---


LOCAL: Final = "local[*]"

_CONTEXT: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # a Python stage starts 40 ms earlier
    **FUNCTIONS_BY_ROW,
}
"""Settings of a Spark context that we start, unless the user sets them."""
_ON_THIS_MACHINE: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",  # we report errors ourselves, without a stack trace of Java
}
"""The same for a local context; a cluster keeps the web page and log that it configures."""

PRIVATE: Final = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",  # `a` and `A` are different fields
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # maps are used to make rows distinct
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    **FUNCTIONS_BY_ROW,
}
"""Settings for every query, whatever the user's own session sets."""


def start(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start a Spark context, a local one unless a master is given."""
    master = (conf or {}).get("spark.master", master)
    if master is not None:
        check_master(master)
    java = usable_java(os.environ)
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName("incmrql").master(master or LOCAL)
    warehouse = Path(tempfile.gettempdir(), "incmrql-warehouse")  # never used, but Spark creates it
    builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    settings = {**_CONTEXT, **_archive(java), **(conf or {})}
    if master is not None and not is_local(master):
        for name, value in settings.items():
            builder = builder.config(name, value)
        with start_on_cluster(master):  # the log of a cluster job is the user's: show all of it
            return _check_settings(builder.getOrCreate())
    cores = str(_local_cores(master or LOCAL))
    builder = builder.config("spark.sql.shuffle.partitions", cores)
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    quiet = {name: value for name, value in _ON_THIS_MACHINE.items() if name not in _defaults()}
    for name, value in {**quiet, **settings}.items():
        builder = builder.config(name, value)
    with start_quietly(master or LOCAL, conf or {}):
        return _check_settings(builder.getOrCreate())


def _check_settings(spark: SparkSession) -> SparkSession:
    """The session if its settings are valid; otherwise stop its context and raise."""
    try:
        spark.conf  # noqa: B018 - only now are settings of Spark's SQL checked
    except Exception:
        spark.sparkContext.stop()
        raise
    return spark


def _defaults() -> set[str]:
    """The settings that the user's configuration of Spark has (`spark-defaults.conf`)."""
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    if not directory:
        return set()
    try:
        text = Path(directory, "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    names = (re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in text.splitlines())
    return {name for name in names if name and not name.startswith("#")}


def _archive(java: Java) -> dict[str, str]:
    """The Java options for a fast start; the same option set by the user replaces them."""
    made_for = f"{pyspark.__version__} {pyspark.__file__} {java.home} {java.version}"
    options = java_options(cache_directory(os.environ), made_for, os.getpid())
    return {"spark.driver.extraJavaOptions": options} if options else {}


def private(spark: SparkSession) -> SparkSession:
    """A session beside the given one, on the same context, with the settings of `PRIVATE`."""
    session = spark.newSession()
    for name in ("spark.sql.shuffle.partitions", "spark.sql.files.maxPartitionBytes"):
        session.conf.set(name, spark.conf.get(name) or "")
    for name, value in PRIVATE.items():
        session.conf.set(name, value)
    session.conf.set(_BROADCAST, _broadcast_setting(spark))
    return session


_BROADCAST: Final = "spark.sql.autoBroadcastJoinThreshold"
_MEGABYTE: Final = 2**20
_DEFAULT: Final = 10 * _MEGABYTE


def _broadcast_setting(spark: SparkSession) -> str:
    """The broadcast threshold for our sessions: the user's, or one that suits the heap.

    Spark's default suits its smallest heap; a larger heap holds more.
    """
    setting = spark.conf.get(_BROADCAST) or ""
    if setting not in (f"{_DEFAULT}b", "10MB", str(_DEFAULT)):
        return setting
    context = spark.sparkContext
    heaps = [driver_memory(context)]
    if not (context.master or "").startswith("local"):
        heaps.append(byte_size(context.getConf().get("spark.executor.memory", "1g") or "1g"))
    return f"{max(_DEFAULT, min(min(heaps) // 40, 32 * _MEGABYTE))}b"


def broadcast_limit(spark: SparkSession) -> int:
    """The bytes up to which a session broadcasts a side of a join."""
    setting = spark.conf.get(_BROADCAST) or ""
    return int(setting.removesuffix("b")) if setting.removesuffix("b").isdigit() else 0


_CREATED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""By session, the names of our SQL functions that it has."""


def create_functions(spark: SparkSession, text: str) -> None:
    """Create our SQL functions that a text calls, unless the session has them."""
    created = _CREATED.setdefault(spark, set())
    for name in rounding.SQL_FUNCTIONS:
        if name not in created and f"{name}(" in text:
            spark.sql(rounding.creating_statement(name))
            created.add(name)


def _local_cores(master: str) -> int:
    """The number of tasks that a local master runs at a time."""
    count = master.removeprefix("local").strip("[]").split(",")[0]
    return int(count) if count.isdigit() else (os.cpu_count() or 1) if count == "*" else 1
