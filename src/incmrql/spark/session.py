"""A Spark session to work in: our own, or a private one beside the user's.

A session of the user's keeps its configuration: what incmrql needs is set on a new session that
shares its Spark context, and its SQL settings, views and functions are seen by nobody else.
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
from incmrql.spark.clusters import check_master, is_local, starting
from incmrql.spark.internals import byte_size, driver_memory

# --- A faster start ---
#
# Java can write, when it ends, what it had to parse and check of its classes, and a later Java
# that is given this archive starts in about half the time. The first Spark of a machine writes the
# archive in the background, after its work is done; whatever is wrong with it, Java starts as if
# it were not there. It can be removed at any time.


_QUIET: Final = "-XX:+IgnoreUnrecognizedVMOptions -Xlog:disable"


def java_options(folder: Path, made_for: str, own: int) -> str:
    """The options of Java that use the archive in a folder, or write one where there is none.

    `made_for` says which Java and which Spark it is for, and `own` is the number of this process.
    """
    archive = folder / f"spark-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.jsa"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pending = [path for path in folder.glob(f"{archive.name}.*") if not _adopted(path, archive)]
    except OSError:
        return ""
    if archive.exists():
        return f"{_QUIET} -XX:SharedArchiveFile={archive}"
    if pending or " " in str(folder):
        return ""
    return f"{_QUIET} -XX:ArchiveClassesAtExit={archive}.{own}"


def _adopted(path: Path, archive: Path) -> bool:
    """Give an archive its name if the process that it was written for has ended.

    Java may still be writing: then nobody can use it yet, and nobody is harmed.
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
# Java and Spark write what went wrong to stderr before Python knows of it. That text is collected,
# and the lines that give the reason become part of the error; the stack trace does not.


_EXCEPTION: Final = re.compile(
    r'^(?:Exception in thread "[^"]*" |Caused by: |: )?'
    r"(?:[a-z][\w$]*\.)+(?P<kind>\w*(?:Exception|Error)): (?P<message>\S.*)$"
)
_OF_JAVA: Final = re.compile(r"^(?:Error|Invalid|Too small|Unrecognized|OpenJDK .*error|java:)")
_NOT_SAID: Final = ("Could not create the Java Virtual Machine", "A fatal exception has occurred",
                    "Error occurred during initialization of VM")  # fmt: skip
_PLAIN: Final = ("SparkException", "IllegalArgumentException", "SparkIllegalArgumentException")
"""Exceptions whose message alone says what is wrong."""
_MOST: Final = 4_000
_FRAMES: Final = 500


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
def starting_spark(master: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Start Spark inside, with its greetings kept back; a failure is a `DataError`."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    before = [(number, os.dup(number)) for number in (1, 2)]  # some errors of Java go to stdout
    with tempfile.TemporaryFile() as log, _shallow():
        for number, _ in before:
            os.dup2(log.fileno(), number)
        try:
            yield
        except (PySparkException, Py4JError, ConnectionError) as problem:
            log.seek(0)
            text = log.read().decode(errors="replace")
            raise _not_started(problem, text, master, settings) from problem
        finally:
            for number, copy in before:
                os.dup2(copy, number)
                os.close(copy)


@contextmanager
def _shallow() -> Iterator[None]:
    """Allow few Python frames inside.

    PySpark asks Spark's SQL settings how to print an exception.  Where these are wrong, that is an
    exception too, and so on: it takes minutes to reach the limit under which queries run.
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


def _not_started(
    problem: Exception, log: str, master: str, settings: Mapping[str, str]
) -> DataError:
    ended = isinstance(problem, PySparkRuntimeError) or is_gone(problem)
    reason = _reason(log if ended else str(problem))
    given = "".join(f" --conf {name}=..." for name in settings)  # a value may be a password
    place = f"--master {master}{given}"
    if ended and not reason:
        hint = "Most often something ended it for want of memory. Look at the system's log."
        return DataError("R241", "Java ended while Spark was starting", place=place, hint=hint)
    what = reason or (str(problem).strip().splitlines() or [type(problem).__name__])[0][:500]
    hint = "Look at --master and --conf, or at what the Session was given."
    return DataError("R241", f"Spark does not start: {what}", place=place, hint=hint)


def _reason(text: str) -> str:
    """What the last exception of Java says, or Java itself; empty if nothing does."""
    lines = text[-_MOST:].splitlines()
    found = [match for match in map(_EXCEPTION.match, lines) if match is not None]
    if found:
        kind, message = found[0]["kind"], found[0]["message"].strip()[:500]
        return message if kind in _PLAIN else f"{kind}: {message}"
    own = [line for line in lines if _OF_JAVA.match(line)]
    said = [line.removeprefix("Error: ") for line in own if not any(n in line for n in _NOT_SAID)]
    return "; ".join(said)[:500]


# --- The session ---


LOCAL: Final = "local[*]"

_CONTEXT: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # a Python stage starts 40 ms earlier
}
"""How a Spark context of our own is started, where the user does not say otherwise."""
_ON_THIS_MACHINE: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",  # what goes wrong is told by us, without a stack trace of Java's
}
"""The same on this machine; on a cluster web page and log are as Spark's configuration says."""

PRIVATE: Final = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",  # fields `a` and `A` are two
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # a map of what occurs makes it distinct
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What every query is run with, whatever the session that the user works in says."""


def start(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A Spark context of our own, on this machine unless a master is given."""
    master = (conf or {}).get("spark.master", master)
    if master is not None:
        check_master(master)
    java = usable_java(os.environ)
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName("incmrql").master(master or LOCAL)
    warehouse = Path(tempfile.gettempdir(), "incmrql-warehouse")  # never used, but Spark makes one
    builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    settings = {**_CONTEXT, **_archive(java), **(conf or {})}
    if master is not None and not is_local(master):
        for name, value in settings.items():
            builder = builder.config(name, value)
        with starting(master):  # its log is the user's: nothing of it is kept back
            return _checked(builder.getOrCreate())
    cores = str(_local_cores(master or LOCAL))
    builder = builder.config("spark.sql.shuffle.partitions", cores)
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    quiet = {name: value for name, value in _ON_THIS_MACHINE.items() if name not in _defaults()}
    for name, value in {**quiet, **settings}.items():
        builder = builder.config(name, value)
    with starting_spark(master or LOCAL, conf or {}):
        return _checked(builder.getOrCreate())


def _checked(spark: SparkSession) -> SparkSession:
    """A session whose settings are right; the context of one whose are not is stopped."""
    try:
        spark.conf  # noqa: B018 - only now are settings of Spark's SQL checked
    except Exception:
        spark.sparkContext.stop()
        raise
    return spark


def _defaults() -> set[str]:
    """The settings that the user's configuration of Spark has (`spark-defaults.conf`)."""
    home = os.environ.get("SPARK_HOME")
    given = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    if not given:
        return set()
    try:
        text = Path(given, "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    names = (re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] for line in text.splitlines())
    return {name for name in names if name and not name.startswith("#")}


def _archive(java: Java) -> dict[str, str]:
    """The options of Java that make its start fast; an option of the user's takes their place."""
    made_for = f"{pyspark.__version__} {pyspark.__file__} {java.home} {java.version}"
    options = java_options(cache_directory(os.environ), made_for, os.getpid())
    return {"spark.driver.extraJavaOptions": options} if options else {}


def private(spark: SparkSession) -> SparkSession:
    """A session beside the given one, on the same context, with the settings of `PRIVATE`."""
    own = spark.newSession()
    for name in ("spark.sql.shuffle.partitions", "spark.sql.files.maxPartitionBytes"):
        own.conf.set(name, spark.conf.get(name) or "")
    for name, value in PRIVATE.items():
        own.conf.set(name, value)
    own.conf.set(_BROADCAST, _most_broadcast(spark))
    return own


_BROADCAST: Final = "spark.sql.autoBroadcastJoinThreshold"
_MEGABYTE: Final = 2**20
_DEFAULT: Final = 10 * _MEGABYTE


def _most_broadcast(spark: SparkSession) -> str:
    """Up to which size, as Spark guesses it, a side of a join is sent to all tasks.

    Spark's default suits its smallest heap; a larger one holds more.  What the user set stays.
    """
    given = spark.conf.get(_BROADCAST) or ""
    if given not in (f"{_DEFAULT}b", "10MB", str(_DEFAULT)):
        return given
    context = spark.sparkContext
    heaps = [driver_memory(context)]
    if not (context.master or "").startswith("local"):
        heaps.append(byte_size(context.getConf().get("spark.executor.memory", "1g") or "1g"))
    return f"{max(_DEFAULT, min(min(heaps) // 40, 32 * _MEGABYTE))}b"


def most_broadcast(spark: SparkSession) -> int:
    """How many bytes a side of a join may have that a session of ours sends to all tasks."""
    given = spark.conf.get(_BROADCAST) or ""
    return int(given.removesuffix("b")) if given.removesuffix("b").isdigit() else 0


_KNOWN: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""The functions of ours that a session has."""


def provide(spark: SparkSession, text: str) -> None:
    """Make the functions of ours that a text calls, if the session does not have them yet."""
    known = _KNOWN.setdefault(spark, set())
    for name, statement in rounding.functions().items():
        if name not in known and f"{name}(" in text:
            spark.sql(statement)
            known.add(name)


def _local_cores(master: str) -> int:
    """How many tasks a local master runs at a time."""
    inside = master.removeprefix("local").strip("[]").split(",")[0]
    return int(inside) if inside.isdigit() else (os.cpu_count() or 1) if inside == "*" else 1
